//! Calibration tensors of a model file. They hold distances for the novelty test, and the scores that select the
//! [mix](crate::method::Mix) of the method [`Dance`](crate::method::MethodName::Dance).

use super::tensors::Reader;
use crate::conformal::{MixSelection, Reference};
use crate::error::Result;
use crate::numeric::matrix::Ragged;
use crate::scores::CalibrationScores;
use crate::scores::calibration::{NOVELTY_NEIGHBORS, Novelty};
use crate::scores::paired::PairedScores;

/// Reads the novelty test of a model with split calibration or reuse: for each calibration point, the squared distance
/// to its 5th-nearest reference point, or to the last one if there are fewer. Models with full calibration compute
/// these distances from neighbors.
pub(super) fn novelty(reader: &Reader<'_>, reference: &Reference) -> Result<Novelty> {
    let neighbors = Novelty::neighbors(NOVELTY_NEIGHBORS, reference.len());
    Novelty::from_distances(reader.scores("calibration_distances", None)?, neighbors)
}

/// Reads the scores from which the method [`Dance`](crate::method::MethodName::Dance) selects its
/// [mix](crate::method::Mix). `None` if the file has none because the mix is fixed.
pub(super) fn selection(reader: &Reader<'_>, classes: usize) -> Result<Option<MixSelection>> {
    if !reader.has("tuning_offsets") {
        return Ok(None);
    }
    let rank = reader.scores("tuning_rank_scores", None)?;
    let contrast = reader.scores("tuning_contrast_scores", Some(rank.len()))?;
    let labels = reader.labels("tuning_labels", None, classes)?;
    let offsets = reader.offsets("tuning_offsets", labels.len())?;
    let count = labels.len();
    let Some(labels) = Ragged::new(offsets, labels) else {
        return Err(reader.problem("`tuning_offsets` do not fit `tuning_labels`"));
    };
    if !labels.iter().all(|labels| labels.is_sorted_by(|a, b| a < b)) {
        return Err(reader.problem("`tuning_labels` do not ascend within a point"));
    }
    Ok(Some(MixSelection {
        rank: CalibrationScores::new(rank)?,
        contrast: CalibrationScores::new(contrast)?,
        labels: reader.labels("tuning_true_labels", Some(labels.len()), classes)?,
        scores: PairedScores {
            rank: reader.scores("tuning_label_rank_scores", Some(count))?,
            contrast: reader.scores("tuning_label_contrast_scores", Some(count))?,
            labels,
        },
        classes,
    }))
}
