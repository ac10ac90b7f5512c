//! A calibrated model: the way of a query from the encoder's numbers to a set.

use serde::Serialize;

use super::config::Config;
use super::fitted::Fitted;
use super::prediction::{PredictOptions, Prediction, Scored};
use super::sampling::Sampling;
use crate::conformal::{Calibration, ConformalConfig, Decision, Predictor};
use crate::context::Context;
use crate::data::{Classes, Dataset, EncoderIdentity, Kind, Names, Value};
use crate::device::Device;
use crate::error::Result;
use crate::event::largest;
use crate::machine::{Classified, Classifier};
use crate::model::new_labels::Unseen;
use crate::model::overlap::Overlap;
use crate::neighbors::Neighbors;
use crate::numeric::matrix::{Matrix, Rows};
use crate::posterior::{Stack, StackSettings};
use crate::scores::EmptySets;

/// A point among which neighbors are found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReferencePoint<'a> {
    /// Whether it fitted the kernel; otherwise it is a calibration point.
    #[serde(rename = "part", serialize_with = "part")]
    pub of_fit: bool,
    /// Its row in what it was read from; `None` in older files.
    pub row: Option<u32>,
    /// Its id, where points have ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value<'a>>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // what serde calls it with
fn part<S: serde::Serializer>(of_fit: &bool, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(if *of_fit { "fit" } else { "calibration" })
}

/// A calibrated model, opened on a device.
#[derive(Clone, Debug)]
pub struct Dance {
    pub(super) fitted: Fitted,
    /// The kernel's classes, then those that only calibration points have.
    pub(super) classes: Vec<String>,
    /// What their names stand for.
    pub(super) label_kind: Kind,
    /// Reference points, normalised.
    pub(super) reference: Matrix,
    /// What those are called.
    pub(super) names: Names,
    pub(super) classifier: Classifier,
    pub(super) predictor: Predictor,
    pub(super) overlap: Overlap,
    /// `None` in older files.
    pub(super) unseen: Option<Unseen>,
    /// Of the calibration points, where they are not kept: in disjoint mode.
    pub(super) calibration_hashes: Option<Vec<u64>>,
    /// SHA-256 of the points and labels it was calibrated on.
    pub(super) data_hash: String,
}

impl Dance {
    /// Calibrates the same kernel on other points, which were drawn as `sampling` says; `config` replaces the settings of the method.
    pub fn recalibrate(
        &self,
        device: &dyn Device,
        data: &Dataset,
        sampling: Sampling,
        config: Option<ConformalConfig>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let mut fitted = self.fitted.clone();
        fitted.config.conformal = config.unwrap_or(fitted.config.conformal);
        fitted.config.sampling = sampling;
        fitted.calibrate_with(self.classifier.clone(), device, data, context)
    }

    /// Class names; a class id indexes them.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// What class names stand for: the labels of the fit, as they were written.
    pub fn label_kind(&self) -> Kind {
        self.label_kind
    }

    /// What made the embeddings it was fitted on, where that is known.
    pub fn encoder(&self) -> Option<&EncoderIdentity> {
        self.fitted.source.encoder.as_deref()
    }

    /// The kernel machine.
    pub fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// The kernel machine as a plain classifier. Classes that only calibration points have are not among its.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// What the calibration points say.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// Calibration points that took part in the fit.
    pub fn overlap(&self) -> Overlap {
        self.overlap
    }

    /// What the calibration points say about labels that nobody has seen; `None` where they are no random draw, and for an
    /// older file.
    pub fn unseen(&self) -> Option<Unseen> {
        self.unseen
    }

    /// What a reference point is: neighbors and support name it by its number.
    pub fn reference_point(&self, number: u32) -> ReferencePoint<'_> {
        let number = number as usize;
        let (of_fit, place) = match self.predictor.mode() {
            Calibration::Split => (true, number),
            Calibration::Reuse | Calibration::Full => match number.checked_sub(self.reference.rows()) {
                None => (false, number),
                Some(place) => (true, place),
            },
        };
        let names = if of_fit { &self.fitted.names } else { &self.names };
        ReferencePoint {
            of_fit,
            row: names.rows.as_ref().and_then(|rows| rows.get(place)).copied(),
            id: names.ids.as_ref().and_then(|ids| ids.get(place)).map(|id| names.id_kind.value(id)),
        }
    }

    /// The guarantee that holds for the sets, in words: what the model knows of its points decides.
    pub fn guarantee(&self) -> String {
        let Config { conformal, sampling, .. } = &self.fitted.config;
        if self.overlap.fitted > 0 {
            return format!(
                "none: {} of the calibration points took part in the fit, so sets may cover less than 1 - alpha",
                self.overlap.fitted
            );
        }
        match sampling.clause() {
            Some(clause) => format!("{}; {clause}", conformal.guarantee()),
            None => conformal.guarantee(),
        }
    }

    /// Class ids of labels by their names; `None` for a name the model does not know.
    pub fn class_ids(&self, data: &Dataset) -> Vec<Option<u32>> {
        let classes = Classes::new(&self.classes);
        let ids: Vec<_> = data.classes.iter().map(|name| classes.id(name)).collect();
        data.labels.iter().map(|&label| ids[label as usize]).collect()
    }

    /// Everything about `queries` (as they come from the encoder) that does not depend on the error level.
    pub fn score<'q>(
        &self,
        queries: impl Into<Rows<'q>>,
        options: PredictOptions,
        context: &Context<'_>,
    ) -> Result<Scored> {
        let mut scored = Scored { options, ..Scored::default() };
        self.classifier.in_blocks(queries.into(), context, |block| {
            let score = || self.score_block(block, options, context);
            // Many queries: on the workers throughout, so that they are woken once. One alone is answered here.
            scored.extend(&if block.len() > 1 { context.run(score) } else { score() }?)
        })?;
        Ok(scored)
    }

    /// One block of queries: mapped, classified where anyone wants to know, and counted.
    fn score_block(
        &self,
        queries: Rows<'_>,
        options: PredictOptions,
        context: &Context<'_>,
    ) -> Result<Scored> {
        if let Some(stack) = &self.predictor.stack {
            return self.score_stacked(stack, queries, options, context);
        }
        let mapped = self.classifier.map_queries(queries, context)?;
        let asks = self.predictor.asks_probabilities();
        let best = options.best || options.empty == EmptySets::Top1;
        let classified = (best || asks || options.probabilities)
            .then(|| self.classifier.classify_mapped(&mapped, context))
            .transpose()?;
        let probabilities = classified.as_ref().filter(|_| asks).map(|classified| &classified.probabilities);
        let answers = self.predictor.answer(&mapped, probabilities, context)?;
        Ok(Scored::new(answers, classified.filter(|_| best || options.probabilities), options))
    }

    /// One block of queries where evidence is combined: the posterior that decides also classifies.
    fn score_stacked(
        &self,
        stack: &Stack,
        queries: Rows<'_>,
        options: PredictOptions,
        context: &Context<'_>,
    ) -> Result<Scored> {
        let points = self.classifier.normalise(queries)?;
        let mapped = self.classifier.map(&points, context)?;
        let (answers, probabilities) = self.predictor.answer_stacked(stack, [&mapped, &points], context)?;
        let labels = (0..probabilities.rows()).map(|row| largest(probabilities.row(row)) as u32).collect();
        let wanted = options.best || options.empty == EmptySets::Top1 || options.probabilities;
        let classified = wanted.then_some(Classified { labels, probabilities });
        Ok(Scored::new(answers, classified, options))
    }

    /// The experts whose evidence is combined and what each counts; `None` where none is.
    pub fn stack(&self) -> Option<&StackSettings> {
        self.predictor.stack.as_ref().map(|stack| &stack.settings)
    }

    /// How sets are made at error level `alpha`, the mix selected for it where the model selects one.
    pub fn decide(&self, alpha: f64) -> Result<Decision> {
        self.predictor.decide(alpha)
    }

    /// The sets of scored queries under a decision.
    pub fn predict(&self, scored: &Scored, decision: &Decision) -> Prediction {
        Prediction::new(scored, decision.clone(), self.classes.len(), self.predictor.reference_labels())
    }

    /// The `k` nearest reference points of every query, in mapped space.
    pub fn neighbors<'q>(
        &self,
        queries: impl Into<Rows<'q>>,
        k: usize,
        context: &Context<'_>,
    ) -> Result<Neighbors> {
        self.predictor.neighbors(&self.classifier.transform(queries, context)?, k, context)
    }
}
