//! Conformal prediction: calibration, p-values of labels, and prediction sets with a guarantee.
//!
//! 1. A [`ConformalConfig`] names the method, which scores labels, and the role of calibration points.
//! 2. Calibration creates a predictor from the reference points, among which neighbors are found, and the method.
//! 3. The predictor turns queries into [`Scored`]: a p-value of every label, stored as a count of points.
//! 4. An error level gives a [`Decision`]: the smallest counts with which a label is in a set.
//! 5. [`Scored`] and [`Decision`] give a [`Prediction`]: the prediction sets.
//!
//! [`Dance`](crate::Dance) holds a predictor and has a method for each step. Scores of any other model need
//! [`scores`](crate::scores) alone:
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
mod new_labels;
mod prediction;
mod predictor;
#[cfg(test)]
mod tests;
mod thresholds;

pub use crate::method::{ByClass, Calibration, ConformalConfig, MethodName, Mix};
pub(crate) use calibrate::{PosteriorPoints, Reference, Setup};
pub(crate) use mix::MixSelection;
pub use prediction::{Decision, PredictOptions, Prediction, Scored};
pub(crate) use predictor::{Decider, Predictor, QueryBlock};
pub(crate) use thresholds::MixSource;
