//! A calibrated model, which turns embeddings into prediction sets.

use super::config::Sampling;
use super::fitted::Fitted;
use super::overlap::{NewLabelShare, Overlap};
use crate::conformal::{Decision, PredictOptions, Prediction, Predictor, QueryBlock, Scored};
use crate::context::Context;
use crate::data::{Dataset, EncoderIdentity, Kind, Names, class_ids};
use crate::device::Device;
use crate::error::Result;
use crate::machine::Classifier;
use crate::method::{ByClass, Calibration, ConformalConfig, MethodName, Mix};
use crate::neighbors::Neighbors;
use crate::numeric::matrix::{Matrix, Rows};

/// A calibrated model that computes on a device. It turns embeddings into prediction sets.
#[derive(Clone, Debug)]
pub struct Dance {
    pub(super) fitted: Fitted,
    /// The class names, by class id. The classes of the fit points come first, then classes that only calibration
    /// points have.
    pub(super) classes: Vec<String>,
    /// The kind of the labels: text, numbers or truth values.
    pub(super) label_kind: Kind,
    /// The reference points, normalised. They are the fit points in split calibration, and otherwise the calibration
    /// points.
    pub(super) reference: Matrix,
    /// The rows and ids of the points in `reference`.
    pub(super) names: Names,
    pub(super) classifier: Classifier,
    pub(super) predictor: Predictor,
    pub(super) overlap: Overlap,
    /// The estimated share of new points whose label no point of the model has. `None` if calibration points are no
    /// random draw.
    pub(super) new_label_share: Option<NewLabelShare>,
    /// A 64-bit hash of each calibration point in split calibration, in which the model does not keep these points.
    /// `None` in other calibrations.
    pub(super) calibration_hashes: Option<Vec<u64>>,
    /// The SHA-256 of the calibration points and labels, in hexadecimal.
    pub(super) data_hash: String,
}

impl Dance {
    /// Calibrates the kernel machine of this model on the points `data`, which were drawn in the way `sampling`. If
    /// `config` is given, it replaces the settings of the method.
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

    /// Returns the encoder that made the embeddings of the fit points, if it is known.
    pub fn encoder(&self) -> Option<&EncoderIdentity> {
        self.fitted.source.encoder.as_deref()
    }

    /// Returns the fitted kernel machine that was calibrated, with its settings.
    pub fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// Returns the kernel machine as a plain classifier. Its classes are those of the fit points alone.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// Returns the name of the method that makes the sets.
    pub fn method(&self) -> MethodName {
        self.predictor.method().name()
    }

    /// Returns the use of calibration points: full, split or reuse.
    pub fn calibration(&self) -> Calibration {
        self.predictor.method().calibration()
    }

    /// Returns the classes for which the guarantee holds.
    pub fn by_class(&self) -> ByClass {
        self.predictor.method().by_class()
    }

    /// Returns whether sets may hold "a new label".
    pub fn allows_new_labels(&self) -> bool {
        self.predictor.method().new_labels()
    }

    /// Returns the experts of the method [`Posterior`](MethodName::Posterior) with their weights and settings, as a
    /// JSON array. `None` for other methods.
    pub fn experts(&self) -> Option<serde_json::Value> {
        self.predictor.stack_settings().map(|settings| serde_json::json!(settings.experts))
    }

    /// Returns the offset of every class, which is subtracted from the scores of this class. `None` for methods other
    /// than [`Posterior`](MethodName::Posterior).
    pub fn class_offsets(&self) -> Option<&[f64]> {
        self.predictor.stack_settings().map(|settings| settings.offsets.as_slice())
    }

    /// Returns the number of clusters of classes with similar difficulty. `None` for methods other than
    /// [`Posterior`](MethodName::Posterior).
    pub fn clusters(&self) -> Option<usize> {
        self.predictor.stack_settings().map(|settings| settings.clusters.len())
    }

    /// Returns the number of calibration points from which the p-values of labels are computed.
    pub fn calibration_points(&self) -> usize {
        self.predictor.calibration_points()
    }

    /// Returns the number of calibration points from which novelty p-values are computed. It exceeds
    /// [`calibration_points`](Self::calibration_points) if a half of the points only selects the mix of the method
    /// [`Dance`](MethodName::Dance).
    pub fn novelty_points(&self) -> usize {
        self.predictor.novelty_points()
    }

    /// Returns the class ids of the reference points, which are the points among which a query's neighbors are found.
    pub fn reference_labels(&self) -> &[u32] {
        self.predictor.reference_labels()
    }

    /// Returns the reference points, normalised and mapped by the learned metric. A query's neighbors are found among
    /// them.
    pub fn reference_points(&self) -> &Matrix {
        self.predictor.reference_points()
    }

    /// Returns the number of calibration points that took part in the fit. A single such point ends the guarantee.
    pub fn calibration_points_in_fit(&self) -> usize {
        self.overlap.fitted
    }

    /// Returns the number of calibration points with the coordinates of a fit or validation point from another row.
    pub fn copies_of_fit_points(&self) -> usize {
        self.overlap.copies
    }

    /// Returns the estimated share of new points whose label no point of the model has, and the standard error of this
    /// estimate. `None` if the calibration points are no random draw.
    pub fn new_label_share(&self) -> Option<(f64, f64)> {
        self.new_label_share.map(|share| (share.share(), share.standard_error()))
    }

    /// Returns the guarantee of the sets as a sentence. The guarantee follows from the method, from the sampling of the
    /// calibration points and from their overlap with the fit points.
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

    /// Returns, for every point of `data`, the class id in this model, found by the class name. `None` for a class that
    /// the model does not have.
    pub fn class_ids(&self, data: &Dataset) -> Vec<Option<u32>> {
        let classes = class_ids(&self.classes);
        let ids: Vec<_> = data.classes.iter().map(|name| classes.get(name.as_str()).copied()).collect();
        data.labels.iter().map(|&label| ids[label as usize]).collect()
    }

    /// Computes everything about `queries` that does not depend on the error level, such as the scores of their labels.
    /// Queries are embeddings as the encoder returns them. [`decide`](Self::decide) and [`predict`](Self::predict) then
    /// make the sets.
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

    /// Does the work of [`score`](Self::score) for a block of queries.
    fn score_block(&self, queries: Rows<'_>, options: PredictOptions, context: &Context<'_>) -> Result<Scored> {
        let normalised = &self.classifier.normalise(queries)?;
        let mapped = &self.classifier.map(normalised, context)?;
        let classify = &|| self.classifier.classify_mapped(mapped, context);
        self.predictor.score(QueryBlock { normalised, mapped, classify }, options, context)
    }

    /// Returns the rule that makes prediction sets at error level `alpha`. An `alpha` that is not between 0 and 1 is an
    /// error.
    pub fn decide(&self, alpha: f64) -> Result<Decision> {
        self.predictor.decide(alpha, Mix::Auto)
    }

    /// Returns the rule that makes prediction sets at error level `alpha`. For the method [`Dance`](MethodName::Dance),
    /// a fixed `mix` replaces the model's own [mix](Mix).
    pub fn decide_with(&self, alpha: f64, mix: Mix) -> Result<Decision> {
        self.predictor.decide(alpha, mix)
    }

    /// Returns the prediction sets of queries, which [`score`](Self::score) has scored, under the rule `decision` of
    /// [`decide`](Self::decide).
    pub fn predict(&self, scored: &Scored, decision: &Decision) -> Prediction {
        self.predictor.predict(scored, decision)
    }

    /// Finds the `k` reference points nearest to every query under the learned metric.
    pub fn neighbors<'q>(&self, queries: impl Into<Rows<'q>>, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.predictor.neighbors(&self.classifier.transform(queries, context)?, k, context)
    }
}
