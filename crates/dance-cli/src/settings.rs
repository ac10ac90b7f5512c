//! Options of the method that `fit` and `recalibrate` share.

use clap::{Args, ValueEnum};
use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName, Mix};

use crate::parse;

/// How a label's p-value is made.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MethodChoice {
    /// A posterior of several experts that learns from every label, calibration points included: the smallest sets
    Posterior,
    /// Rank, contrastive score and class probability as one score: for cheap predictions, or too many points for the posterior's memory
    Fuse,
    /// The paper's DANCE: rank and contrastive score, each at its own share of alpha
    Dance,
}

/// Which points the p-values are counted among.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CalibrationChoice {
    /// Full conformal prediction, the query among the calibration points: coverage is guaranteed, with all the data at work
    Full,
    /// Split conformal prediction: coverage is guaranteed, calibration points do nothing else
    Split,
    /// The calibration points are their own neighbors, as in the paper: a heuristic
    Reuse,
}

/// Whom the guarantee is for, where not for all points together.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ByClassChoice {
    /// All points together, with class offsets: classes that are hard to tell apart do not pay for the others
    Balanced,
    /// Every cluster of classes that are about as hard, found by the fit points
    Clusters,
    /// Every class by itself. Costs size: below 1/alpha - 1 calibration points, a class is in every set
    Each,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Prediction sets")]
pub(crate) struct Method {
    /// The paper's settings throughout: reuse, union, and for a fit no refit on the validation points. Options given beside it win
    #[arg(long)]
    pub(crate) paper: bool,
    /// How a label's p-value is made [default of a fit: fuse]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(crate) method: Option<MethodChoice>,
    /// Which points p-values are counted among [default of a fit: full]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) calibration: Option<CalibrationChoice>,
    /// Whom the guarantee is for, where not for all points together: with full calibration, and only `each` with fuse
    #[arg(long, value_enum, value_name = "WHOM")]
    pub(crate) by_class: Option<ByClassChoice>,
    /// Let sets hold "none of these": the guarantee then counts labels that no point of the model has. With full calibration
    #[arg(long)]
    pub(crate) new_labels: bool,
    /// Neighbors the rank score looks at [default of a fit: 100]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) rank_neighbors: Option<usize>,
    /// Neighbors the contrastive score looks at [default of a fit: 50]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) contrast_neighbors: Option<usize>,
    /// Temperature of the contrastive score [default of a fit: 0.01]
    #[arg(long, value_name = "X", value_parser = parse::positive, allow_hyphen_values = true)]
    pub(crate) temperature: Option<f64>,
    /// Share of alpha that `--method dance` gives the contrastive score: `auto` or 0 (k-NN set) to 1 (CLR set) [default of a fit: auto]
    #[arg(long, value_name = "auto|X", value_parser = parse::mix)]
    pub(crate) mix: Option<Mix>,
}

impl Method {
    /// `config` with what was given.
    pub(crate) fn apply(&self, config: ConformalConfig, seed: u64) -> ConformalConfig {
        let mut config = if self.paper { ConformalConfig::paper() } else { config };
        if self.method.is_some() || self.calibration.is_some() {
            // Another method has other settings: those of the model are dropped, and those that are given apply.
            config.by_class = ByClass::All;
            config.new_labels = false;
        }
        if let Some(method) = self.method {
            config.mix = Mix::Auto;
            config.method = match method {
                MethodChoice::Posterior => MethodName::Posterior,
                MethodChoice::Fuse => MethodName::Fuse,
                MethodChoice::Dance => MethodName::Dance,
            };
            if !self.paper {
                config.calibration =
                    if config.method == MethodName::Dance { Calibration::Reuse } else { Calibration::Full };
            }
        }
        match self.calibration {
            None => {}
            Some(CalibrationChoice::Full) => config.calibration = Calibration::Full,
            Some(CalibrationChoice::Split) => config.calibration = Calibration::Split,
            Some(CalibrationChoice::Reuse) => config.calibration = Calibration::Reuse,
        }
        match self.by_class {
            None => {}
            Some(ByClassChoice::Balanced) => config.by_class = ByClass::Balanced,
            Some(ByClassChoice::Clusters) => config.by_class = ByClass::Clusters,
            Some(ByClassChoice::Each) => config.by_class = ByClass::Each,
        }
        config
            .new_labels(self.new_labels || config.new_labels)
            .rank_neighbors(self.rank_neighbors.unwrap_or(config.rank_neighbors))
            .contrast_neighbors(self.contrast_neighbors.unwrap_or(config.contrast_neighbors))
            .temperature(self.temperature.unwrap_or(config.temperature))
            .mix(self.mix.unwrap_or(config.mix))
            .seed(seed)
    }
}
