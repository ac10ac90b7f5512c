//! APS (Romano, Sesia and Candès, 2020): `C_r - u·p_r`. `C_r` is the total probability of the labels up to rank r,
//! `p_r` the probability of the label of rank r, and u a random number between 0 and 1.
//!
//! With u = 0 the score is `C_r`, and sets are larger than necessary. Cost and use: see
//! [`ranked`](crate::scores::ranked).

use crate::scores::ranked::{RankedLabel, RankedScore};

/// APS: the total probability of the labels up to this one, less a random part of the label's own probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aps;

impl RankedScore for Aps {
    fn score(&self, label: &RankedLabel) -> f64 {
        label.mass - label.draw * label.probability
    }
}
