//! The model: fit a kernel machine, calibrate it, ask it about new points.
//!
//! ```
//! use dance::{Config, Dance, PredictOptions, backend::Cpu, io, observe::Silent, split};
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/wordnet_minilm.npz");
//! let data = io::read(path.as_ref(), &io::ReadOptions::default())?.into_dataset()?;
//! # let data = data.select(&(0..data.len()).step_by(8).collect::<Vec<_>>());
//! let parts = split::stratified(&data.labels, &[0.4, 0.4, 0.2], 0)?;
//! let backend = Cpu::new(0)?;
//! # #[allow(unused_mut)]
//! let mut config = Config::default();
//! # config.tune.evaluations = 2;
//! let fitted = Dance::fit(&backend, &data.select(&parts[0]), &config, &Silent)?;
//! let model = fitted.calibrate(&backend, &data.select(&parts[1]), &Silent)?;
//! let test = data.select(&parts[2]);
//! let scored = model.score(&backend, &test.embeddings, PredictOptions::default())?;
//! let sets = model.decide(&scored, 0.1)?.sets; // and at any other level, without another search
//! assert_eq!(sets.len(), test.len());
//! # Ok::<(), dance::Error>(())
//! ```

use std::collections::HashMap;

use crate::backend::Backend;
use crate::config::Config;
use crate::embeddings::{Dataset, Normalizer, check_finite};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::methods::dance::{Calibration, CalibrationMode, DanceConfig, Scorer};
use crate::mix::Mix;
use crate::observe::{Event, Observer};
use crate::prediction::{Best, PValues, PredictOptions, Prediction, Scored};
use crate::rfm::{self, Rfm, Score};
use crate::{split, tune};

/// Queries that are worked on at a time: what prediction needs beside its result does not grow with their number.
const BLOCK: usize = 2048;

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
    /// Labels of its training points.
    pub train_labels: Vec<u32>,
    /// Score on the validation points.
    pub validation: Score,
    /// What was computed on how many points, in words.
    pub fidelity: String,
    /// SHA-256 of the points and labels it was fitted on.
    pub data_hash: String,
}

/// A calibrated model.
#[derive(Clone, Debug)]
pub struct Dance {
    pub(crate) fitted: Fitted,
    /// The kernel's classes, then those that only calibration points have.
    pub(crate) classes: Vec<String>,
    /// Reference points, normalised.
    pub(crate) reference: Matrix,
    pub(crate) scorer: Scorer,
    pub(crate) calibration: Calibration,
    /// SHA-256 of the points and labels it was calibrated on.
    pub(crate) data_hash: String,
    /// Training points, mapped.
    pub(crate) centers: Matrix,
}

impl Dance {
    /// Tunes and fits a kernel machine on `data`.
    pub fn fit(
        backend: &dyn Backend,
        data: &Dataset,
        config: &Config,
        observer: &dyn Observer,
    ) -> Result<Fitted> {
        config.check()?;
        let normalizer = Normalizer::fit(config.normalize, &data.embeddings);
        let mut points = data.embeddings.clone();
        normalizer.apply("fit data", &mut points)?;
        let (classes, labels) = (data.classes.len(), &data.labels);
        let tuned = tune::fit(backend, &points, labels, classes, &config.rfm, &config.tune, observer)?;
        let train_labels = if config.tune.refit {
            labels.clone()
        } else {
            let parts = split::stratified(
                labels,
                &[1.0 - config.tune.validation, config.tune.validation],
                config.tune.seed,
            )?;
            parts[0].iter().map(|&row| labels[row]).collect()
        };
        Ok(Fitted {
            config: config.clone(),
            classes: data.classes.clone(),
            normalizer,
            rfm: tuned.rfm,
            train_labels,
            validation: tuned.validation,
            fidelity: tuned.fidelity,
            data_hash: crate::artifact::hash_of(data),
        })
    }

    /// Calibrates on other points, with the same kernel and, where given, other settings of the method.
    pub fn recalibrate(
        &self,
        backend: &dyn Backend,
        data: &Dataset,
        config: Option<DanceConfig>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let mut fitted = self.fitted.clone();
        fitted.config.dance = config.unwrap_or(fitted.config.dance);
        fitted.calibrate(backend, data, observer)
    }

    /// Class names; a class id indexes them.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The kernel machine.
    pub fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// What the calibration points say.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Labels of the reference points, among which neighbors are found.
    pub fn reference_labels(&self) -> &[u32] {
        self.scorer.labels()
    }

    /// The guarantee that holds for the sets, in words.
    pub fn guarantee(&self) -> &'static str {
        self.calibration.mode.guarantee()
    }

    /// Class ids of labels by their names; `None` for a name the model does not know.
    pub fn class_ids(&self, data: &Dataset) -> Vec<Option<u32>> {
        let place: HashMap<&str, u32> = self.classes.iter().map(String::as_str).zip(0..).collect();
        let ids: Vec<_> = data.classes.iter().map(|name| place.get(name.as_str()).copied()).collect();
        data.labels.iter().map(|&label| ids[label as usize]).collect()
    }

    /// Everything about `queries` (as they come from the encoder) that does not depend on the error level.
    pub fn score(&self, backend: &dyn Backend, queries: &Matrix, options: PredictOptions) -> Result<Scored> {
        self.score_from(backend, queries, 0, options)
    }

    /// [`score`](Self::score) for queries that arrive in pieces: the first of these is number `first_row`.
    pub fn score_from(
        &self,
        backend: &dyn Backend,
        queries: &Matrix,
        first_row: usize,
        options: PredictOptions,
    ) -> Result<Scored> {
        let d = self.check_queries(queries)?;
        let mut scored = Scored { options, ..Scored::default() };
        let best = options.best || options.empty == crate::sets::EmptySets::Top1;
        for start in (0..queries.rows()).step_by(BLOCK) {
            let rows = start..(start + BLOCK).min(queries.rows());
            let mut block =
                Matrix::new(queries.as_slice()[rows.start * d..rows.end * d].to_vec(), rows.len(), d)?;
            self.fitted.normalizer.apply("queries", &mut block)?;
            let mapped = self.fitted.map(backend, &block)?;
            let (neighbors, scores) = self.scorer.score(backend, &mapped, first_row + start)?;
            let best = best.then(|| self.best(backend, &mapped)).transpose()?;
            scored.extend(&neighbors, &scores, best);
        }
        Ok(scored)
    }

    /// The sets at error level `alpha`, the mix selected for it where the model selects one.
    pub fn decide(&self, scored: &Scored, alpha: f64) -> Result<Prediction> {
        let thresholds = self.calibration.thresholds(alpha)?;
        Ok(Prediction::new(scored, thresholds, self.classes.len(), self.scorer.labels()))
    }

    /// Scores and decides in one call.
    pub fn predict(
        &self,
        backend: &dyn Backend,
        queries: &Matrix,
        alpha: f64,
        options: PredictOptions,
    ) -> Result<(Scored, Prediction)> {
        let scored = self.score(backend, queries, options)?;
        let prediction = self.decide(&scored, alpha)?;
        Ok((scored, prediction))
    }

    /// p-values of every label under both scores.
    pub fn p_values(&self, scored: &Scored) -> PValues {
        PValues::new(&scored.scores, &self.calibration)
    }

    /// Probabilities of the kernel's classes for `queries` (as they come from the encoder), a row a query.
    pub fn probabilities(&self, backend: &dyn Backend, queries: &Matrix) -> Result<Matrix> {
        self.check_queries(queries)?;
        let mut points = queries.clone();
        self.fitted.normalizer.apply("queries", &mut points)?;
        let mapped = self.fitted.map(backend, &points)?;
        let outputs =
            backend.predict(&mapped, &self.centers, self.fitted.rfm.kernel, &self.fitted.rfm.beta)?;
        Ok(rfm::probabilities(outputs, self.fitted.config.floor(self.fitted.classes.len())))
    }

    /// The number of dimensions, if `queries` have it and only finite numbers.
    fn check_queries(&self, queries: &Matrix) -> Result<usize> {
        let d = self.reference.cols();
        if queries.cols() != d {
            return Err(Error::Shape {
                what: "dimensions of the queries (those of the encoder the model was fitted with)".into(),
                expected: d.to_string(),
                found: queries.cols().to_string(),
            });
        }
        check_finite("queries", queries)?;
        Ok(d)
    }

    fn best(&self, backend: &dyn Backend, mapped: &Matrix) -> Result<Best> {
        let outputs =
            backend.predict(mapped, &self.centers, self.fitted.rfm.kernel, &self.fitted.rfm.beta)?;
        let floor = self.fitted.config.floor(self.fitted.classes.len());
        // The clamp can tie the largest outputs: the label is that of the output, the probability that of the clamp.
        let labels: Vec<u32> = (0..outputs.rows()).map(|row| rfm::largest(outputs.row(row)) as u32).collect();
        let probabilities = rfm::probabilities(outputs, floor);
        let probabilities =
            labels.iter().enumerate().map(|(row, &label)| probabilities.row(row)[label as usize]).collect();
        Ok(Best { labels, probabilities })
    }
}

impl Fitted {
    /// Calibrates on `data`: points that did not fit the kernel. Classes are matched by name; new ones are allowed.
    pub fn calibrate(self, backend: &dyn Backend, data: &Dataset, observer: &dyn Observer) -> Result<Dance> {
        let config = self.config.dance;
        config.check()?;
        if data.embeddings.cols() != self.rfm.train.cols() {
            return Err(Error::Shape {
                what: "dimensions of the calibration points".into(),
                expected: self.rfm.train.cols().to_string(),
                found: data.embeddings.cols().to_string(),
            });
        }
        let (classes, labels) = self.match_classes(data);
        self.notice_classes(&classes, &labels, config.calibration, observer);
        check_finite("calibration data", &data.embeddings)?;
        let mut points = data.embeddings.clone();
        self.normalizer.apply("calibration data", &mut points)?;
        let mapped = self.map(backend, &points)?;
        let centers = self.map(backend, &self.rfm.train)?;
        let kernel = self.rfm.kernel;
        let (reference, scorer, calibration) = match config.calibration {
            CalibrationMode::Reuse => {
                let scorer = Scorer::new(mapped, labels, classes.len(), kernel, &config)?;
                let calibration = Calibration::reuse(backend, &scorer, &config)?;
                (points, scorer, calibration)
            }
            CalibrationMode::Disjoint => {
                let scorer =
                    Scorer::new(centers.clone(), self.train_labels.clone(), classes.len(), kernel, &config)?;
                let calibration = Calibration::disjoint(backend, &scorer, &mapped, &labels, &config)?;
                (self.rfm.train.clone(), scorer, calibration)
            }
        };
        if calibration.mix == Mix::Auto && calibration.tuning.is_none() {
            observer.notice(&Event::Warning(format!(
                "{} calibration points are too few to select the mix; it is 0, the k-NN set",
                data.len()
            )));
        }
        let data_hash = crate::artifact::hash_of(data);
        Ok(Dance { fitted: self, classes, reference, scorer, calibration, data_hash, centers })
    }

    /// Normalised points in mapped space. A row comes out the same in every batch: few rows are padded, since a product of
    /// one row sums in another order.
    pub(crate) fn map(&self, backend: &dyn Backend, points: &Matrix) -> Result<Matrix> {
        const LEAST_ROWS: usize = 16;
        let (rows, cols) = (points.rows(), points.cols());
        let root = &self.rfm.metric_root;
        let mapped = if rows >= LEAST_ROWS {
            backend.project(points, root)?
        } else {
            let mut padded = points.as_slice().to_vec();
            padded.resize(LEAST_ROWS * cols, 0.0);
            let mut mapped = backend.project(&Matrix::new(padded, LEAST_ROWS, cols)?, root)?.into_vec();
            mapped.truncate(rows * cols);
            Matrix::new(mapped, rows, cols)?
        };
        check_finite("mapped points (scale the embeddings down, or normalise them)", &mapped)?;
        Ok(mapped)
    }

    /// The kernel's classes followed by those only `data` has, and the labels of `data` among them.
    fn match_classes(&self, data: &Dataset) -> (Vec<String>, Vec<u32>) {
        let mut classes = self.classes.clone();
        let mut place: HashMap<&str, u32> = self.classes.iter().map(String::as_str).zip(0..).collect();
        let mut labels = Vec::with_capacity(data.len());
        for &label in &data.labels {
            let name = &data.classes[label as usize];
            labels.push(*place.entry(name).or_insert_with(|| {
                classes.push(name.clone());
                classes.len() as u32 - 1
            }));
        }
        (classes, labels)
    }

    /// Says what the calibration points have that the kernel lacks, and the other way round.
    fn notice_classes(
        &self,
        classes: &[String],
        labels: &[u32],
        mode: CalibrationMode,
        observer: &dyn Observer,
    ) {
        let new = &classes[self.classes.len()..];
        if let Some(first) = new.first() {
            let effect = match mode {
                CalibrationMode::Reuse => "they can be in sets but are never the best label",
                CalibrationMode::Disjoint => {
                    "no neighbor carries them, so only a set of every label holds them"
                }
            };
            observer.notice(&Event::Warning(format!(
                "{} of the calibration points' classes were not among the fit data (the first is `{first}`): {effect}",
                new.len()
            )));
        }
        let mut seen = vec![false; classes.len()];
        for &label in labels {
            seen[label as usize] = true;
        }
        let missing = seen.iter().filter(|seen| !**seen).count();
        if missing > 0 {
            let effect = match mode {
                CalibrationMode::Reuse => "no neighbor carries them, so only a set of every label holds them",
                CalibrationMode::Disjoint => "coverage says nothing about them in particular",
            };
            observer
                .notice(&Event::Warning(format!("{missing} classes have no calibration point: {effect}")));
        }
    }
}
