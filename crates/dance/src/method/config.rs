//! The settings of the method as users write them, and the check that turns them into a [`Method`].

use serde::{Deserialize, Serialize};

use super::{
    ByClass, Calibration, DanceCalibration, DanceMethod, FuseMethod, MIX, Method, MethodName, Mix, NeighborScores,
    PosteriorCalibration, PosteriorMethod,
};
use crate::error::{Error, Result};
use crate::setters::setters;

// Alternatives to dropping a setting that contradicts another one.
const DANCE: &str = ", or choose `method` = dance";
const POSTERIOR: &str = ", or choose `method` = posterior";
const FULL: &str = ", or choose `calibration` = full";

/// Settings of the method, as users write them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConformalConfig {
    /// The method. `None` is the posterior, or fuse if the posterior needs more memory than there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MethodName>,
    /// The use of calibration points; `None` is reuse for the method dance and full for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The classes for which the guarantee holds.
    pub by_class: ByClass,
    /// If true, sets may hold "a new label", and the guarantee includes points whose label no other point has.
    pub new_labels: bool,
    /// The share of α that the contrastive score gets in the method dance.
    pub mix: Mix,
    /// The number of neighbors that the rank score uses.
    pub rank_neighbors: usize,
    /// The number of neighbors that the contrastive score uses.
    pub contrast_neighbors: usize,
    /// Temperature of the contrastive score.
    pub temperature: f64,
    /// The width ε < 1 of the noise, drawn from U(0,ε), that breaks ties of ranks in the method dance; with 0, ranks
    /// tie.
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

impl ConformalConfig {
    /// Returns the paper's own settings.
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

    /// Returns the method that these settings describe. This is the only check: settings that contradict each other
    /// give an error that names both.
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

    /// Returns an error if a setting is given that the method does not use.
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

/// Returns the error for a setting that contradicts another one.
fn conflict(
    setting: &'static str,
    value: impl std::fmt::Display,
    other: &'static str,
    other_value: impl std::fmt::Display,
    alternative: &'static str,
) -> Error {
    Error::Conflict { setting, value: value.to_string(), other, other_value: other_value.to_string(), alternative }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of settings either gives a method with these settings, or an error that names two settings.
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
                                Err(Error::Conflict { other, .. }) => {
                                    assert!(["method", "calibration"].contains(&other), "{other}");
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

    #[test]
    fn a_contradiction_names_both_settings_and_the_one_to_drop() {
        let message = |config: ConformalConfig| config.method().unwrap_err().to_string();
        let dance = ConformalConfig::paper();
        assert_eq!(
            message(dance.new_labels(true)),
            "`new_labels` = true cannot be used with `method` = dance: drop `new_labels`, \
             or choose `method` = posterior"
        );
        assert_eq!(
            message(dance.with_calibration(Calibration::Full)),
            "`calibration` = full cannot be used with `method` = dance: drop `calibration`"
        );
        assert_eq!(
            message(ConformalConfig::default().with_calibration(Calibration::Split).by_class(ByClass::Each)),
            "`by_class` = each cannot be used with `calibration` = split: drop `by_class`, \
             or choose `calibration` = full"
        );
        assert_eq!(
            message(ConformalConfig::default().mix(Mix::Fixed(0.2))),
            "`mix` = 0.2 cannot be used with `method` = posterior: drop `mix`, or choose `method` = dance"
        );
    }
}
