//! A score in the manner of CONFINE (Huang and others, 2024): the mean cosine distance to the k nearest points that
//! carry y, divided by the mean distance to the k nearest that do not.
//!
//! A class with fewer than k points counts with those it has; so both sides are means. With k points each, the ratio is
//! that of the sums. A class without points scores +∞. Points are mapped, as for every other score. Cost: a matrix
//! product with all reference points, and one pass over the distances.

use dance::Context;
use dance::Matrix;
use dance::device::Device;
use dance::{Error, Result};

/// Queries of one product with all reference points.
const BLOCK: usize = 2048;

/// The score: see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confine {
    /// Neighbors on either side.
    pub neighbors: usize,
}

impl Default for Confine {
    fn default() -> Self {
        Self { neighbors: 5 }
    }
}

impl Confine {
    /// Returns the score of every class for every query. `skip` holds the reference point that a query leaves out.
    pub fn scores(
        &self,
        device: &dyn Device,
        (reference, labels): (&Matrix, &[u32]),
        classes: usize,
        queries: &Matrix,
        skip: Option<&[Option<u32>]>,
        context: &Context<'_>,
    ) -> Result<Vec<Vec<f64>>> {
        if queries.cols() != reference.cols() || labels.len() != reference.rows() {
            return Err(Error::Shape {
                what: "reference points, labels and queries of CONFINE".into(),
                expected: format!("{} labels and {} dimensions", reference.rows(), reference.cols()),
                found: format!("{} and {}", labels.len(), queries.cols()),
            });
        }
        let reference = directions(reference);
        let mut rows = Vec::with_capacity(queries.rows());
        for first in (0..queries.rows()).step_by(BLOCK) {
            context.check()?;
            let block: Vec<usize> = (first..queries.rows().min(first + BLOCK)).collect();
            let cosines = device.inner_products(&directions(&queries.select(&block)), &reference, context)?;
            let skipped = |row: usize| skip.and_then(|skip| skip[row]);
            let score = |at: usize| self.row(cosines.row(at), labels, classes, skipped(first + at));
            rows.extend(context.map(block.len(), score));
        }
        Ok(rows)
    }

    /// Returns the scores of one query, from its cosines.
    fn row(self, cosines: &[f32], labels: &[u32], classes: usize, skip: Option<u32>) -> Vec<f64> {
        let k = self.neighbors.max(1);
        // The k nearest of every class, ascending.
        let mut nearest: Vec<Vec<f64>> = vec![Vec::new(); classes];
        for (id, (&cosine, &label)) in cosines.iter().zip(labels).enumerate() {
            let list = &mut nearest[label as usize];
            let distance = (1.0 - f64::from(cosine)).max(0.0);
            if skip == Some(id as u32) || (list.len() == k && distance >= list[k - 1]) {
                continue;
            }
            list.truncate(k - 1);
            list.insert(list.partition_point(|&other| other <= distance), distance);
        }
        // The k nearest that do not carry a label are among the 2k nearest of all these.
        let mut all: Vec<(f64, u32)> = (0u32..)
            .zip(&nearest)
            .flat_map(|(label, list)| list.iter().map(move |&distance| (distance, label)))
            .collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mut scores = vec![f64::INFINITY; classes];
        for (label, list) in (0u32..).zip(&nearest).filter(|(_, list)| !list.is_empty()) {
            let others: Vec<f64> =
                all.iter().filter(|(_, other)| *other != label).take(k).map(|(distance, _)| *distance).collect();
            let ratio = if others.is_empty() { 0.0 } else { mean(list) / mean(&others).max(f64::MIN_POSITIVE) };
            scores[label as usize] = ratio;
        }
        scores
    }
}

/// Returns rows of unit length; a row of zeros stays as it is.
fn directions(points: &Matrix) -> Matrix {
    let mut points = points.clone();
    for row in 0..points.rows() {
        let norm = points.row(row).iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        if norm > 0.0 {
            points.row_mut(row).iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
        }
    }
    points
}
