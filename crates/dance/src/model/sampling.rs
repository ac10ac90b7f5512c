//! Sampling: how calibration points were drawn from those at hand. The guarantee is derived from it.
//!
//! Calibration points that were drawn at random carry the guarantee of the method unchanged. Every other way of drawing them
//! changes whom it is for, or makes it approximate, and the model says so wherever it states its guarantee.

use serde::{Deserialize, Serialize};

/// A Sampling says how the calibration points were drawn; the guarantee is derived from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Points were drawn at random.
    #[default]
    Random,
    /// A split was stratified by class, so that points are no random draw.
    Stratified,
    /// One random point of each group calibrates.
    Grouped,
    /// The latest points calibrate.
    Window {
        /// Number of points taken.
        points: usize,
    },
    /// Points were kept in proportion to importance weights.
    Weighted {
        /// Number of points at hand.
        of: usize,
    },
    /// Points were kept in proportion to how much more frequent their class has become.
    LabelShift {
        /// Number of points at hand.
        of: usize,
        /// Number of points without labels that the new class proportions were estimated from.
        unlabelled: usize,
    },
}

impl Sampling {
    /// Returns the clause that the guarantee gains; `None` for a random draw.
    pub(super) fn clause(self) -> Option<String> {
        Some(match self {
            Self::Random => return None,
            Self::Stratified => {
                "calibration points were stratified by class: it is approximate, and points of rare \
                 classes are covered less"
                    .into()
            }
            Self::Grouped => "one point of each group calibrated: it holds for a point of a new group".into(),
            Self::Window { points } => {
                format!("the latest {points} points calibrated: it holds for points like those")
            }
            Self::Weighted { of } => format!(
                "calibrated on some of {of} points, kept in proportion to their importance weights: it holds if the \
                 weights are right, for points that weigh no more than the heaviest here"
            ),
            Self::LabelShift { of, unlabelled } => format!(
                "calibrated on some of {of} points, kept in the class proportions estimated from {unlabelled} points \
                 without labels: it holds, as far as that estimate is right, if points of each class are as before"
            ),
        })
    }
}
