//! Conformal prediction sets for any classifier built on embeddings.
//!
//! One story, in the order of the rooms; each uses only those before it:
//! 1. [`data`]: points with labels come in from files, are checked, split and normalised.
//! 2. [`machine`]: a kernel machine learns a metric for them.
//! 3. [`neighbors`]: exact nearest neighbors in the learned space.
//! 4. [`conformal`]: scores of labels, what calibration points say about them, and the sets that follow.
//! 5. [`model`]: the facade: `fit → calibrate → predict`, and the file that keeps it.
//!
//! Beside the story: [`device`] is what heavy work runs on, a [`Context`] carries threads, progress and interruption, and
//! [`Error`] says what went wrong, where, and what to do.

// Beside the story; these use nothing of the rooms.
mod context;
mod error;
mod event;
pub mod kernel;
pub mod method;
mod setters;
pub mod whole_file;

// The rooms.
pub mod conformal;
pub mod data;
pub mod device;
pub mod evaluation;
pub mod machine;
pub mod model;
pub mod neighbors;
pub mod numeric;
pub mod posterior;
pub mod scores;
pub mod stream;

pub use context::{Context, Observer, Quiet, Silent};
pub use data::{Dataset, Table};
pub use error::{Error, Result, human_bytes, shortened};
pub use event::{Evaluation, Event, Quality, RidgeReport, Round};
pub use model::{Config, Dance, Fitted, PredictOptions, Prediction, Sampling, Scored};
pub use numeric::{Matrix, Rows};
