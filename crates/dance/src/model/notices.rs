//! Warnings about the points on which a model is calibrated.

use crate::conformal::Calibration;
use crate::context::Context;
use crate::data::Kind;
use crate::model::overlap::Overlap;
use crate::neighbors::Neighbors;

/// Warns about calibration points that took part in the fit. With one such point there is no guarantee.
pub(super) fn overlap(overlap: Overlap, points: usize, context: &Context<'_>) {
    let Overlap { fitted, copies } = overlap;
    if fitted > 0 {
        context.warn(format!(
            "{fitted} of the {points} calibration points took part in the fit of the kernel: sets may be too small and \
             cover less than they should. Calibrate on points that took no part in the fit"
        ));
    }
    if copies > 0 {
        context.warn(format!(
            "{copies} of the {points} calibration points are copies of points of the fit, from other rows: coverage \
             holds for new points that repeat old ones as often"
        ));
    }
}

/// The largest distance of a near-copy, as a share of the distance to the tenth neighbor. Fewer than one point in a
/// hundred has a near-copy in data sets of pictures and texts, one in ten in two dimensions, and nearly all points if
/// they come in groups of copies.
const NEAR: f64 = 0.1;
/// The rank of the neighbor with whose distance a near-copy is compared.
const TENTH: usize = 10;
/// The share of points with a near-copy above which there is a warning.
const MANY: f64 = 0.3;

/// Warns if many calibration points have a near-copy among their neighbors: new points, which have none, are covered
/// less.
pub(super) fn near_copies(neighbors: &Neighbors, context: &Context<'_>) {
    let is_near = |row: usize| match neighbors.squared(row) {
        squared if squared.len() < TENTH => false,
        squared => squared[0] < NEAR * NEAR * squared[TENTH - 1],
    };
    let near = (0..neighbors.len()).filter(|&row| is_near(row)).count();
    if near as f64 > MANY * neighbors.len() as f64 {
        context.warn(format!(
            "{near} of the {} calibration points have a near-copy among the others or the fit points. If points come \
             in groups (frames of a video, augmentations of a picture, one patient), state the group of each point: \
             sets cover less if a new point has no copy here",
            neighbors.len()
        ));
    }
}

/// Warns about classes that only the calibration points have, and about classes without a calibration point.
pub(super) fn classes(
    fitted: &[String],
    classes: &[String],
    labels: &[u32],
    calibration: Calibration,
    context: &Context<'_>,
) {
    let new = &classes[fitted.len()..];
    if let Some(first) = new.first() {
        let effect = match calibration {
            Calibration::Reuse | Calibration::Full => "they can be in sets but are never the best label",
            Calibration::Split => "no neighbor carries them, so only a set of every label holds them",
        };
        context.warn(format!(
            "{} of the calibration points' classes were not among the fit data (the first is `{first}`): {effect}",
            new.len()
        ));
    }
    let mut occurs = vec![false; classes.len()];
    for &label in labels {
        occurs[label as usize] = true;
    }
    let missing = occurs.iter().filter(|occurs| !**occurs).count();
    if missing > 0 {
        let effect = match calibration {
            Calibration::Reuse => "no neighbor carries them, so only a set of every label holds them",
            Calibration::Split | Calibration::Full => "the guarantee does not cover them in particular",
        };
        let have = if missing == 1 { "class has" } else { "classes have" };
        context.warn(format!("{missing} {have} no calibration point: {effect}"));
    }
}

/// Warns if labels of the fit and the calibration data are of different kinds and some calibration labels are new: the
/// labels `0` and `False`, for example, are different classes.
pub(super) fn kinds(fit: Kind, calibration: Kind, new: bool, context: &Context<'_>) {
    if new && fit != calibration {
        context.warn(format!(
            "labels are {} in the fit data and {} in the calibration data; they are matched by name",
            fit.plural(),
            calibration.plural()
        ));
    }
}
