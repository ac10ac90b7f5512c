//! The settings of a stack, learned from the fit points: its experts with their settings and weights, and the class
//! offsets.

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;
use crate::posterior::ridge::WHOLE;
use crate::scores::by_class::Clusters;

/// The largest absolute offset of a class, which is a difference of log probabilities.
pub(super) const MOST_OFFSET: f64 = 30.0;

/// One expert's settings and its weight in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "expert", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExpertSettings {
    /// Squared distances to class means in the whitened space.
    Prototypes {
        /// The weight in the stack.
        weight: f64,
        /// The shrinkage γ: the share of the covariance that is replaced by a multiple of the identity.
        shrinkage: f64,
        /// The prior weight κ: every class mean is computed with κ further points at the mean of all fit points.
        prior: f64,
    },
    /// Kernel ridge regression.
    Ridge {
        /// The weight in the stack.
        weight: f64,
        /// The space of the kernel: `raw`, `white` or `learned`.
        space: Space,
        /// The bandwidth of the kernel, a distance in that space.
        bandwidth: f64,
        /// The shape of the kernel: 0.5 is Gaussian, 1 is Laplace.
        shape: f64,
        /// The ridge ρ, which is added to the diagonal of the kernel matrix.
        ridge: f64,
        /// The softness s of the link function, which maps outputs well above s to their logarithms and outputs below 0
        /// linearly.
        softness: f64,
    },
    /// The distance to the nearest point of every class in the learned metric.
    Nearest {
        /// The weight in the stack.
        weight: f64,
        /// The lower limit of squared distances; smaller ones are raised to it.
        floor: f64,
        /// The upper limit of squared distances, which is also the squared distance to a class without points.
        ceiling: f64,
    },
}

/// The space in which an expert compares points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// Normalised embeddings, or their directions from the mean of the fit points if the stack is centred.
    Raw,
    /// The raw space, mapped so that the covariance within classes is the identity, up to shrinkage.
    White,
    /// Normalised embeddings mapped by the learned metric of the kernel machine.
    Learned,
}

impl ExpertSettings {
    /// Returns the weight in the stack.
    pub fn weight(&self) -> f64 {
        match *self {
            Self::Prototypes { weight, .. } | Self::Ridge { weight, .. } | Self::Nearest { weight, .. } => weight,
        }
    }

    /// Returns the expert's name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prototypes { .. } => "prototypes",
            Self::Ridge { space: Space::Raw, .. } => "kernel ridge",
            Self::Ridge { space: Space::White, .. } => "kernel ridge, whitened",
            Self::Ridge { space: Space::Learned, .. } => "kernel ridge, learned metric",
            Self::Nearest { .. } => "nearest of each class, learned metric",
        }
    }

    /// Returns whether the expert uses the whitened space.
    pub(crate) fn is_white(&self) -> bool {
        self.uses(Space::White)
    }

    /// Returns whether all values are in the ranges that a fit can produce.
    pub(crate) fn is_valid(&self) -> bool {
        let good = |value: f64| value.is_finite() && value >= 0.0;
        good(self.weight())
            && match *self {
                Self::Prototypes { shrinkage, prior, .. } => good(shrinkage) && (1e-3..1e6).contains(&prior),
                Self::Ridge { bandwidth, shape, ridge, softness, .. } => {
                    Kernel::new(bandwidth, shape).is_ok()
                        && ridge.is_finite()
                        && ridge >= 1e-9
                        && (1e-4..1e4).contains(&softness)
                }
                Self::Nearest { floor, ceiling, .. } => floor > 0.0 && floor <= ceiling && ceiling.is_finite(),
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
        Self { experts, centred: true, whitening, log_loss, clusters, offsets: Vec::new(), whole: WHOLE, seed }
    }
}

impl StackSettings {
    /// Returns whether there are at most `classes` offsets, all in the range that a fit can produce.
    pub(crate) fn offsets_are_valid(&self, classes: usize) -> bool {
        self.offsets.len() <= classes && self.offsets.iter().all(|off| off.abs() <= MOST_OFFSET)
    }

    /// Returns the offset of a class.
    pub(super) fn offset(&self, class: usize) -> f64 {
        self.offsets.get(class).copied().unwrap_or(0.0)
    }
}

/// The settings of a stack of experts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StackSettings {
    /// The experts with a weight above 0.
    pub experts: Vec<ExpertSettings>,
    /// True if the raw and the whitened space hold directions from the mean of the fit points.
    pub centred: bool,
    /// The d×d matrix that maps the raw space, of d dimensions, to the whitened space; `None` if no expert uses it.
    pub whitening: Option<Matrix>,
    /// The mean log loss of the stack on held-out fit points.
    pub log_loss: f64,
    /// Clusters of classes with similar scores.
    pub clusters: Clusters,
    /// The offset of every class, which is subtracted from its score `-ln p(y)`. Classes beyond the end of the list
    /// have offset 0.
    pub offsets: Vec<f64>,
    /// The largest number of points on which a kernel ridge regression is trained without landmarks.
    pub whole: usize,
    /// The seed of the random choice of landmarks.
    pub seed: u64,
}
