//! Conformal prediction sets for any classifier built on embeddings.
//!
//! The story, in the order of the modules:
//! 1. [`embeddings`]: points with labels, checked and normalised; [`io`] reads them from files.
//! 2. [`split`]: seeded, class-stratified parts.
//! 3. [`kernel`], [`metric`], [`ridge`], [`agop`]: the pieces of a kernel machine that learns its own metric.
//! 4. [`rfm`]: the Recursive Feature Machine made of them; [`tune`] finds its bandwidth and shape.
//! 5. [`neighbors`]: exact nearest neighbors in mapped space.
//! 6. [`scores`]: how little a label conforms to a query, for every label at once.
//! 7. [`threshold`], [`mix`]: what calibration points say about scores; [`p_values`], [`sets`]: the labels that remain.
//! 8. [`methods`]: a score or two and how they are calibrated, [`methods::dance`] first.
//! 9. [`metrics`]: how good sets are.
//! 10. [`experiment`]: methods × data sets × seeds; [`report`]: its tables and its page.
//! 11. [`model`]: the facade, `fit → calibrate → predict`, with its [`config`] and its [`prediction`]s; [`classify`] is its
//!     kernel machine as a plain classifier; [`artifact`] keeps it in a file.
//!
//! Beside the story: [`backend`] does the heavy work, [`observe`] reports progress, [`error`] says what went wrong.

pub mod agop;
pub mod artifact;
pub mod backend;
pub mod classify;
pub mod config;
mod distances;
pub mod embeddings;
pub mod error;
pub mod experiment;
pub mod io;
pub mod kernel;
mod linalg;
pub mod matrix;
pub mod methods;
pub mod metric;
pub mod metrics;
pub mod mix;
pub mod model;
pub mod neighbors;
pub mod observe;
pub mod p_values;
mod plot;
pub mod prediction;
pub mod random;
pub mod report;
pub mod rfm;
pub mod ridge;
pub mod scores;
pub mod sets;
pub mod split;
pub mod threshold;
pub mod tune;

pub use config::Config;
pub use embeddings::{Dataset, Normalize, Normalizer, RawLabels, Table};
pub use error::{Error, Result};
pub use matrix::Matrix;
pub use model::{Dance, Fitted};
pub use prediction::{PredictOptions, Prediction, Scored};
pub use sets::Sets;
