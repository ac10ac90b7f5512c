//! Settings of DANCE: what the neighbors of a point say about its label (the paper, §3 and appendix A), in three ways of
//! calibrating and three of combining the scores ([`MethodName`]). The paper's own is reuse and union.
//!
//! - **reuse** (the paper's main tables): the calibration points are the reference, each searched leave-one-out. The mix is
//!   selected on a stratified 80/20 split of them, thresholds come from all. Heuristic.
//! - **disjoint** (the paper's appendix D): the points that fitted the kernel are the reference. A random half of the
//!   calibration points selects the mix (80/20 again), the other gives the thresholds: `P(y ∈ C) ≥ 1-α` in finite
//!   samples. The halves are not stratified, since that would make the threshold half differ from a test point in law.
//!   A fixed mix needs no selection, and all calibration points give thresholds.
//! - **exact** (ours): the guarantee of disjoint with all calibration points at work twice, as neighbors and for
//!   p-values, and the points that fitted the kernel as further neighbors. A fifth of those selects the mix.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::setters::setters;

/// Whom the guarantee is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByClass {
    /// All points together.
    #[default]
    All,
    /// All points together, the difference between classes evened out.
    Balanced,
    /// Every cluster of classes.
    Clusters,
    /// Every class.
    Each,
}

/// How the scores are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodName {
    /// Both scores pass, each at its share of α.
    Dance,
    /// One score made of two, at the whole α.
    Joint,
    /// One score made of both and the class probability.
    #[default]
    Fuse,
    /// The posterior of several experts, trained on fit and calibration points: see `posterior`.
    Posterior,
}

/// How the mix is found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mix {
    /// Selected on calibration points, for every α by itself.
    #[default]
    Auto,
    /// Given: 0 is the k-NN set, 1 the CLR set.
    Fixed(f64),
}

impl Mix {
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Fixed(mix) if !(0.0..=1.0).contains(&mix) => {
                Err(Error::config("mix", mix, "`auto` or a number from 0 (k-NN set) to 1 (CLR set)"))
            }
            _ => Ok(()),
        }
    }
}

/// `auto` or a number, in files as on the command line.
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
        let mix = match text {
            "auto" => Self::Auto,
            number => Self::Fixed(number.parse().unwrap_or(f64::NAN)),
        };
        match mix.check() {
            Ok(()) => Ok(mix),
            Err(_) => Err(Error::config("mix", text, "`auto` or a number from 0 (k-NN set) to 1 (CLR set)")),
        }
    }
}

/// Where neighbors come from, and so which guarantee holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calibration {
    /// Among the calibration points themselves, leave-one-out.
    Reuse,
    /// Among the points that fitted the kernel.
    Split,
    /// Among both, the query counted as one of the calibration points.
    #[default]
    Full,
}

impl Calibration {
    /// The guarantee, in words for every output.
    pub fn guarantee(self) -> &'static str {
        match self {
            Self::Reuse => "heuristic: calibration points serve as each other's neighbors",
            Self::Split | Self::Full => {
                "P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows"
            }
        }
    }
}

/// Settings of the method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConformalConfig {
    /// Neighbors the rank score looks at.
    pub rank_neighbors: usize,
    /// Neighbors the contrastive score looks at.
    pub contrast_neighbors: usize,
    /// Temperature of the contrastive score.
    pub temperature: f64,
    /// Share of α that goes to the contrastive score.
    pub mix: Mix,
    /// Where neighbors come from.
    pub calibration: Calibration,
    /// How the scores become one decision.
    pub method: MethodName,
    /// Whom the guarantee is for: all points together, or classes.
    pub by_class: ByClass,
    /// In exact mode, whether sets may hold "none of these", for labels that nobody has.
    pub new_labels: bool,
    /// In exact mode, whether the points that fitted the kernel serve as neighbors too.
    pub fit_neighbors: bool,
    /// Width ε < 1 of the noise U(0,ε) that breaks ties of ranks; 0 leaves them.
    pub tie_noise: f64,
    /// Seed of the splits for the mix, and of the noise.
    pub seed: u64,
}

setters!(ConformalConfig {
    rank_neighbors: usize,
    contrast_neighbors: usize,
    temperature: f64,
    mix: Mix,
    calibration: Calibration,
    method: MethodName,
    by_class: ByClass,
    new_labels: bool,
    fit_neighbors: bool,
    tie_noise: f64,
    seed: u64,
});

impl Default for ConformalConfig {
    fn default() -> Self {
        Self {
            rank_neighbors: 100,
            contrast_neighbors: 50,
            temperature: 0.01,
            mix: Mix::Auto,
            calibration: Calibration::default(),
            method: MethodName::default(),
            by_class: ByClass::default(),
            new_labels: false,
            fit_neighbors: true,
            tie_noise: 0.0,
            seed: 0,
        }
    }
}

impl ConformalConfig {
    /// The paper's own settings.
    pub fn paper() -> Self {
        Self { calibration: Calibration::Reuse, method: MethodName::Dance, ..Self::default() }
    }

    /// The guarantee, in words for every output.
    pub fn guarantee(&self) -> String {
        let of_all = if self.new_labels {
            "P(label in set) >= 1 - alpha in finite samples, for exchangeable points; a label nobody has is in a set that says so"
        } else {
            self.calibration.guarantee()
        };
        match self.by_class {
            ByClass::All | ByClass::Balanced => of_all.into(),
            ByClass::Clusters => format!("{of_all}; for the labels of every cluster of classes by itself"),
            ByClass::Each => format!("{of_all}; for every class by itself"),
        }
    }

    /// How the scores become one decision. With a mix of 0 or 1, union is one score, which may be counted by class like a joint one.
    pub(crate) fn combination(&self) -> MethodName {
        if self.method == MethodName::Dance && self.by_class != ByClass::All {
            MethodName::Joint
        } else {
            self.method
        }
    }

    /// Whether calibration points and queries come with class probabilities of the kernel machine.
    pub(crate) fn asks_probabilities(&self) -> bool {
        self.method == MethodName::Fuse || self.evens_out()
    }

    /// Whether it matters how hard classes are to the kernel machine.
    pub(crate) fn asks_difficulty(&self) -> bool {
        self.method != MethodName::Posterior && matches!(self.by_class, ByClass::Balanced | ByClass::Clusters)
    }

    /// Whether classes are evened out by what the kernel machine says of them.
    fn evens_out(&self) -> bool {
        self.method != MethodName::Posterior && self.by_class == ByClass::Balanced
    }

    pub(crate) fn check(&self) -> Result<()> {
        for (name, value) in
            [("rank_neighbors", self.rank_neighbors), ("contrast_neighbors", self.contrast_neighbors)]
        {
            if value == 0 {
                return Err(Error::config(name, value, "at least 1"));
            }
        }
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(Error::config("temperature", self.temperature, "a positive number, such as 0.01"));
        }
        if !(0.0..1.0).contains(&self.tie_noise) {
            return Err(Error::config("tie_noise", self.tie_noise, "at least 0 and below 1"));
        }
        if self.new_labels && self.calibration != Calibration::Full {
            return Err(Error::config("new_labels", true, "`false` unless calibration is full"));
        }
        let one_score = match self.method {
            MethodName::Fuse | MethodName::Posterior => true,
            MethodName::Joint | MethodName::Dance => matches!(self.mix, Mix::Fixed(0.0 | 1.0)),
        };
        if self.by_class != ByClass::All && !(one_score && self.calibration == Calibration::Full) {
            return Err(Error::config(
                "by_class",
                format!("{:?}", self.by_class).to_lowercase(),
                "`together` unless one score decides in exact mode: `--calibration-mode exact` with `--combine evidence` or `fuse`, or with \
                 `joint` or `union` and `--mix 0` (the rank score alone) or `--mix 1` (the contrastive score alone)",
            ));
        }
        if matches!(self.method, MethodName::Fuse | MethodName::Posterior)
            && let Mix::Fixed(mix) = self.mix
        {
            return Err(Error::config(
                "mix",
                mix,
                "`auto` where there is one score: only union and joint have a mix (`--combine union`)",
            ));
        }
        self.mix.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
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
