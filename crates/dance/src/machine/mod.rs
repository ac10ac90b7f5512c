//! The Recursive Feature Machine, a kernel machine that learns its own metric (the paper, §2.3 and appendix B): the
//! loop ([`Rfm`]), the search for bandwidth and shape ([`tune`]), and the fitted machine as a classifier
//! ([`Classifier`]).
//!
//! ```
//! use dance::data::{Normalize, Normalizer};
//! use dance::machine::{Classifier, OutputScale, Part, Rfm, RfmConfig};
//! use dance::{Context, Matrix, device::Cpu, kernel::Kernel};
//!
//! let context = Context::new(1)?;
//! let points = Matrix::new(vec![0.0, 0.1, 0.9, 1.0], 4, 1)?;
//! let part = Part { embeddings: points.clone(), labels: vec![0, 0, 1, 1] };
//! let rfm = Rfm::fit(&Cpu, part, 2, Kernel::new(1.0, 1.0)?, &RfmConfig::default(), &context)?;
//! let scale = OutputScale::clamp(1e-3);
//! let classifier = Classifier::open(&Cpu, &rfm, &Normalizer::None, scale, &context)?;
//! assert_eq!(classifier.classify(&points, &context)?.labels, [0, 0, 1, 1]);
//! # Ok::<(), dance::Error>(())
//! ```

mod classifier;
mod metric;
mod probabilities;
mod rfm;
mod span;
pub mod tune;

pub use classifier::{Classified, Classifier};
pub use probabilities::{OutputScale, Probabilities, default_floor};
pub use rfm::{Rfm, RfmConfig};

use crate::device::FitPoints;
use crate::numeric::matrix::Matrix;

/// Points with their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// One row per point, normalised.
    pub embeddings: Matrix,
    /// One class index per row.
    pub labels: Vec<u32>,
}

impl Part {
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self { embeddings: self.embeddings.select(rows), labels: rows.iter().map(|&row| self.labels[row]).collect() }
    }

    fn fit_points<'a>(&'a self, classes: usize, held_out: &'a Self, basis: Option<&'a Matrix>) -> FitPoints<'a> {
        FitPoints {
            train: &self.embeddings,
            labels: &self.labels,
            classes,
            held_out: &held_out.embeddings,
            held_out_labels: &held_out.labels,
            basis,
        }
    }
}
