//! LAC (Sadinle, Lei and Wasserman, 2019): `1 - p_y`.
//!
//! Sets are the smallest on average if the probabilities are right. The score is not random. A set is empty if every
//! label is unlikely.
//!
//! Cost and use: see [`ranked`](crate::scores::ranked).

use crate::scores::ranked::{RankedLabel, RankedScore};

/// LAC: `1 - p_y`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lac;

impl RankedScore for Lac {
    fn score(&self, label: &RankedLabel) -> f64 {
        1.0 - label.probability
    }
}
