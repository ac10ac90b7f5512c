//! Every setting of a model in one place, with its default: the contents of a configuration file.

use serde::{Deserialize, Serialize};

use crate::conformal::{ConformalConfig, Method};
use crate::data::Normalize;
use crate::error::{Error, Result};
use crate::machine::tune::TuneConfig;
use crate::machine::{OutputScale, Probabilities, RfmConfig, default_floor};
use crate::model::sampling::Sampling;
use crate::setters::setters;

/// Settings of a fit and of the method on top of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The error levels that the model is asked for where its user names none, the most important one first.
    pub alphas: Vec<f64>,
    /// The normalisation of embeddings.
    pub normalize: Normalize,
    /// The settings of the kernel machine.
    pub rfm: RfmConfig,
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
    alphas: Vec<f64>,
    normalize: Normalize,
    rfm: RfmConfig,
    tune: TuneConfig,
    conformal: ConformalConfig,
    sampling: Sampling,
    probabilities: Probabilities,
    probability_floor: Option<f32>,
});

/// The most error levels that a model remembers.
const MOST_ALPHAS: usize = 64;

impl Default for Config {
    fn default() -> Self {
        Self {
            alphas: vec![0.1],
            normalize: Normalize::default(),
            rfm: RfmConfig::default(),
            tune: TuneConfig::default(),
            conformal: ConformalConfig::default(),
            sampling: Sampling::default(),
            probabilities: Probabilities::default(),
            probability_floor: None,
        }
    }
}

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

    /// Returns the method that the settings define. This is the only check of settings: it refuses those that
    /// contradict each other or are out of range.
    pub fn method(&self) -> Result<Method> {
        let is_level = |&alpha: &f64| alpha > 0.0 && alpha < 1.0;
        let is_repeated = |place: usize| self.alphas[..place].contains(&self.alphas[place]);
        if !(1..=MOST_ALPHAS).contains(&self.alphas.len())
            || !self.alphas.iter().all(is_level)
            || (0..self.alphas.len()).any(is_repeated)
        {
            let given = self.alphas.iter().take(MOST_ALPHAS).map(f64::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::config("alphas", given, "1 to 64 different levels between 0 and 1, such as 0.1"));
        }
        match self.probability_floor {
            Some(floor) if !(0.0..0.5).contains(&floor) => {
                Err(Error::config("probability_floor", floor, "at least 0 and below 0.5, such as 1e-3"))
            }
            _ => self.conformal.method(),
        }
    }

    /// Returns the scale that maps outputs to clamped probabilities, for this number of classes.
    pub fn clamp(&self, classes: usize) -> OutputScale {
        OutputScale::clamp(self.probability_floor.unwrap_or_else(|| default_floor(classes)))
    }
}
