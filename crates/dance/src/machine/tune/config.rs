//! What is searched, how long, and on how much of the data.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::setters::setters;

/// What is searched, how long, and on how much of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TuneConfig {
    /// Settings to try.
    pub evaluations: usize,
    /// Range of bandwidths, in median distances. Equal ends fix it.
    pub bandwidth: (f64, f64),
    /// Range of shapes. Equal ends fix it.
    pub shape: (f64, f64),
    /// Share of the points held out to judge settings.
    pub validation: f64,
    /// Most training points a trial uses; `None` uses all, always.
    pub search_points: Option<usize>,
    /// Settings tried again on all points when trials used a sample.
    pub confirm: usize,
    /// Fit once more on training and validation points together.
    pub refit: bool,
    /// Seed of the validation split, the sample and the search.
    pub seed: u64,
    /// Most bytes the fit may allocate.
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

    /// Settings that will be tried: one when there is nothing to search.
    pub(super) fn trials(&self) -> usize {
        let fixed = self.bandwidth.0 == self.bandwidth.1 && self.shape.0 == self.shape.1;
        if fixed { 1 } else { self.evaluations }
    }
}
