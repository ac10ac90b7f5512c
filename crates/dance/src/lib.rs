//! Conformal prediction sets for any classifier built on embeddings.
//!
//! The story, in the order of the modules:
//! 1. [`embeddings`]: points with labels, checked and normalised; [`io`] reads them from files.
//! 2. [`split`]: seeded, class-stratified parts.
//! 3. [`kernel`], [`metric`], [`ridge`], [`agop`]: the pieces of a kernel machine that learns its own metric.
//! 4. [`rfm`]: the Recursive Feature Machine made of them; [`tune`] finds its bandwidth and shape.
//!
//! Beside the story: [`backend`] does the heavy work, [`observe`] reports progress, [`error`] says what went wrong.

pub mod agop;
pub mod backend;
mod distances;
pub mod embeddings;
pub mod error;
pub mod io;
pub mod kernel;
mod linalg;
pub mod matrix;
pub mod metric;
pub mod observe;
pub mod random;
pub mod rfm;
pub mod ridge;
pub mod split;
pub mod tune;

pub use embeddings::{Dataset, Normalize, Normalizer, RawLabels, Table};
pub use error::{Error, Result};
pub use matrix::Matrix;
