//! What a stack takes of memory, before it takes it.

use crate::device::{Cpu, Device};
use crate::error::{Error, Result, human_bytes};
use crate::posterior::nearest::ROWS;
use crate::posterior::ridge::LANDMARKS;
use crate::posterior::settings::{ExpertSettings, Space, StackSettings};
use crate::scores::by_class::Clusters;

/// The points of a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) fit: usize,
    /// Calibration points that speak.
    pub(super) bag: usize,
    pub(super) dimensions: usize,
    pub(super) classes: usize,
}

/// Refuses a stack that this machine has no room for, where it says what it has.
pub(super) fn check(settings: &StackSettings, size: Size) -> Result<()> {
    let needed = bytes(settings, size);
    match Cpu.free_bytes() {
        Some(limit) if needed > limit => Err(refusal(settings, size, limit)),
        _ => Ok(()),
    }
}

/// Refuses a fit and calibration points for which the largest stack, all experts together, has no room.
pub(crate) fn check_memory(fit: usize, bag: usize, dimensions: usize, classes: usize) -> Result<()> {
    let ridge = |space| ExpertSettings::Ridge {
        weight: 1.0,
        space,
        bandwidth: 1.0,
        shape: 0.5,
        ridge: 1.0,
        softness: 1.0,
    };
    let experts = vec![
        ExpertSettings::Prototypes { weight: 1.0, shrinkage: 0.5, prior: 1.0, spread: 1.0, nothing: 1.0 },
        ridge(Space::Raw),
        ridge(Space::White),
        ridge(Space::Learned),
        ExpertSettings::Nearest { weight: 1.0, floor: 0.1, ceiling: 1.0 },
    ];
    let settings = StackSettings::new(experts, None, 1.0, Clusters::default(), 0);
    check(&settings, Size { fit, bag, dimensions, classes })
}

fn refusal(settings: &StackSettings, size: Size, limit: u64) -> Error {
    let (mut fits, mut too_many) = (0, size.bag);
    while too_many - fits > 1 {
        let middle = usize::midpoint(fits, too_many);
        if bytes(settings, Size { bag: middle, ..size }) <= limit { fits = middle } else { too_many = middle }
    }
    Error::Memory {
        what: format!("evidence of {} calibration points in {} classes", size.bag, size.classes),
        needed: bytes(settings, size),
        limit,
        hint: format!(
            "Calibrate on fewer points (about {fits} would fit in {}), or with --combine fuse, which keeps no table of points and classes",
            human_bytes(limit)
        ),
    }
}

/// Bytes at the peak: all of it in f64 but for what says so.
pub(super) fn bytes(settings: &StackSettings, Size { fit, bag, dimensions: d, classes: c }: Size) -> u64 {
    let n = fit + bag;
    // The points in three spaces; then what experts say of the bag, its sum, and the shares of labels twice in f32.
    let shared = 3 * n * d + 2 * bag * c;
    let landmarks = if n <= settings.whole || fit == 0 { n } else { fit.min(LANDMARKS) };
    let mut kept = 0;
    let mut passing = 0;
    for expert in &settings.experts {
        kept += bag * c
            + match expert {
                // Points again, and the table in f32, label by label.
                ExpertSettings::Prototypes { .. } => bag * d + bag * c / 2,
                ExpertSettings::Nearest { .. } => {
                    passing = passing.max(n * bag.min(ROWS));
                    n * d + bag * c / 2
                }
                ExpertSettings::Ridge { softness, .. } => {
                    // Features and solutions of all points, the part of the bag, and that once more while it is packed.
                    passing =
                        passing.max(2 * n * landmarks + 2 * bag * landmarks + 3 * landmarks * landmarks);
                    // Where outputs are told, they are kept too, and slopes in f32.
                    let told = if *softness > 0.0 { bag * c * 3 / 2 } else { 0 };
                    landmarks * (bag + landmarks + d + c) + told
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

    /// Tables of 20,000 points and 1,000 classes: 160 MB each in f64, and one expert keeps two and a half beside the two and a half of the stack.
    #[test]
    fn a_table_of_points_and_classes_is_counted() {
        let [with, without] = [1000, 0].map(|classes| bytes(&settings(), Size { classes, ..LARGE }));
        assert_eq!(with - without, 8 * 20_000 * 1000 * 7 / 2);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_does() {
        let settings = settings();
        let needed = bytes(&settings, LARGE);
        let Error::Memory { needed: said, hint, .. } = refusal(&settings, LARGE, needed - 1) else {
            panic!()
        };
        assert_eq!(said, needed);
        assert!(hint.contains("about 19999 would fit") && hint.contains("fuse"), "{hint}");
        assert!(check(&settings, Size { bag: 1 << 32, ..LARGE }).is_err() || Cpu.free_bytes().is_none());
    }
}
