//! Conformal prediction sets for any classifier built on embeddings.
//!
//! The story, in the order of the modules:
//! 1. [`embeddings`]: points with labels, checked and normalised; [`io`] reads them from files.
//! 2. [`split`]: seeded, class-stratified parts.

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
pub mod neighbors;
pub mod ridge;

pub use embeddings::{Dataset, Normalize, Normalizer, RawLabels, Table};
pub use error::{Error, Result};
pub use matrix::Matrix;
