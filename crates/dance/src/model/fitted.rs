//! A fitted kernel machine with its settings, and its calibration, with warnings about the calibration points.

use sha2::{Digest, Sha256};

use super::config::Config;
use super::config::Sampling;
use super::dance::Dance;
use super::overlap::{self, NewLabelShare, Overlap};
use crate::conformal::{Predictor, Setup};
use crate::context::{Context, Quality};
use crate::data::{Dataset, EncoderIdentity, Kind, Names, Normalize, Normalizer, PointShape, Source, class_ids};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::{Classifier, OutputScale, Part, Probabilities, Rfm, tune};
use crate::method::{Calibration, Method, MethodName, PosteriorCalibration, PosteriorMethod};
use crate::neighbors::Neighbors;
use crate::numeric::matrix::{Matrix, check_finite};
use crate::posterior::{self, LearnInputs, Stack, learn};

/// A fitted kernel machine that has not been calibrated yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The settings of the fit and of the method.
    pub config: Config,
    /// The names of the classes of the fit points, by class id.
    pub classes: Vec<String>,
    /// The normalisation of embeddings.
    pub normalizer: Normalizer,
    /// The kernel machine: its metric, fit points and coefficients.
    pub(crate) rfm: Rfm,
    /// The scale that maps outputs of the machine to class probabilities.
    pub(crate) scale: OutputScale,
    /// The rows and ids of the fit points.
    pub names: Names,
    /// A 64-bit hash of each validation point. The machine does not keep these points.
    pub(crate) validation_hashes: Vec<u64>,
    /// The row of each validation point in its data set.
    pub(crate) validation_rows: Vec<u32>,
    /// The file or array of the fit points, with their encoder.
    pub source: Source,
    /// The accuracy and the loss on the validation points.
    pub validation: Quality,
    /// The numbers of points behind the steps of the fit, as a sentence for outputs.
    pub fidelity: String,
    /// The SHA-256 of the fit points and labels, in hexadecimal.
    pub data_hash: String,
    /// The kind of the labels: text, numbers or truth values.
    pub label_kind: Kind,
}

impl Fitted {
    /// Tunes and fits a kernel machine on `data`. A part of the points, or every point left out in turn, validates it.
    pub fn fit(device: &dyn Device, data: &Dataset, config: &Config, context: &Context<'_>) -> Result<Self> {
        config.method()?;
        let normalizer = Normalizer::fit(config.normalize, &data.embeddings);
        let (classes, points) = part(data, &normalizer)?;
        let tuned = tune::fit(device, points, classes.len(), &config.rfm, &config.tune, context)?;
        let scale = match config.probabilities {
            Probabilities::Calibrated => tuned.scale,
            Probabilities::Clamp => config.clamp(classes.len()),
        };
        let mut validation_points = data.embeddings.select(&tuned.validation_rows);
        normalizer.apply("fit data", &mut validation_points)?;
        Ok(Self {
            config: config.clone(),
            classes,
            validation_hashes: overlap::hashes(&validation_points),
            validation_rows: tuned.validation_rows.iter().map(|&place| data.rows[place]).collect(),
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

    /// Returns the kernel. Its bandwidth is a distance under the learned metric.
    pub fn kernel(&self) -> Kernel {
        self.rfm.kernel
    }

    /// Returns the number of times that the metric was learned; 0 is the identity metric.
    pub fn rounds(&self) -> usize {
        self.rfm.rounds
    }

    /// Returns the points that the machine keeps, normalised.
    pub fn points(&self) -> &Matrix {
        &self.rfm.train
    }

    /// Returns the symmetric root of the learned metric, d×d for d dimensions.
    pub fn metric_root(&self) -> &Matrix {
        &self.rfm.metric_root
    }

    /// Returns the map from the machine's outputs to probabilities, as JSON with `floor`, `ceiling` and `power`.
    pub fn probability_scale(&self) -> impl serde::Serialize + use<> {
        self.scale
    }

    /// Returns the number of dimensions of the embeddings.
    pub fn dimensions(&self) -> usize {
        self.rfm.train.cols()
    }

    /// Returns the requirements on a query: its number of dimensions, and whether a vector of zeros is invalid.
    pub fn point_shape(&self) -> PointShape {
        PointShape { dimensions: self.dimensions(), directed: self.config.normalize == Normalize::L2 }
    }

    /// Opens the machine on a device as a plain classifier.
    pub fn classifier(&self, device: &dyn Device, context: &Context<'_>) -> Result<Classifier> {
        Classifier::open(device, &self.rfm, &self.normalizer, self.scale, context)
    }

    /// Calibrates on `data`, which should be points that took no part in the fit. Classes are matched by name, and
    /// classes that the fit does not have are allowed.
    pub fn calibrate(self, device: &dyn Device, data: &Dataset, context: &Context<'_>) -> Result<Dance> {
        let classifier = self.classifier(device, context)?;
        self.calibrate_with(classifier, device, data, context)
    }

    /// Calibrates with a classifier that is already open.
    pub(super) fn calibrate_with(
        mut self,
        classifier: Classifier,
        device: &dyn Device,
        data: &Dataset,
        context: &Context<'_>,
    ) -> Result<Dance> {
        self.check_calibration(data)?;
        let (classes, labels) = self.match_classes(data);
        let method = self.resolve_method(labels.len(), classes.len(), context)?;
        warn_of_classes(&self.classes, &classes, &labels, method.calibration(), context);
        warn_of_kinds(self.label_kind, data.label_kind, classes.len() > self.classes.len(), context);
        let points = normalised(data, &self.normalizer, "calibration data")?.embeddings;
        let overlap = Overlap::new(&self, &points, data);
        warn_of_overlap(overlap, data.len(), context);
        let is_draw = self.config.sampling != Sampling::Stratified;
        let new_label_share = is_draw.then(|| NewLabelShare::new(&labels, &self.rfm.labels, classes.len()));

        // Split calibration searches neighbors among the fit points and keeps only hashes of the calibration points.
        let split = method.calibration() == Calibration::Split;
        let calibration_hashes = split.then(|| overlap::hashes(&points));
        let mapped = Part { embeddings: classifier.map(&points, context)?, labels };
        let setup = Setup { device, classes: classes.len(), kernel: self.rfm.kernel, context };
        // Each method is calibrated by its own constructor.
        let predictor = match method {
            Method::Dance(method) => {
                Predictor::dance(method, mapped, || self.mapped_fit_points(&classifier, context), setup)?
            }
            Method::Fuse(method) => {
                let own = classifier.own_probabilities(&mapped.embeddings, &mapped.labels, context)?;
                let fit = self.mapped_fit_points(&classifier, context)?;
                Predictor::fuse(method, mapped, &fit, own, setup)?
            }
            Method::Posterior(method) => {
                let calibration = Part { embeddings: points.clone(), labels: mapped.labels.clone() };
                let stack = self.stack(method, device, &calibration, classes.len(), context)?;
                let fit = self.mapped_fit_points(&classifier, context)?;
                Predictor::posterior(method, stack, mapped, fit, setup)?
            }
        };
        // Warn about near-copies, and about a mix that could not be selected.
        if let Some(neighbors) = predictor.bag_neighbors()
            && overlap == Overlap::default()
        {
            warn_of_near_copies(neighbors, context);
        }
        if predictor.has_too_few_points_for_mix() {
            context.warn(format!("{} points are too few to select the mix; it is 0, the k-NN set", data.len()));
        }
        let (reference, names) =
            if split { (self.rfm.train.clone(), self.names.clone()) } else { (points, data.names()) };
        Ok(Dance {
            label_kind: self.label_kind.of_all(&classes),
            fitted: self,
            classes,
            reference,
            names,
            classifier,
            predictor,
            overlap,
            new_label_share,
            calibration_hashes,
            data_hash: hash_of(data),
        })
    }

    /// Returns an error if calibration data hold picked points, or have another encoder or other dimensions than the
    /// fit points.
    fn check_calibration(&self, data: &Dataset) -> Result<()> {
        data.check_random()?;
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
        check_finite("calibration data", &data.embeddings)
    }

    /// Returns the method of the settings, for numbers of calibration points and classes. If the settings name none, it
    /// is the posterior, or fuse if the posterior needs more memory than there is.
    fn resolve_method(&mut self, calibration: usize, classes: usize, context: &Context<'_>) -> Result<Method> {
        let mut method = self.config.method()?;
        if let Method::Posterior(PosteriorMethod { calibration: use_of_points, .. }) = method {
            let bag = if use_of_points == PosteriorCalibration::Split { 0 } else { calibration };
            let (fit, dimensions) = (self.rfm.labels.len(), self.dimensions());
            if let Err(error) = posterior::check_memory(fit, bag, dimensions, classes) {
                let fuse = self.config.conformal.with_method(MethodName::Fuse);
                match fuse.method() {
                    Ok(fused) if self.config.conformal.method.is_none() => {
                        context.warn(format!("{error}. So the method is fuse, whose sets are larger"));
                        method = fused;
                    }
                    _ => return Err(error),
                }
            }
        }
        self.config.conformal.method = Some(method.name());
        Ok(method)
    }

    /// Selects the experts of the method posterior on the fit points, and trains them. In full calibration they are
    /// trained on the calibration points too.
    fn stack(
        &self,
        method: PosteriorMethod,
        device: &dyn Device,
        calibration: &Part,
        classes: usize,
        context: &Context<'_>,
    ) -> Result<Stack> {
        let Config { conformal, rfm: config, .. } = &self.config;
        let (rfm, directed) = (&self.rfm, self.point_shape().directed);
        let settings = learn(LearnInputs { device, rfm, config, directed, seed: conformal.seed, context })?;
        let fit = Part { embeddings: rfm.train.clone(), labels: rfm.labels.clone() };
        Stack::open(settings, [&fit, calibration], &rfm.metric_root, classes, method.calibration, None, context)
    }

    /// Returns the fit points, mapped by the learned metric.
    pub(super) fn mapped_fit_points(&self, classifier: &Classifier, context: &Context<'_>) -> Result<Part> {
        let embeddings = classifier.map(&self.rfm.train, context)?;
        Ok(Part { embeddings, labels: self.rfm.labels.clone() })
    }

    /// Returns the classes of the fit followed by those that only `data` has, and the labels of `data` as class ids.
    fn match_classes(&self, data: &Dataset) -> (Vec<String>, Vec<u32>) {
        let mut names = self.classes.clone();
        let mut known = class_ids(&self.classes);
        let mut labels = Vec::with_capacity(data.len());
        for &label in &data.labels {
            let name = &data.classes[label as usize];
            let next = known.len() as u32;
            let id = *known.entry(name).or_insert(next);
            if id as usize == names.len() {
                names.push(name.clone());
            }
            labels.push(id);
        }
        (names, labels)
    }
}

/// Returns the names of the classes that occur in `data`, and its points, normalised and labelled with ids of these
/// classes.
fn part(data: &Dataset, normalizer: &Normalizer) -> Result<(Vec<String>, Part)> {
    let mut part = normalised(data, normalizer, "fit data")?;
    let (classes, labels) = data.occurring_classes();
    part.labels = labels;
    Ok((classes, part))
}

/// Returns the points of `data`, normalised, with their labels. `origin` names them in messages.
fn normalised(data: &Dataset, normalizer: &Normalizer, origin: &str) -> Result<Part> {
    let mut embeddings: Matrix = data.embeddings.clone();
    normalizer.apply_named(origin, &mut embeddings, |row| data.rows[row] as usize)?;
    Ok(Part { embeddings, labels: data.labels.clone() })
}

/// Returns the SHA-256 of the embeddings, labels and class names of a data set, in hexadecimal.
pub fn hash_of(data: &Dataset) -> String {
    let mut hash = Sha256::new();
    hash.update((data.len() as u64).to_le_bytes());
    for value in data.embeddings.as_slice() {
        hash.update(value.to_le_bytes());
    }
    for label in &data.labels {
        hash.update(label.to_le_bytes());
    }
    for name in &data.classes {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
    }
    hexadecimal(&hash.finalize())
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Warns about calibration points that took part in the fit or are copies of fit points. One point that took part in
/// the fit ends the guarantee.
fn warn_of_overlap(overlap: Overlap, points: usize, context: &Context<'_>) {
    let Overlap { fitted, copies } = overlap;
    if fitted > 0 {
        context.warn(format!(
            "{fitted} of the {points} calibration points took part in the fit of the kernel: sets may be too small and \
             cover less than they should. Calibrate on points that took no part in the fit"
        ));
    }
    if copies > 0 {
        context.warn(format!(
            "{copies} of the {points} calibration points are copies of points of the fit, from other rows: coverage \
             holds for new points that repeat old ones as often"
        ));
    }
}

/// The largest distance of a near-copy, as a share of the distance to the tenth neighbor. Fewer than one point in a
/// hundred has a near-copy in data sets of pictures and texts, one in ten in two dimensions, and nearly all points if
/// they come in groups of copies.
const NEAR: f64 = 0.1;
/// The rank of the neighbor with whose distance a near-copy is compared.
const TENTH: usize = 10;
/// The share of points with a near-copy above which there is a warning.
const MANY: f64 = 0.3;

/// Warns if many calibration points have a near-copy among their neighbors. Sets cover new points without a near-copy
/// less often.
fn warn_of_near_copies(neighbors: &Neighbors, context: &Context<'_>) {
    let is_near = |row: usize| match neighbors.squared(row) {
        squared if squared.len() < TENTH => false,
        squared => squared[0] < NEAR * NEAR * squared[TENTH - 1],
    };
    let near = (0..neighbors.len()).filter(|&row| is_near(row)).count();
    if near as f64 > MANY * neighbors.len() as f64 {
        context.warn(format!(
            "{near} of the {} calibration points have a near-copy among the others or the fit points. If points come \
             in groups (frames of a video, augmentations of a picture, one patient), state the group of each point: \
             sets cover less if a new point has no copy here",
            neighbors.len()
        ));
    }
}

/// Warns about classes that only the calibration points have, and about classes without a calibration point.
fn warn_of_classes(
    fitted: &[String],
    classes: &[String],
    labels: &[u32],
    calibration: Calibration,
    context: &Context<'_>,
) {
    let new = &classes[fitted.len()..];
    if let Some(first) = new.first() {
        let effect = match calibration {
            Calibration::Reuse | Calibration::Full => "they can be in sets but are never the best label",
            Calibration::Split => "no neighbor carries them, so only a set of every label holds them",
        };
        context.warn(format!(
            "{} of the calibration points' classes were not among the fit data (the first is `{first}`): {effect}",
            new.len()
        ));
    }
    let mut occurs = vec![false; classes.len()];
    for &label in labels {
        occurs[label as usize] = true;
    }
    let missing = occurs.iter().filter(|occurs| !**occurs).count();
    if missing > 0 {
        let effect = match calibration {
            Calibration::Reuse => "no neighbor carries them, so only a set of every label holds them",
            Calibration::Split | Calibration::Full => "the guarantee does not cover them in particular",
        };
        let have = if missing == 1 { "class has" } else { "classes have" };
        context.warn(format!("{missing} {have} no calibration point: {effect}"));
    }
}

/// Warns if labels of the fit and the calibration data are of different kinds and some calibration labels are new: the
/// labels `0` and `False`, for example, are different classes.
fn warn_of_kinds(fit: Kind, calibration: Kind, new: bool, context: &Context<'_>) {
    if new && fit != calibration {
        context.warn(format!(
            "labels are {} in the fit data and {} in the calibration data; they are matched by name",
            fit.plural(),
            calibration.plural()
        ));
    }
}
