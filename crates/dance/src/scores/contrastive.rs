//! The contrastive score (the paper, equations 4-5), a nearest-neighbor contrastive loss.
//!
//! Let z be the query, Q its `contrast_neighbors` nearest neighbors, A (the anchor) the nearest of them, τ the
//! temperature and K the kernel. Neighbor j is the point `z_j` with label `y_j`, and its distance to the anchor is
//! `d_j = 2(1 - K(A, z_j))`. The score of a label y is the smallest loss of the neighbors with this label:
//! ```text
//! loss_j = d_j/τ + log1p( Σ_{k≠A} exp(-d_k/τ) )        S_clr(z,y) = min { loss_j : y_j = y },  +∞ if none
//! ```
//! The score is computed in f64 and in exactly this form. At τ = 0.01 the anchor's loss is 1e-7 or far smaller, and the
//! textbook log-sum-exp rounds it to 0, which ties half the calibration points. For the same reason `1 - K` comes from
//! `expm1`. The sum begins with its smallest term. So two queries with the same neighbors and anchor tie to the last
//! bit, whatever the order of their neighbors.
//!
//! Cost: a distance and three exponentials per neighbor.

use crate::kernel::Kernel;
use crate::neighbors::squared_distance;
use crate::scores::{BestPerLabel, NeighborScore, Neighborhood};

/// The contrastive score (the paper, equations 4-5): the smallest contrastive loss of the neighbors that carry the
/// label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Contrastive {
    /// The number of neighbors that the score uses (`m_clr` in the paper).
    pub(crate) neighbors: usize,
    /// The temperature τ.
    pub(crate) temperature: f64,
    /// The kernel K, which turns a distance in the learned space into a similarity.
    pub(crate) kernel: Kernel,
}

impl Contrastive {
    /// Returns the loss `d/τ` of a neighbor. `squared` is its squared distance to the anchor, which is the nearest
    /// neighbor of the query. Here `d = 2(1 - K)` for the kernel value K at this distance, and τ is the temperature.
    pub(crate) fn loss(&self, squared: f64) -> f64 {
        2.0 * self.kernel.one_minus_value(squared) / self.temperature
    }
}

impl NeighborScore for Contrastive {
    fn neighbors(&self) -> usize {
        self.neighbors
    }

    fn score(&self, neighborhood: &Neighborhood<'_>, best: &mut BestPerLabel) {
        let ids = &neighborhood.ids[..self.neighbors.min(neighborhood.ids.len())];
        let Some((&anchor, others)) = ids.split_first() else { return };
        let anchor_point = neighborhood.points.row(anchor as usize);
        let (mut losses, mut terms) = std::mem::take(&mut best.scratch);
        losses.clear();
        terms.clear();
        losses.extend(
            others.iter().map(|&id| self.loss(squared_distance(anchor_point, neighborhood.points.row(id as usize)))),
        );
        terms.extend(losses.iter().map(|loss| (-loss).exp()));
        terms.sort_unstable_by(f64::total_cmp);
        let shared = terms.iter().sum::<f64>().ln_1p();
        best.offer(neighborhood.labels[anchor as usize], shared);
        for (loss, &id) in losses.iter().zip(others) {
            best.offer(neighborhood.labels[id as usize], loss + shared);
        }
        best.scratch = (losses, terms);
    }
}
