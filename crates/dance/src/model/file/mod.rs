//! The model file: one safetensors file with documented tensor names and JSON metadata (`docs/format.md`).
//!
//! A file is written under a temporary name and then renamed, so a file under its own name is always complete. Loading
//! checks a SHA-256 of all bytes except the checksum's own digits, then copies the tensors. Files are untrusted: every
//! fault becomes an error that describes it. A size that a file states is checked before memory of this size is
//! allocated.
//!
//! A model gives the same bytes on every machine.

mod calibrated;
mod header;
mod kinds;
mod stack;
mod tensors;

use std::collections::BTreeMap;
use std::path::Path;

use super::config::Config;
use super::dance::Dance;
use super::fitted::{Fitted, hexadecimal};
use crate::conformal::{Decider, MixSource, PosteriorPoints, Predictor, Reference, Setup};
use crate::context::Context;
use crate::data::{Names, Normalize, Normalizer, Source};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::{Part, Rfm};
use crate::method::{Calibration, Method, PosteriorCalibration};
use crate::whole_file::{self, WholeFile};

use header::Metadata;
use kinds::Kinds;
use stack::StackRecord;
use tensors::{Reader, Values};

/// The number of the file format that this version of the library writes and reads.
pub const FORMAT: u32 = 1;

/// The error levels at which the metadata hold the [mix](crate::method::Mix). At other levels a reader selects the mix
/// from the tensors `tuning_…`.
const NAMED_ALPHAS: [f64; 4] = [0.01, 0.05, 0.1, 0.2];

impl Dance {
    /// Writes the model to the file `path`. An existing file is replaced in one step.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        WholeFile::write(path, &self.to_bytes()?)
    }

    /// Returns the bytes of the model file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let metadata = self.metadata()?;
        Ok(header::write(&metadata, &self.tensors()))
    }

    /// Reads a model from the file `path`. The model will compute on `device`.
    pub fn load(device: &dyn Device, path: impl AsRef<Path>, context: &Context<'_>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_bytes(device, &whole_file::read(path, u64::MAX)?, path, context)
    }

    /// Reads a model from the bytes of its file. The model will compute on `device`. Errors name `path`.
    pub fn from_bytes(
        device: &dyn Device,
        bytes: &[u8],
        path: impl AsRef<Path>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let (metadata, reader) = header::read(bytes, path)?;
        let problem = |problem: String| Error::format(path, problem);
        let config: Config =
            serde_json::from_str(&metadata.config).map_err(|error| problem(format!("config: {error}")))?;
        let method = config.method()?;
        check_metadata(&metadata, &reader)?;
        let fitted = read_fitted(&metadata, config, &reader)?;

        // The reference points: fit points in split calibration, calibration points otherwise.
        let classes = metadata.classes.len();
        let reference = reader.matrix("reference", None)?;
        let d = fitted.dimensions();
        if reference.cols() != d {
            return Err(problem(format!("`reference` has {} columns, `train` has {d}", reference.cols())));
        }
        let labels = reader.labels("reference_labels", Some(reference.rows()), classes)?;
        let names = if method.calibration() == Calibration::Split {
            fitted.names.clone()
        } else {
            let rows = reference.rows();
            kinds::names(&reader, ["reference_rows", "reference_ids"], rows, metadata.kinds.reference_ids)?
        };
        let classifier = fitted.classifier(device, context)?;
        let mapped = Part { embeddings: classifier.map(&reference, context)?, labels };
        let setup = Setup { device, classes, kernel: fitted.rfm.kernel, context };
        let n = mapped.labels.len();
        // Each method is assembled by the function that calibration uses too.
        let predictor = match method {
            Method::Dance(method) => {
                let rank = reader.scores("calibration_rank_scores", None)?;
                let contrast = reader.scores("calibration_contrast_scores", Some(rank.len()))?;
                let selection = calibrated::selection(&reader, classes)?;
                let opened = Reference::open(mapped, setup)?;
                let novelty = calibrated::novelty(&reader, &opened)?;
                Predictor::of_thresholds(method, opened, (rank, contrast), selection, novelty, setup)?
            }
            Method::Fuse(method) => {
                let fit = fitted.mapped_fit_points(&classifier, context)?;
                let opened = Reference::open_bag(mapped, &fit, method.scores.seed, setup)?;
                let ids = reader.ids("bag_neighbors", n, opened.len())?;
                let neighbors = opened.neighbors_by_id(n, &ids, context)?;
                let own = reader.probabilities("calibration_probabilities", n)?;
                Predictor::of_bag(method, opened, neighbors, own, &fit.labels, setup)?
            }
            Method::Posterior(method) => {
                let bag = (&reference, &mapped.labels[..]);
                let calibrates = method.calibration;
                let stack = stack::open(metadata.stack, &reader, &fitted, bag, (classes, calibrates), context)?;
                let (opened, points) = match calibrates {
                    PosteriorCalibration::Full { .. } => {
                        let fit = fitted.mapped_fit_points(&classifier, context)?;
                        let fit_labels = fit.labels.clone();
                        let opened = Predictor::full_reference(mapped, fit, setup)?;
                        let ids = reader.ids("bag_neighbors", n, opened.len())?;
                        let neighbors = opened.neighbors_by_id(n, &ids, context)?;
                        (opened, PosteriorPoints::Bag { neighbors, fit_labels })
                    }
                    PosteriorCalibration::Split => {
                        let opened = Reference::open(mapped, setup)?;
                        let novelty = calibrated::novelty(&reader, &opened)?;
                        (opened, PosteriorPoints::Separate(novelty))
                    }
                };
                Predictor::of_stack(method, stack, opened, points, setup)?
            }
        };
        let hashes = reader.has("calibration_hashes").then(|| reader.hashes("calibration_hashes"));
        let calibration_hashes = hashes.transpose()?;
        Ok(Self {
            label_kind: metadata.kinds.labels.of_all(&metadata.classes),
            classes: metadata.classes,
            reference,
            names,
            classifier,
            predictor,
            overlap: metadata.overlap,
            new_label_share: metadata.new_label_share,
            calibration_hashes,
            data_hash: metadata.calibration_data_hash,
            fitted,
        })
    }

    /// Returns the metadata of the model file.
    fn metadata(&self) -> Result<Metadata> {
        let mut mix = BTreeMap::new();
        for alpha in NAMED_ALPHAS {
            if let Some(selected) = self.decide(alpha)?.mix {
                mix.insert(alpha.to_string(), selected);
            }
        }
        let config = serde_json::to_string(&self.fitted.config);
        Ok(Metadata {
            config: config.map_err(|error| Error::Data(format!("the settings cannot be written: {error}")))?,
            classes: self.classes.clone(),
            fit_classes: self.fitted.classes.len(),
            bandwidth: self.fitted.rfm.kernel.bandwidth(),
            shape: self.fitted.rfm.kernel.shape(),
            rounds: self.fitted.rfm.rounds,
            mix,
            guarantee: self.guarantee(),
            overlap: self.overlap,
            new_label_share: self.new_label_share,
            stack: match self.predictor.decider() {
                Decider::Posterior(posterior) => Some(StackRecord::of(posterior.stack())),
                Decider::Thresholds(_) | Decider::Bag(_) => None,
            },
            scale: self.fitted.scale,
            validation: self.fitted.validation,
            fidelity: self.fitted.fidelity.clone(),
            encoder: self.encoder().cloned(),
            fit_data_hash: self.fitted.data_hash.clone(),
            calibration_data_hash: self.data_hash.clone(),
            kinds: Kinds::of(self),
        })
    }

    /// Returns the tensors of the model file, by name.
    fn tensors(&self) -> BTreeMap<&'static str, Values<'_>> {
        let Fitted { rfm, normalizer, names, validation_hashes, validation_rows, .. } = &self.fitted;
        // Every model has the kernel machine and the reference points.
        let mut tensors = BTreeMap::from([
            ("metric_root", Values::Matrix(&rfm.metric_root)),
            ("train", Values::Matrix(&rfm.train)),
            ("train_labels", Values::Labels(&rfm.labels)),
            ("beta", Values::Matrix(&rfm.beta)),
            ("reference", Values::Matrix(&self.reference)),
            ("reference_labels", Values::Labels(&self.predictor.reference_labels()[..self.reference.rows()])),
        ]);
        // Full calibration computes novelty from neighbors of calibration points, other calibrations from their
        // distances.
        if let Some(neighbors) = self.predictor.bag_neighbors() {
            let (ids, columns) = neighbors.table();
            tensors.insert("bag_neighbors", Values::Ids(ids, columns));
        } else {
            tensors.insert("calibration_distances", Values::Scores(self.predictor.novelty().squared()));
        }
        // The decider of the method.
        match self.predictor.decider() {
            Decider::Bag(bag) => {
                tensors.insert("calibration_probabilities", Values::Floats(&bag.probabilities));
            }
            Decider::Posterior(posterior) => stack::insert(&mut tensors, posterior.stack()),
            Decider::Thresholds(thresholds) => {
                tensors.insert("calibration_rank_scores", Values::Scores(thresholds.rank.sorted()));
                tensors.insert("calibration_contrast_scores", Values::Scores(thresholds.contrast.sorted()));
                if let MixSource::Selected(selection) = &thresholds.mix {
                    tensors.extend([
                        ("tuning_rank_scores", Values::Scores(selection.rank.sorted())),
                        ("tuning_contrast_scores", Values::Scores(selection.contrast.sorted())),
                        ("tuning_offsets", Values::Offsets(selection.scores.labels.offsets())),
                        ("tuning_labels", Values::Labels(selection.scores.labels.values())),
                        ("tuning_label_rank_scores", Values::Scores(&selection.scores.rank)),
                        ("tuning_label_contrast_scores", Values::Scores(&selection.scores.contrast)),
                        ("tuning_true_labels", Values::Labels(&selection.labels)),
                    ]);
                }
            }
        }
        // Tensors that only some models have.
        insert_names(&mut tensors, ["train_rows", "train_ids"], names);
        if self.predictor.method().calibration() != Calibration::Split {
            insert_names(&mut tensors, ["reference_rows", "reference_ids"], &self.names);
        }
        if !validation_hashes.is_empty() {
            tensors.insert("validation_hashes", Values::Hashes(validation_hashes));
            tensors.insert("validation_rows", Values::Labels(validation_rows));
        }
        if let Some(hashes) = &self.calibration_hashes {
            tensors.insert("calibration_hashes", Values::Hashes(hashes));
        }
        if let Normalizer::Standardize { mean, scale } = normalizer {
            tensors.insert("normalize_mean", Values::Floats(mean));
            tensors.insert("normalize_scale", Values::Floats(scale));
        }
        tensors
    }
}

/// Adds the rows and the ids of points to `tensors` under the names `rows` and `ids`. Points may lack either of them.
fn insert_names<'a>(
    tensors: &mut BTreeMap<&'static str, Values<'a>>,
    [rows, ids]: [&'static str; 2],
    names: &'a Names,
) {
    if let Some(values) = &names.rows {
        tensors.insert(rows, Values::Labels(values));
    }
    if let Some(values) = &names.ids {
        tensors.insert(ids, Values::texts(values));
    }
}

/// Returns an error if entries of the metadata contradict each other.
fn check_metadata(metadata: &Metadata, reader: &Reader<'_>) -> Result<()> {
    let (classes, fit_classes) = (metadata.classes.len(), metadata.fit_classes);
    if classes < fit_classes || fit_classes == 0 {
        return Err(reader.problem(format!("{classes} classes cannot hold the kernel's {fit_classes}")));
    }
    if metadata.new_label_share.is_some_and(|share| !share.is_valid()) {
        return Err(reader.problem("`new_labels` counts more points than there are"));
    }
    let mut names: Vec<&String> = metadata.classes.iter().collect();
    names.sort_unstable();
    if let Some([twice, ..]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(reader.problem(format!("two classes are called `{twice}`")));
    }
    if !metadata.scale.is_valid() {
        return Err(reader.problem(format!("`probabilities` makes none of outputs: {:?}", metadata.scale)));
    }
    Ok(())
}

/// Reads the kernel machine, with the normalisation of embeddings and the rows and ids of its points.
fn read_fitted(metadata: &Metadata, config: Config, reader: &Reader<'_>) -> Result<Fitted> {
    let fit_classes = metadata.fit_classes;
    let train = reader.matrix("train", None)?;
    let (n, d) = (train.rows(), train.cols());
    let rfm = Rfm {
        kernel: Kernel::new(metadata.bandwidth, metadata.shape)?,
        metric_root: reader.matrix("metric_root", Some((d, d)))?,
        beta: reader.matrix("beta", Some((n, fit_classes)))?,
        labels: reader.labels("train_labels", Some(n), fit_classes)?,
        train,
        rounds: metadata.rounds,
    };
    let normalizer = match config.normalize {
        Normalize::L2 => Normalizer::L2,
        Normalize::None => Normalizer::None,
        Normalize::Standardize => Normalizer::Standardize {
            mean: reader.floats("normalize_mean", d)?,
            scale: reader.positive("normalize_scale", d)?,
        },
    };
    let (validation_hashes, validation_rows) = read_validation_points(reader)?;
    Ok(Fitted {
        classes: metadata.classes[..fit_classes].to_vec(),
        normalizer,
        rfm,
        scale: metadata.scale,
        names: kinds::names(reader, ["train_rows", "train_ids"], n, metadata.kinds.fit_ids)?,
        validation_hashes,
        validation_rows,
        source: Source::of(metadata.encoder.clone()),
        validation: metadata.validation,
        fidelity: metadata.fidelity.clone(),
        data_hash: metadata.fit_data_hash.clone(),
        label_kind: metadata.kinds.fit_labels,
        config,
    })
}

/// Reads the hashes and the rows of the validation points, of which the file holds nothing else. There may be none.
fn read_validation_points(reader: &Reader<'_>) -> Result<(Vec<u64>, Vec<u32>)> {
    if !reader.has("validation_hashes") {
        return Ok((Vec::new(), Vec::new()));
    }
    let hashes = reader.hashes("validation_hashes")?;
    match reader.rows("validation_rows", hashes.len())? {
        Some(rows) => Ok((hashes, rows)),
        None => Err(reader.problem("`validation_hashes` come without `validation_rows`; the file is damaged")),
    }
}
