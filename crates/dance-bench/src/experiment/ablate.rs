//! Ablations: one setting of DANCE varied, with everything else as in the main run (the paper, Figures 3 and 4 and
//! Table 3).
//!
//! - **mix** 0, 0.1 … 1: thresholds change, scores do not.
//! - **rank-neighbors** 15, 25, 50, 100: the k-NN set (mix 0).
//! - **contrast-neighbors** 15, 25, 50, 100: the CLR set (mix 1).
//! - **reference**: neighbors among the calibration points (reuse) or the fit points (split).
//!
//! Fit time against the number of points needs no run of its own, since every case has both.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::case::Parts;
use super::runner::{ids_in, renamed};
use dance::PredictOptions;
use dance::conformal::{Calibration, ConformalConfig, Mix};
use dance::device::Device;
use dance::evaluation::metrics::Metrics;
use dance::{Context, Error, Fitted, Result};

const NEIGHBORS: [usize; 4] = [15, 25, 50, 100];

/// The setting that is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ablation {
    /// The share of α of the contrastive score.
    Mix,
    /// Neighbors of the rank score.
    RankNeighbors,
    /// Neighbors of the contrastive score.
    ContrastNeighbors,
    /// The points among which neighbors are found.
    Reference,
}

impl Ablation {
    /// All ablations.
    pub const ALL: [Self; 4] = [Self::Mix, Self::RankNeighbors, Self::ContrastNeighbors, Self::Reference];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mix => "mix",
            Self::RankNeighbors => "rank-neighbors",
            Self::ContrastNeighbors => "contrast-neighbors",
            Self::Reference => "reference",
        }
    }
}

impl FromStr for Ablation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|ablation| ablation.name() == text)
            .ok_or_else(|| Error::config("ablate", text, "one of mix, rank-neighbors, contrast-neighbors, reference"))
    }
}

/// One setting at one α.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationPoint {
    /// The setting that was varied.
    pub ablation: Ablation,
    /// Its value: a number, or `reuse` or `split`.
    pub value: String,
    /// The error level.
    pub alpha: f64,
    /// The quality of the sets.
    pub metrics: Metrics,
}

/// Runs ablations on one fitted kernel machine.
pub(crate) fn run(
    device: &dyn Device,
    fitted: &Fitted,
    parts: &Parts<'_>,
    ablations: &[Ablation],
    alphas: &[f64],
    context: &Context<'_>,
) -> Result<Vec<AblationPoint>> {
    // The main run has reported its events already.
    let context = &context.silent();
    let base = fitted.config.conformal;
    let mut points = Vec::new();
    for &ablation in ablations {
        // The settings to compare, each with its name in the results.
        let settings: Vec<(String, ConformalConfig)> = match ablation {
            Ablation::Mix => (0..=10)
                .map(|step| f64::from(step) / 10.0)
                .map(|mix| (mix.to_string(), base.mix(Mix::Fixed(mix))))
                .collect(),
            Ablation::RankNeighbors => {
                NEIGHBORS.map(|count| (count.to_string(), base.mix(Mix::Fixed(0.0)).rank_neighbors(count))).to_vec()
            }
            Ablation::ContrastNeighbors => {
                NEIGHBORS.map(|count| (count.to_string(), base.mix(Mix::Fixed(1.0)).contrast_neighbors(count))).to_vec()
            }
            Ablation::Reference => [("reuse", Calibration::Reuse), ("split", Calibration::Split)]
                .map(|(name, calibration)| (name.to_owned(), base.with_calibration(calibration)))
                .to_vec(),
        };
        // Each is calibrated on the same fit.
        for (value, config) in settings {
            let mut fitted = fitted.clone();
            fitted.config.conformal = config;
            let model = fitted.calibrate(device, parts.calibration, context)?;
            let options = PredictOptions::default().best(false);
            let scored = model.score(&parts.test.embeddings, options, context)?;
            let to = ids_in(parts.test, model.classes());
            for &alpha in alphas {
                let sets = renamed(model.predict(&scored, &model.decide(alpha)?).sets, &to);
                let metrics = Metrics::new(&sets, &parts.test.labels, parts.test.classes.len(), alpha, None)?;
                points.push(AblationPoint { ablation, value: value.clone(), alpha, metrics });
            }
        }
    }
    Ok(points)
}
