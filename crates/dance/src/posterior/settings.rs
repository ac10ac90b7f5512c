//! What the fit part decided: which experts speak, how they are set, and how much each counts.

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;
use crate::posterior::ridge::WHOLE;
use crate::scores::by_class::Clusters;

/// No more is taken off a score: what is less probable by this factor is not to be evened out.
pub(super) const MOST_OFFSET: f64 = 30.0;

/// One expert's settings and its weight in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "expert", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExpertSettings {
    /// Distances to class means where points of a class scatter alike.
    Prototypes {
        /// In the stack.
        weight: f64,
        /// How much of the covariance is replaced by a multiple of the identity.
        shrinkage: f64,
        /// How many points at the mean of all fit points join every class.
        #[serde(default)]
        prior: f64,
        /// The mean squared residual of a new point, in models whose prior is 0.
        spread: f64,
        /// Stands for the squared distance to a class without points, in the same.
        nothing: f64,
    },
    /// Kernel ridge regression.
    Ridge {
        /// In the stack.
        weight: f64,
        /// Where distances are taken: `raw`, `white` or `learned`.
        space: Space,
        /// A distance in that space.
        bandwidth: f64,
        /// 0.5 is the Gaussian kernel, 1 the Laplace kernel.
        shape: f64,
        /// Of the regression.
        ridge: f64,
        /// Below about this, outputs are told as they are, above as logarithms; 0: all of them as they are.
        #[serde(default)]
        softness: f64,
    },
    /// The nearest point of every class in the learned metric.
    Nearest {
        /// In the stack.
        weight: f64,
        /// Squared distances below are taken for this.
        floor: f64,
        /// Squared distances above are taken for this, and that to a class without points.
        ceiling: f64,
    },
}

/// Where an expert compares points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// As the encoder made them, normalised; seen from the mean of the fit points where the stack is centred.
    Raw,
    /// Where points of a class scatter alike.
    White,
    /// Mapped by the metric that the kernel learned.
    Learned,
}

impl ExpertSettings {
    /// The weight in the stack.
    pub fn weight(&self) -> f64 {
        match *self {
            Self::Prototypes { weight, .. } | Self::Ridge { weight, .. } | Self::Nearest { weight, .. } => {
                weight
            }
        }
    }

    /// In words.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prototypes { .. } => "prototypes",
            Self::Ridge { space: Space::Raw, .. } => "kernel ridge",
            Self::Ridge { space: Space::White, .. } => "kernel ridge, whitened",
            Self::Ridge { space: Space::Learned, .. } => "kernel ridge, learned metric",
            Self::Nearest { .. } => "nearest of each class, learned metric",
        }
    }

    /// Whether it looks where points of a class scatter alike.
    pub(crate) fn is_white(&self) -> bool {
        self.uses(Space::White)
    }

    /// Whether a fit can have made it.
    pub(crate) fn is_sound(&self) -> bool {
        let good = |value: f64| value.is_finite() && value >= 0.0;
        good(self.weight())
            && match *self {
                Self::Prototypes { shrinkage, prior, spread, nothing, .. } => {
                    good(shrinkage)
                        && good(spread)
                        && good(nothing)
                        && (prior == 0.0 || (1e-3..1e6).contains(&prior))
                }
                Self::Ridge { bandwidth, shape, ridge, softness, .. } => {
                    let told = softness == 0.0 || (1e-4..1e4).contains(&softness);
                    Kernel::new(bandwidth, shape).is_ok() && ridge.is_finite() && ridge >= 1e-9 && told
                }
                Self::Nearest { floor, ceiling, .. } => {
                    floor > 0.0 && floor <= ceiling && ceiling.is_finite()
                }
            }
    }

    pub(super) fn uses(&self, wanted: Space) -> bool {
        match *self {
            Self::Prototypes { .. } => wanted == Space::White,
            Self::Ridge { space, .. } => wanted == space,
            Self::Nearest { .. } => wanted == Space::Learned,
        }
    }
}

impl StackSettings {
    pub(crate) fn new(
        experts: Vec<ExpertSettings>,
        whitening: Option<Matrix>,
        log_loss: f64,
        clusters: Clusters,
        seed: u64,
    ) -> Self {
        Self {
            experts,
            centred: true,
            whitening,
            log_loss,
            clusters,
            offsets: Vec::new(),
            whole: WHOLE,
            seed,
        }
    }
}

impl StackSettings {
    /// Whether a fit of so many classes, or fewer, can have made the offsets.
    pub(crate) fn offsets_are_sound(&self, classes: usize) -> bool {
        self.offsets.len() <= classes && self.offsets.iter().all(|off| off.abs() <= MOST_OFFSET)
    }

    /// What is taken off the score of a class.
    pub(super) fn offset(&self, class: usize) -> f64 {
        self.offsets.get(class).copied().unwrap_or(0.0)
    }
}

/// A stack of experts, as the fit part set it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StackSettings {
    /// Those that pay, with their weights.
    pub experts: Vec<ExpertSettings>,
    /// Whether points, of length 1, are seen from the mean of the fit points, in the raw space and before they are made white.
    pub centred: bool,
    /// From points to the space in which points of a class scatter alike, d×d; `None` where nobody looks there.
    pub whitening: Option<Matrix>,
    /// The log loss of the stack on fit points that its experts had not seen.
    pub log_loss: f64,
    /// Classes of like difficulty.
    pub clusters: Clusters,
    /// What is taken off the score `-ln p(y)` of every class of the fit; nothing off that of others.
    pub offsets: Vec<f64>,
    /// Most points whose kernel is inverted as it is; more are spanned by landmarks among the fit points.
    pub whole: usize,
    /// Picks the landmarks.
    pub seed: u64,
}
