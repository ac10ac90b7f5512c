//! The settings of an experiment. Two runs with the same plan continue each other.

use serde::{Deserialize, Serialize};

use super::ablate::Ablation;
use super::method::Method;
use dance::Config;
use dance::conformal::ConformalConfig;
use dance::{Error, Result, Sampling};

/// See the [module](self). The data sets are not part of it: a run may be continued with more of them.
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
    /// What is varied beside.
    pub ablations: Vec<Ablation>,
    /// Shares of kernel fit, calibration and test.
    pub split: [f64; 3],
    /// Where given, long tails are drawn from every data set: class frequencies fall with this power of their rank.
    #[serde(default)]
    pub zipf: Option<f64>,
    /// Settings of the fit and of DANCE; the seeds in them are set for every case.
    pub config: Config,
}

impl Default for Plan {
    /// 40/40/20 and five seeds as in the paper; every method has the kernel that users get: fitted once more with the points
    /// that judged it, with calibrated probabilities, and parts drawn at random.
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
    /// The paper's protocol throughout: no fit with the judges, clamped probabilities, stratified parts.
    pub fn paper() -> Self {
        Self { config: Config::paper().sampling(Sampling::Stratified), ..Self::default() }
    }

    /// Refuses what makes no sense.
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

    /// What was done to the data sets, in words for tables and pages; empty where nothing was.
    pub fn about_data(&self) -> String {
        self.zipf.map_or_else(String::new, |power| {
            format!(
                "Long tails: of every data set and seed a class keeps points in proportion to rank^-{power}, ranks drawn at random."
            )
        })
    }

    /// The settings of one case: every seed in them is the case's.
    pub(crate) fn config_for(&self, seed: u64) -> Config {
        let mut config = self.config.clone();
        config.tune.seed = seed;
        config.rfm.seed = seed;
        config.conformal.seed = seed;
        config
    }
}
