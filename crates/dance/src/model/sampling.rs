//! Sampling: the way in which calibration points were drawn. The guarantee follows from it.
//!
//! A random draw leaves the guarantee of the method unchanged. Every other sampling changes the points for which it
//! holds, or makes it approximate. The guarantee of the model then has a further clause.

use serde::{Deserialize, Serialize};

/// The way in which the calibration points were drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// A random draw.
    #[default]
    Random,
    /// A split that was stratified by class, which is no random draw.
    Stratified,
    /// One random point of each group.
    Grouped,
    /// The latest points.
    Window {
        /// The number of points.
        points: usize,
    },
    /// Points that were sampled in proportion to importance weights.
    Weighted {
        /// The number of points before sampling.
        of: usize,
    },
    /// Points that were sampled so that classes have their new proportions (label shift).
    LabelShift {
        /// The number of points before sampling.
        of: usize,
        /// The number of points without labels from which the new class proportions were estimated.
        unlabelled: usize,
    },
}

impl Sampling {
    /// Returns the clause that is added to the guarantee; `None` for a random draw.
    pub(super) fn clause(self) -> Option<String> {
        Some(match self {
            Self::Random => return None,
            Self::Stratified => "calibration points were stratified by class: it is approximate, and points of rare \
                 classes are covered less"
                .into(),
            Self::Grouped => "one point of each group calibrated: it holds for a point of a new group".into(),
            Self::Window { points } => {
                format!("the latest {points} points calibrated: it holds for points like those")
            }
            Self::Weighted { of } => format!(
                "calibrated on some of {of} points, kept in proportion to their importance weights: it holds if the \
                 weights are right, for points whose weight does not exceed the largest here"
            ),
            Self::LabelShift { of, unlabelled } => format!(
                "calibrated on some of {of} points, kept in the class proportions estimated from {unlabelled} points \
                 without labels: it holds if that estimate is right and the points of each class have not changed"
            ),
        })
    }
}
