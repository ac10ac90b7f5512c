//! Tuning: Bayesian optimisation of bandwidth and shape by the RFM's validation accuracy (the paper, §4.1.2), then the
//! fit.
//!
//! 1. **Search**: `evaluations` settings are tried. The first few are spread evenly. A Gaussian process on (log
//!    bandwidth, shape) chooses the others by expected improvement. Each trial is a whole RFM loop. With more than
//!    `search_points` training points the loops run on a stratified sample of that size, and are scored on all
//!    validation points. Distances under the identity metric are computed once.
//! 2. **Confirm**: if the search used a sample, the best few settings are tried again on all training points.
//! 3. **Refit** (optional): the chosen setting and number of rounds are fitted on training and validation points
//!    together. This is valid, because none of them is a calibration point.
//!
//! With too few validation points (under ten, or fewer than four points per class), every point is validated by leaving
//! it out, and the metric stays the identity (`few.rs`).
//!
//! A trial ends after two rounds without improvement, and averages the AGOP over at most 4,000 points.
//!
//! Bandwidths are multiples of the median distance among training points under the identity metric, so that one range
//! suits all data.
//!
//! ```
//! use dance::machine::{Part, RfmConfig, tune::{self, TuneConfig}};
//! use dance::{Context, Matrix, device::Cpu};
//! let embeddings = Matrix::new((0..40).map(|at| (at % 2 * 10 + at / 2) as f32).collect(), 40, 1)?;
//! let points = Part { embeddings, labels: (0..40).map(|row| row % 2).collect() };
//! let config = TuneConfig::default().evaluations(3);
//! let tuned = tune::fit(&Cpu, points, 2, &RfmConfig::default(), &config, &Context::new(1)?)?;
//! assert_eq!((tuned.trace.len(), tuned.rows.len()), (3, 40));
//! # Ok::<(), dance::Error>(())
//! ```

mod config;
mod few;
mod gaussian_process;
mod memory;
mod search;

use std::time::Instant;

use super::Part;
use super::probabilities::OutputScale;
use super::rfm::{self, Best, Rfm, RfmConfig};
use super::span::Span;
use crate::context::Context;
use crate::data::split;
use crate::device::{Device, Iterate, cpu};
use crate::error::{Error, Result};
use crate::event::{Evaluation, Event, Quality};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

pub use config::TuneConfig;
use search::Search;

/// The number of rounds without improvement after which a trial ends. A refit has no such limit.
const TRIAL_PATIENCE: usize = 2;
/// The largest number of points over which a trial's AGOP is averaged.
const TRIAL_AGOP_POINTS: usize = 4000;
/// The largest share of the training points that a sample may have; a larger sample saves too little.
const LARGEST_SAMPLE: f64 = 0.75;

/// A tuned and fitted kernel machine, with the trace of its tuning.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The kernel machine.
    pub rfm: Rfm,
    /// The rows of the points that the machine keeps: all after a refit, otherwise the training points.
    pub rows: Vec<usize>,
    /// The rows of the validation points, which the machine does not keep; empty after a refit.
    pub validation_rows: Vec<usize>,
    /// The map from outputs to probabilities, calibrated on outputs of held-out points.
    pub scale: OutputScale,
    /// The quality of the chosen setting on the validation points, before any refit.
    pub validation: Quality,
    /// The median distance, of which bandwidths are multiples.
    pub unit: f64,
    /// All trials in order; those on all points come last.
    pub trace: Vec<Evaluation>,
    /// A sentence on the numbers of points on which each step was computed.
    pub fidelity: String,
}

/// Tunes and fits a kernel machine on normalised points.
pub fn fit(
    device: &dyn Device,
    points: Part,
    classes: usize,
    rfm: &RfmConfig,
    config: &TuneConfig,
    context: &Context<'_>,
) -> Result<Tuned> {
    rfm.check()?;
    config.check()?;
    if points.labels.iter().all(|label| *label == points.labels[0]) {
        return Err(Error::Data("all points carry the same label; at least two classes are needed".into()));
    }
    let job = Job { device, classes, rfm, config, context };
    // Points that are fewer than their dimensions are fitted in their span.
    let small = config.memory.is_none_or(|most| Span::bytes(&points.embeddings) <= most);
    let Some(span) = small.then(|| Span::of(&points.embeddings, context)).flatten() else {
        return job.fit(points, None);
    };
    let Part { embeddings, labels } = points;
    let mut tuned = job.fit(Part { embeddings: span.coordinates.clone(), labels }, Some(&span.basis))?;
    tuned.rfm = span.expand(tuned.rfm, embeddings.select(&tuned.rows), context);
    Ok(tuned)
}

/// The inputs of a fit.
#[derive(Clone, Copy)]
struct Job<'a> {
    device: &'a dyn Device,
    classes: usize,
    rfm: &'a RfmConfig,
    config: &'a TuneConfig,
    context: &'a Context<'a>,
}

impl Job<'_> {
    /// Tunes and fits a machine. The points are coordinates in `basis`, if there is one.
    fn fit(self, points: Part, basis: Option<&Matrix>) -> Result<Tuned> {
        let Self { device, classes, rfm, config, context } = self;
        let Some([kept, held_out]) = parts(&points.labels, config)? else {
            return few::fit(self, points, basis);
        };
        let (train, validation) = (points.select(&kept), points.select(&held_out));

        // A sample saves time only if it is much smaller, and if several settings are tried.
        let worthwhile = |most: &usize| (*most as f64) < LARGEST_SAMPLE * train.labels.len() as f64;
        let sampled = config.search_points.filter(|most| worthwhile(most) && config.trials() > 1);
        memory::check(self, [&train, &validation], basis, sampled)?;
        let unit = median_distance(&train, context)?;
        let stage = Stage { device, validation: &validation, basis, classes, unit, context };
        let mut trace = Vec::new();
        let trial = RfmConfig {
            patience: rfm.patience.or(Some(TRIAL_PATIENCE)),
            agop_points: Some(rfm.agop_points.map_or(TRIAL_AGOP_POINTS, |points| points.min(TRIAL_AGOP_POINTS))),
            ..*rfm
        };

        // Search and confirm.
        let sample = sampled.map(|most| sample(&train, most, config.seed)).transpose()?;
        let searched = sample.as_ref().unwrap_or(&train);
        context.notice(&Event::SearchBegins {
            evaluations: config.trials(),
            points: searched.labels.len(),
            of: train.labels.len(),
        });
        let mut winner = stage.search(searched, &trial, config, &mut trace)?;
        if sample.is_some() {
            let candidates = search::best_places(&trace, config.confirm.max(1));
            context.notice(&Event::Confirming { candidates: candidates.len() });
            winner = stage.confirm(&train, &trial, &candidates, &mut trace)?;
        }
        let (searched, all) = (searched.labels.len(), points.labels.len());
        let fidelity = describe(&trace, searched, [kept.len(), held_out.len()], rfm, config.refit);
        let Winner { kernel, best, quality, iterate } = winner;
        drop(sample);
        let scale = OutputScale::calibrated(&iterate.held_out, &validation.labels, context);
        // Refit on all points, or keep the winner.
        let (machine, rows, validation_rows) = if config.refit {
            drop((train, validation, iterate));
            context.notice(&Event::Refitting { points: all });
            // The refit has as many rounds as the best iterate.
            let rounds = RfmConfig { rounds: best.round, patience: None, ..*rfm };
            let machine = Rfm::fit_in(device, points, basis, classes, kernel, &rounds, context)?;
            (machine, (0..all).collect(), Vec::new())
        } else {
            drop(points);
            (Rfm::new(kernel, train, best.round, iterate, context)?, kept, held_out)
        };
        Ok(Tuned { rfm: machine, rows, validation_rows, scale, validation: quality, unit, trace, fidelity })
    }
}

/// Returns the rows for training and for validation; `None` if the points are too few to hold some out.
fn parts(labels: &[u32], config: &TuneConfig) -> Result<Option<[Vec<usize>; 2]>> {
    const LEAST_VALIDATION: usize = 10;
    const LEAST_PER_CLASS: usize = 4;
    /// The largest number of points for which leave-one-out validation is used; with more, it costs more than the fit.
    const FEW: usize = 1500;
    let mut occurring = labels.to_vec();
    occurring.sort_unstable();
    occurring.dedup();
    let n = labels.len();
    if n <= FEW && n < LEAST_PER_CLASS * occurring.len() {
        return Ok(None);
    }
    let shares = [1.0 - config.validation, config.validation];
    let parts = split::stratified(labels, &shares, config.seed).ok();
    let parts: Option<[Vec<usize>; 2]> = parts.and_then(|parts| parts.try_into().ok());
    match parts {
        Some([_, held_out]) if held_out.len() < LEAST_VALIDATION && n >= 5 * LEAST_VALIDATION => Err(Error::config(
            "validation",
            config.validation,
            "a share that leaves at least ten validation points, such as 0.2",
        )),
        Some([_, held_out]) if held_out.len() < LEAST_VALIDATION => Ok(None),
        parts => Ok(parts),
    }
}

/// Returns the median distance, which is the unit of bandwidths.
fn median_distance(train: &Part, context: &Context<'_>) -> Result<f64> {
    let unit = cpu::median_distance(&train.embeddings, context);
    if unit > 0.0 && unit.is_finite() {
        return Ok(unit);
    }
    if unit != 0.0 {
        return Err(Error::Data(
            "distances between the training points overflow single precision; scale the embeddings down, or \
             normalise them (normalize)"
                .into(),
        ));
    }
    Err(Error::Data(
        "at least half of all pairs of training points are identical, so there is no distance to learn from; \
         check that the embeddings vary from row to row"
            .into(),
    ))
}

/// Returns a stratified sample of about `most` points.
fn sample(part: &Part, most: usize, seed: u64) -> Result<Part> {
    let share = most as f64 / part.labels.len() as f64;
    let parts = split::stratified(&part.labels, &[share, 1.0 - share], seed)?;
    Ok(part.select(&parts[0]))
}

/// The best setting with its best iterate.
struct Winner {
    kernel: Kernel,
    best: Best,
    quality: Quality,
    iterate: Iterate,
}

/// The inputs that all trials share.
struct Stage<'a> {
    device: &'a dyn Device,
    validation: &'a Part,
    basis: Option<&'a Matrix>,
    classes: usize,
    unit: f64,
    context: &'a Context<'a>,
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

    /// Tries the settings that `next` returns until it returns `None`, and returns the best one.
    fn try_all(
        &self,
        train: &Part,
        rfm: &RfmConfig,
        several: bool,
        trace: &mut Vec<Evaluation>,
        mut next: impl FnMut(&[Evaluation]) -> Option<(f64, f64)>,
    ) -> Result<Winner> {
        let context = self.context;
        let points = train.fit_points(self.classes, self.validation, self.basis);
        let mut session = self.device.open_fit(points, several, context)?;
        let mut winner: Option<(Kernel, Best, Quality)> = None;
        let mut failure = None;
        while let Some((bandwidth, shape)) = next(trace) {
            context.check()?;
            let begin = Instant::now();
            let kernel = Kernel::new(bandwidth * self.unit, shape)?;
            let n = train.labels.len();
            // A regression that cannot be solved makes the setting the worst one, and does not end the search.
            let outcome = match rfm::iterate(&mut *session, n, kernel, rfm, context) {
                Err(error) if !matches!(error, Error::NotPositiveDefinite { .. }) => return Err(error),
                outcome => outcome,
            };
            let (quality, rounds) = match &outcome {
                Ok(best) => (best.quality.unwrap_or(Quality::WORST), best.round),
                Err(_) => (Quality::WORST, 0),
            };
            let seconds = begin.elapsed().as_secs_f64();
            let evaluation = Evaluation { bandwidth, shape, points: n, rounds, quality, seconds };
            context.notice(&Event::Evaluated(evaluation));
            trace.push(evaluation);
            // The session keeps the best iterate of all trials.
            match outcome {
                Ok(best) if winner.is_none_or(|(_, _, before)| quality.beats(&before)) => {
                    session.choose()?;
                    winner = Some((kernel, best, quality));
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        match winner {
            Some((kernel, best, quality)) => Ok(Winner { kernel, best, quality, iterate: session.chosen()? }),
            None => Err(failure.unwrap_or(Error::Data("no setting was tried".into()))),
        }
    }
}

/// Returns a sentence on the numbers of trials and points from which the kernel was selected.
fn describe(
    trace: &[Evaluation],
    searched: usize,
    [train, validation]: [usize; 2],
    rfm: &RfmConfig,
    refit: bool,
) -> String {
    let trials = trace.iter().filter(|trial| trial.points == searched).count();
    let confirmed = trace.len() - trials;
    let settings = if trials == 1 { "1 kernel was".into() } else { format!("{trials} kernels were") };
    let mut text = format!("{settings} tried on {searched} points and evaluated on {validation} others");
    if confirmed > 0 {
        text += &format!(", the best {confirmed} again on {train}");
    }
    if train > TRIAL_AGOP_POINTS {
        text += &format!(" (metrics averaged over {TRIAL_AGOP_POINTS})");
    }
    if refit {
        let all = train + validation;
        text += &format!("; the best was fitted once more on all {all}");
        if let Some(points) = rfm.agop_points.filter(|&points| points < all) {
            text += &format!(" (its metric averaged over {points})");
        }
    }
    text
}
