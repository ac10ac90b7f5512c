//! A kernel machine with its settings, and how it is calibrated.

use std::sync::Arc;

use super::config::Config;
use super::dance::Dance;
use super::file::hash_of;
use super::notices;
use super::sampling::Sampling;
use crate::conformal::{Believed, Calibration, MethodName, Predictor, Setup};
use crate::context::Context;
use crate::data::{
    Classes, Dataset, EncoderIdentity, Kind, Names, Normalize, Normalizer, PointShape, Source,
};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::Quality;
use crate::machine::{Classifier, OutputScale, Part, Probabilities, Rfm, tune};
use crate::model::new_labels::Unseen;
use crate::model::overlap::{self, Judges, Overlap};
use crate::numeric::matrix::{Matrix, check_finite};
use crate::posterior::{Lesson, Stack, learn};

/// A kernel machine that has not been calibrated yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The settings.
    pub config: Config,
    /// Names of the classes the kernel knows.
    pub classes: Vec<String>,
    /// How points are normalised.
    pub normalizer: Normalizer,
    /// The machine.
    pub rfm: Rfm,
    /// How its outputs become probabilities.
    pub scale: OutputScale,
    /// What the points it keeps are called.
    pub names: Names,
    /// Points that judged its settings and that it does not keep.
    pub judges: Judges,
    /// What the points were read from.
    pub source: Source,
    /// Quality on the validation points.
    pub validation: Quality,
    /// What was computed on how many points, in words.
    pub fidelity: String,
    /// SHA-256 of the points and labels it was fitted on.
    pub data_hash: String,
    /// What the labels are.
    pub label_kind: Kind,
}

impl Fitted {
    /// Tunes and fits a kernel machine on `data`.
    pub fn fit(device: &dyn Device, data: &Dataset, config: &Config, context: &Context<'_>) -> Result<Self> {
        config.check()?;
        let normalizer = Normalizer::fit(config.normalize, &data.embeddings);
        let (classes, points) = part(data, &normalizer)?;
        let tuned = tune::fit(device, points, classes.len(), &config.rfm, &config.tune, context)?;
        let scale = match config.probabilities {
            Probabilities::Calibrated => tuned.scale,
            Probabilities::Clamp => config.clamp(classes.len()),
        };
        Ok(Self {
            config: config.clone(),
            classes,
            judges: Judges::new(data, &tuned.judges, &normalizer)?,
            normalizer,
            rfm: tuned.rfm,
            scale,
            names: data.names().select(&tuned.rows),
            source: data.source.clone(),
            validation: tuned.validation,
            fidelity: tuned.fidelity,
            data_hash: hash_of(data),
            label_kind: data.label_kind,
        })
    }

    /// Dimensions of the embeddings.
    pub fn dimensions(&self) -> usize {
        self.rfm.train.cols()
    }

    /// What a point must be.
    pub fn point_shape(&self) -> PointShape {
        PointShape { dimensions: self.dimensions(), directed: self.config.normalize == Normalize::L2 }
    }

    /// Opens the machine as a plain classifier.
    pub fn classifier(&self, device: &dyn Device, context: &Context<'_>) -> Result<Classifier> {
        Classifier::open(device, &self.rfm, &self.normalizer, self.scale, context)
    }

    /// Calibrates on `data`: points that did not fit the kernel. Classes are matched by name; new ones are allowed.
    pub fn calibrate(self, device: &dyn Device, data: &Dataset, context: &Context<'_>) -> Result<Dance> {
        let classifier = self.classifier(device, context)?;
        self.calibrate_with(classifier, device, data, context)
    }

    pub(super) fn calibrate_with(
        self,
        classifier: Classifier,
        device: &dyn Device,
        data: &Dataset,
        context: &Context<'_>,
    ) -> Result<Dance> {
        let config = self.config.conformal;
        config.check()?;
        data.check_drawn()?;
        EncoderIdentity::check(
            self.source.encoder.as_deref(),
            data.source.encoder.as_deref(),
            "the calibration points",
        )?;
        if data.embeddings.cols() != self.dimensions() {
            return Err(Error::Shape {
                what: "dimensions of the calibration points".into(),
                expected: self.dimensions().to_string(),
                found: data.embeddings.cols().to_string(),
            });
        }
        check_finite("calibration data", &data.embeddings)?;
        let (classes, labels) = self.match_classes(data);
        notices::classes(&self.classes, &classes, &labels, config.calibration, context);
        notices::kinds(self.label_kind, data.label_kind, classes.len() > self.classes.len(), context);
        let points = normalised(data, &self.normalizer, "calibration data")?.embeddings;
        let overlap = Overlap::new(&self, &points, data);
        notices::overlap(overlap, data.len(), context);
        let drawn = self.config.sampling != Sampling::Stratified;
        let unseen = drawn.then(|| Unseen::new(&labels, &self.rfm.labels, classes.len()));
        let mapped = classifier.map(&points, context)?;
        let asked = config.asks_probabilities();
        let probabilities =
            asked.then(|| classifier.own_probabilities(&mapped, &labels, context)).transpose()?;
        let disjoint = config.calibration == Calibration::Split;
        let calibration_hashes = disjoint.then(|| overlap::hashes(&points));
        let setup =
            Setup { device, classes: classes.len(), kernel: self.rfm.kernel, config: &config, context };
        let calibration = Part { embeddings: mapped, labels };
        let calibration_part = (config.method == MethodName::Posterior)
            .then(|| Part { embeddings: points.clone(), labels: calibration.labels.clone() });
        let (reference, names, mut predictor) = match config.calibration {
            Calibration::Reuse => {
                (points, data.names(), Predictor::reuse(calibration, probabilities.as_deref(), setup)?)
            }
            Calibration::Split => {
                let fit = self.mapped_fit_points(&classifier, context)?;
                let predictor = Predictor::disjoint(fit, &calibration, probabilities.as_deref(), setup)?;
                (self.rfm.train.clone(), self.names.clone(), predictor)
            }
            Calibration::Full => {
                let fit = self.mapped_fit_points(&classifier, context)?;
                let apart = |rows: &[usize]| self.mapped_apart(rows, device, context);
                let difficulty =
                    config.asks_difficulty().then(|| self.difficulty(device, context)).transpose()?;
                let believed = Believed { probabilities, difficulty };
                let predictor = Predictor::exact_with(calibration, &fit, believed, apart, setup)?;
                (points, data.names(), predictor)
            }
        };
        if let Some(calibration) = calibration_part {
            predictor.stack = Some(Arc::new(self.stack(device, &calibration, classes.len(), context)?));
        }
        if let Some(neighbors) = predictor.bag_neighbors()
            && overlap == Overlap::default()
        {
            notices::near_copies(neighbors, context);
        }
        if predictor.lacks_mix() {
            context
                .warn(format!("{} points are too few to select the mix; it is 0, the k-NN set", data.len()));
        }
        Ok(Dance {
            label_kind: self.label_kind.of_all(&classes),
            fitted: self,
            classes,
            reference,
            names,
            classifier,
            predictor,
            overlap,
            unseen,
            calibration_hashes,
            data_hash: hash_of(data),
        })
    }

    /// The experts of combined evidence, set by the fit points and opened on both.
    fn stack(
        &self,
        device: &dyn Device,
        calibration: &Part,
        classes: usize,
        context: &Context<'_>,
    ) -> Result<Stack> {
        let Config { conformal, rfm: config, .. } = &self.config;
        let (rfm, directed) = (&self.rfm, self.point_shape().directed);
        let settings = learn(Lesson { device, rfm, config, directed, seed: conformal.seed, context })?;
        let fit = Part { embeddings: rfm.train.clone(), labels: rfm.labels.clone() };
        Stack::open(
            settings,
            [&fit, calibration],
            &rfm.metric_root,
            classes,
            (conformal.calibration, conformal.by_class),
            None,
            context,
        )
    }

    /// The points that fitted the kernel, mapped.
    pub(super) fn mapped_fit_points(&self, classifier: &Classifier, context: &Context<'_>) -> Result<Part> {
        let embeddings = classifier.map(&self.rfm.train, context)?;
        Ok(Part { embeddings, labels: self.rfm.labels.clone() })
    }

    /// The same, mapped by a metric that only `rows` of them made: to it, the others are new points.
    fn mapped_apart(&self, rows: &[usize], device: &dyn Device, context: &Context<'_>) -> Result<Part> {
        let all = Part { embeddings: self.rfm.train.clone(), labels: self.rfm.labels.clone() };
        let classifier = self.fitted_apart(all.select(rows), device, context)?;
        Ok(Part { embeddings: classifier.map(&all.embeddings, context)?, labels: all.labels })
    }

    /// The kernel's classes followed by those only `data` has, and the labels of `data` among them.
    fn match_classes(&self, data: &Dataset) -> (Vec<String>, Vec<u32>) {
        let mut names = self.classes.clone();
        let mut known = Classes::new(&self.classes);
        let mut labels = Vec::with_capacity(data.len());
        for &label in &data.labels {
            let name = &data.classes[label as usize];
            let id = known.id_or_next(name);
            if id as usize == names.len() {
                names.push(name.clone());
            }
            labels.push(id);
        }
        (names, labels)
    }
}

/// The classes that `data` has points of, and those points on the kernel's scale.
fn part(data: &Dataset, normalizer: &Normalizer) -> Result<(Vec<String>, Part)> {
    let mut part = normalised(data, normalizer, "fit data")?;
    let (classes, labels) = data.occurring_classes();
    part.labels = labels;
    Ok((classes, part))
}

/// The points of `data` on the kernel's scale, with their labels; `origin` names them in messages.
fn normalised(data: &Dataset, normalizer: &Normalizer, origin: &str) -> Result<Part> {
    let mut embeddings: Matrix = data.embeddings.clone();
    normalizer.apply_named(origin, &mut embeddings, |row| data.rows[row] as usize)?;
    Ok(Part { embeddings, labels: data.labels.clone() })
}
