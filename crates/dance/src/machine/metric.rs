//! The learned metric `M`, a symmetric positive semidefinite d×d matrix, and its symmetric root `R`.
//!
//! Fitting needs `M` alone (see `device::cpu`). The root is computed once, for the model, by an eigendecomposition of
//! about `10·d³` flops; negative eigenvalues are set to 0. It needs f64, so the host computes it for every device.

use faer::Mat;

use crate::error::{Error, Result};
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;

/// Returns the symmetric root `R = M^(1/2)`.
pub(super) fn symmetric_root(metric: &Matrix) -> Result<Matrix> {
    let d = metric.rows();
    if metric.cols() != d {
        return Err(Error::Shape {
            what: "metric".into(),
            expected: "a square matrix".into(),
            found: format!("{d} × {}", metric.cols()),
        });
    }
    let symmetric =
        Mat::from_fn(d, d, |row, col| 0.5 * (f64::from(metric.row(row)[col]) + f64::from(metric.row(col)[row])));
    let finite = metric.as_slice().iter().all(|value| value.is_finite());
    let Some((values, vectors)) = finite.then(|| linalg::symmetric_eigen(symmetric.as_ref())).flatten() else {
        return Err(Error::Data("the learned metric has no root: it contains numbers that are not finite".into()));
    };
    // The root V·√Λ·Vᵀ, from eigenvectors V and eigenvalues Λ, as a product of V·Λ^(1/4) with its transpose.
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
        // BᵀB is positive semidefinite and singular.
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
