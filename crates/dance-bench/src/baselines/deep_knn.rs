//! Deep k-NN (Papernot and `McDaniel`, 2018), one layer: the share of the nearest neighbors that do not carry y.
//!
//! A label that no neighbor carries has the largest score, 1. It is left out like every label at +∞, which changes no
//! set: a threshold of 1 lets every label in. Cost: one look at every neighbor.

use dance::scores::{BestPerLabel, NeighborScore, Neighborhood};

/// Deep k-NN: the share of the nearest neighbors that do not carry the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeepKnn {
    /// Number of neighbors; 75 in both papers (this one and that of DANCE).
    pub neighbors: usize,
}

impl Default for DeepKnn {
    fn default() -> Self {
        Self { neighbors: 75 }
    }
}

impl NeighborScore for DeepKnn {
    fn neighbors(&self) -> usize {
        self.neighbors
    }

    fn score(&self, neighborhood: &Neighborhood<'_>, best: &mut BestPerLabel) {
        let ids = &neighborhood.ids[..self.neighbors.min(neighborhood.ids.len())];
        let mut labels: Vec<u32> = ids.iter().map(|&id| neighborhood.labels[id as usize]).collect();
        labels.sort_unstable();
        for run in labels.chunk_by(|a, b| a == b) {
            best.offer(run[0], (ids.len() - run.len()) as f64 / ids.len() as f64);
        }
    }
}
