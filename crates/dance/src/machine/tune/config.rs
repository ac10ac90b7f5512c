//! The configuration of tuning.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::setters::setters;

/// The configuration of tuning: the range of settings, the number of trials, and the points that they use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TuneConfig {
    /// The number of settings to try.
    pub evaluations: usize,
    /// The range of bandwidths, in multiples of the median distance. Equal ends fix the bandwidth.
    pub bandwidth: (f64, f64),
    /// The range of the kernel's shape. Equal ends fix the shape.
    pub shape: (f64, f64),
    /// The share of the points that are held out for validation.
    pub validation: f64,
    /// The largest number of training points of a trial; `None` always uses all.
    pub search_points: Option<usize>,
    /// The number of settings that are tried again on all training points, if trials used a sample.
    pub confirm: usize,
    /// Fits the best setting once more on training and validation points together if `true`.
    pub refit: bool,
    /// The seed of the validation split, the sample and the search.
    pub seed: u64,
    /// The largest number of bytes that the fit may allocate.
    pub memory: Option<u64>,
}

setters!(TuneConfig {
    evaluations: usize,
    bandwidth: (f64, f64),
    shape: (f64, f64),
    validation: f64,
    search_points: Option<usize>,
    confirm: usize,
    refit: bool,
    seed: u64,
    memory: Option<u64>,
});

impl Default for TuneConfig {
    fn default() -> Self {
        Self {
            evaluations: 25,
            bandwidth: (0.1, 20.0),
            shape: (0.5, 2.0),
            validation: 0.2,
            search_points: Some(3000),
            confirm: 2,
            refit: true,
            seed: 0,
            memory: None,
        }
    }
}

impl TuneConfig {
    pub(super) fn check(&self) -> Result<()> {
        if self.evaluations == 0 {
            return Err(Error::config("evaluations", 0, "at least 1"));
        }
        let range = |name, (low, high): (f64, f64), least: f64, expected| {
            if low.is_finite() && high.is_finite() && low >= least && low <= high && low > 0.0 {
                return Ok(());
            }
            Err(Error::config(name, format!("{low}…{high}"), expected))
        };
        range("bandwidth", self.bandwidth, 0.0, "a positive number of median distances, or a range of them")?;
        range("shape", self.shape, 0.5, "at least 0.5, or a range from there")?;
        if !(self.validation > 0.0 && self.validation < 1.0) {
            return Err(Error::config("validation", self.validation, "between 0 and 1, such as 0.2"));
        }
        if self.search_points.is_some_and(|points| points < 2) {
            return Err(Error::config("search_points", "below 2", "at least 2"));
        }
        Ok(())
    }

    /// Returns the number of settings that will be tried: 1 if the ranges fix both.
    pub(super) fn trials(&self) -> usize {
        let fixed = self.bandwidth.0 == self.bandwidth.1 && self.shape.0 == self.shape.1;
        if fixed { 1 } else { self.evaluations }
    }
}
