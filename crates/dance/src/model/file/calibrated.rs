//! What calibration points have left in a model file beside their scores.

use super::tensors::Reader;
use crate::conformal::{Calibration, Compared, MixSelection, Reference};
use crate::context::Context;
use crate::error::Result;
use crate::scores::CalibrationScores;
use crate::scores::PairedScores;
use crate::stream::Novelty;

/// How far calibration points are from what is known. Older files do not say: where calibration points are the reference they are
/// asked again, elsewhere they are not kept.
pub(super) fn novelty(
    reader: &Reader<'_>,
    reference: &Reference,
    mode: Calibration,
    context: &Context<'_>,
) -> Result<Option<Novelty>> {
    let name = "calibration_distances";
    if reader.has(name) {
        return reference.novelty_known(reader.scores(name, None)?).map(Some);
    }
    (mode == Calibration::Reuse).then(|| reference.novelty(context)).transpose()
}

/// What the mix is selected on, where it is.
pub(super) fn selection(
    reader: &Reader<'_>,
    classes: usize,
    mode: Calibration,
) -> Result<Option<MixSelection>> {
    if !reader.has("tuning_offsets") {
        return Ok(None);
    }
    let rank = reader.scores("tuning_rank_scores", None)?;
    let contrast = reader.scores("tuning_contrast_scores", Some(rank.len()))?;
    let labels = reader.labels("tuning_labels", None, classes)?;
    let offsets = reader.offsets("tuning_offsets", labels.len())?;
    let ascending = offsets.windows(2).all(|ends| labels[ends[0]..ends[1]].is_sorted_by(|a, b| a < b));
    if !ascending {
        return Err(reader.problem("`tuning_labels` do not ascend within a point"));
    }
    let points = offsets.len() - 1;
    Ok(Some(MixSelection {
        rank: CalibrationScores::new(rank)?,
        contrast: CalibrationScores::new(contrast)?,
        scores: PairedScores {
            rank: reader.scores("tuning_label_rank_scores", Some(labels.len()))?,
            contrast: reader.scores("tuning_label_contrast_scores", Some(labels.len()))?,
            offsets,
            labels,
        },
        labels: reader.labels("tuning_true_labels", Some(points), classes)?,
        classes,
        compared: Compared::of(mode),
    }))
}
