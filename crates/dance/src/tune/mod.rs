//! Tuning: bandwidth and shape by Bayesian optimisation of the RFM's validation accuracy (the paper, §4.1.2), then the
//! fit itself.
//!
//! 1. **Search**: `evaluations` settings, the first few spread evenly, the rest where a Gaussian process expects the most
//!    improvement on (log bandwidth, shape). Each is a whole RFM loop. With more than `search_points` training points the
//!    loops run on a stratified sample of that size, judged on all validation points. The distances before any metric are
//!    computed once.
//! 2. **Confirm**: the best few settings again on all training points, when the search used a sample.
//! 3. **Refit** (optional): the chosen setting and number of rounds on training and validation points together. Legitimate,
//!    since calibration points are others.
//!
//! A trial ends after two rounds without improvement, and averages the AGOP over at most 4,000 points.
//!
//! Bandwidths are multiples of the median distance among training points before any metric, so that one range fits all data.

mod gaussian_process;
mod search;

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, FitPoints};
use crate::error::{Error, Result, human_bytes};
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::observe::{self, Event, Observer};
use crate::rfm::{self, Iterate, Rfm, RfmConfig, Score};
use crate::split;

use search::Search;

/// Rounds without improvement after which a trial ends; a refit has none.
const TRIAL_PATIENCE: usize = 2;
/// Most points over which a trial's AGOP is averaged.
const TRIAL_AGOP_POINTS: usize = 4000;
/// A sample larger than this share of the training points saves too little to be worth confirming.
const LARGEST_SAMPLE: f64 = 0.75;

/// What is searched, how long, and on how much of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TuneConfig {
    /// Settings to try.
    pub evaluations: usize,
    /// Range of bandwidths, in median distances. Equal ends fix it.
    pub bandwidth: (f64, f64),
    /// Range of shapes. Equal ends fix it.
    pub shape: (f64, f64),
    /// Share of the points held out to judge settings.
    pub validation: f64,
    /// Most training points a trial uses; `None` uses all, always.
    pub search_points: Option<usize>,
    /// Settings tried again on all points when trials used a sample.
    pub confirm: usize,
    /// Fit once more on training and validation points together.
    pub refit: bool,
    /// Seed of the validation split, the sample and the search.
    pub seed: u64,
    /// Most bytes the fit may allocate.
    pub memory: Option<u64>,
}

impl Default for TuneConfig {
    fn default() -> Self {
        Self {
            evaluations: 25,
            bandwidth: (0.1, 20.0),
            shape: (0.5, 2.0),
            validation: 0.2,
            search_points: Some(3000),
            confirm: 2,
            refit: true,
            seed: 0,
            memory: None,
        }
    }
}

impl TuneConfig {
    fn check(&self) -> Result<()> {
        if self.evaluations == 0 {
            return Err(Error::config("evaluations", 0, "at least 1"));
        }
        let range = |name, (low, high): (f64, f64), least: f64, expected| {
            if low.is_finite() && high.is_finite() && low >= least && low <= high && low > 0.0 {
                return Ok(());
            }
            Err(Error::config(name, format!("{low}…{high}"), expected))
        };
        range("bandwidth", self.bandwidth, 0.0, "a positive number of median distances, or a range of them")?;
        range("shape", self.shape, 0.5, "at least 0.5, or a range from there")?;
        if !(self.validation > 0.0 && self.validation < 1.0) {
            return Err(Error::config("validation", self.validation, "between 0 and 1, such as 0.2"));
        }
        if self.search_points.is_some_and(|points| points < 2) {
            return Err(Error::config("search_points", "below 2", "at least 2"));
        }
        Ok(())
    }

    /// Settings that will be tried: one when there is nothing to search.
    fn trials(&self) -> usize {
        let fixed = self.bandwidth.0 == self.bandwidth.1 && self.shape.0 == self.shape.1;
        if fixed { 1 } else { self.evaluations }
    }
}

/// One setting, tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Bandwidth in median distances.
    pub bandwidth: f64,
    /// Shape.
    pub shape: f64,
    /// Training points used.
    pub points: usize,
    /// AGOP updates behind the best iterate.
    pub rounds: usize,
    /// Score of the best iterate on the validation points; accuracy 0 and infinite loss when the fit failed.
    pub score: Score,
    /// Wall-clock time.
    pub seconds: f64,
}

/// A tuned, fitted kernel machine and how it came about.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The machine.
    pub rfm: Rfm,
    /// Score of the chosen setting on the validation points, before any refit.
    pub validation: Score,
    /// The median distance: bandwidths are multiples of it.
    pub unit: f64,
    /// Every trial, in order; those on all points come last.
    pub trace: Vec<Evaluation>,
    /// What was computed on how many points, in words.
    pub fidelity: String,
}

/// Tunes and fits a kernel machine on normalised points.
pub fn fit(
    backend: &dyn Backend,
    points: &Matrix,
    labels: &[u32],
    classes: usize,
    rfm: &RfmConfig,
    config: &TuneConfig,
    observer: &dyn Observer,
) -> Result<Tuned> {
    rfm.check()?;
    config.check()?;
    let parts = split::stratified(labels, &[1.0 - config.validation, config.validation], config.seed)?;
    let [train_rows, validation_rows] = &parts[..] else {
        return Err(Error::Data("the validation split needs two parts".into()));
    };
    let pick = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
    let train = Part { points: points.select(train_rows), labels: pick(train_rows) };
    let validation = Part { points: points.select(validation_rows), labels: pick(validation_rows) };
    if train.labels.iter().all(|label| *label == train.labels[0]) {
        return Err(Error::Data(
            "all training points carry the same label; at least two classes are needed".into(),
        ));
    }

    let worthwhile = |most: &usize| (*most as f64) < LARGEST_SAMPLE * train.labels.len() as f64;
    let sampled = config.search_points.filter(|most| worthwhile(most) && config.trials() > 1);
    let bytes = bytes_needed(backend, &train, &validation, classes, sampled, config);
    observer.notice(&Event::Memory { bytes });
    if let Some(limit) = config.memory.filter(|&limit| bytes > limit) {
        return Err(out_of_memory(backend, points, classes, bytes, limit, config));
    }

    let unit = backend.median_distance(&train.points);
    if !(unit > 0.0) {
        return Err(Error::Data(
            "at least half of all pairs of training points are identical, so there is no distance to learn from; \
             check that the embeddings vary from row to row"
                .into(),
        ));
    }
    let stage = Stage { backend, validation: &validation, classes, unit, observer };
    let mut trace = Vec::new();
    let trial = RfmConfig {
        patience: rfm.patience.or(Some(TRIAL_PATIENCE)),
        agop_points: Some(rfm.agop_points.map_or(TRIAL_AGOP_POINTS, |points| points.min(TRIAL_AGOP_POINTS))),
        ..*rfm
    };

    let sample = sampled.map(|most| train.sample(most, config.seed)).transpose()?;
    let searched = sample.as_ref().unwrap_or(&train);
    observer.notice(&Event::SearchBegins {
        evaluations: config.trials(),
        points: searched.labels.len(),
        of: train.labels.len(),
    });
    let mut best = stage.search(searched, &trial, config, &mut trace)?;
    if sample.is_some() {
        let candidates = search::best_places(&trace, config.confirm.max(1));
        observer.notice(&Event::Confirming { candidates: candidates.len() });
        best = stage.confirm(&train, &trial, &candidates, &mut trace)?;
    }
    let fidelity =
        describe(&trace, searched.labels.len(), train.labels.len(), points.rows(), rfm, config.refit);
    let validation_score = best.score()?;

    let kernel = best.kernel;
    let machine = if config.refit {
        drop((train, sample));
        refit(backend, points, labels, classes, kernel, best.iterate.round, rfm, observer)?
    } else {
        Rfm::new(kernel, train.points, best.iterate)?
    };
    Ok(Tuned { rfm: machine, validation: validation_score, unit, trace, fidelity })
}

/// Fits once more, with what a search has found, on all points.
#[allow(clippy::too_many_arguments)] // the search's result and what it was made of
pub(crate) fn refit(
    backend: &dyn Backend,
    points: &Matrix,
    labels: &[u32],
    classes: usize,
    kernel: Kernel,
    rounds: usize,
    rfm: &RfmConfig,
    observer: &dyn Observer,
) -> Result<Rfm> {
    observer.notice(&Event::Refitting { points: points.rows() });
    let none = Matrix::zeros(0, points.cols());
    let all = FitPoints { train: points, labels, classes, held_out: &none };
    let rounds = RfmConfig { rounds, patience: None, ..*rfm };
    Ok(Rfm::fit(backend, all, &[], kernel, &rounds, observer)?.0)
}

/// Points with their labels.
struct Part {
    points: Matrix,
    labels: Vec<u32>,
}

impl Part {
    /// A stratified sample of about `most` points.
    fn sample(&self, most: usize, seed: u64) -> Result<Self> {
        let share = most as f64 / self.labels.len() as f64;
        let parts = split::stratified(&self.labels, &[share, 1.0 - share], seed)?;
        Ok(Self {
            points: self.points.select(&parts[0]),
            labels: parts[0].iter().map(|&row| self.labels[row]).collect(),
        })
    }
}

/// A setting with its best iterate.
struct Winner {
    kernel: Kernel,
    iterate: Iterate,
}

impl Winner {
    fn score(&self) -> Result<Score> {
        self.iterate.score.ok_or_else(|| Error::Data("the search had no validation points".into()))
    }
}

/// What all trials share.
struct Stage<'a> {
    backend: &'a dyn Backend,
    validation: &'a Part,
    classes: usize,
    unit: f64,
    observer: &'a dyn Observer,
}

impl Stage<'_> {
    fn search(
        &self,
        train: &Part,
        rfm: &RfmConfig,
        config: &TuneConfig,
        trace: &mut Vec<Evaluation>,
    ) -> Result<Winner> {
        let mut search = Search::new(config);
        self.try_all(train, rfm, config.trials() > 1, trace, |trace| {
            (trace.len() < config.trials()).then(|| search.next(trace, self.validation.labels.len()))
        })
    }

    fn confirm(
        &self,
        train: &Part,
        rfm: &RfmConfig,
        candidates: &[(f64, f64)],
        trace: &mut Vec<Evaluation>,
    ) -> Result<Winner> {
        let mut candidates = candidates.iter().copied();
        self.try_all(train, rfm, candidates.len() > 1, trace, |_| candidates.next())
    }

    /// Tries what `next` names until it names nothing; the best wins.
    fn try_all(
        &self,
        train: &Part,
        rfm: &RfmConfig,
        several: bool,
        trace: &mut Vec<Evaluation>,
        mut next: impl FnMut(&[Evaluation]) -> Option<(f64, f64)>,
    ) -> Result<Winner> {
        let points = FitPoints {
            train: &train.points,
            labels: &train.labels,
            classes: self.classes,
            held_out: &self.validation.points,
        };
        let mut session = self.backend.open(points, several)?;
        let mut best: Option<Winner> = None;
        let mut failure = None;
        while let Some((bandwidth, shape)) = next(trace) {
            observe::check(self.observer)?;
            let begin = Instant::now();
            let kernel = Kernel::new(bandwidth * self.unit, shape)?;
            let n = train.labels.len();
            // A setting whose regression cannot be solved is a bad setting, not the end of the search.
            let labels = &self.validation.labels;
            let outcome = match rfm::iterate(&mut *session, n, labels, kernel, rfm, self.observer) {
                Err(error) if !matches!(error, Error::NotPositiveDefinite { .. }) => return Err(error),
                outcome => outcome,
            };
            let failed = Score { accuracy: 0.0, loss: f64::INFINITY };
            let (score, rounds) = match &outcome {
                Ok(iterate) => (iterate.score.unwrap_or(failed), iterate.round),
                Err(_) => (failed, 0),
            };
            let seconds = begin.elapsed().as_secs_f64();
            let evaluation = Evaluation { bandwidth, shape, points: n, rounds, score, seconds };
            self.observer.notice(&Event::Evaluated(evaluation));
            trace.push(evaluation);
            match outcome {
                Ok(iterate) => {
                    let better = match best.as_ref().and_then(|best| best.iterate.score) {
                        Some(best) => score.beats(&best),
                        None => true,
                    };
                    if better {
                        best = Some(Winner { kernel, iterate });
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        best.ok_or_else(|| failure.unwrap_or(Error::Data("nothing was tried".into())))
    }
}

/// The largest of what the search, the confirmation and the refit allocate, beside the points themselves.
fn bytes_needed(
    backend: &dyn Backend,
    train: &Part,
    validation: &Part,
    classes: usize,
    sampled: Option<usize>,
    config: &TuneConfig,
) -> u64 {
    let (n, m, d) = (train.labels.len(), validation.labels.len(), train.points.cols());
    let several = config.trials() > 1;
    let search = backend.fit_bytes(sampled.unwrap_or(n), m, d, classes, several);
    let confirm = sampled.map_or(0, |_| backend.fit_bytes(n, m, d, classes, config.confirm > 1));
    let refit = if config.refit { backend.fit_bytes(n + m, 0, d, classes, false) } else { 0 };
    let copies = 4 * (2 * (n + m) * d) as u64;
    copies + search.max(confirm).max(refit)
}

fn out_of_memory(
    backend: &dyn Backend,
    points: &Matrix,
    classes: usize,
    needed: u64,
    limit: u64,
    config: &TuneConfig,
) -> Error {
    let (mut fits, mut too_many) = (0, points.rows());
    while too_many - fits > 1 {
        let middle = usize::midpoint(fits, too_many);
        let bytes = backend.fit_bytes(middle, 0, points.cols(), classes, config.trials() > 1);
        if bytes <= limit { fits = middle } else { too_many = middle }
    }
    Error::Memory {
        what: format!("fitting {} points of {} dimensions", points.rows(), points.cols()),
        needed,
        limit,
        hint: format!("about {fits} would fit in {}", human_bytes(limit)),
    }
}

fn describe(
    trace: &[Evaluation],
    searched: usize,
    train: usize,
    all: usize,
    rfm: &RfmConfig,
    refit: bool,
) -> String {
    let trials = trace.iter().filter(|trial| trial.points == searched).count();
    let confirmed = trace.len() - trials;
    let mut text = format!("{trials} settings on {searched} of {train} training points");
    if confirmed > 0 {
        text += &format!(", the best {confirmed} again on all {train}");
    }
    if train > TRIAL_AGOP_POINTS {
        text += &format!(" with the AGOP over {TRIAL_AGOP_POINTS}");
    }
    if refit {
        text += &format!(", refitted on {all} with validation points");
        if let Some(points) = rfm.agop_points.filter(|&points| points < all) {
            text += &format!(" and the AGOP over {points}");
        }
    }
    text
}
