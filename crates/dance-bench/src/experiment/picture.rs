//! The paper's Figure 2: points of the ten most frequent classes in the plane, before and after the metric is learned.
//!
//! Before: principal components of the normalised embeddings. After: kernel principal components under the learned
//! kernel (`components`). At most 300 points are shown.

use super::components::plane;
use dance::neighbors::squared_distance;
use serde::{Deserialize, Serialize};

use dance::Matrix;
use dance::kernel::Kernel;

/// Most classes that are shown.
const CLASSES: usize = 10;
/// Most points that are shown.
const POINTS: usize = 300;

/// The coordinates of points in the plane, before and after the metric is learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Names of the classes shown.
    pub classes: Vec<String>,
    /// The class of every point, as its place in `classes`.
    pub labels: Vec<usize>,
    /// Principal components of the embeddings.
    pub before: Vec<[f32; 2]>,
    /// Principal components under the learned kernel.
    pub after: Vec<[f32; 2]>,
}

impl Picture {
    /// Projects normalised points and their mapped counterparts; `None` below 3 points.
    pub(crate) fn new(
        points: &Matrix,
        mapped: &Matrix,
        labels: &[u32],
        names: &[String],
        kernel: Kernel,
    ) -> Option<Self> {
        // The most frequent classes, then every so many of their points.
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
        let similar = |a: usize, b: usize| kernel.value(squared_distance(mapped.row(rows[a]), mapped.row(rows[b])));
        Some(Self {
            classes: order.iter().map(|&class| names[class].clone()).collect(),
            labels: rows.iter().filter_map(|&row| place(labels[row])).collect(),
            before: plane(rows.len(), dot)?,
            after: plane(rows.len(), similar)?,
        })
    }
}
