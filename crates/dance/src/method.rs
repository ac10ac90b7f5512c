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
//! - **split** conformal prediction: the fit points score, the calibration points only give thresholds. The same guarantee.
//! - **reuse** (the paper's main tables): calibration points are each other's neighbors. Heuristic.
//!
//! [`ConformalConfig`] is what users write: names and numbers that may contradict each other. [`ConformalConfig::method`]
//! is the only check. The [`Method`] that it returns can hold no contradiction.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::setters::setters;

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

/// Settings of the method, as users write them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConformalConfig {
    /// The method; `None` is the posterior, or fuse where the posterior needs more memory than there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MethodName>,
    /// The use of calibration points; `None` is reuse for the method dance and full for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The classes for which the guarantee holds.
    pub by_class: ByClass,
    /// Whether sets may hold "a new label", so that the guarantee counts labels that no point has.
    pub new_labels: bool,
    /// Share of α that the method dance gives the contrastive score.
    pub mix: Mix,
    /// Neighbors that the rank score looks at.
    pub rank_neighbors: usize,
    /// Neighbors that the contrastive score looks at.
    pub contrast_neighbors: usize,
    /// Temperature of the contrastive score.
    pub temperature: f64,
    /// Width ε < 1 of the noise U(0,ε) that breaks ties of ranks in the method dance; 0 leaves ties.
    pub tie_noise: f64,
    /// Seed of every random choice that calibration makes.
    pub seed: u64,
}

setters!(ConformalConfig {
    by_class: ByClass,
    new_labels: bool,
    mix: Mix,
    rank_neighbors: usize,
    contrast_neighbors: usize,
    temperature: f64,
    tie_noise: f64,
    seed: u64,
});

impl Default for ConformalConfig {
    fn default() -> Self {
        Self {
            method: None,
            calibration: None,
            by_class: ByClass::default(),
            new_labels: false,
            mix: Mix::Auto,
            rank_neighbors: 100,
            contrast_neighbors: 50,
            temperature: 0.01,
            tie_noise: 0.0,
            seed: 0,
        }
    }
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
        /// Whether sets may hold a new label.
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
    /// Whether the guarantee holds for every class by itself.
    pub each_class: bool,
    /// Whether sets may hold a new label.
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
const NEW_LABELS: &str = "P(label in set) >= 1 - alpha in finite samples, for exchangeable points; a new label is in a set that says so";

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

    /// Whether sets may hold a new label.
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

impl ConformalConfig {
    /// The paper's own settings.
    pub fn paper() -> Self {
        Self::default().with_method(MethodName::Dance)
    }

    /// Sets the method.
    #[must_use]
    pub fn with_method(mut self, method: MethodName) -> Self {
        self.method = Some(method);
        self
    }

    /// Sets the use of calibration points.
    #[must_use]
    pub fn with_calibration(mut self, calibration: Calibration) -> Self {
        self.calibration = Some(calibration);
        self
    }

    /// Returns the method that these settings ask for. This is the only check: settings that contradict each other are
    /// refused by the names of both.
    pub fn method(&self) -> Result<Method> {
        let scores = self.scores()?;
        let name = self.method.unwrap_or_default();
        let usual = if name == MethodName::Dance { Calibration::Reuse } else { Calibration::Full };
        let calibration = self.calibration.unwrap_or(usual);
        self.check_unused(name, calibration)?;
        let Self { by_class, new_labels, mix, tie_noise, .. } = *self;
        let neighbors = scores.rank_neighbors;
        Ok(match (name, calibration) {
            (MethodName::Posterior, Calibration::Full) => Method::Posterior(PosteriorMethod {
                calibration: PosteriorCalibration::Full { by_class, new_labels },
                neighbors,
            }),
            (MethodName::Posterior, Calibration::Split) => {
                Method::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Split, neighbors })
            }
            (MethodName::Fuse, Calibration::Full) => {
                Method::Fuse(FuseMethod { scores, each_class: by_class == ByClass::Each, new_labels })
            }
            (MethodName::Dance, Calibration::Split) => {
                Method::Dance(DanceMethod { scores, calibration: DanceCalibration::Split, mix, tie_noise })
            }
            (MethodName::Dance, Calibration::Reuse) => {
                Method::Dance(DanceMethod { scores, calibration: DanceCalibration::Reuse, mix, tie_noise })
            }
            (MethodName::Posterior, Calibration::Reuse) => {
                return Err(conflict(
                    "calibration",
                    "reuse",
                    "`full` or `split` with the method `posterior`",
                ));
            }
            (MethodName::Fuse, Calibration::Split) => {
                return Err(conflict("calibration", "split", "`full`, or left out, with the method `fuse`"));
            }
            (MethodName::Fuse, Calibration::Reuse) => {
                return Err(conflict("calibration", "reuse", "`full`, or left out, with the method `fuse`"));
            }
            (MethodName::Dance, Calibration::Full) => {
                return Err(conflict("calibration", "full", "`reuse` or `split` with the method `dance`"));
            }
        })
    }

    /// Returns the settings of the neighbor scores, where their numbers are in range.
    fn scores(&self) -> Result<NeighborScores> {
        let Self { rank_neighbors, contrast_neighbors, temperature, seed, .. } = *self;
        for (name, value) in [("rank_neighbors", rank_neighbors), ("contrast_neighbors", contrast_neighbors)]
        {
            if value == 0 {
                return Err(Error::config(name, value, "at least 1"));
            }
        }
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(Error::config("temperature", temperature, "a positive number, such as 0.01"));
        }
        Ok(NeighborScores { rank_neighbors, contrast_neighbors, temperature, seed })
    }

    /// Refuses settings that the method does not use.
    fn check_unused(&self, name: MethodName, calibration: Calibration) -> Result<()> {
        match self.mix {
            Mix::Fixed(mix) if !(0.0..=1.0).contains(&mix) => return Err(Error::config("mix", mix, MIX)),
            Mix::Fixed(mix) if name != MethodName::Dance => {
                return Err(conflict("mix", mix, "left out: only the method `dance` has a mix"));
            }
            Mix::Fixed(_) | Mix::Auto => {}
        }
        if !(0.0..1.0).contains(&self.tie_noise) {
            return Err(Error::config("tie_noise", self.tie_noise, "at least 0 and below 1"));
        }
        if self.tie_noise > 0.0 && name != MethodName::Dance {
            return Err(conflict(
                "tie_noise",
                self.tie_noise,
                "0: only the method `dance` breaks ties by noise",
            ));
        }
        let word = format!("{:?}", self.by_class).to_lowercase();
        let full = calibration == Calibration::Full;
        match (self.by_class, name) {
            (ByClass::All, _) => {}
            (_, MethodName::Dance) => {
                return Err(conflict("by_class", word, "`all` with the method `dance`; drop one of the two"));
            }
            (ByClass::Balanced | ByClass::Clusters, MethodName::Fuse) => {
                return Err(conflict(
                    "by_class",
                    word,
                    "`all` or `each` with the method `fuse`; drop one of the two",
                ));
            }
            _ if !full => {
                return Err(conflict(
                    "by_class",
                    word,
                    "`all` unless the calibration is `full`; drop one of the two",
                ));
            }
            _ => {}
        }
        if self.new_labels && name == MethodName::Dance {
            return Err(conflict("new_labels", true, "`false` with the method `dance`; drop one of the two"));
        }
        if self.new_labels && !full {
            return Err(conflict(
                "new_labels",
                true,
                "`false` unless the calibration is `full`; drop one of the two",
            ));
        }
        Ok(())
    }
}

/// An error that names both settings of a contradiction.
fn conflict(name: &'static str, value: impl std::fmt::Display, expected: &'static str) -> Error {
    Error::config(name, value, expected)
}

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

    /// Every combination of names either makes a method that says the same, or is refused with two settings named.
    #[test]
    fn settings_agree_or_are_refused() {
        let mut accepted = 0;
        for method in [MethodName::Posterior, MethodName::Fuse, MethodName::Dance] {
            for calibration in [Calibration::Full, Calibration::Split, Calibration::Reuse] {
                for by_class in [ByClass::All, ByClass::Balanced, ByClass::Clusters, ByClass::Each] {
                    for new_labels in [false, true] {
                        for mix in [Mix::Auto, Mix::Fixed(0.2)] {
                            let config = ConformalConfig::default()
                                .with_method(method)
                                .with_calibration(calibration)
                                .by_class(by_class)
                                .new_labels(new_labels)
                                .mix(mix);
                            match config.method() {
                                Ok(found) => {
                                    accepted += 1;
                                    assert_eq!(found.name(), method);
                                    assert_eq!(found.calibration(), calibration);
                                    assert_eq!(found.by_class(), by_class);
                                    assert_eq!(found.new_labels(), new_labels);
                                    let heuristic = found.guarantee().starts_with("heuristic");
                                    assert_eq!(heuristic, calibration == Calibration::Reuse);
                                }
                                Err(Error::Config { expected, .. }) => {
                                    assert!(
                                        ["method", "calibration"].iter().any(|name| expected.contains(name)),
                                        "{expected}"
                                    );
                                }
                                Err(other) => panic!("{other}"),
                            }
                        }
                    }
                }
            }
        }
        // Posterior: 4 × 2 in full and 1 in split; fuse: 2 × 2; dance: 2 × 2 mixes.
        assert_eq!(accepted, 17);
    }
}
