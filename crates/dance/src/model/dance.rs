//! A calibrated model, which maps embeddings to prediction sets.

use serde::Serialize;

use super::fitted::Fitted;
use super::sampling::Sampling;
use crate::conformal::{
    Calibration, ConformalConfig, Decision, PredictOptions, Prediction, Predictor, QueryBlock, Scored,
};
use crate::context::Context;
use crate::data::{Dataset, EncoderIdentity, Kind, Names, Value, class_ids};
use crate::device::Device;
use crate::error::Result;
use crate::machine::Classifier;
use crate::model::new_labels::NewLabelShare;
use crate::model::overlap::Overlap;
use crate::neighbors::Neighbors;
use crate::numeric::matrix::{Matrix, Rows};

/// A reference point: a point of the model among which the neighbors of queries are found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReferencePoint<'a> {
    /// True for a fit point, false for a calibration point.
    #[serde(rename = "part", serialize_with = "part")]
    pub of_fit: bool,
    /// The row of the point in its data set, if known.
    pub row: Option<u32>,
    /// The id, if points have ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value<'a>>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn part<S: serde::Serializer>(of_fit: &bool, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(if *of_fit { "fit" } else { "calibration" })
}

/// A calibrated model, opened on a device.
#[derive(Clone, Debug)]
pub struct Dance {
    pub(super) fitted: Fitted,
    /// Class names by class id: the classes of the fit points, then classes that only calibration points have.
    pub(super) classes: Vec<String>,
    /// The kind of the labels: text, numbers or truth values.
    pub(super) label_kind: Kind,
    /// The reference points, normalised: fit points in split calibration, otherwise calibration points.
    pub(super) reference: Matrix,
    /// Rows and ids of the reference points.
    pub(super) names: Names,
    pub(super) classifier: Classifier,
    pub(super) predictor: Predictor,
    pub(super) overlap: Overlap,
    /// The estimated share of new labels; `None` if calibration points are no random draw.
    pub(super) new_label_share: Option<NewLabelShare>,
    /// Hashes of the calibration points in split calibration, since the model does not keep the points; otherwise
    /// `None`.
    pub(super) calibration_hashes: Option<Vec<u64>>,
    /// SHA-256 of the calibration points and labels.
    pub(super) data_hash: String,
}

impl Dance {
    /// Calibrates the same kernel machine on other points, which were drawn by `sampling`. `config`, if given, replaces
    /// the settings of the method.
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

    /// Returns the class names, by class id.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the kind of the labels: text, numbers or truth values.
    pub fn label_kind(&self) -> Kind {
        self.label_kind
    }

    /// Returns the encoder of the fit points, if it is known.
    pub fn encoder(&self) -> Option<&EncoderIdentity> {
        self.fitted.source.encoder.as_deref()
    }

    /// Returns the kernel machine with its settings.
    pub fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// Returns the kernel machine as a plain classifier. It does not know classes that only calibration points have.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// Returns the calibrated method.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// Returns the numbers of calibration points that took part in the fit or are copies of points of the fit.
    pub fn overlap(&self) -> Overlap {
        self.overlap
    }

    /// Returns the estimated share of new labels; `None` if calibration points are no random draw.
    pub fn new_label_share(&self) -> Option<NewLabelShare> {
        self.new_label_share
    }

    /// Returns the reference point with this `number` in lists of neighbors and support.
    pub fn reference_point(&self, number: u32) -> ReferencePoint<'_> {
        let number = number as usize;
        let (of_fit, place) = match self.predictor.method().calibration() {
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

    /// Returns the guarantee of the sets in words. It follows from the method, the sampling of the calibration points
    /// and their overlap with the fit.
    pub fn guarantee(&self) -> String {
        if self.overlap.fitted > 0 {
            return format!(
                "none: {} of the calibration points took part in the fit, so sets may cover less than 1 - alpha",
                self.overlap.fitted
            );
        }
        let of_method = self.predictor.method().guarantee();
        match self.fitted.config.sampling.clause() {
            Some(clause) => format!("{of_method}; {clause}"),
            None => of_method,
        }
    }

    /// Returns the model's class id of every label of `data`, matched by name; `None` for a name that the model does
    /// not have.
    pub fn class_ids(&self, data: &Dataset) -> Vec<Option<u32>> {
        let classes = class_ids(&self.classes);
        let ids: Vec<_> = data.classes.iter().map(|name| classes.get(name.as_str()).copied()).collect();
        data.labels.iter().map(|&label| ids[label as usize]).collect()
    }

    /// Computes all results that do not depend on the error level for `queries`, given as they come from the encoder.
    pub fn score<'q>(
        &self,
        queries: impl Into<Rows<'q>>,
        options: PredictOptions,
        context: &Context<'_>,
    ) -> Result<Scored> {
        let mut scored = Scored { options, ..Scored::default() };
        self.classifier.in_blocks(queries.into(), context, |block| {
            let score = || self.score_block(block, options, context);
            // A whole block runs in the thread pool, which wakes its threads once. A single query runs in this thread.
            scored.append(if block.len() > 1 { context.run(score) } else { score() }?)
        })?;
        Ok(scored)
    }

    /// Scores one block of queries.
    fn score_block(&self, queries: Rows<'_>, options: PredictOptions, context: &Context<'_>) -> Result<Scored> {
        let normalised = &self.classifier.normalise(queries)?;
        let mapped = &self.classifier.map(normalised, context)?;
        let classify = &|| self.classifier.classify_mapped(mapped, context);
        self.predictor.score(QueryBlock { normalised, mapped, classify }, options, context)
    }

    /// Returns the rule for prediction sets at error level `alpha`.
    pub fn decide(&self, alpha: f64) -> Result<Decision> {
        self.predictor.decide(alpha)
    }

    /// Returns the sets of scored queries under a decision.
    pub fn predict(&self, scored: &Scored, decision: &Decision) -> Prediction {
        self.predictor.predict(scored, decision)
    }

    /// Finds the `k` nearest reference points of every query under the learned metric.
    pub fn neighbors<'q>(&self, queries: impl Into<Rows<'q>>, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.predictor.neighbors(&self.classifier.transform(queries, context)?, k, context)
    }
}
