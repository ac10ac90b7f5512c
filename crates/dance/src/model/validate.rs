//! Validation of a fitted kernel machine. A machine that was assembled from bytes may have parts that do not fit
//! together, and later code indexes one part by another.

use super::fitted::Fitted;
use crate::data::{Normalize, Normalizer};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

impl Fitted {
    /// Returns an error if sizes or values of the machine's parts do not fit together, or if settings contradict each
    /// other.
    pub fn check(&self) -> Result<()> {
        self.config.method()?;
        let (rfm, classes) = (&self.rfm, self.classes.len());
        let (n, d) = (rfm.labels.len(), rfm.train.cols());
        let mut names: Vec<&String> = self.classes.iter().collect();
        names.sort_unstable();
        names.dedup();
        let has = |matrix: &Matrix, rows: usize, cols: usize| {
            (matrix.rows(), matrix.cols()) == (rows, cols) && matrix.as_slice().iter().all(|value| value.is_finite())
        };
        let normalizer = match (&self.normalizer, self.config.normalize) {
            (Normalizer::L2, Normalize::L2) | (Normalizer::None, Normalize::None) => true,
            (Normalizer::Standardize { mean, scale }, Normalize::Standardize) => {
                (mean.len(), scale.len()) == (d, d)
                    && mean.iter().all(|value| value.is_finite())
                    && scale.iter().all(|value| value.is_finite() && *value > 0.0)
            }
            _ => false,
        };
        let of_each = |length: Option<usize>| length.is_none_or(|length| length == n);
        for (fits, part) in [
            (classes > 0 && names.len() == classes, "names of classes"),
            (n > 0 && d > 0 && has(&rfm.train, n, d), "points"),
            (rfm.labels.iter().all(|&label| (label as usize) < classes), "labels"),
            (has(&rfm.metric_root, d, d), "metric"),
            (has(&rfm.beta, n, classes), "weights"),
            (normalizer, "normalisation"),
            (self.scale.is_valid(), "probabilities"),
            (of_each(self.names.rows.as_ref().map(Vec::len)), "rows"),
            (of_each(self.names.ids.as_ref().map(Vec::len)), "ids"),
            (self.validation_rows.len() == self.validation_hashes.len(), "validation points"),
        ] {
            if !fits {
                return Err(Error::Data(format!("the {part} of the model do not fit the rest of it")));
            }
        }
        Ok(())
    }
}
