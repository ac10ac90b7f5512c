//! What a user should know about the points a model is calibrated on.

use crate::conformal::Calibration;
use crate::context::Context;
use crate::data::Kind;
use crate::neighbors::Neighbors;

use crate::model::overlap::Overlap;

/// Says how many calibration points took part in the fit: from the first one on, there is no guarantee.
pub(super) fn overlap(overlap: Overlap, points: usize, context: &Context<'_>) {
    let Overlap { fitted, copies } = overlap;
    if fitted > 0 {
        context.warn(format!(
            "{fitted} of the {points} calibration points took part in the fit of the kernel: sets may be too small and \
             cover less than they should. Calibrate on points the kernel has not seen"
        ));
    }
    if copies > 0 {
        context.warn(format!(
            "{copies} of the {points} calibration points are copies of points of the fit, from other rows: coverage \
             holds for new points that repeat old ones as often"
        ));
    }
}

/// A near-copy: nearer than this share of the distance to the tenth neighbor. In data sets of pictures and texts fewer than one point in a
/// hundred has one, in two dimensions one in ten; where points come in groups of copies nearly all have.
const NEAR: f64 = 0.1;
const TENTH: usize = 10;
/// Fewer such points than this share are not worth a word.
const MANY: f64 = 0.3;

/// Says that calibration points come in groups of near-copies, from the neighbors of each: then new points, which have no copy here,
/// are covered less.
pub(super) fn near_copies(neighbors: &Neighbors, context: &Context<'_>) {
    let is_near = |row: usize| match neighbors.squared(row) {
        squared if squared.len() < TENTH => false,
        squared => squared[0] < NEAR * NEAR * squared[TENTH - 1],
    };
    let near = (0..neighbors.len()).filter(|&row| is_near(row)).count();
    if near as f64 > MANY * neighbors.len() as f64 {
        context.warn(format!(
            "{near} of the {} calibration points have a near-copy among the others or the fit points. If points come in groups (frames of \
             a video, augmentations of a picture, one patient), name them with --groups: sets cover less where a new point has \
             no copy here",
            neighbors.len()
        ));
    }
}

/// Says what the calibration points have that the kernel lacks, and the other way round.
pub(super) fn classes(
    fitted: &[String],
    classes: &[String],
    labels: &[u32],
    mode: Calibration,
    context: &Context<'_>,
) {
    let new = &classes[fitted.len()..];
    if let Some(first) = new.first() {
        let effect = match mode {
            Calibration::Reuse | Calibration::Full => "they can be in sets but are never the best label",
            Calibration::Split => "no neighbor carries them, so only a set of every label holds them",
        };
        context.warn(format!(
            "{} of the calibration points' classes were not among the fit data (the first is `{first}`): {effect}",
            new.len()
        ));
    }
    let mut seen = vec![false; classes.len()];
    for &label in labels {
        seen[label as usize] = true;
    }
    let missing = seen.iter().filter(|seen| !**seen).count();
    if missing > 0 {
        let effect = match mode {
            Calibration::Reuse => "no neighbor carries them, so only a set of every label holds them",
            Calibration::Split | Calibration::Full => "coverage says nothing about them in particular",
        };
        let have = if missing == 1 { "class has" } else { "classes have" };
        context.warn(format!("{missing} {have} no calibration point: {effect}"));
    }
}

/// Says that labels of the two parts are written differently, where that may be why some are new: `0` and `False` are two names.
pub(super) fn kinds(fit: Kind, calibration: Kind, new: bool, context: &Context<'_>) {
    if new && fit != calibration {
        context.warn(format!(
            "labels are {} in the fit data and {} in the calibration data; they are matched by name",
            fit.plural(),
            calibration.plural()
        ));
    }
}
