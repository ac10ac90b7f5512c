//! Plans: the settings of an experiment. A run continues the results of another with the same plan.

use serde::{Deserialize, Serialize};

use super::ablate::Ablation;
use super::method::Method;
use dance::conformal::ConformalConfig;
use dance::{Config, Error, Result, Sampling};

/// The settings of an experiment. Data sets are not part of them, so a run may be continued with more data sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Error levels.
    pub alphas: Vec<f64>,
    /// Seeds: `seed`, `seed + 1` …
    pub seeds: usize,
    /// The first seed.
    pub seed: u64,
    /// Methods, in any order.
    pub methods: Vec<Method>,
    /// Ablations to run beside the methods.
    pub ablations: Vec<Ablation>,
    /// Shares of the points for fit, calibration and test.
    pub split: [f64; 3],
    /// The power of Zipf's law. If given, class frequencies of every data set are thinned to fall with this power of
    /// their rank.
    #[serde(default)]
    pub zipf: Option<f64>,
    /// Settings of the fit and of the library's methods. Every case sets the seeds in them.
    pub config: Config,
}

impl Default for Plan {
    /// Returns the paper's split of 40/40/20 and five seeds, with the kernel machine of our own defaults: a refit with
    /// the validation points, calibrated probabilities, and parts drawn at random.
    fn default() -> Self {
        Self {
            alphas: vec![0.1, 0.05],
            seeds: 5,
            seed: 0,
            methods: Method::usual(),
            ablations: Vec::new(),
            split: [0.4, 0.4, 0.2],
            zipf: None,
            config: Config::default().conformal(ConformalConfig::paper()),
        }
    }
}

impl Plan {
    /// Returns the paper's protocol: no refit with the validation points, clamped probabilities, stratified parts.
    pub fn paper() -> Self {
        Self { config: Config::paper().sampling(Sampling::Stratified), ..Self::default() }
    }

    /// Refuses settings that are out of range or contradict each other.
    pub fn check(&self) -> Result<()> {
        if self.alphas.is_empty() {
            return Err(Error::config("alpha", "nothing", "at least one error level, such as 0.1"));
        }
        for &alpha in &self.alphas {
            if !(alpha > 0.0 && alpha < 1.0) {
                return Err(Error::config("alpha", alpha, "between 0 and 1, such as 0.1"));
            }
        }
        if self.seeds == 0 {
            return Err(Error::config("seeds", 0, "at least 1"));
        }
        if self.methods.is_empty() {
            return Err(Error::config("methods", "nothing", "at least one method, such as dance"));
        }
        if let Some(power) = self.zipf
            && !(power > 0.0 && power <= 10.0)
        {
            return Err(Error::config("zipf", power, "above 0 and at most 10, such as 1"));
        }
        self.config.check()
    }

    /// Returns the changes that were made to the data sets, in words for tables and pages; empty without changes.
    pub fn about_data(&self) -> String {
        self.zipf.map_or_else(String::new, |power| {
            format!(
                "Long tails: for every data set and seed, each class keeps points in proportion to rank^-{power}, \
                 ranks drawn at random."
            )
        })
    }

    /// Returns the settings of one case, with its seed everywhere.
    pub(crate) fn config_for(&self, seed: u64) -> Config {
        self.config.clone().seed(seed)
    }
}
