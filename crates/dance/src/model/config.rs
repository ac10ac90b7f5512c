//! Every setting of a model in one place, with its default: the contents of a configuration file.

use serde::{Deserialize, Serialize};

use crate::conformal::{ConformalConfig, Method};
use crate::data::Normalize;
use crate::error::{Error, Result};
use crate::machine::{OutputScale, Probabilities, RfmConfig, TuneConfig, default_floor};
use crate::model::sampling::Sampling;
use crate::setters::setters;

/// Settings of a fit and of the method on top of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The normalisation of embeddings.
    pub normalize: Normalize,
    /// The settings of the kernel machine that are not searched over.
    pub(crate) rfm: RfmConfig,
    /// The search for the kernel's bandwidth and shape.
    pub tune: TuneConfig,
    /// The settings of the prediction sets.
    pub conformal: ConformalConfig,
    /// The way calibration points were drawn, from which the guarantee follows.
    pub sampling: Sampling,
    /// The source of the kernel machine's class probabilities.
    pub probabilities: Probabilities,
    /// The floor of clamped class probabilities; `None` means 1e-3, or less if there are many classes.
    pub probability_floor: Option<f32>,
}

setters!(Config {
    normalize: Normalize,
    tune: TuneConfig,
    conformal: ConformalConfig,
    sampling: Sampling,
    probabilities: Probabilities,
    probability_floor: Option<f32>,
});

impl Config {
    /// Returns the paper's settings: the method dance with reuse, no refit, xRFM's clamped probabilities.
    pub fn paper() -> Self {
        Self {
            tune: TuneConfig { refit: false, ..TuneConfig::default() },
            conformal: ConformalConfig::paper(),
            probabilities: Probabilities::Clamp,
            probability_floor: Some(1e-3),
            ..Self::default()
        }
    }

    /// Sets the ridge parameter of the kernel machine's regression.
    pub fn ridge(mut self, ridge: f64) -> Self {
        self.rfm.ridge = ridge;
        self
    }

    /// Sets the largest number of times that the metric is learned.
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rfm.rounds = rounds;
        self
    }

    /// Sets the number of iterations in a row without improvement that ends a fit; `None` sets no such limit.
    pub fn patience(mut self, patience: Option<usize>) -> Self {
        self.rfm.patience = patience;
        self
    }

    /// Sets the seed of everything that is drawn: for the tuning, the fit and the method.
    pub fn seed(mut self, seed: u64) -> Self {
        (self.tune.seed, self.rfm.seed, self.conformal.seed) = (seed, seed, seed);
        self
    }

    /// Returns the method that the settings define. This is the only check of settings: it refuses those that
    /// contradict each other or are out of range.
    pub fn method(&self) -> Result<Method> {
        match self.probability_floor {
            Some(floor) if !(0.0..0.5).contains(&floor) => {
                Err(Error::config("probability_floor", floor, "at least 0 and below 0.5, such as 1e-3"))
            }
            _ => self.conformal.method(),
        }
    }

    /// Returns the scale that maps outputs to clamped probabilities, for this number of classes.
    pub(crate) fn clamp(&self, classes: usize) -> OutputScale {
        OutputScale::clamp(self.probability_floor.unwrap_or_else(|| default_floor(classes)))
    }
}
