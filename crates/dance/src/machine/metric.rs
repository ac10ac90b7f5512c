//! The learned metric `M`, a symmetric positive semidefinite d×d matrix, and its symmetric root `R`.
//!
//! Fitting needs only `M` (see `device::cpu`); the root is computed once, for the model: one eigendecomposition in f64 (about
//! `10·d³` flops), negative eigenvalues set to 0. On the host whatever the device: it needs f64, and it is one step in a fit.

use faer::Mat;

use crate::error::{Error, Result};
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;

/// `R = M^(1/2)`, symmetric.
pub(super) fn symmetric_root(metric: &Matrix) -> Result<Matrix> {
    let d = metric.rows();
    if metric.cols() != d {
        return Err(Error::Shape {
            what: "metric".into(),
            expected: "a square matrix".into(),
            found: format!("{d} × {}", metric.cols()),
        });
    }
    let symmetric = Mat::from_fn(d, d, |row, col| {
        0.5 * (f64::from(metric.row(row)[col]) + f64::from(metric.row(col)[row]))
    });
    let finite = metric.as_slice().iter().all(|value| value.is_finite());
    let Some((values, vectors)) = finite.then(|| linalg::symmetric_eigen(symmetric.as_ref())).flatten()
    else {
        return Err(Error::Data(
            "the learned metric has no root: it holds numbers that are not finite".into(),
        ));
    };
    // V·√Λ·Vᵀ as one product with itself, from V·Λ^(1/4).
    let half = Mat::from_fn(d, d, |row, col| vectors[(row, col)] * values[col].max(0.0).powf(0.25));
    let mut root = Mat::<f64>::zeros(d, d);
    linalg::product(root.as_mut(), half.as_ref(), half.transpose());
    Matrix::new((0..d * d).map(|at| root[(at / d, at % d)] as f32).collect(), d, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_times_itself_is_the_metric() {
        // A = BᵀB + a zero direction: positive semidefinite, singular.
        let b = [[1.0, 2.0, -1.0], [0.5, -1.0, 3.0]];
        let metric: Vec<f32> = (0..9).map(|at| b.iter().map(|row| row[at / 3] * row[at % 3]).sum()).collect();
        let metric = Matrix::new(metric, 3, 3).unwrap();
        let root = symmetric_root(&metric).unwrap();
        for row in 0..3 {
            for col in 0..3 {
                let product: f32 = (0..3).map(|k| root.row(row)[k] * root.row(k)[col]).sum();
                assert!((product - metric.row(row)[col]).abs() < 1e-5);
                assert_eq!(root.row(row)[col], root.row(col)[row]);
            }
        }
    }

    #[test]
    fn shapes_are_checked() {
        assert!(matches!(symmetric_root(&Matrix::zeros(2, 3)), Err(Error::Shape { .. })));
        let broken = Matrix::new(vec![f32::NAN; 4], 2, 2).unwrap();
        assert!(matches!(symmetric_root(&broken), Err(Error::Data(_))));
    }
}
