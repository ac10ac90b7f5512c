//! Provenance of points: `random` (drawn at random like new points) or `picked` (chosen for a property).
//!
//! A column or array `provenance` holds it, as `dance select` writes it. Picked points, such as difficult ones, are not
//! exchangeable with new points. They may be used to fit a kernel, but not to calibrate or evaluate a model. Without a
//! provenance, points count as random.

use super::dataset::Dataset;
use crate::error::{Error, Result};

/// The name of the column, array or tensor that holds the provenance.
pub(super) const PROVENANCE: &str = "provenance";

/// The word for the provenance of points chosen for a property.
pub const PICKED: &str = "picked";
/// The word for the provenance of points drawn at random.
pub const RANDOM: &str = "random";

/// Returns true for the word `picked`, false for `random` or an empty text, and otherwise an error message.
pub(super) fn is_picked(word: &str) -> std::result::Result<bool, String> {
    match word {
        PICKED => Ok(true),
        RANDOM | "" => Ok(false),
        other => Err(format!("`{other}` is no provenance; `{PICKED}` or `{RANDOM}` is needed")),
    }
}

impl Dataset {
    /// Returns the indices of the picked points, and those of the random points.
    pub fn by_provenance(&self) -> (Vec<usize>, Vec<usize>) {
        let picked = |&row: &usize| self.picked.as_ref().is_some_and(|picked| picked[row]);
        (0..self.len()).partition(picked)
    }

    /// Returns an error if there are picked points, since the guarantee of a calibration needs random points.
    pub(crate) fn check_random(&self) -> Result<()> {
        match self.by_provenance().0.len() {
            0 => Ok(()),
            picked => Err(Error::Data(format!(
                "{picked} of the {} calibration points were picked; a guarantee needs points that were drawn at random \
                 like new ones. Picked points may fit the kernel",
                self.len()
            ))),
        }
    }
}
