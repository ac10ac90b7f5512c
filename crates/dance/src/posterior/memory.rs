//! The memory that a stack needs, estimated before it is allocated.

use crate::device::{Cpu, Device, most_that_fit};
use crate::error::{Error, Result, human_bytes};
use crate::posterior::expert::ROWS;
use crate::posterior::ridge::LANDMARKS;
use crate::posterior::settings::{ExpertSettings, Space, StackSettings};
use crate::scores::by_class::Clusters;

/// The numbers of points, dimensions and classes of a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) fit: usize,
    /// The number of calibration points that experts train on.
    pub(super) bag: usize,
    pub(super) dimensions: usize,
    pub(super) classes: usize,
}

/// Returns an error if the stack needs more memory than this machine has free, as far as that is known.
pub(super) fn check(settings: &StackSettings, size: Size) -> Result<()> {
    let needed = bytes(settings, size);
    match Cpu.free_bytes() {
        Some(limit) if needed > limit => Err(refusal(settings, size, limit)),
        _ => Ok(()),
    }
}

/// Returns an error if a stack of all experts would need more memory than this machine has free.
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
    check(&settings, Size { fit, bag, dimensions, classes })
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

/// Returns the peak memory in bytes. Tables hold f64 numbers unless a comment names f32.
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

    /// A table of 20,000 points and 1,000 classes has 160 MB in f64. The stack stores 1.5 such tables, and so does its
    /// only expert.
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
        assert!(check(&settings, Size { bag: 1 << 32, ..LARGE }).is_err() || Cpu.free_bytes().is_none());
    }
}
