//! The experts of the method [`Posterior`](crate::method::MethodName::Posterior) in a model file. Their settings are
//! metadata. The whitening map and the scores of the calibration points are tensors. Everything else is computed again
//! from the points.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tensors::{Reader, Values};
use crate::context::Context;
use crate::error::Result;
use crate::machine::Part;
use crate::method::PosteriorCalibration;
use crate::model::Fitted;
use crate::numeric::matrix::Matrix;
use crate::posterior::{CalibrationSummary, ExpertSettings, Stack, StackSettings};
use crate::scores::calibration::Clusters;

/// The settings of the stack of experts ([`StackSettings`]), as the metadata hold them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StackRecord {
    experts: Vec<ExpertSettings>,
    centred: bool,
    /// The mean log loss of the stack on held-out fit points, when the experts were selected; `None` if it was not
    /// measured.
    log_loss: Option<f64>,
    sharpness: f64,
    whole: usize,
    seed: u64,
    clusters: Clusters,
    offsets: Vec<f64>,
}

impl StackRecord {
    /// Returns the settings of a stack of experts for the metadata.
    pub(super) fn of(stack: &Stack) -> Self {
        let StackSettings { experts, centred, log_loss, whole, seed, clusters, offsets, .. } = &stack.settings;
        let log_loss = Some(*log_loss).filter(|loss| loss.is_finite());
        let sharpness = stack.summary.sharpness;
        let (experts, clusters, offsets) = (experts.clone(), clusters.clone(), offsets.clone());
        let (centred, whole, seed) = (*centred, *whole, *seed);
        Self { experts, centred, log_loss, sharpness, whole, seed, clusters, offsets }
    }
}

/// Adds the tensors of a stack of experts to `tensors`.
pub(super) fn insert<'a>(tensors: &mut BTreeMap<&'static str, Values<'a>>, stack: &'a Stack) {
    tensors.insert("posterior_scores", Values::Scores(&stack.summary.scores));
    if let Some(map) = &stack.settings.whitening {
        tensors.insert("whitening", Values::Matrix(map));
    }
}

/// Trains the experts of `record` on the fit points; in full calibration they are trained on the calibration points
/// too. `calibration` holds the reference points and their labels, which in full calibration are the calibration
/// points.
pub(super) fn open(
    record: Option<StackRecord>,
    reader: &Reader<'_>,
    fitted: &Fitted,
    calibration: (&Matrix, &[u32]),
    (classes, calibrates): (usize, PosteriorCalibration),
    context: &Context<'_>,
) -> Result<Stack> {
    let Some(record) = record else {
        return Err(reader.problem("metadata `posterior` is missing; the file is damaged"));
    };
    let rfm = &fitted.rfm;
    let d = rfm.train.cols();
    let StackRecord { experts, centred, log_loss, sharpness, whole, seed, clusters, offsets } = record;
    // Settings that no fit makes are refused here, since later errors would not name the file.
    let valid = !experts.is_empty() && experts.iter().all(ExpertSettings::is_valid) && clusters.is_valid();
    let mut settings = StackSettings::new(experts, None, log_loss.unwrap_or(f64::NAN), clusters, seed);
    (settings.centred, settings.offsets) = (centred, offsets);
    if !(valid && settings.offsets_are_valid(classes) && sharpness.is_finite() && sharpness > 0.0) {
        return Err(reader.problem("metadata `posterior` holds settings that no fit makes; the file is damaged"));
    }
    settings.whitening = reader.has("whitening").then(|| reader.matrix("whitening", Some((d, d)))).transpose()?;
    if settings.whitening.is_none() && settings.experts.iter().any(ExpertSettings::is_white) {
        return Err(reader.problem("`whitening` is missing; the file is damaged"));
    }
    settings.whole = whole.min(settings.whole); // a larger number in a damaged file would take memory
    // In full calibration there is a score for every calibration point, and the experts are trained on these points
    // too.
    let trains_on_bag = calibrates != PosteriorCalibration::Split;
    let points = trains_on_bag.then_some(calibration.1.len());
    let mut scores = reader.scores("posterior_scores", points)?;
    scores.sort_unstable_by(f64::total_cmp);
    let fit = Part { embeddings: rfm.train.clone(), labels: rfm.labels.clone() };
    let calibration = if trains_on_bag {
        Part { embeddings: calibration.0.clone(), labels: calibration.1.to_vec() }
    } else {
        Part { embeddings: Matrix::with_columns(d), labels: Vec::new() }
    };
    let summary = Some(CalibrationSummary { scores, sharpness });
    let parts = [&fit, &calibration];
    Stack::open(settings, parts, &rfm.metric_root, classes, calibrates, summary, context)
}
