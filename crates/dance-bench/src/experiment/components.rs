//! Principal components of a few points with given similarities, for pictures.
//!
//! The matrix of similarities is centered on both sides, and coordinates are `√eigenvalue · eigenvector`. Inner
//! products give the usual principal component analysis, kernel values give kernel principal components. Cost: the
//! eigenvectors of one n×n matrix in f64, with n of a few hundred.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{Mat, Par};

/// Returns the first two coordinates of each of `n` points; `None` below 3 points.
pub(super) fn plane(n: usize, similarity: impl Fn(usize, usize) -> f64) -> Option<Vec<[f32; 2]>> {
    if n < 3 {
        return None;
    }
    let gram = Mat::from_fn(n, n, |a, b| similarity(a.max(b), a.min(b)));
    let means: Vec<f64> = (0..n).map(|a| (0..n).map(|b| gram[(a, b)]).sum::<f64>() / n as f64).collect();
    let mean = means.iter().sum::<f64>() / n as f64;
    let centred = Mat::from_fn(n, n, |a, b| gram[(a, b)] - means[a] - means[b] + mean);

    // Sequential, so that the number of threads does not change a bit. Eigenvalues ascend.
    let (mut values, mut vectors) = (vec![0.0f64; n], Mat::zeros(n, n));
    let room = self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
    self_adjoint_evd(
        centred.as_ref(),
        DiagMut::from_slice_mut(&mut values),
        Some(vectors.as_mut()),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(room)),
        Default::default(),
    )
    .ok()?;
    let coordinate = |row, column: usize| (vectors[(row, column)] * values[column].max(0.0).sqrt()) as f32;
    Some((0..n).map(|row| [coordinate(row, n - 1), coordinate(row, n - 2)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_kept() {
        let places = [0.0, 1.0, 4.0];
        let plane = plane(3, |a, b| places[a] * places[b]).unwrap();
        assert!(((plane[2][0] - plane[0][0]).abs() - 4.0).abs() < 1e-5);
    }
}
