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

use std::collections::{HashMap, HashSet};

use crate::backend::Backend;
use crate::config::Config;
use crate::embeddings::{Dataset, Normalizer, check_finite};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::methods::dance::{Calibration, CalibrationMode, Combine, DanceConfig, Scorer};
use crate::observe::{Event, Observer};
use crate::prediction::{Best, PredictOptions, Prediction, Scored};
use crate::rfm::{Rfm, Score};
use crate::sets::EmptySets;
use crate::{split, tune};

/// Queries that are worked on at a time: what prediction needs beside its result does not grow with their number.
pub(crate) const BLOCK: usize = 2048;

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
        if self.data_hash == self.fitted.data_hash {
            return "none: calibrated on the points that fitted the kernel";
        }
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
        self.score_rows(backend, queries.as_slice(), queries.cols(), first_row, options)
    }

    /// [`score_from`](Self::score_from) for queries that lie in memory row after row, read where they are.
    pub fn score_rows(
        &self,
        backend: &dyn Backend,
        queries: &[f32],
        cols: usize,
        first_row: usize,
        options: PredictOptions,
    ) -> Result<Scored> {
        let d = self.fitted.check_rows(queries, cols)?;
        let mut scored = Scored { options, ..Scored::default() };
        let best = options.best || options.empty == EmptySets::Top1;
        let fused = self.calibration.combine == Combine::Fuse;
        for (block, rows) in queries.chunks(BLOCK * d).enumerate() {
            let start = first_row + block * BLOCK;
            let mapped = self.fitted.map_rows(backend, rows)?;
            let classified =
                (best || fused).then(|| self.fitted.classify_mapped(backend, &mapped, &self.centers));
            let classified = classified.transpose()?;
            let probabilities =
                classified.as_ref().filter(|_| fused).map(|classified| &classified.probabilities);
            let answers = self.calibration.answer(backend, &self.scorer, &mapped, start, probabilities)?;
            scored.extend(&answers, classified.filter(|_| best).map(Best::of));
        }
        Ok(scored)
    }

    /// The sets at error level `alpha`, the mix selected for it where the model selects one.
    pub fn decide(&self, scored: &Scored, alpha: f64) -> Result<Prediction> {
        let decision = self.calibration.decide(alpha)?;
        Ok(Prediction::new(scored, decision, self.classes.len(), self.scorer.labels()))
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
}

impl Fitted {
    /// The same settings fitted to all of `data`, the validation points with them. `data` is what this was fitted on.
    pub fn refit(&self, backend: &dyn Backend, data: &Dataset, observer: &dyn Observer) -> Result<Self> {
        let mut points = data.embeddings.clone();
        self.normalizer.apply("fit data", &mut points)?;
        let (classes, kernel, rounds) = (self.classes.len(), self.rfm.kernel, self.rfm.rounds);
        let rfm = &self.config.rfm;
        let rfm = tune::refit(backend, &points, &data.labels, classes, kernel, rounds, rfm, observer)?;
        let mut refitted = Self { rfm, train_labels: data.labels.clone(), ..self.clone() };
        refitted.config.tune.refit = true;
        Ok(refitted)
    }

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
        self.notice_overlap(&points, observer);
        let mapped = self.map(backend, &points)?;
        let centers = self.map(backend, &self.rfm.train)?;
        let kernel = self.rfm.kernel;
        let probabilities = match config.combine {
            Combine::Fuse => Some(self.own_probabilities(backend, &mapped, &centers, &labels)?),
            Combine::Union | Combine::Joint => None,
        };
        let (reference, scorer, calibration) = match config.calibration {
            CalibrationMode::Reuse => {
                let scorer = Scorer::new(mapped, labels, classes.len(), kernel, &config)?;
                let calibration = Calibration::reuse(backend, &scorer, probabilities.as_deref(), &config)?;
                (points, scorer, calibration)
            }
            CalibrationMode::Disjoint => {
                let scorer =
                    Scorer::new(centers.clone(), self.train_labels.clone(), classes.len(), kernel, &config)?;
                let own = probabilities.as_deref();
                let calibration = Calibration::disjoint(backend, &scorer, &mapped, &labels, own, &config)?;
                (self.rfm.train.clone(), scorer, calibration)
            }
            CalibrationMode::Exact => {
                let n = labels.len();
                let scorer = self.bag_scorer(mapped, labels, &centers, classes.len())?;
                let neighbors = scorer.neighbors_of_first(backend, n)?;
                let fit = (&centers, &self.train_labels[..]);
                let calibration =
                    Calibration::exact(backend, &scorer, neighbors, probabilities, fit, &config)?;
                (points, scorer, calibration)
            }
        };
        if calibration.lacks_mix() {
            observer.notice(&Event::Warning(format!(
                "{} points are too few to select the mix; it is 0, the k-NN set",
                data.len()
            )));
        }
        let data_hash = crate::artifact::hash_of(data);
        Ok(Dance { fitted: self, classes, reference, scorer, calibration, data_hash, centers })
    }

    /// Mapped calibration points, and where the settings want it the training points behind them, as reference of a bag.
    pub(crate) fn bag_scorer(
        &self,
        mut mapped: Matrix,
        mut labels: Vec<u32>,
        centers: &Matrix,
        classes: usize,
    ) -> Result<Scorer> {
        let config = &self.config.dance;
        let n = labels.len();
        if config.fit_neighbors {
            let cols = mapped.cols();
            let mut both = mapped.into_vec();
            both.extend_from_slice(centers.as_slice());
            mapped = Matrix::new(both, n + centers.rows(), cols)?;
            labels.extend_from_slice(&self.train_labels);
        }
        Ok(Scorer::new(mapped, labels, classes, self.rfm.kernel, config)?.for_bag(n))
    }

    /// Every mapped point's probability of its own label; 0 for a label the kernel does not know.
    fn own_probabilities(
        &self,
        backend: &dyn Backend,
        mapped: &Matrix,
        centers: &Matrix,
        labels: &[u32],
    ) -> Result<Vec<f32>> {
        let mut own = Vec::with_capacity(labels.len());
        for (block, labels) in labels.chunks(BLOCK).enumerate() {
            let rows: Vec<usize> = (block * BLOCK..block * BLOCK + labels.len()).collect();
            let classified = self.classify_mapped(backend, &mapped.select(&rows), centers)?;
            let of =
                |(row, &label): (usize, &u32)| classified.probabilities.row(row).get(label as usize).copied();
            own.extend(labels.iter().enumerate().map(|pair| of(pair).unwrap_or(0.0)));
        }
        Ok(own)
    }

    /// Normalised points in mapped space. A row comes out the same in every batch.
    pub(crate) fn map(&self, backend: &dyn Backend, points: &Matrix) -> Result<Matrix> {
        let mapped = backend.project(points, &self.rfm.metric_root)?;
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

    /// Says how many calibration points have fitted the kernel, where copies that happen to be in both do not explain it.
    fn notice_overlap(&self, points: &Matrix, observer: &dyn Observer) {
        const SHARE: f64 = 0.1;
        fn bits(matrix: &Matrix, row: usize) -> &[u32] {
            bytemuck::cast_slice(matrix.row(row))
        }
        let train = &self.rfm.train;
        let known: HashSet<&[u32]> = (0..train.rows()).map(|row| bits(train, row)).collect();
        let seen = (0..points.rows()).filter(|&row| known.contains(bits(points, row))).count();
        if seen as f64 > SHARE * points.rows() as f64 {
            observer.notice(&Event::Warning(format!(
                "{seen} of the {} calibration points are among those that fitted the kernel: sets will be too small and cover \
                 less than they should. Calibrate on points the kernel has not seen",
                points.rows()
            )));
        }
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
                CalibrationMode::Reuse | CalibrationMode::Exact => {
                    "they can be in sets but are never the best label"
                }
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
                CalibrationMode::Disjoint | CalibrationMode::Exact => {
                    "coverage says nothing about them in particular"
                }
            };
            observer
                .notice(&Event::Warning(format!("{missing} classes have no calibration point: {effect}")));
        }
    }
}
