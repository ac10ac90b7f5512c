//! The paper's Figure 2: points of the ten most frequent classes in the plane, before and after the metric is learned.
//!
//! Before: principal components of the normalised embeddings. After: kernel principal components under the learned kernel,
//! ([`components`](super::components)). At most 300 points.

use super::components::plane;
use dance::neighbors::squared_distance;
use serde::{Deserialize, Serialize};

use dance::Matrix;
use dance::kernel::Kernel;

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
            let pairs = points.row(rows[a]).iter().zip(points.row(rows[b]));
            pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
        };
        let similar =
            |a: usize, b: usize| kernel.value(squared_distance(mapped.row(rows[a]), mapped.row(rows[b])));
        Some(Self {
            classes: order.iter().map(|&class| names[class].clone()).collect(),
            labels: rows.iter().filter_map(|&row| place(labels[row])).collect(),
            before: plane(rows.len(), dot)?,
            after: plane(rows.len(), similar)?,
        })
    }
}
