//! The experts of combined evidence in a model file: settings as metadata, the whitening map and the calibration points' scores
//! as tensors. What follows from them and the points is computed anew.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tensors::{Reader, Values};
use crate::conformal::PosteriorCalibration;
use crate::context::Context;
use crate::error::Result;
use crate::machine::Part;
use crate::model::Fitted;
use crate::numeric::matrix::Matrix;
use crate::posterior::{ExpertSettings, Known, Stack, StackSettings};
use crate::scores::Clusters;

/// As it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StackRecord {
    experts: Vec<ExpertSettings>,
    /// Early files have points as they are.
    #[serde(default)]
    centred: bool,
    /// `None` where it was not measured.
    log_loss: Option<f64>,
    sharpness: f64,
    whole: usize,
    seed: u64,
    #[serde(default)]
    clusters: Clusters,
    /// Early files have none.
    #[serde(default)]
    offsets: Vec<f64>,
}

impl StackRecord {
    pub(super) fn of(stack: &Stack) -> Self {
        let StackSettings { experts, centred, log_loss, whole, seed, clusters, offsets, .. } =
            &stack.settings;
        let log_loss = Some(*log_loss).filter(|loss| loss.is_finite());
        let sharpness = stack.known.sharpness;
        let (experts, clusters, offsets) = (experts.clone(), clusters.clone(), offsets.clone());
        let (centred, whole, seed) = (*centred, *whole, *seed);
        Self { experts, centred, log_loss, sharpness, whole, seed, clusters, offsets }
    }
}

pub(super) fn insert<'a>(tensors: &mut BTreeMap<&'static str, Values<'a>>, stack: &'a Stack) {
    tensors.insert("posterior_scores", Values::Scores(&stack.known.scores));
    if let Some(map) = &stack.settings.whitening {
        tensors.insert("whitening", Values::Matrix(map));
    }
}

/// Opens the experts on the fit points and, where they train on them, on the calibration points.
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
    let sound = |expert: &ExpertSettings| expert.is_sound();
    let is_sound = !experts.is_empty() && experts.iter().all(sound) && clusters.is_sound();
    let mut settings = StackSettings::new(experts, None, log_loss.unwrap_or(f64::NAN), clusters, seed);
    (settings.centred, settings.offsets) = (centred, offsets);
    if !(is_sound && settings.offsets_are_sound(classes) && sharpness.is_finite() && sharpness > 0.0) {
        return Err(
            reader.problem("metadata `posterior` holds settings that no fit makes; the file is damaged")
        );
    }
    settings.whitening =
        reader.has("whitening").then(|| reader.matrix("whitening", Some((d, d)))).transpose()?;
    if settings.whitening.is_none() && settings.experts.iter().any(ExpertSettings::is_white) {
        return Err(reader.problem("`whitening` is missing; the file is damaged"));
    }
    settings.whole = whole.min(settings.whole); // what a file says takes memory
    let speaks = calibrates != PosteriorCalibration::Split;
    let points = speaks.then_some(calibration.1.len());
    let mut scores = reader.scores("posterior_scores", points)?;
    scores.sort_unstable_by(f64::total_cmp);
    let fit = Part { embeddings: rfm.train.clone(), labels: rfm.labels.clone() };
    let calibration = if speaks {
        Part { embeddings: calibration.0.clone(), labels: calibration.1.to_vec() }
    } else {
        Part { embeddings: Matrix::with_columns(d), labels: Vec::new() }
    };
    let known = Some(Known { scores, sharpness });
    let parts = [&fit, &calibration];
    Stack::open(settings, parts, &rfm.metric_root, classes, calibrates, known, context)
}
