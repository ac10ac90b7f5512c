//! RAPS (Angelopoulos, Bates, Malik and Jordan, 2021): APS with a penalty on late ranks,
//! `C_r - u·p_r + penalty·max(0, r - free_ranks)` for the label of rank r. [`ranked`](crate::scores::ranked) defines
//! `C_r`, `p_r` and u, and describes cost and use.
//!
//! The paper's runs use the penalty 0.001 and one free rank.

use crate::scores::aps::Aps;
use crate::scores::ranked::{RankedLabel, RankedScore};

/// RAPS: APS with a penalty on late ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raps {
    /// The penalty for every rank beyond the free ranks.
    pub penalty: f64,
    /// The number of first ranks without a penalty.
    pub free_ranks: usize,
}

impl Default for Raps {
    fn default() -> Self {
        Self { penalty: 0.001, free_ranks: 1 }
    }
}

impl RankedScore for Raps {
    fn score(&self, label: &RankedLabel) -> f64 {
        Aps.score(label) + self.penalty * label.rank.saturating_sub(self.free_ranks) as f64
    }
}
