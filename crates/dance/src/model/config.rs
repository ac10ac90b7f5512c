//! The settings of a model, which a configuration file may hold. [`Sampling`] names the way in which calibration points
//! were drawn; the guarantee depends on it.

use serde::{Deserialize, Serialize};

use crate::conformal::ConformalConfig;
use crate::data::Normalize;
use crate::error::{Error, Result};
use crate::machine::{OutputScale, Probabilities, RfmConfig, TuneConfig, default_floor};
use crate::method::Method;
use crate::setters::setters;

/// The settings of a fit, of the prediction sets, and of the class probabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The error levels of sets for callers that name none, the most important level first.
    pub alphas: Vec<f64>,
    /// The normalisation of embeddings.
    pub normalize: Normalize,
    /// The settings of the kernel machine (recursive feature machine) that tuning does not search over.
    pub(crate) rfm: RfmConfig,
    /// The settings of the search for the kernel's bandwidth and shape.
    pub tune: TuneConfig,
    /// The settings of the prediction sets.
    pub conformal: ConformalConfig,
    /// The way in which calibration points were drawn. The guarantee depends on it.
    pub sampling: Sampling,
    /// The way in which outputs of the kernel machine become class probabilities.
    pub probabilities: Probabilities,
    /// The smallest class probability under [`Probabilities::Clamp`], at least 0 and below 0.5. `None` means 1e-3, or
    /// less if there are many classes.
    pub probability_floor: Option<f32>,
}

setters!(Config {
    alphas: Vec<f64>,
    normalize: Normalize,
    tune: TuneConfig,
    conformal: ConformalConfig,
    sampling: Sampling,
    probabilities: Probabilities,
    probability_floor: Option<f32>,
});

/// The largest number of error levels in [`Config::alphas`].
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
    /// Returns the paper's settings: the method [`Dance`](crate::method::MethodName::Dance) with reuse of calibration
    /// points as neighbors, no refit, and probabilities clamped as in the program xRFM. A refit would fit the best
    /// kernel again on all points.
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

    /// Sets the largest number of rounds. Each round learns the metric anew.
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rfm.rounds = rounds;
        self
    }

    /// Sets the patience: the number of rounds in a row without improvement after which a fit ends. `None` sets no such
    /// limit.
    pub fn patience(mut self, patience: Option<usize>) -> Self {
        self.rfm.patience = patience;
        self
    }

    /// Sets the seed of all random draws: in the tuning, in the fit and in the method.
    pub fn seed(mut self, seed: u64) -> Self {
        (self.tune.seed, self.rfm.seed, self.conformal.seed) = (seed, seed, seed);
        self
    }

    /// Returns an error if a setting is out of range, or if two settings contradict each other.
    pub fn check(&self) -> Result<()> {
        self.method().map(drop)
    }

    /// Returns the method that the settings describe, or the error of [`check`](Self::check).
    pub(crate) fn method(&self) -> Result<Method> {
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

    /// Returns the map from outputs of the kernel machine to clamped probabilities, for this number of classes.
    pub(crate) fn clamp(&self, classes: usize) -> OutputScale {
        OutputScale::clamp(self.probability_floor.unwrap_or_else(|| default_floor(classes)))
    }
}

/// The way in which the calibration points were drawn. A random draw leaves the guarantee of the method unchanged.
/// Under any other sampling, the guarantee holds for other points or becomes approximate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// A random draw.
    #[default]
    Random,
    /// Points of a split in which every class has the same share of its points in each part. They are not a random
    /// draw.
    Stratified,
    /// One random point of each group of similar points.
    Grouped,
    /// The latest points of a stream.
    Window {
        /// The number of latest points.
        points: usize,
    },
    /// Points that were kept out of more points, with probabilities in proportion to importance weights (covariate
    /// shift).
    Weighted {
        /// The number of points out of which some were kept.
        of: usize,
    },
    /// Points that were kept out of more points so that classes have their new proportions (label shift).
    LabelShift {
        /// The number of points out of which some were kept.
        of: usize,
        /// The number of points without labels from which the new class proportions were estimated.
        unlabeled: usize,
    },
}

impl Sampling {
    /// Returns the clause that this sampling adds to the sentence of the guarantee; `None` for a random draw.
    pub(super) fn clause(self) -> Option<String> {
        Some(match self {
            Self::Random => return None,
            Self::Stratified => "calibration points were stratified by class: it is approximate, and points of rare \
                 classes are covered less"
                .into(),
            Self::Grouped => "one point of each group calibrated: it holds for a point of a new group".into(),
            Self::Window { points } => {
                format!("the latest {points} points calibrated: it holds for points like those")
            }
            Self::Weighted { of } => format!(
                "calibrated on some of {of} points, kept in proportion to their importance weights: it holds if the \
                 weights are right, for points whose weight does not exceed the largest here"
            ),
            Self::LabelShift { of, unlabeled } => format!(
                "calibrated on some of {of} points, kept in the class proportions estimated from {unlabeled} points \
                 without labels: it holds if that estimate is right and the points of each class have not changed"
            ),
        })
    }
}
