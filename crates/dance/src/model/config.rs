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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
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
    normalize: Normalize,
    rfm: RfmConfig,
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
    pub fn clamp(&self, classes: usize) -> OutputScale {
        OutputScale::clamp(self.probability_floor.unwrap_or_else(|| default_floor(classes)))
    }
}
