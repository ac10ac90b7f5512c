//! A fitted kernel machine with its settings. It is calibrated here, and warnings name problems of the calibration
//! points.

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
    /// The settings of the fit, of the prediction sets and of the class probabilities.
    pub config: Config,
    /// The names of the classes of the fit points, by class id.
    pub classes: Vec<String>,
    /// The normalisation of embeddings.
    pub normalizer: Normalizer,
    /// The kernel machine: its metric, fit points and coefficients.
    pub(crate) rfm: Rfm,
    /// The map from outputs of the kernel machine to class probabilities.
    pub(crate) scale: OutputScale,
    /// The rows and ids of the fit points.
    pub names: Names,
    /// A 64-bit hash of each validation point that the machine does not keep among its fit points.
    pub(crate) validation_hashes: Vec<u64>,
    /// The row number in its data set of each point in `validation_hashes`.
    pub(crate) validation_rows: Vec<u32>,
    /// The identity of the file or array of the fit points, with the encoder of the points.
    pub source: Source,
    /// The accuracy and the squared loss on the validation points, with which the kernel was chosen.
    pub validation: Quality,
    /// A sentence for outputs about the numbers of points on which each step of the fit was computed.
    pub fidelity: String,
    /// The SHA-256 of the fit points and labels, in hexadecimal.
    pub data_hash: String,
    /// The kind of the labels: text, numbers or truth values.
    pub label_kind: Kind,
}

impl Fitted {
    /// Tunes and fits a kernel machine on `data`. To compare kernels, a part of the points is held out for validation;
    /// with few points, each point is left out in turn.
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

    /// Returns the kernel. The kernel's bandwidth is a distance under the learned metric.
    pub fn kernel(&self) -> Kernel {
        self.rfm.kernel
    }

    /// Returns the number of rounds, each of which learned the metric anew. After 0 rounds the metric is the identity.
    pub fn rounds(&self) -> usize {
        self.rfm.rounds
    }

    /// Returns the normalised fit points, which the machine keeps.
    pub fn points(&self) -> &Matrix {
        &self.rfm.train
    }

    /// Returns the symmetric square root of the learned metric, a d×d matrix for embeddings with d dimensions.
    pub fn metric_root(&self) -> &Matrix {
        &self.rfm.metric_root
    }

    /// Returns the map from outputs of the kernel machine to class probabilities. As JSON it has the numbers `floor`,
    /// `ceiling` and `power`.
    pub fn probability_scale(&self) -> impl serde::Serialize + use<> {
        self.scale
    }

    /// Returns the number of dimensions of the embeddings.
    pub fn dimensions(&self) -> usize {
        self.rfm.train.cols()
    }

    /// Returns the requirements on a query: its number of dimensions, and whether a vector of zeros is invalid because
    /// it has no direction.
    pub fn point_shape(&self) -> PointShape {
        PointShape { dimensions: self.dimensions(), directed: self.config.normalize == Normalize::L2 }
    }

    /// Opens the machine on a device as a plain classifier, without prediction sets.
    pub fn classifier(&self, device: &dyn Device, context: &Context<'_>) -> Result<Classifier> {
        Classifier::open(device, &self.rfm, &self.normalizer, self.scale, context)
    }

    /// Calibrates on the points `data`, which should have taken no part in the fit. Classes are matched by name, and
    /// `data` may have classes that the fit points do not have.
    pub fn calibrate(self, device: &dyn Device, data: &Dataset, context: &Context<'_>) -> Result<Dance> {
        let classifier = self.classifier(device, context)?;
        self.calibrate_with(classifier, device, data, context)
    }

    /// Does the work of [`calibrate`](Self::calibrate) with a `classifier` that is already open.
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

    /// Returns an error unless `data` can calibrate the machine. Picked points, another encoder than that of the fit
    /// points, and another number of dimensions are errors.
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

    /// Returns the method that the settings name. Without a name it is [`Posterior`](MethodName::Posterior), or
    /// [`Fuse`](MethodName::Fuse) if the former needs more memory than there is. `calibration` and `classes` are
    /// numbers of points and classes.
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

    /// Selects the experts of the method [`Posterior`](MethodName::Posterior) on the fit points, and trains them. In
    /// full calibration they are also trained on the calibration points.
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

    /// Returns the fit points with their labels, mapped by the learned metric.
    pub(super) fn mapped_fit_points(&self, classifier: &Classifier, context: &Context<'_>) -> Result<Part> {
        let embeddings = classifier.map(&self.rfm.train, context)?;
        Ok(Part { embeddings, labels: self.rfm.labels.clone() })
    }

    /// Returns class names, and the label of every point of `data` as an index in this list. The list has the classes
    /// of the fit points, then classes that only `data` has.
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

/// Returns the names of the classes that occur in `data`, and its points, normalised. Labels are indices in this list
/// of names.
fn part(data: &Dataset, normalizer: &Normalizer) -> Result<(Vec<String>, Part)> {
    let mut part = normalised(data, normalizer, "fit data")?;
    let (classes, labels) = data.occurring_classes();
    part.labels = labels;
    Ok((classes, part))
}

/// Returns the points of `data`, normalised, with their labels. `origin` names the points in messages.
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

/// Warns about calibration points that took part in the fit or are copies of fit points. A single point that took part
/// in the fit ends the guarantee. `points` is the number of calibration points.
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

/// The largest distance of a near-copy, as a share of the distance to the tenth neighbor.
///
/// In data sets of pictures and texts, fewer than one point in a hundred has a near-copy; in two dimensions, one in ten
/// has one. Nearly all points have one if they come in groups of copies.
const NEAR: f64 = 0.1;
/// The rank of the neighbor whose distance is compared with that of a possible near-copy.
const TENTH: usize = 10;
/// The share of calibration points with a near-copy above which a warning is given.
const MANY: f64 = 0.3;

/// Warns if many calibration points have a near-copy among their `neighbors`. Then new points without a near-copy are
/// covered less often.
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

/// Warns about classes that only calibration points have, and about classes without a calibration point. `classes`
/// begins with the classes `fitted` of the fit points, and `labels` are those of the calibration points.
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

/// Warns if labels of the fit data and of the calibration data are of different kinds and `new` is true: some
/// calibration labels are new. The labels `0` and `False`, for example, are different classes.
fn warn_of_kinds(fit: Kind, calibration: Kind, new: bool, context: &Context<'_>) {
    if new && fit != calibration {
        context.warn(format!(
            "labels are {} in the fit data and {} in the calibration data; they are matched by name",
            fit.plural(),
            calibration.plural()
        ));
    }
}
