//! Deep k-NN (Papernot and `McDaniel`, 2018), one layer: the share of the nearest neighbors that do not carry y.
//!
//! A label that no neighbor carries has the largest score, 1. It is put at +∞, which changes no set: a threshold of 1
//! lets every label in. Cost: one look at every neighbor.

use dance::neighbors::Neighbors;

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

impl DeepKnn {
    /// Returns the score of every class for every query, from the query's neighbors and the `labels` of all reference
    /// points.
    pub fn scores(&self, neighbors: &Neighbors, labels: &[u32], classes: usize) -> Vec<Vec<f64>> {
        let of_query = |query: usize| {
            let ids = neighbors.ids(query);
            let ids = &ids[..self.neighbors.min(ids.len())];
            let mut carrying = vec![0; classes];
            for &id in ids {
                carrying[labels[id as usize] as usize] += 1;
            }
            let share = |count: usize| (ids.len() - count) as f64 / ids.len() as f64;
            carrying.into_iter().map(|count| if count == 0 { f64::INFINITY } else { share(count) }).collect()
        };
        (0..neighbors.len()).map(of_query).collect()
    }
}
