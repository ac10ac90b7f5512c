//! LAC (Sadinle, Lei and Wasserman, 2019): the score `1 - p_y` of a label y with probability `p_y`.
//!
//! Sets are the smallest on average if the probabilities are right. The score is deterministic. A set is empty if every
//! label is unlikely.
//!
//! Cost and use: see [`ranked`](crate::scores::ranked).

use crate::scores::ranked::{RankedLabel, RankedScore};

/// LAC: the score `1 - p_y` of a label y with probability `p_y`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lac;

impl RankedScore for Lac {
    fn score(&self, label: &RankedLabel) -> f64 {
        1.0 - label.probability
    }
}
