//! Options of the method, which `fit` and `recalibrate` share.

use clap::{Args, ValueEnum};
use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName, Mix};

use crate::parse;

/// The values of `--method`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MethodChoice {
    /// A stack of experts, trained on all labels including those of the calibration points: the smallest sets
    Posterior,
    /// Rank, contrastive score and class probability in one score: less memory and faster predictions
    Fuse,
    /// The paper's DANCE: rank and contrastive score, each with its own share of alpha
    Dance,
}

impl From<MethodChoice> for MethodName {
    fn from(choice: MethodChoice) -> Self {
        match choice {
            MethodChoice::Posterior => Self::Posterior,
            MethodChoice::Fuse => Self::Fuse,
            MethodChoice::Dance => Self::Dance,
        }
    }
}

/// The values of `--calibration`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CalibrationChoice {
    /// Full conformal prediction: every query joins the calibration points. Coverage is guaranteed
    Full,
    /// Split conformal prediction: calibration points give thresholds only. Coverage is guaranteed
    Split,
    /// Calibration points are each other's neighbors, as in the paper. A heuristic without a guarantee
    Reuse,
}

impl From<CalibrationChoice> for Calibration {
    fn from(choice: CalibrationChoice) -> Self {
        match choice {
            CalibrationChoice::Full => Self::Full,
            CalibrationChoice::Split => Self::Split,
            CalibrationChoice::Reuse => Self::Reuse,
        }
    }
}

/// The values of `--by-class`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ByClassChoice {
    /// All points together; class offsets bring the coverage of classes closer to each other
    Balanced,
    /// Each cluster of classes with similar difficulty; the fit points define the clusters
    Clusters,
    /// Each class by itself. A class with fewer than 1/alpha - 1 calibration points is in every set
    Each,
}

impl From<ByClassChoice> for ByClass {
    fn from(choice: ByClassChoice) -> Self {
        match choice {
            ByClassChoice::Balanced => Self::Balanced,
            ByClassChoice::Clusters => Self::Clusters,
            ByClassChoice::Each => Self::Each,
        }
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Method")]
pub(crate) struct MethodOptions {
    /// Use the paper's settings: method dance with reuse; for `fit` also no refit and clamped probabilities. Other
    /// options win
    #[arg(long)]
    pub(crate) paper: bool,
    /// Method that gives every label a p-value [default of `fit`: posterior, or fuse if memory does not suffice]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(crate) method: Option<MethodChoice>,
    /// Use of the calibration points [default of `fit`: reuse with the method dance, full with the others]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) calibration: Option<CalibrationChoice>,
    /// Guarantee for groups of classes; without it, for all points together. Needs full calibration; fuse has only
    /// `each`
    #[arg(long, value_enum, value_name = "CLASSES")]
    pub(crate) by_class: Option<ByClassChoice>,
    /// Let sets contain "a new label": the guarantee then includes labels that no point of the model has. Needs full
    /// calibration
    #[arg(long)]
    pub(crate) new_labels: bool,
    /// Neighbors of the rank score [default of `fit`: 100]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) rank_neighbors: Option<usize>,
    /// Neighbors of the contrastive score [default of `fit`: 50]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) contrast_neighbors: Option<usize>,
    /// Temperature of the contrastive score [default of `fit`: 0.01]
    #[arg(long, value_name = "X", value_parser = parse::positive, allow_hyphen_values = true)]
    pub(crate) temperature: Option<f64>,
    /// Share of alpha for the contrastive score, with the method dance: `auto`, or 0 (k-NN set) to 1 (CLR set)
    /// [default of `fit`: auto]
    #[arg(long, value_name = "auto|X", value_parser = parse::mix)]
    pub(crate) mix: Option<Mix>,
}

impl MethodOptions {
    /// Returns `config` with the options that were given. Another method or calibration drops the settings that depend
    /// on it.
    pub(crate) fn apply(&self, config: ConformalConfig, seed: u64) -> ConformalConfig {
        let mut config = if self.paper { ConformalConfig::paper() } else { config };
        if self.method.is_some() || self.calibration.is_some() {
            config = config.by_class(ByClass::All).new_labels(false);
        }
        if let Some(method) = self.method {
            config = config.with_method(method.into()).mix(Mix::Auto).tie_noise(0.0);
            config.calibration = None;
        }
        if let Some(calibration) = self.calibration {
            config = config.with_calibration(calibration.into());
        }
        config
            .by_class(self.by_class.map_or(config.by_class, ByClass::from))
            .new_labels(self.new_labels || config.new_labels)
            .rank_neighbors(self.rank_neighbors.unwrap_or(config.rank_neighbors))
            .contrast_neighbors(self.contrast_neighbors.unwrap_or(config.contrast_neighbors))
            .temperature(self.temperature.unwrap_or(config.temperature))
            .mix(self.mix.unwrap_or(config.mix))
            .seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: MethodOptions = MethodOptions {
        paper: false,
        method: None,
        calibration: None,
        by_class: None,
        new_labels: false,
        rank_neighbors: None,
        contrast_neighbors: None,
        temperature: None,
        mix: None,
    };

    #[test]
    fn what_is_not_given_stays_and_another_method_starts_afresh() {
        let before = ConformalConfig::default()
            .with_method(MethodName::Posterior)
            .with_calibration(Calibration::Full)
            .by_class(ByClass::Each)
            .new_labels(true)
            .seed(7);
        assert_eq!(NONE.apply(before, 7), before);
        let dance = MethodOptions { method: Some(MethodChoice::Dance), ..NONE }.apply(before, 7);
        assert_eq!(dance, ConformalConfig::default().with_method(MethodName::Dance).seed(7));
        let split = MethodOptions { calibration: Some(CalibrationChoice::Split), ..NONE }.apply(before, 7);
        assert_eq!((split.method, split.calibration), (Some(MethodName::Posterior), Some(Calibration::Split)));
        assert_eq!((split.by_class, split.new_labels), (ByClass::All, false));
        let paper = MethodOptions { paper: true, mix: Some(Mix::Fixed(0.2)), ..NONE }.apply(before, 3);
        assert_eq!(paper, ConformalConfig::paper().mix(Mix::Fixed(0.2)).seed(3));
    }
}
