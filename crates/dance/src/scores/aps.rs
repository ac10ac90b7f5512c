//! APS (Romano, Sesia and Candès, 2020): `C_r - u·p_r`, the mass of the labels up to y less a random part of its own.
//!
//! With u = 0 the score is the whole mass, and sets are larger than necessary. Cost and use: see
//! [`ranked`](crate::scores::ranked).

use crate::scores::ranked::{RankedLabel, RankedScore};

/// APS: `C_r - u·p_r`, the mass of the labels up to this one less a random part of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aps;

impl RankedScore for Aps {
    fn score(&self, label: &RankedLabel) -> f64 {
        label.mass - label.draw * label.probability
    }
}
