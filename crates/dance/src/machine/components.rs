//! Principal components of a few points with given similarities, for pictures.
//!
//! The matrix of similarities is centred on both sides; coordinates are `√eigenvalue · eigenvector`. With inner products it is
//! the usual principal component analysis, with kernel values the kernel's. Cost: the eigenvectors of one n×n matrix in
//! f64, on the host: n is a few hundred.
//!
//! ```
//! let places = [0.0, 1.0, 4.0];
//! let plane = dance::machine::components::plane(3, |a, b| places[a] * places[b]).unwrap();
//! assert!(((plane[2][0] - plane[0][0]).abs() - 4.0).abs() < 1e-5); // distances are kept
//! ```

use faer::Mat;

use crate::numeric::linalg;

/// The first two coordinates of each of `n` points; `None` below 3 points.
pub fn plane(n: usize, similarity: impl Fn(usize, usize) -> f64) -> Option<Vec<[f32; 2]>> {
    if n < 3 {
        return None;
    }
    let gram = Mat::from_fn(n, n, |a, b| similarity(a.max(b), a.min(b)));
    let means: Vec<f64> = (0..n).map(|a| (0..n).map(|b| gram[(a, b)]).sum::<f64>() / n as f64).collect();
    let mean = means.iter().sum::<f64>() / n as f64;
    let centred = Mat::from_fn(n, n, |a, b| gram[(a, b)] - means[a] - means[b] + mean);
    let (values, vectors) = linalg::symmetric_eigen(centred.as_ref())?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let at = |row: usize, which: usize| {
        (vectors[(row, order[which])] * values[order[which]].max(0.0).sqrt()) as f32
    };
    Some((0..n).map(|row| [at(row, 0), at(row, 1)]).collect())
}
