//! The model file: one safetensors file with documented tensor names and JSON metadata (`docs/format.md`).
//!
//! Written to a temporary name and renamed, so that a file under its own name is always whole; checked on load by a
//! SHA-256 of every byte but the checksum's own digits. Loading maps the file and copies the tensors out. A file is
//! untrusted: whatever is wrong with it comes back as an error that says what, and nothing is allocated on its word alone.
//!
//! The same model gives the same bytes on every machine.

mod header;
mod tensors;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::backend::Backend;
use crate::config::Config;
use crate::embeddings::{Dataset, Normalizer};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::methods::dance::calibration::{Evidence, rule};
use crate::methods::dance::combine::{Combine, Levels};
use crate::methods::dance::{Calibration, CalibrationMode, Scorer};
use crate::mix::{Mix, Trial, Tuning};
use crate::model::{Dance, Fitted};
use crate::rfm::Rfm;
use crate::scores::paired::PairedScores;
use crate::threshold::CalibrationScores;

use header::Metadata;
use tensors::{Reader, Values};

/// The format this version writes, and the newest it reads.
pub const FORMAT: u32 = 2;

/// Levels for which the file names the mix; others are selected from the tuning tensors.
const NAMED_ALPHAS: [f64; 4] = [0.01, 0.05, 0.1, 0.2];

/// SHA-256 of a data set's embeddings, labels and class names, in hexadecimal.
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

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Dance {
    /// Writes the model to `path`, replacing what is there in one step.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Beside its final place, so that the rename stays within one file system.
        let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)
        };
        write().map_err(|error| {
            let _ = std::fs::remove_file(&temporary);
            Error::io(path, error)
        })
    }

    /// The bytes of the model file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let metadata = self.metadata()?;
        Ok(header::write(&metadata, &self.tensors()))
    }

    /// Reads a model.
    pub fn load(backend: &dyn Backend, path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        // SAFETY: the map is read once, here, and dropped. Another process that truncates the file meanwhile can end
        // this one with a signal, as it could any program that maps files; `save` never does, it renames.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| Error::io(path, error))?;
        Self::from_bytes(backend, &map, path)
    }

    /// Reads a model from the bytes of its file; `path` is for messages.
    pub fn from_bytes(backend: &dyn Backend, bytes: &[u8], path: &Path) -> Result<Self> {
        let (metadata, reader) = header::read(bytes, path)?;
        let problem = |problem: String| Error::format(path, problem);
        let mut config: Config =
            serde_json::from_str(&metadata.config).map_err(|error| problem(format!("config: {error}")))?;
        if metadata.format == 1 {
            config.dance.combine = Combine::Union; // there was no other, so it was not written
        }
        config.check()?;
        let fit_classes = metadata.fit_classes;
        if metadata.classes.len() < fit_classes || fit_classes == 0 {
            return Err(problem(format!(
                "{} classes cannot hold the kernel's {fit_classes}",
                metadata.classes.len()
            )));
        }

        let train = reader.matrix("train", None)?;
        let (n, d) = (train.rows(), train.cols());
        let rfm = Rfm {
            kernel: Kernel::new(metadata.bandwidth, metadata.shape)?,
            metric_root: reader.matrix("metric_root", Some((d, d)))?,
            beta: reader.matrix("beta", Some((n, fit_classes)))?,
            train,
            rounds: metadata.rounds,
        };
        let normalizer = match config.normalize {
            crate::Normalize::L2 => Normalizer::L2,
            crate::Normalize::None => Normalizer::None,
            crate::Normalize::Standardize => Normalizer::Standardize {
                mean: reader.floats("normalize_mean", d)?,
                scale: reader.floats("normalize_scale", d)?,
            },
        };
        let fitted = Fitted {
            classes: metadata.classes[..fit_classes].to_vec(),
            normalizer,
            rfm,
            train_labels: reader.labels("train_labels", Some(n), fit_classes)?,
            validation: metadata.validation,
            fidelity: metadata.fidelity,
            data_hash: metadata.fit_data_hash,
            config,
        };

        let classes = metadata.classes.len();
        let reference = reader.matrix("reference", None)?;
        if reference.cols() != d {
            return Err(problem(format!("`reference` has {} columns, `train` has {d}", reference.cols())));
        }
        let labels = reader.labels("reference_labels", Some(reference.rows()), classes)?;
        let mapped = fitted.map(backend, &reference)?;
        let centers = fitted.map(backend, &fitted.rfm.train)?;
        let dance = &fitted.config.dance;
        let tuning = read_tuning(&reader, classes)?;
        if let Some((mix, _)) = metadata.joint {
            Mix::Fixed(mix).check()?;
        }
        let (scorer, calibration) = if dance.calibration == CalibrationMode::Exact {
            let n = labels.len();
            let scorer = fitted.bag_scorer(mapped, labels, &centers, classes)?;
            let (ids, columns) = reader.ids("bag_neighbors", n, scorer.labels().len())?;
            let neighbors = backend.threads().run(|| scorer.named_neighbors(n, &ids, columns));
            let own = match dance.combine {
                Combine::Fuse => Some(reader.floats("calibration_probabilities", n)?),
                Combine::Union | Combine::Joint => None,
            };
            let calibration = Calibration::of_bag(&scorer, neighbors, own, tuning, metadata.joint, dance)?;
            (scorer, calibration)
        } else {
            let scorer = Scorer::new(mapped, labels, classes, fitted.rfm.kernel, dance)?;
            let rank = reader.scores("calibration_rank_scores", None)?;
            let contrast = reader.scores("calibration_contrast_scores", Some(rank.len()))?;
            let calibration = Calibration {
                evidence: read_evidence(&reader, dance.combine, metadata.joint.as_ref(), rank.len())?,
                rank: CalibrationScores::new(rank)?,
                contrast: CalibrationScores::new(contrast)?,
                tuning,
                joint: metadata.joint,
                mix: dance.mix,
                mode: dance.calibration,
                combine: dance.combine,
            };
            (scorer, calibration)
        };
        Ok(Self {
            classes: metadata.classes,
            reference,
            scorer,
            calibration,
            data_hash: metadata.calibration_data_hash,
            centers,
            fitted,
        })
    }

    fn metadata(&self) -> Result<Metadata> {
        let mut mix = BTreeMap::new();
        for alpha in NAMED_ALPHAS {
            if let Some(selected) = self.calibration.decide(alpha)?.mix {
                mix.insert(alpha.to_string(), selected);
            }
        }
        let config = serde_json::to_string(&self.fitted.config);
        Ok(Metadata {
            config: config
                .map_err(|error| Error::Data(format!("the settings cannot be written: {error}")))?,
            classes: self.classes.clone(),
            fit_classes: self.fitted.classes.len(),
            bandwidth: self.fitted.rfm.kernel.bandwidth(),
            shape: self.fitted.rfm.kernel.shape(),
            rounds: self.fitted.rfm.rounds,
            format: FORMAT,
            mix,
            joint: self.calibration.joint.clone(),
            guarantee: self.guarantee().into(),
            validation: self.fitted.validation,
            fidelity: self.fitted.fidelity.clone(),
            fit_data_hash: self.fitted.data_hash.clone(),
            calibration_data_hash: self.data_hash.clone(),
        })
    }

    fn tensors(&self) -> BTreeMap<&'static str, Values<'_>> {
        let Fitted { rfm, train_labels, normalizer, .. } = &self.fitted;
        let mut tensors = BTreeMap::from([
            ("metric_root", Values::Matrix(&rfm.metric_root)),
            ("train", Values::Matrix(&rfm.train)),
            ("train_labels", Values::Labels(train_labels)),
            ("beta", Values::Matrix(&rfm.beta)),
            ("reference", Values::Matrix(&self.reference)),
            ("reference_labels", Values::Labels(&self.scorer.labels()[..self.reference.rows()])),
        ]);
        match &self.calibration.evidence {
            Evidence::Bag(bag) => {
                let (ids, columns) = bag.neighbors().table();
                tensors.insert("bag_neighbors", Values::Ids(ids, columns));
                if let Some(own) = &bag.probabilities {
                    tensors.insert("calibration_probabilities", Values::Floats(own));
                }
            }
            Evidence::Separate | Evidence::Combined { .. } => {
                let Calibration { rank, contrast, .. } = &self.calibration;
                tensors.insert("calibration_rank_scores", Values::Scores(rank.sorted()));
                tensors.insert("calibration_contrast_scores", Values::Scores(contrast.sorted()));
            }
        }
        if let Evidence::Combined { levels, scores, .. } = &self.calibration.evidence {
            tensors.extend([
                ("level_rank_scores", Values::Scores(levels.rank.sorted())),
                ("level_contrast_scores", Values::Scores(levels.contrast.sorted())),
                ("level_probability_scores", Values::Scores(levels.probability.sorted())),
                ("combined_scores", Values::Scores(scores.sorted())),
            ]);
        }
        if let Normalizer::Standardize { mean, scale } = normalizer {
            tensors.insert("normalize_mean", Values::Floats(mean));
            tensors.insert("normalize_scale", Values::Floats(scale));
        }
        if let Some(tuning) = &self.calibration.tuning {
            tensors.extend([
                ("tuning_rank_scores", Values::Scores(tuning.rank.sorted())),
                ("tuning_contrast_scores", Values::Scores(tuning.contrast.sorted())),
                ("tuning_offsets", Values::Offsets(&tuning.scores.offsets)),
                ("tuning_labels", Values::Labels(&tuning.scores.labels)),
                ("tuning_label_rank_scores", Values::Scores(&tuning.scores.rank)),
                ("tuning_label_contrast_scores", Values::Scores(&tuning.scores.contrast)),
                ("tuning_true_labels", Values::Labels(&tuning.labels)),
            ]);
        }
        tensors
    }
}

fn read_evidence(
    reader: &Reader<'_>,
    combine: Combine,
    joint: Option<&(f64, Vec<Trial>)>,
    points: usize,
) -> Result<Evidence> {
    let Some(rule) = rule(combine, joint) else { return Ok(Evidence::Separate) };
    let rank = reader.scores("level_rank_scores", None)?;
    let column = |name| CalibrationScores::new(reader.scores(name, Some(rank.len()))?);
    let (contrast, probability) = (column("level_contrast_scores")?, column("level_probability_scores")?);
    let levels = Levels { contrast, probability, rank: CalibrationScores::new(rank)? };
    let scores = CalibrationScores::new(reader.scores("combined_scores", Some(points))?)?;
    Ok(Evidence::Combined { rule, levels, scores })
}

fn read_tuning(reader: &Reader<'_>, classes: usize) -> Result<Option<Tuning>> {
    if !reader.has("tuning_offsets") {
        return Ok(None);
    }
    let rank = reader.scores("tuning_rank_scores", None)?;
    let contrast = reader.scores("tuning_contrast_scores", Some(rank.len()))?;
    let labels = reader.labels("tuning_labels", None, classes)?;
    let offsets = reader.offsets("tuning_offsets", labels.len())?;
    let ascending = offsets.windows(2).all(|ends| labels[ends[0]..ends[1]].is_sorted_by(|a, b| a < b));
    if !ascending {
        return Err(reader.problem("`tuning_labels` do not ascend within a point"));
    }
    let points = offsets.len() - 1;
    Ok(Some(Tuning {
        rank: CalibrationScores::new(rank)?,
        contrast: CalibrationScores::new(contrast)?,
        scores: PairedScores {
            rank: reader.scores("tuning_label_rank_scores", Some(labels.len()))?,
            contrast: reader.scores("tuning_label_contrast_scores", Some(labels.len()))?,
            offsets,
            labels,
        },
        labels: reader.labels("tuning_true_labels", Some(points), classes)?,
        classes,
    }))
}
