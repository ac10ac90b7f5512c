//! The paper's Figure 2: points of the ten most frequent classes in the plane, before and after the metric is learned.
//!
//! Before: principal components of the normalised embeddings. After: kernel principal components under the learned kernel,
//! `K` centred on both sides, coordinates `√eigenvalue · eigenvector`. Cost: the eigenvectors of two matrices of at most
//! 300 × 300.

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::distances::squared_difference;
use crate::kernel::Kernel;
use crate::linalg;
use crate::matrix::Matrix;

const CLASSES: usize = 10;
const POINTS: usize = 300;

/// Points in the plane, twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Names of the classes shown.
    pub classes: Vec<String>,
    /// Place of each point's class among them.
    pub labels: Vec<usize>,
    /// Principal components of the embeddings.
    pub before: Vec<[f32; 2]>,
    /// Principal components under the learned kernel.
    pub after: Vec<[f32; 2]>,
}

impl Picture {
    /// Of normalised points and the same points mapped.
    pub(crate) fn new(
        points: &Matrix,
        mapped: &Matrix,
        labels: &[u32],
        names: &[String],
        kernel: Kernel,
    ) -> Option<Self> {
        let mut counts = vec![0usize; names.len()];
        for &label in labels {
            counts[label as usize] += 1;
        }
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|&class| (usize::MAX - counts[class], class));
        order.truncate(CLASSES);
        let place = |label: u32| order.iter().position(|&class| class == label as usize);
        let rows: Vec<usize> = (0..labels.len()).filter(|&row| place(labels[row]).is_some()).collect();
        let step = rows.len().div_ceil(POINTS).max(1);
        let rows: Vec<usize> = rows.into_iter().step_by(step).collect();
        let dot = |a: usize, b: usize| {
            let pairs = points.row(a).iter().zip(points.row(b));
            pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
        };
        let similar = |a: usize, b: usize| kernel.value(squared_difference(mapped.row(a), mapped.row(b)));
        Some(Self {
            classes: order.iter().map(|&class| names[class].clone()).collect(),
            labels: rows.iter().filter_map(|&row| place(labels[row])).collect(),
            before: components(&rows, dot)?,
            after: components(&rows, similar)?,
        })
    }
}

/// The first two principal components of points with the given similarities.
fn components(rows: &[usize], similarity: impl Fn(usize, usize) -> f64) -> Option<Vec<[f32; 2]>> {
    let n = rows.len();
    if n < 3 {
        return None;
    }
    let gram = Mat::from_fn(n, n, |a, b| similarity(rows[a.max(b)], rows[a.min(b)]));
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
