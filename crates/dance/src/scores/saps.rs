//! SAPS (Huang, Xi, Zhang, Wei and others, 2024), which uses only the largest probability `p_max` and the rank r:
//! `u·p_max` at rank 1 and `p_max + (r - 2 + u)·weight` after it, with a random number u between 0 and 1.
//!
//! Cost and use: see [`ranked`](crate::scores::ranked).

use crate::scores::ranked::{RankedLabel, RankedScore};

/// SAPS, a score that uses only the largest probability and the rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saps {
    /// The penalty for every rank after the first.
    pub weight: f64,
}

impl Default for Saps {
    fn default() -> Self {
        Self { weight: 0.2 }
    }
}

impl RankedScore for Saps {
    fn score(&self, label: &RankedLabel) -> f64 {
        if label.rank == 1 {
            label.draw * label.largest
        } else {
            label.largest + ((label.rank - 2) as f64 + label.draw) * self.weight
        }
    }
}
