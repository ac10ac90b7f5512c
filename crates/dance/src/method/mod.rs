//! Methods: how every label of a query gets a p-value.
//!
//! | method | score of a label | calibration |
//! |---|---|---|
//! | **posterior** (default) | `-ln p(y)` of a stack of experts trained on every label | full or split |
//! | **fuse** | rank, contrastive score and class probability in one number | full |
//! | **dance** (the paper) | rank and contrastive score, each with its own share of α | reuse or split |
//!
//! - **full** conformal prediction: the query joins the calibration points under each candidate label (*the bag*), and
//!   every point of the bag is scored by all the others. `P(y ∈ C) ≥ 1-α` in finite samples.
//! - **split** conformal prediction: the fit points score, the calibration points only give thresholds. The guarantee is
//!   that of full conformal prediction.
//! - **reuse** (the paper's main tables): calibration points are each other's neighbors. Heuristic.
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
    /// A stack of experts trained on every label: see [`crate::posterior`].
    #[default]
    Posterior,
    /// Rank, contrastive score and class probability in one score.
    Fuse,
    /// The paper's DANCE: a label must pass both the rank and the contrastive score.
    Dance,
}

/// The share of α that the contrastive score gets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mix {
    /// Selected on calibration points, for every α by itself.
    #[default]
    Auto,
    /// A given share: 0 is the paper's k-NN set, 1 its CLR set.
    Fixed(f64),
}

const MIX: &str = "`auto` or a number from 0 (k-NN set) to 1 (CLR set)";

/// Writes `auto` or a number, in files as on the command line.
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

/// The use that is made of calibration points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calibration {
    /// The query joins them (full conformal prediction).
    Full,
    /// They give thresholds and nothing else (split conformal prediction).
    Split,
    /// They give thresholds and are each other's neighbors (the paper's heuristic).
    Reuse,
}

/// Settings of the rank and the contrastive score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeighborScores {
    /// Neighbors that the rank score looks at.
    pub rank_neighbors: usize,
    /// Neighbors that the contrastive score looks at.
    pub contrast_neighbors: usize,
    /// Temperature of the contrastive score.
    pub temperature: f64,
    /// Seed of the keys and the noise that break ties.
    pub seed: u64,
}

/// A method whose settings agree with each other. Each variant holds what the method uses and nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// A stack of experts trained on every label.
    Posterior(PosteriorMethod),
    /// Rank, contrastive score and class probability in one score; the query joins the bag.
    Fuse(FuseMethod),
    /// The paper's DANCE.
    Dance(DanceMethod),
}

/// Settings of the method posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PosteriorMethod {
    /// The use of calibration points.
    pub calibration: PosteriorCalibration,
    /// Neighbors of a query that are found, to be shown as support.
    pub neighbors: usize,
}

/// The use that the method posterior makes of calibration points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PosteriorCalibration {
    /// They train the experts, and the query joins them.
    Full {
        /// The classes for which the guarantee holds.
        by_class: ByClass,
        /// Sets may hold a new label.
        new_labels: bool,
    },
    /// They give the threshold of a posterior that the fit points trained.
    Split,
}

/// Settings of the method fuse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FuseMethod {
    /// Settings of its two neighbor scores.
    pub scores: NeighborScores,
    /// The guarantee holds for every class by itself.
    pub each_class: bool,
    /// Sets may hold a new label.
    pub new_labels: bool,
}

/// Settings of the method dance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DanceMethod {
    /// Settings of its two scores.
    pub scores: NeighborScores,
    /// The points among which neighbors are found.
    pub calibration: DanceCalibration,
    /// Share of α that the contrastive score gets.
    pub mix: Mix,
    /// Width of the noise that breaks ties of ranks; 0 leaves ties.
    pub tie_noise: f64,
}

/// The points among which the method dance finds neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DanceCalibration {
    /// The calibration points, each searched among the others.
    Reuse,
    /// The fit points. A random half of the calibration points selects the mix where it is not fixed.
    Split,
}

const SPLIT_OR_FULL: &str =
    "P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows";
const REUSE: &str = "heuristic: calibration points serve as each other's neighbors";
const NEW_LABELS: &str = "P(label in set) >= 1 - alpha in finite samples, for exchangeable points; \
                          a new label is in a set that says so";

impl Method {
    /// The method's name.
    pub fn name(&self) -> MethodName {
        match self {
            Self::Posterior(_) => MethodName::Posterior,
            Self::Fuse(_) => MethodName::Fuse,
            Self::Dance(_) => MethodName::Dance,
        }
    }

    /// The use that it makes of calibration points.
    pub fn calibration(&self) -> Calibration {
        match self {
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Full { .. }, .. })
            | Self::Fuse(_) => Calibration::Full,
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Split, .. })
            | Self::Dance(DanceMethod { calibration: DanceCalibration::Split, .. }) => Calibration::Split,
            Self::Dance(DanceMethod { calibration: DanceCalibration::Reuse, .. }) => Calibration::Reuse,
        }
    }

    /// The classes for which the guarantee holds.
    pub fn by_class(&self) -> ByClass {
        match *self {
            Self::Posterior(PosteriorMethod {
                calibration: PosteriorCalibration::Full { by_class, .. },
                ..
            }) => by_class,
            Self::Fuse(FuseMethod { each_class: true, .. }) => ByClass::Each,
            Self::Posterior(_) | Self::Fuse(_) | Self::Dance(_) => ByClass::All,
        }
    }

    /// Returns whether sets may hold a new label.
    pub fn new_labels(&self) -> bool {
        match *self {
            Self::Posterior(PosteriorMethod {
                calibration: PosteriorCalibration::Full { new_labels, .. },
                ..
            })
            | Self::Fuse(FuseMethod { new_labels, .. }) => new_labels,
            Self::Posterior(_) | Self::Dance(_) => false,
        }
    }

    /// The guarantee, in words for every output.
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

/// Displays an enum as it is written in files.
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
