//! Provenance of points: `random`, drawn at random like new points, or `picked`, chosen for a property.
//!
//! It is in a column or array `provenance`, as `dance select` writes it. Picked points, such as difficult ones, are not
//! exchangeable with new points. They may fit a kernel, but must not calibrate or evaluate it. Without a provenance,
//! points count as random.

use super::dataset::Dataset;
use crate::error::{Error, Result};

/// The name of the column, array or tensor.
pub(super) const PROVENANCE: &str = "provenance";

/// The provenance of points chosen for a property.
pub const PICKED: &str = "picked";
/// The provenance of points drawn at random.
pub const RANDOM: &str = "random";

/// Returns whether a provenance means picked, or the problem with the word.
pub(super) fn is_picked(word: &str) -> std::result::Result<bool, String> {
    match word {
        PICKED => Ok(true),
        RANDOM | "" => Ok(false),
        other => Err(format!("`{other}` is no provenance; `{PICKED}` or `{RANDOM}` is needed")),
    }
}

impl Dataset {
    /// Returns the places of the picked points, and of the random ones.
    pub fn by_provenance(&self) -> (Vec<usize>, Vec<usize>) {
        let picked = |&row: &usize| self.picked.as_ref().is_some_and(|picked| picked[row]);
        (0..self.len()).partition(picked)
    }

    /// Refuses picked points, for a calibration whose guarantee needs random ones.
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
