//! From scores to sets with a promise.
//!
//! 1. [`scores`]: how little a label conforms to a query, for every label at once.
//! 2. [`threshold`], [`Mix`], [`MethodName`]: what the scores of calibration points say, alone and together.
//! 3. `evidence`: a posterior stacked from several experts, in exact form ([`MethodName::Posterior`]).
//! 4. [`Predictor`]: three ways of calibrating, one of which ([`Calibration::Full`]) lets the query join the calibration points.
//! 5. [`LabelCounts`]: a p-value is a whole count; [`Decision`] says which counts pass at an error level.
//! 6. [`Answers::novelty`]: whether a point is unlike anything seen, whatever its label.
//! 7. [`Sets`], [`metrics`]: the labels that remain, and how good they are.
//!
//! ```
//! use dance::scores::{CalibrationScores, Sets, LabelScores};
//! // Your own scores: nine calibration points, then two queries with the scores of three labels.
//! let calibration = CalibrationScores::new(vec![0.1, 0.2, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])?;
//! let queries = LabelScores::from_rows([&[(0, 0.1), (1, 0.75), (2, 0.9)][..], &[(0, 0.85), (1, 0.3), (2, 0.2)]]);
//! let sets = Sets::from_scores(&queries, calibration.threshold(0.2)?.value, 3);
//! assert_eq!((sets.get(0), sets.get(1)), (&[0][..], &[1, 2][..])); // the 8th of 9 scores is 0.7
//! # Ok::<(), dance::Error>(())
//! ```

mod calibrate;
mod combine;
mod decision;
mod difficulty;
mod full;
mod mix;
mod new_labels;
mod parts;
mod predictor;
mod reference;
mod selecting;

pub use crate::method::{ByClass, Calibration, ConformalConfig, MethodName, Mix};
pub use calibrate::Setup;
pub(crate) use calibrate::{Believed, rule};
pub(crate) use combine::Levels;
pub use decision::Decision;
pub use difficulty::Difficulty;
pub use mix::{Compared, MixSelection, Trial, share};
pub(crate) use predictor::Evidence;
pub use predictor::{Answers, Predictor};
pub(crate) use reference::Reference;
