//! The settings of a stack, learned from the fit points: its experts with their settings and weights, and the class
//! offsets. The memory that a stack needs follows from them and is checked before it is allocated.

use serde::{Deserialize, Serialize};

use crate::device::{Cpu, Device, most_that_fit};
use crate::error::{Error, Result, human_bytes};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;
use crate::posterior::expert::ROWS;
use crate::posterior::ridge::{LANDMARKS, WHOLE};
use crate::scores::calibration::Clusters;

/// The largest absolute class offset. An offset is subtracted from scores, so it is a difference of log probabilities.
pub(super) const MOST_OFFSET: f64 = 30.0;

/// The settings of one expert, with its weight in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "expert", rename_all = "lowercase")]
pub(crate) enum ExpertSettings {
    /// An expert by class means. The log posterior of a class is the negative squared distance of the point to the
    /// class mean in the whitened space.
    Prototypes {
        /// The weight of the expert in the stack.
        weight: f64,
        /// The shrinkage γ: the share of the covariance that is replaced by a multiple of the identity.
        shrinkage: f64,
        /// The prior weight κ: every class mean is computed with κ further points at the mean of all fit points.
        prior: f64,
    },
    /// An expert by kernel ridge regression on one-hot labels.
    Ridge {
        /// The weight of the expert in the stack.
        weight: f64,
        /// The space of the kernel: `raw`, `white` or `learned`.
        space: Space,
        /// The bandwidth of the kernel: a distance in the space of the kernel.
        bandwidth: f64,
        /// The shape of the kernel: 0.5 is Gaussian, 1 is Laplace.
        shape: f64,
        /// The ridge ρ, which is added to the diagonal of the kernel matrix.
        ridge: f64,
        /// The softness s of the link function. It maps outputs well above s to about their logarithms, and outputs
        /// below 0 linearly.
        softness: f64,
    },
    /// An expert by the distance to the nearest point of every class in the learned metric.
    Nearest {
        /// The weight of the expert in the stack.
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
pub(crate) enum Space {
    /// Normalised embeddings, or their directions from the mean of the fit points if the stack is centred.
    Raw,
    /// The raw space, mapped so that the covariance within classes is the identity, up to shrinkage.
    White,
    /// Normalised embeddings mapped by the learned metric of the kernel machine.
    Learned,
}

impl ExpertSettings {
    /// Returns the weight of the expert in the stack.
    pub(crate) fn weight(&self) -> f64 {
        match *self {
            Self::Prototypes { weight, .. } | Self::Ridge { weight, .. } | Self::Nearest { weight, .. } => weight,
        }
    }

    /// Returns whether the expert uses the whitened space.
    pub(crate) fn is_white(&self) -> bool {
        self.uses(Space::White)
    }

    /// Returns whether all numbers are in the ranges that a fit can produce.
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

/// The settings of a stack of experts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StackSettings {
    /// The settings of the experts whose weight is above 0.
    pub(crate) experts: Vec<ExpertSettings>,
    /// True if the raw and the whitened space hold directions of points from the mean of the fit points.
    pub(crate) centred: bool,
    /// The matrix that maps points from the raw space to the whitened space; `None` if no expert uses the whitened
    /// space. It has one row and one column per dimension.
    pub(crate) whitening: Option<Matrix>,
    /// The mean log loss of the stack on fit points that its experts were not trained on.
    pub(crate) log_loss: f64,
    /// Clusters of classes of similar difficulty, for a guarantee in every cluster.
    pub(crate) clusters: Clusters,
    /// The offset of every class: the number that is subtracted from its scores. Classes beyond the end of the list
    /// have offset 0.
    pub(crate) offsets: Vec<f64>,
    /// The largest number of training points for which kernel ridge regression uses no landmarks.
    pub(crate) whole: usize,
    /// The seed of the random choice of landmarks.
    pub(crate) seed: u64,
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

    /// Returns whether there are at most `classes` class offsets, all in the range that a fit can produce.
    pub(crate) fn offsets_are_valid(&self, classes: usize) -> bool {
        self.offsets.len() <= classes && self.offsets.iter().all(|off| off.abs() <= MOST_OFFSET)
    }

    /// Returns the offset of a class, which is subtracted from its scores.
    pub(super) fn offset(&self, class: usize) -> f64 {
        self.offsets.get(class).copied().unwrap_or(0.0)
    }
}

/// The numbers of points, dimensions and classes of a stack, from which its memory follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) fit: usize,
    /// The number of calibration points on which experts are trained.
    pub(super) bag: usize,
    pub(super) dimensions: usize,
    pub(super) classes: usize,
}

/// Returns an error if training the stack needs more memory than this machine has free. Without knowledge of the free
/// memory, there is no error.
pub(super) fn check_stack_memory(settings: &StackSettings, size: Size) -> Result<()> {
    let needed = bytes(settings, size);
    match Cpu.free_bytes() {
        Some(limit) if needed > limit => Err(refusal(settings, size, limit)),
        _ => Ok(()),
    }
}

/// Returns an error if a stack of all experts would need more memory than this machine has free. `fit` and `bag` are
/// the numbers of fit points and of calibration points.
pub(crate) fn check_memory(fit: usize, bag: usize, dimensions: usize, classes: usize) -> Result<()> {
    let ridge =
        |space| ExpertSettings::Ridge { weight: 1.0, space, bandwidth: 1.0, shape: 0.5, ridge: 1.0, softness: 1.0 };
    let experts = vec![
        ExpertSettings::Prototypes { weight: 1.0, shrinkage: 0.5, prior: 1.0 },
        ridge(Space::Raw),
        ridge(Space::White),
        ridge(Space::Learned),
        ExpertSettings::Nearest { weight: 1.0, floor: 0.1, ceiling: 1.0 },
    ];
    let settings = StackSettings::new(experts, None, 1.0, Clusters::default(), 0);
    check_stack_memory(&settings, Size { fit, bag, dimensions, classes })
}

fn refusal(settings: &StackSettings, size: Size, limit: u64) -> Error {
    let fits = most_that_fit(size.bag, |bag| bytes(settings, Size { bag, ..size }) <= limit);
    Error::Memory {
        what: format!("the posterior's tables of {} calibration points in {} classes", size.bag, size.classes),
        needed: bytes(settings, size),
        limit,
        hint: format!(
            "Calibrate on fewer points (about {fits} would fit in {}), or with the method fuse, which keeps no table \
             of points and classes",
            human_bytes(limit)
        ),
    }
}

/// Returns the peak memory, in bytes, while a stack of this size is trained. The tables hold numbers in f64, except
/// where a comment names f32.
pub(super) fn bytes(settings: &StackSettings, Size { fit, bag, dimensions: d, classes: c }: Size) -> u64 {
    let n = fit + bag;
    // The points in three spaces, the stack's log posteriors of the calibration points, and the shares of labels in
    // f32.
    let shared = 3 * n * d + 3 * bag * c / 2;
    let landmarks = if n <= settings.whole || fit == 0 { n } else { fit.min(LANDMARKS) };
    let mut kept = 0;
    let mut passing = 0;
    for expert in &settings.experts {
        kept += bag * c
            + match expert {
                // The calibration points once more, and their squared distances to the class means in f32.
                ExpertSettings::Prototypes { .. } => bag * d + bag * c / 2,
                ExpertSettings::Nearest { .. } => {
                    passing = passing.max(n * bag.min(ROWS));
                    n * d + bag * c / 2
                }
                ExpertSettings::Ridge { .. } => {
                    // Features and solutions of all points, and the rows of the calibration points twice while they are
                    // packed.
                    passing = passing.max(2 * n * landmarks + 2 * bag * landmarks + 3 * landmarks * landmarks);
                    // The outputs of the calibration points in addition to their log posteriors, and slopes in f32.
                    landmarks * (bag + landmarks + d + c) + bag * c * 3 / 2
                }
            };
    }
    8 * (shared + kept + passing) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LARGE: Size = Size { fit: 20_000, bag: 20_000, dimensions: 512, classes: 1000 };

    fn settings() -> StackSettings {
        let nearest = ExpertSettings::Nearest { weight: 1.0, floor: 0.1, ceiling: 1.0 };
        StackSettings::new(vec![nearest], None, 1.0, Clusters::default(), 0)
    }

    /// With 1,000 classes, a stack needs three tables of points and classes more than without classes. A table of
    /// 20,000 points and 1,000 classes has 160 MB in f64. The stack stores 1.5 such tables, and its only expert another
    /// 1.5.
    #[test]
    fn a_table_of_points_and_classes_is_counted() {
        let [with, without] = [1000, 0].map(|classes| bytes(&settings(), Size { classes, ..LARGE }));
        assert_eq!(with - without, 8 * 20_000 * 1000 * 3);
    }

    #[test]
    fn a_stack_that_does_not_fit_is_refused_with_the_size_that_does() {
        let settings = settings();
        let needed = bytes(&settings, LARGE);
        let Error::Memory { needed: reported, hint, .. } = refusal(&settings, LARGE, needed - 1) else { panic!() };
        assert_eq!(reported, needed);
        assert!(hint.contains("about 19999 would fit") && hint.contains("fuse"), "{hint}");
        assert!(check_stack_memory(&settings, Size { bag: 1 << 32, ..LARGE }).is_err() || Cpu.free_bytes().is_none());
    }
}
