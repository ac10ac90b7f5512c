//! Settings of the kernel, the method and its scores, as options of the command line.

use clap::{Args, ValueEnum};
use dance::Config;
use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName, Mix};

use crate::parse::{self, Range};

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

/// Options of the method that `fit` and `recalibrate` share.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Method")]
pub(crate) struct MethodOptions {
    /// Method that gives every label a p-value [default of `fit`: posterior, or fuse if memory does not suffice]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(crate) method: Option<MethodChoice>,
    /// Use of the calibration points. Change it to compare with the paper, or for faster predictions [default of `fit`:
    /// reuse with the method dance, full with the others]
    #[arg(long, value_enum, value_name = "HOW", hide_short_help = true)]
    pub(crate) calibration: Option<CalibrationChoice>,
    /// Guarantee for groups of classes; without it, for all points together. Needs full calibration; fuse has only
    /// `each`
    #[arg(long, value_enum, value_name = "CLASSES", help_heading = "Guarantee")]
    pub(crate) by_class: Option<ByClassChoice>,
    /// Let sets contain "a new label": the guarantee then includes labels that no point of the model has. Needs full
    /// calibration
    #[arg(long, help_heading = "Guarantee")]
    pub(crate) new_labels: bool,
}

/// Settings of the scores that the methods fuse and dance use: `rank_neighbors=100,mix=auto`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScoreSettings {
    rank_neighbors: Option<usize>,
    contrast_neighbors: Option<usize>,
    temperature: Option<f64>,
    mix: Option<Mix>,
}

impl ScoreSettings {
    /// Parses settings as `NAME=VALUE,…`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for (name, value) in parse::settings(text)? {
            let in_name = |error: String| format!("{name}: {error}");
            match name {
                "rank_neighbors" => found.rank_neighbors = Some(parse::at_least_one(value).map_err(in_name)?),
                "contrast_neighbors" => found.contrast_neighbors = Some(parse::at_least_one(value).map_err(in_name)?),
                "temperature" => found.temperature = Some(parse::positive(value).map_err(in_name)?),
                "mix" => found.mix = Some(parse::mix(value).map_err(in_name)?),
                _ => {
                    let names = "rank_neighbors, contrast_neighbors, temperature, mix";
                    return Err(format!("`{name}` is not a setting of scores; the settings are {names}"));
                }
            }
        }
        Ok(found)
    }

    /// Returns `config` with the settings that were given.
    pub(crate) fn apply(&self, config: ConformalConfig) -> ConformalConfig {
        config
            .rank_neighbors(self.rank_neighbors.unwrap_or(config.rank_neighbors))
            .contrast_neighbors(self.contrast_neighbors.unwrap_or(config.contrast_neighbors))
            .temperature(self.temperature.unwrap_or(config.temperature))
            .mix(self.mix.unwrap_or(config.mix))
    }
}

/// Settings of the kernel: `bandwidth=2,shape=0.5..2`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KernelSettings {
    bandwidth: Option<Range>,
    shape: Option<Range>,
    ridge: Option<f64>,
    rounds: Option<usize>,
}

impl KernelSettings {
    /// Parses settings as `NAME=VALUE,…`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for (name, value) in parse::settings(text)? {
            let in_name = |error: String| format!("{name}: {error}");
            match name {
                "bandwidth" => found.bandwidth = Some(parse::bandwidth(value).map_err(in_name)?),
                "shape" => found.shape = Some(parse::shape(value).map_err(in_name)?),
                "ridge" => found.ridge = Some(parse::not_negative(value).map_err(in_name)?),
                "rounds" => found.rounds = Some(parse::whole(value).map_err(in_name)?),
                _ => {
                    let names = "bandwidth, shape, ridge, rounds";
                    return Err(format!("`{name}` is not a setting of the kernel; the settings are {names}"));
                }
            }
        }
        Ok(found)
    }

    /// Returns `config` with the settings that were given.
    pub(crate) fn apply(&self, mut config: Config) -> Config {
        if let Some(Range(low, high)) = self.bandwidth {
            config.tune.bandwidth = (low, high);
        }
        if let Some(Range(low, high)) = self.shape {
            config.tune.shape = (low, high);
        }
        if let Some(ridge) = self.ridge {
            config = config.ridge(ridge);
        }
        if let Some(rounds) = self.rounds {
            config = config.rounds(rounds);
        }
        config
    }
}

impl MethodOptions {
    /// Returns `config` with the options that were given. Another method or calibration drops the settings that depend
    /// on it.
    pub(crate) fn apply(&self, mut config: ConformalConfig, seed: u64) -> ConformalConfig {
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
            .seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_stays_and_another_method_starts_afresh() {
        let before = ConformalConfig::default()
            .with_method(MethodName::Posterior)
            .with_calibration(Calibration::Full)
            .by_class(ByClass::Each)
            .new_labels(true)
            .seed(7);
        assert_eq!(MethodOptions::default().apply(before, 7), before);
        let dance = MethodOptions { method: Some(MethodChoice::Dance), ..MethodOptions::default() }.apply(before, 7);
        assert_eq!(dance, ConformalConfig::default().with_method(MethodName::Dance).seed(7));
        let split =
            MethodOptions { calibration: Some(CalibrationChoice::Split), ..MethodOptions::default() }.apply(before, 7);
        assert_eq!((split.method, split.calibration), (Some(MethodName::Posterior), Some(Calibration::Split)));
        assert_eq!((split.by_class, split.new_labels), (ByClass::All, false));
    }

    #[test]
    fn settings_of_scores_are_pairs() {
        let config = ConformalConfig::default().with_method(MethodName::Dance);
        let scores = ScoreSettings::parse("rank_neighbors=7, temperature=0.5,mix=0.2").unwrap();
        assert_eq!(scores.apply(config), config.rank_neighbors(7).temperature(0.5).mix(Mix::Fixed(0.2)));
        for (wrong, says) in [
            ("rank_neighbors=0", "rank_neighbors: "),
            ("k=3", "`k` is not a setting"),
            ("mix", "NAME=VALUE"),
            ("mix=0,mix=1", "`mix` is given twice"),
        ] {
            let error = ScoreSettings::parse(wrong).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
