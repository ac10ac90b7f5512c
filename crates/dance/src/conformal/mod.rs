//! Calibration and prediction: from labels and scores to sets with a guarantee.
//!
//! 1. A [`Method`] defines how labels are scored and how calibration points are used.
//! 2. Calibration creates a [`Predictor`]: the reference points, among which neighbors are found, and the decision rule
//!    of the method.
//! 3. [`Predictor::score`] turns queries into [`Scored`]: a p-value of every label, stored as a count of points.
//! 4. [`Predictor::decide`] turns an error level into a [`Decision`]: the smallest counts with which a label is in a
//!    set.
//! 5. [`Predictor::predict`] turns both into a [`Prediction`]: the prediction sets.
//!
//! ```
//! use dance::scores::CalibrationScores;
//! // Scores of your own: nine calibration points, then two queries with the scores of three labels.
//! let calibration = CalibrationScores::new(vec![0.1, 0.2, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])?;
//! let threshold = calibration.threshold(0.2)?.value; // the 8th of 9 scores, 0.7
//! let set = |scores: [f64; 3]| (0..3).filter(|&label| scores[label] <= threshold).collect::<Vec<_>>();
//! assert_eq!((set([0.1, 0.75, 0.9]), set([0.85, 0.3, 0.2])), (vec![0], vec![1, 2]));
//! # Ok::<(), dance::Error>(())
//! ```

mod calibrate;
mod full;
mod fused;
mod mix;
mod neighbor_scores;
mod new_labels;
mod prediction;
mod predictor;
mod reference;
mod thresholds;
mod tuning_split;

pub use crate::method::{
    ByClass, Calibration, ConformalConfig, DanceCalibration, DanceMethod, FuseMethod, Method, MethodName, Mix,
    NeighborScores, PosteriorCalibration, PosteriorMethod,
};
pub(crate) use calibrate::PosteriorPoints;
pub use mix::{MixSelection, Trial, share};
pub use prediction::Prediction;
pub use prediction::{Decision, Shares};
pub use prediction::{PredictOptions, Scored};
pub(crate) use predictor::Decider;
pub use predictor::{Predictor, QueryBlock};
pub(crate) use reference::Reference;
pub use reference::Setup;
pub(crate) use thresholds::MixSource;
