//! What a user should know about the points a model is calibrated on.

use std::collections::HashSet;

use crate::conformal::CalibrationMode;
use crate::context::Context;
use crate::matrix::Matrix;

/// Says how many calibration points have fitted the kernel, where copies that happen to be in both do not explain it.
pub(super) fn overlap(train: &Matrix, points: &Matrix, context: &Context<'_>) {
    const SHARE: f64 = 0.1;
    fn bits(matrix: &Matrix, row: usize) -> &[u32] {
        bytemuck::cast_slice(matrix.row(row))
    }
    let known: HashSet<&[u32]> = (0..train.rows()).map(|row| bits(train, row)).collect();
    let seen = (0..points.rows()).filter(|&row| known.contains(bits(points, row))).count();
    if seen as f64 > SHARE * points.rows() as f64 {
        context.warn(format!(
            "{seen} of the {} calibration points are among those that fitted the kernel: sets will be too small and cover \
             less than they should. Calibrate on points the kernel has not seen",
            points.rows()
        ));
    }
}

/// Says what the calibration points have that the kernel lacks, and the other way round.
pub(super) fn classes(
    fitted: &[String],
    classes: &[String],
    labels: &[u32],
    mode: CalibrationMode,
    context: &Context<'_>,
) {
    let new = &classes[fitted.len()..];
    if let Some(first) = new.first() {
        let effect = match mode {
            CalibrationMode::Reuse | CalibrationMode::Exact => {
                "they can be in sets but are never the best label"
            }
            CalibrationMode::Disjoint => "no neighbor carries them, so only a set of every label holds them",
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
            CalibrationMode::Reuse => "no neighbor carries them, so only a set of every label holds them",
            CalibrationMode::Disjoint | CalibrationMode::Exact => {
                "coverage says nothing about them in particular"
            }
        };
        context.warn(format!("{missing} classes have no calibration point: {effect}"));
    }
}
