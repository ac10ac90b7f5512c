//! RAPS (Angelopoulos, Bates, Malik and Jordan, 2021): APS with a penalty on late ranks,
//! `C_r - u·p_r + penalty·max(0, r - free_ranks)`.
//!
//! The paper's runs have penalty 0.001 and one free rank. Cost and use: see [`ranked`](crate::scores::ranked).

use crate::scores::aps::Aps;
use crate::scores::ranked::{RankedLabel, RankedScore};

/// RAPS: APS with a penalty on late ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raps {
    /// The penalty of every rank beyond the free ones.
    pub penalty: f64,
    /// The number of ranks without a penalty.
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
