//! Methods: how every label of a query gets a p-value.
//!
//! | method | score of a label | calibration |
//! |---|---|---|
//! | **posterior** (default) | `-ln p(y)`, for the probability p(y) that a stack of experts predicts | full or split |
//! | **fuse** | rank, contrastive score and class probability in one number | full |
//! | **dance** (the paper) | rank and contrastive score, each with its own share of α | reuse or split |
//!
//! - **full** conformal prediction: the query is added to the calibration points under each candidate label. Every
//!   point of this *bag* is scored by all others. The set C at error level α holds the true label y with
//!   `P(y ∈ C) ≥ 1-α` in finite samples.
//! - **split** conformal prediction: scores come from the fit points, and the calibration points only give thresholds.
//!   The guarantee is that of full conformal prediction.
//! - **reuse** (the paper's main tables): calibration points are each other's neighbors. This is a heuristic.
//!
//! Users write a [`ConformalConfig`]: names and numbers that may contradict each other. [`ConformalConfig::method`] is
//! the only check, and the [`Method`] that it returns can hold no contradiction.

mod config;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub use config::ConformalConfig;

/// The classes for which the guarantee holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByClass {
    /// All points together (marginal coverage).
    #[default]
    All,
    /// All points together, with class offsets that bring the coverage of classes closer to each other.
    Balanced,
    /// Every cluster of classes of like difficulty (Mondrian).
    Clusters,
    /// Every class (Mondrian).
    Each,
}

/// The name of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodName {
    /// A stack of experts predicts the probability of every label: see [`crate::posterior`].
    #[default]
    Posterior,
    /// Rank, contrastive score and class probability in one score.
    Fuse,
    /// The paper's DANCE: a label must pass both the rank and the contrastive score.
    Dance,
}

/// The mix: the share of α that the contrastive score gets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mix {
    /// The mix is selected on calibration points, separately for each α.
    #[default]
    Auto,
    /// The mix is given: 0 gives the paper's k-NN set, 1 its CLR set.
    Fixed(f64),
}

const MIX: &str = "`auto` or a number from 0 (k-NN set) to 1 (CLR set)";

/// Writes a mix as `auto` or a number, in files as on the command line.
impl Serialize for Mix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(mix) => serializer.serialize_f64(*mix),
        }
    }
}

impl<'de> Deserialize<'de> for Mix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(f64),
            Word(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(mix) => Ok(Self::Fixed(mix)),
            Form::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl std::str::FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(mix) if (0.0..=1.0).contains(&mix) => Ok(Self::Fixed(mix)),
            _ => Err(Error::config("mix", text, MIX)),
        }
    }
}

/// The use of calibration points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calibration {
    /// The query is added to the calibration points (full conformal prediction).
    Full,
    /// The calibration points only give thresholds (split conformal prediction).
    Split,
    /// The calibration points give thresholds and are each other's neighbors (the paper's heuristic).
    Reuse,
}

/// Settings of the rank and the contrastive score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeighborScores {
    /// The number of neighbors that the rank score uses.
    pub rank_neighbors: usize,
    /// The number of neighbors that the contrastive score uses.
    pub contrast_neighbors: usize,
    /// The temperature of the contrastive score.
    pub temperature: f64,
    /// The seed of the random keys and the noise that break ties.
    pub seed: u64,
}

/// A method whose settings agree with each other. Each variant holds what the method uses and nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// A stack of experts predicts the probability of every label.
    Posterior(PosteriorMethod),
    /// Rank, contrastive score and class probability in one score. Every query is added to the calibration points.
    Fuse(FuseMethod),
    /// The paper's DANCE.
    Dance(DanceMethod),
}

/// Settings of the method posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PosteriorMethod {
    /// The use of calibration points.
    pub calibration: PosteriorCalibration,
    /// The number of neighbors that are found for each query, to be shown as support.
    pub neighbors: usize,
}

/// The use that the method posterior makes of calibration points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PosteriorCalibration {
    /// The experts are also trained on the calibration points, and the query is added to them.
    Full {
        /// The classes for which the guarantee holds.
        by_class: ByClass,
        /// If true, sets may hold a new label.
        new_labels: bool,
    },
    /// The experts are trained on the fit points alone, and the calibration points give the threshold.
    Split,
}

/// Settings of the method fuse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FuseMethod {
    /// Settings of the rank and the contrastive score.
    pub scores: NeighborScores,
    /// If true, the guarantee holds for every class separately.
    pub each_class: bool,
    /// If true, sets may hold a new label.
    pub new_labels: bool,
}

/// Settings of the method dance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DanceMethod {
    /// Settings of the rank and the contrastive score.
    pub scores: NeighborScores,
    /// The use of calibration points.
    pub calibration: DanceCalibration,
    /// The share of α that the contrastive score gets.
    pub mix: Mix,
    /// The width of the noise that breaks ties of ranks; with 0, ranks tie.
    pub tie_noise: f64,
}

/// The use of calibration points in the method dance, which decides where neighbors are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DanceCalibration {
    /// Neighbors are found among the calibration points; those of a calibration point among the others.
    Reuse,
    /// Neighbors are found among the fit points. If the mix is not fixed, a random half of the calibration points
    /// selects it.
    Split,
}

const SPLIT_OR_FULL: &str =
    "P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows";
const REUSE: &str = "heuristic: calibration points serve as each other's neighbors";
const NEW_LABELS: &str = "P(label in set) >= 1 - alpha in finite samples, for exchangeable points; \
                          a new label is in a set that says so";

impl Method {
    /// Returns the name of the method.
    pub fn name(&self) -> MethodName {
        match self {
            Self::Posterior(_) => MethodName::Posterior,
            Self::Fuse(_) => MethodName::Fuse,
            Self::Dance(_) => MethodName::Dance,
        }
    }

    /// Returns the use of calibration points.
    pub fn calibration(&self) -> Calibration {
        match self {
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Full { .. }, .. }) | Self::Fuse(_) => {
                Calibration::Full
            }
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Split, .. })
            | Self::Dance(DanceMethod { calibration: DanceCalibration::Split, .. }) => Calibration::Split,
            Self::Dance(DanceMethod { calibration: DanceCalibration::Reuse, .. }) => Calibration::Reuse,
        }
    }

    /// Returns the classes for which the guarantee holds.
    pub fn by_class(&self) -> ByClass {
        match *self {
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Full { by_class, .. }, .. }) => {
                by_class
            }
            Self::Fuse(FuseMethod { each_class: true, .. }) => ByClass::Each,
            Self::Posterior(_) | Self::Fuse(_) | Self::Dance(_) => ByClass::All,
        }
    }

    /// Returns whether sets may hold a new label.
    pub fn new_labels(&self) -> bool {
        match *self {
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Full { new_labels, .. }, .. })
            | Self::Fuse(FuseMethod { new_labels, .. }) => new_labels,
            Self::Posterior(_) | Self::Dance(_) => false,
        }
    }

    /// Returns the guarantee as a sentence for outputs.
    pub fn guarantee(&self) -> String {
        let of_all = match self.calibration() {
            Calibration::Reuse => REUSE,
            _ if self.new_labels() => NEW_LABELS,
            Calibration::Full | Calibration::Split => SPLIT_OR_FULL,
        };
        match self.by_class() {
            ByClass::All | ByClass::Balanced => of_all.into(),
            ByClass::Clusters => format!("{of_all}; for the labels of every cluster of classes by itself"),
            ByClass::Each => format!("{of_all}; for every class by itself"),
        }
    }
}

/// Implements `Display` for enums as their variant in lower case, which files hold.
macro_rules! display_in_lowercase {
    ($($name:ty),+) => {
        $(impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&format!("{self:?}").to_lowercase())
            }
        })+
    };
}
display_in_lowercase!(ByClass, MethodName, Calibration);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read_as_it_is_written() {
        assert_eq!("auto".parse::<Mix>().unwrap(), Mix::Auto);
        assert_eq!("0.3".parse::<Mix>().unwrap(), Mix::Fixed(0.3));
        for bad in ["1.1", "-0.1", "half", "NaN"] {
            assert!(matches!(bad.parse::<Mix>(), Err(Error::Config { .. })), "{bad}");
        }
        for mix in [Mix::Auto, Mix::Fixed(0.5)] {
            let text = serde_json::to_string(&mix).unwrap();
            assert_eq!(serde_json::from_str::<Mix>(&text).unwrap(), mix);
        }
    }
}
