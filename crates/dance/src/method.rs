//! The settings of the prediction sets, and the methods that they describe.
//!
//! A method gives every label of a query a p-value. The prediction set at error level α holds the labels whose p-value
//! exceeds α.
//!
//! | method | nonconformity score of a label | calibration |
//! |---|---|---|
//! | **posterior** (default) | `-ln p(y)`, for the probability p(y) of label y by a stack of experts | full or split |
//! | **fuse** | rank, contrastive score and class probability in one number | full |
//! | **dance** (the paper) | rank and contrastive score, each with its own share of α | reuse or split |
//!
//! - **full** conformal prediction: the query is added to the calibration points under each candidate label. All other
//!   points score every point of this *bag*. The set C holds the true label y with probability `P(y ∈ C) ≥ 1-α` in
//!   finite samples.
//! - **split** conformal prediction: scores come from the fit points, and the calibration points only give thresholds.
//!   The guarantee is that of full conformal prediction.
//! - **reuse** (the paper's main tables): calibration points are each other's neighbors. This is a heuristic.
//!
//! A [`ConformalConfig`] holds names and numbers that may contradict each other. [`ConformalConfig::check`] refuses
//! contradictions, and so does every fit before it begins.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::setters::setters;

/// The classes for which the guarantee holds: all together, each cluster of classes, or each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByClass {
    /// All classes together: the guarantee is on the average over all points (marginal coverage).
    #[default]
    All,
    /// All classes together. In addition, class offsets of the scores bring the coverage of the classes closer to each
    /// other.
    Balanced,
    /// Every cluster of classes of similar difficulty by itself (Mondrian conformal prediction).
    Clusters,
    /// Every class by itself (Mondrian conformal prediction).
    Each,
}

/// The name of a method; the [module](self) describes all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodName {
    /// The score of a label is `-ln` of its probability, which a stack of experts predicts (module `posterior`).
    #[default]
    Posterior,
    /// One score of a label combines its rank, its contrastive score and its class probability.
    Fuse,
    /// The paper's DANCE: a label must pass both a rank threshold and a contrastive threshold.
    Dance,
}

/// The role of the calibration points: full, split or reuse. The [module](self) compares the three.
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

/// The mix (λ in the paper): the contrastive score's share of the error level α in the method dance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mix {
    /// A part of the calibration points selects the mix, separately for each α.
    #[default]
    Auto,
    /// One mix for every α, from 0 to 1. The mix 0 gives the paper's k-NN set, and 1 its CLR set.
    Fixed(f64),
}

const MIX: &str = "`auto` or a number from 0 (k-NN set) to 1 (CLR set)";

/// Writes a mix as the text `auto` or as a number.
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

/// Implements `Display` for enums: writes the name of the variant in lower case, as in model files.
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

/// The settings of the prediction sets, as users write them. [`check`](Self::check) finds settings that contradict each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConformalConfig {
    /// The method that scores labels. `None` chooses the method posterior, or the method fuse if the tables of the
    /// method posterior do not fit into memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MethodName>,
    /// The role of the calibration points. `None` chooses reuse for the method dance, and full for the methods
    /// posterior and fuse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The classes for which the guarantee holds: all together, each cluster of classes, or each class.
    pub by_class: ByClass,
    /// If true, sets may hold "a new label", which is a label that no other point has. The guarantee then includes
    /// queries with a new label.
    pub new_labels: bool,
    /// The mix: the share of the error level α that the contrastive score gets in the method dance.
    pub mix: Mix,
    /// The number of neighbors that the rank score uses, at least 1.
    pub rank_neighbors: usize,
    /// The number of neighbors that the contrastive score uses, at least 1.
    pub contrast_neighbors: usize,
    /// The temperature of the contrastive score, by which distances are divided. It is above 0.
    pub temperature: f64,
    /// The width ε of the noise that breaks ties of ranks in the method dance: at least 0 and below 1. The noise is
    /// uniform between 0 and ε, so with 0 ranks stay tied.
    pub tie_noise: f64,
    /// The seed of all random choices that calibration makes.
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

// Alternatives to dropping a setting that contradicts another one.
const DANCE: &str = ", or choose `method` = dance";
const POSTERIOR: &str = ", or choose `method` = posterior";
const FULL: &str = ", or choose `calibration` = full";

impl ConformalConfig {
    /// Returns the settings of the paper: the method dance with reuse.
    pub fn paper() -> Self {
        Self::default().with_method(MethodName::Dance)
    }

    /// Sets the method.
    #[must_use]
    pub fn with_method(mut self, method: MethodName) -> Self {
        self.method = Some(method);
        self
    }

    /// Sets the role of the calibration points, which is full, split or reuse.
    #[must_use]
    pub fn with_calibration(mut self, calibration: Calibration) -> Self {
        self.calibration = Some(calibration);
        self
    }

    /// Returns an error if a number is out of range, or if two settings contradict each other. The error names the
    /// number or the two settings.
    pub fn check(&self) -> Result<()> {
        self.method().map(drop)
    }

    /// Returns the method that the settings describe, or the error of [`check`](Self::check).
    pub(crate) fn method(&self) -> Result<Method> {
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
            (MethodName::Dance, Calibration::Split | Calibration::Reuse) => {
                Method::Dance(DanceMethod { scores, reuse: calibration == Calibration::Reuse, mix, tie_noise })
            }
            (MethodName::Posterior | MethodName::Fuse, Calibration::Reuse)
            | (MethodName::Fuse, Calibration::Split)
            | (MethodName::Dance, Calibration::Full) => {
                return Err(conflict("calibration", calibration, "method", name, ""));
            }
        })
    }

    /// Returns the settings of the neighbor scores, or an error if a number is out of range.
    fn scores(&self) -> Result<NeighborScores> {
        let Self { rank_neighbors, contrast_neighbors, temperature, seed, .. } = *self;
        for (name, value) in [("rank_neighbors", rank_neighbors), ("contrast_neighbors", contrast_neighbors)] {
            if value == 0 {
                return Err(Error::config(name, value, "at least 1"));
            }
        }
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(Error::config("temperature", temperature, "a positive number, such as 0.01"));
        }
        Ok(NeighborScores { rank_neighbors, contrast_neighbors, temperature, seed })
    }

    /// Returns an error if a setting is given that the method `name` does not use with this `calibration`. Also checks
    /// the ranges of `mix` and `tie_noise`.
    fn check_unused(&self, name: MethodName, calibration: Calibration) -> Result<()> {
        match self.mix {
            Mix::Fixed(mix) if !(0.0..=1.0).contains(&mix) => return Err(Error::config("mix", mix, MIX)),
            Mix::Fixed(mix) if name != MethodName::Dance => {
                return Err(conflict("mix", mix, "method", name, DANCE));
            }
            Mix::Fixed(_) | Mix::Auto => {}
        }
        if !(0.0..1.0).contains(&self.tie_noise) {
            return Err(Error::config("tie_noise", self.tie_noise, "at least 0 and below 1"));
        }
        if self.tie_noise > 0.0 && name != MethodName::Dance {
            return Err(conflict("tie_noise", self.tie_noise, "method", name, DANCE));
        }
        // `by_class` and `new_labels` need full calibration, and the method fuse supports only two values of
        // `by_class`.
        let by_class = self.by_class;
        let is_grouped = matches!(by_class, ByClass::Balanced | ByClass::Clusters);
        match name {
            MethodName::Dance if by_class != ByClass::All => {
                Err(conflict("by_class", by_class, "method", name, POSTERIOR))
            }
            MethodName::Fuse if is_grouped => Err(conflict("by_class", by_class, "method", name, POSTERIOR)),
            _ if by_class != ByClass::All && calibration != Calibration::Full => {
                Err(conflict("by_class", by_class, "calibration", calibration, FULL))
            }
            MethodName::Dance if self.new_labels => Err(conflict("new_labels", true, "method", name, POSTERIOR)),
            _ if self.new_labels && calibration != Calibration::Full => {
                Err(conflict("new_labels", true, "calibration", calibration, FULL))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the error that `setting` contradicts the setting `other`. Its advice is to drop `setting`, followed by the
/// text `alternative`, which may be empty.
fn conflict(
    setting: &'static str,
    value: impl std::fmt::Display,
    other: &'static str,
    other_value: impl std::fmt::Display,
    alternative: &'static str,
) -> Error {
    Error::Conflict { setting, value: value.to_string(), other, other_value: other_value.to_string(), alternative }
}

/// The settings of the rank score and the contrastive score, whose ranges are already checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NeighborScores {
    pub(crate) rank_neighbors: usize,
    pub(crate) contrast_neighbors: usize,
    pub(crate) temperature: f64,
    /// The seed of two kinds of random numbers: keys that order points at equal distances, and noise that breaks ties
    /// of ranks.
    pub(crate) seed: u64,
}

/// A method whose settings agree with each other. Each variant holds what the method uses and nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Method {
    Posterior(PosteriorMethod),
    Fuse(FuseMethod),
    Dance(DanceMethod),
}

/// The settings of the method posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PosteriorMethod {
    pub(crate) calibration: PosteriorCalibration,
    /// The number of neighbors that are found for each query. They are listed in support of the labels in its set.
    pub(crate) neighbors: usize,
}

/// The role of the calibration points in the method posterior: full or split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PosteriorCalibration {
    /// The experts are trained on the fit points and the calibration points, and each query is added to these points.
    /// The guarantee holds for the classes that `by_class` names. If `new_labels` is true, sets may hold a new label.
    Full { by_class: ByClass, new_labels: bool },
    /// The experts are trained on the fit points alone. The calibration points only give the threshold.
    Split,
}

/// The settings of the method fuse, which always uses full calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FuseMethod {
    pub(crate) scores: NeighborScores,
    /// If true, the guarantee holds for every class by itself.
    pub(crate) each_class: bool,
    /// If true, sets may hold "a new label", which no other point has.
    pub(crate) new_labels: bool,
}

/// The settings of the method dance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DanceMethod {
    pub(crate) scores: NeighborScores,
    /// If true, neighbors are found among the calibration points. If false (split calibration), they are found among
    /// the fit points. Then a random half of the calibration points selects the mix, unless the mix is fixed.
    pub(crate) reuse: bool,
    pub(crate) mix: Mix,
    /// The width of the random noise that breaks ties of ranks. With 0, ranks stay tied.
    pub(crate) tie_noise: f64,
}

const SPLIT_OR_FULL: &str =
    "P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows";
const REUSE: &str = "heuristic: calibration points serve as each other's neighbors";
const NEW_LABELS: &str = "P(label in set) >= 1 - alpha in finite samples, for exchangeable points; \
                          a new label is in a set that says so";

impl Method {
    pub(crate) fn name(&self) -> MethodName {
        match self {
            Self::Posterior(_) => MethodName::Posterior,
            Self::Fuse(_) => MethodName::Fuse,
            Self::Dance(_) => MethodName::Dance,
        }
    }

    pub(crate) fn calibration(&self) -> Calibration {
        match self {
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Full { .. }, .. }) | Self::Fuse(_) => {
                Calibration::Full
            }
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Split, .. })
            | Self::Dance(DanceMethod { reuse: false, .. }) => Calibration::Split,
            Self::Dance(DanceMethod { reuse: true, .. }) => Calibration::Reuse,
        }
    }

    /// Returns the classes for which the guarantee of this method holds.
    pub(crate) fn by_class(&self) -> ByClass {
        match *self {
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Full { by_class, .. }, .. }) => {
                by_class
            }
            Self::Fuse(FuseMethod { each_class: true, .. }) => ByClass::Each,
            Self::Posterior(_) | Self::Fuse(_) | Self::Dance(_) => ByClass::All,
        }
    }

    /// Returns whether prediction sets may hold "a new label", which no other point has.
    pub(crate) fn new_labels(&self) -> bool {
        match *self {
            Self::Posterior(PosteriorMethod { calibration: PosteriorCalibration::Full { new_labels, .. }, .. })
            | Self::Fuse(FuseMethod { new_labels, .. }) => new_labels,
            Self::Posterior(_) | Self::Dance(_) => false,
        }
    }

    /// Returns the guarantee as a sentence for outputs.
    pub(crate) fn guarantee(&self) -> String {
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

#[cfg(test)]
mod tests;
