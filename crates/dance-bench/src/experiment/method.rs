//! Methods that an experiment compares: their names on the command line, in tables and in result files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use dance::conformal::{Calibration, ConformalConfig, MethodName, Mix};
use dance::{Error, Result};

/// A method. Scores of probabilities draw a seeded u; methods named `…-deterministic` have u = 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // see the titles below
pub enum Method {
    Dance,
    KnnSet,
    ClrSet,
    DanceSplit,
    Fuse,
    Posterior,
    PosteriorSplit,
    DeepKnn,
    Confine,
    Lac,
    Aps,
    Raps,
    Saps,
    ApsDeterministic,
    RapsDeterministic,
    SapsDeterministic,
    LogisticRegression,
    ClassWise,
    Clustered,
    Rc3p,
    Pas,
    InterpQ,
    PasInterpQ,
    Fca,
    NcpRaps,
    ConfOtAps,
    ConfOtRaps,
}

/// Name, title and guarantee of every method, in the order of the tables.
const METHODS: [(Method, &str, &str, &str); 27] = [
    (Method::Dance, "dance", "DANCE", HEURISTIC),
    (Method::KnnSet, "knn-set", "k-NN Set", HEURISTIC),
    (Method::ClrSet, "clr-set", "CLR Set", HEURISTIC),
    (Method::DanceSplit, "dance-split", "DANCE (split)", MARGINAL),
    (Method::Fuse, "fuse", "Fuse", MARGINAL),
    (Method::Posterior, "posterior", "Posterior", MARGINAL),
    (Method::PosteriorSplit, "posterior-split", "Posterior (split)", MARGINAL),
    (Method::DeepKnn, "deep-knn", "Deep k-NN", HEURISTIC),
    (Method::Confine, "confine", "CONFINE-style", HEURISTIC),
    (Method::Lac, "lac", "RFM Adapter (LAC)", MARGINAL),
    (Method::Aps, "aps", "RFM Adapter (APS)", MARGINAL),
    (Method::Raps, "raps", "RFM Adapter (RAPS)", MARGINAL),
    (Method::Saps, "saps", "RFM Adapter (SAPS)", MARGINAL),
    (Method::ApsDeterministic, "aps-deterministic", "RFM Adapter (APS, u = 0)", MARGINAL),
    (Method::RapsDeterministic, "raps-deterministic", "RFM Adapter (RAPS, u = 0)", MARGINAL),
    (Method::SapsDeterministic, "saps-deterministic", "RFM Adapter (SAPS, u = 0)", MARGINAL),
    (Method::LogisticRegression, "logistic-regression", "Logistic regression (LAC)", MARGINAL),
    (Method::ClassWise, "class-wise", "Class-wise (LAC)", EACH_CLASS),
    (Method::Clustered, "clustered", "Clustered (LAC)", CLUSTERS),
    (Method::Rc3p, "rc3p", "RC3P (APS)", RANKS),
    (Method::Pas, "pas", "PAS", MARGINAL),
    (Method::InterpQ, "interp-q", "Interp-Q (LAC)", INTERPOLATED),
    (Method::PasInterpQ, "pas-interp-q", "Interp-Q (PAS)", INTERPOLATED),
    (Method::Fca, "fca", "FCA", MARGINAL),
    (Method::NcpRaps, "ncp-raps", "NCP (RAPS)", HEURISTIC),
    (Method::ConfOtAps, "conf-ot-aps", "Conf-OT (APS, transductive)", TRANSDUCTIVE),
    (Method::ConfOtRaps, "conf-ot-raps", "Conf-OT (RAPS, transductive)", TRANSDUCTIVE),
];

const HEURISTIC: &str = "heuristic: calibration points serve as each other's neighbors";
const MARGINAL: &str = "P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows";
const EACH_CLASS: &str = "P(label in set) >= 1 - alpha in finite samples, for every class by itself";
const CLUSTERS: &str = "P(label in set) >= 1 - alpha in finite samples for every cluster of classes; no guarantee for \
                        classes too rare to cluster";
const RANKS: &str =
    "near 1 - alpha for every class: its last rank and its threshold come from the same calibration points";
const INTERPOLATED: &str = "P(label in set) >= 1 - 2 alpha in finite samples, for exchangeable points";
const TRANSDUCTIVE: &str =
    "near 1 - alpha: the transport sees all test points, and the labels of calibration points but not theirs";

impl Method {
    /// Returns every method, in the order of the tables.
    pub fn all() -> Vec<Self> {
        METHODS.iter().map(|entry| entry.0).collect()
    }

    /// Returns the methods of a run by default: the rows of the paper's tables, our methods, and the baselines of
    /// others.
    pub fn usual() -> Vec<Self> {
        let extra = |method: &Self| {
            !matches!(
                method,
                Self::DanceSplit
                    | Self::PosteriorSplit
                    | Self::ClassWise
                    | Self::PasInterpQ
                    | Self::ApsDeterministic
                    | Self::RapsDeterministic
                    | Self::SapsDeterministic
            )
        };
        Self::all().into_iter().filter(extra).collect()
    }

    fn entry(self) -> &'static (Self, &'static str, &'static str, &'static str) {
        &METHODS[self as usize]
    }

    /// Returns its name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Returns its name in tables.
    pub fn title(self) -> &'static str {
        self.entry().2
    }

    /// Returns the name of its class probabilities in tables. Only methods with probabilities of their own have one.
    pub fn posterior(self) -> &'static str {
        match self {
            Self::Posterior => "posterior",
            Self::PosteriorSplit => "posterior (split)",
            Self::LogisticRegression => "logistic regression",
            Self::ConfOtAps | Self::ConfOtRaps => "Conf-OT (transductive)",
            _ => self.title(),
        }
    }

    /// Returns its guarantee, in words.
    pub fn guarantee(self) -> &'static str {
        self.entry().3
    }

    /// Returns the settings of the library's own methods; `None` for baselines.
    pub(crate) fn dance(self, base: ConformalConfig) -> Option<ConformalConfig> {
        // Only the method dance has a mix.
        let (method, calibration, mix) = match self {
            Self::Dance => (MethodName::Dance, Calibration::Reuse, base.mix),
            Self::KnnSet => (MethodName::Dance, Calibration::Reuse, Mix::Fixed(0.0)),
            Self::ClrSet => (MethodName::Dance, Calibration::Reuse, Mix::Fixed(1.0)),
            Self::DanceSplit => (MethodName::Dance, Calibration::Split, base.mix),
            Self::Fuse => (MethodName::Fuse, Calibration::Full, Mix::Auto),
            Self::Posterior => (MethodName::Posterior, Calibration::Full, Mix::Auto),
            Self::PosteriorSplit => (MethodName::Posterior, Calibration::Split, Mix::Auto),
            Self::DeepKnn
            | Self::Confine
            | Self::Lac
            | Self::Aps
            | Self::Raps
            | Self::Saps
            | Self::ApsDeterministic
            | Self::RapsDeterministic
            | Self::SapsDeterministic
            | Self::LogisticRegression
            | Self::ClassWise
            | Self::Clustered
            | Self::Rc3p
            | Self::Pas
            | Self::InterpQ
            | Self::PasInterpQ
            | Self::Fca
            | Self::NcpRaps
            | Self::ConfOtAps
            | Self::ConfOtRaps => return None,
        };
        Some(base.with_method(method).with_calibration(calibration).mix(mix))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = METHODS.iter().find(|entry| entry.1 == text);
        found.map(|entry| entry.0).ok_or_else(|| {
            Error::config(
                "method",
                text,
                "one of dance, knn-set, clr-set, dance-split, fuse, posterior, posterior-split, deep-knn, confine, \
                 lac, aps, raps, saps, aps-deterministic, raps-deterministic, saps-deterministic, \
                 logistic-regression, class-wise, clustered, rc3p, pas, interp-q, pas-interp-q, fca, ncp-raps, \
                 conf-ot-aps, conf-ot-raps",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_everywhere() {
        for (place, entry) in METHODS.iter().enumerate() {
            assert_eq!(entry.0 as usize, place);
            assert_eq!(entry.1.parse::<Method>().unwrap(), entry.0);
            assert_eq!(serde_json::to_string(&entry.0).unwrap(), format!("\"{}\"", entry.1));
        }
        let Err(Error::Config { expected, .. }) = "magic".parse::<Method>() else { panic!("no such method") };
        assert!(METHODS.iter().all(|entry| expected.contains(entry.1)), "{expected}");
    }
}
