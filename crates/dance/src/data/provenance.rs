//! How points came to be in a file: `random`, drawn by chance from what comes, or `picked` for what they are.
//!
//! A column or array `provenance` says so, as `dance select` writes it. Points that were picked (hard ones, odd ones) are not like new
//! points: they may fit a kernel, and must neither calibrate nor judge it. Where nothing is said, points count as drawn by chance.

use super::dataset::Dataset;
use crate::error::{Error, Result};

/// The column, array or tensor.
pub(super) const PROVENANCE: &str = "provenance";

/// What it says of points that were picked, and of points that were drawn.
pub const PICKED: &str = "picked";
/// See there.
pub const RANDOM: &str = "random";

/// Whether a point was picked; or what is wrong with the word.
pub(super) fn is_picked(word: &str) -> std::result::Result<bool, String> {
    match word {
        PICKED => Ok(true),
        RANDOM | "" => Ok(false),
        other => Err(format!("`{other}` is no provenance; `{PICKED}` or `{RANDOM}` is needed")),
    }
}

impl Dataset {
    /// Places of the points that were picked, and of those that came by chance.
    pub fn by_provenance(&self) -> (Vec<usize>, Vec<usize>) {
        let picked = |&row: &usize| self.picked.as_ref().is_some_and(|picked| picked[row]);
        (0..self.len()).partition(picked)
    }

    /// Refuses points that were picked where the promise is made by points that came by chance.
    pub(crate) fn check_drawn(&self) -> Result<()> {
        match self.by_provenance().0.len() {
            0 => Ok(()),
            picked => Err(Error::Data(format!(
                "{picked} of the {} calibration points were picked for what they are; only points that came by chance are like new \
                 ones. Picked points may fit the kernel",
                self.len()
            ))),
        }
    }
}
