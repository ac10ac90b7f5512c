//! The search for the kernel's bandwidth and shape: it chooses the next setting to try, and tries this setting. A
//! *setting* is a pair of a bandwidth, in multiples of the median distance, and a shape.

use std::time::Instant;

use super::TuneConfig;
use super::gaussian_process::{GaussianProcess, Place};
use crate::context::{Context, Evaluation, Event, Quality};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::rfm::{self, Best, Part, RfmConfig};
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;

/// The number of evenly spread pairs of bandwidth and shape that are tried first. Then the Gaussian process chooses.
const SPREAD: usize = 8;
/// The numbers of points along log bandwidth and along shape, in the grid on which the expected improvement is
/// compared.
const GRID: [usize; 2] = [49, 31];
/// The number of the random stream that shifts the evenly spread pairs of bandwidth and shape.
const PURPOSE: u64 = 0x7c1e;

/// The search over pairs of log bandwidth and shape, which it maps to the unit square.
pub(super) struct Search {
    /// The lower ends of the ranges of log bandwidth and shape.
    low: Place,
    /// The upper ends of the ranges of log bandwidth and shape.
    high: Place,
    /// The random vector by which the evenly spread places are shifted in the unit square.
    shift: Place,
}

impl Search {
    pub(super) fn new(config: &TuneConfig) -> Self {
        let mut random = Random::new(config.seed, PURPOSE);
        Self {
            low: [config.bandwidth.0.ln(), config.shape.0],
            high: [config.bandwidth.1.ln(), config.shape.1],
            shift: [random.uniform(), random.uniform()],
        }
    }

    /// Returns the bandwidth and shape to try after the trials in `tried`. `validation` is the number of validation
    /// points.
    pub(super) fn next(&mut self, tried: &[Evaluation], validation: usize) -> (f64, f64) {
        let place = if tried.len() < SPREAD {
            self.spread(tried.len())
        } else {
            self.most_promising(tried, validation).unwrap_or_else(|| self.spread(tried.len()))
        };
        self.setting(place)
    }

    /// Returns term number `index` of a sequence that spreads evenly over the unit square, however many terms are
    /// taken. The sequence is an additive recurrence with the generalised golden ratio.
    fn spread(&self, index: usize) -> Place {
        const STEP: Place = [0.754_877_666_246_693, 0.569_840_290_998_053_3];
        std::array::from_fn(|k| (self.shift[k] + STEP[k] * index as f64).fract())
    }

    /// Returns the untried point of a grid on the unit square with the largest expected improvement. Returns `None` if
    /// all trials were equally good.
    fn most_promising(&self, tried: &[Evaluation], validation: usize) -> Option<Place> {
        let places: Vec<Place> = tried.iter().map(|trial| self.place(trial)).collect();
        let values = objective(tried, validation);
        let process = GaussianProcess::fit(&places, &values)?;
        // Accuracy on few points is noisy, so the reference is the best prediction and not the best observation.
        let best = places.iter().map(|place| process.predict(place).0).fold(f64::NEG_INFINITY, f64::max);
        let steps = std::array::from_fn::<_, 2, _>(|k| if self.low[k] < self.high[k] { GRID[k] } else { 1 });
        let mut chosen: Option<(f64, Place)> = None;
        for first in 0..steps[0] {
            for second in 0..steps[1] {
                let at = |index: usize, k: usize| {
                    if steps[k] == 1 { 0.0 } else { index as f64 / (steps[k] - 1) as f64 }
                };
                let place = [at(first, 0), at(second, 1)];
                if places.iter().any(|other| (0..2).all(|k| (place[k] - other[k]).abs() < 1e-9)) {
                    continue;
                }
                let gain = process.expected_improvement(&place, best);
                if chosen.is_none_or(|(most, _)| gain > most) {
                    chosen = Some((gain, place));
                }
            }
        }
        chosen.map(|(_, place)| place)
    }

    /// Maps the bandwidth and shape of a trial to a place in the unit square.
    fn place(&self, trial: &Evaluation) -> Place {
        let at = [trial.bandwidth.ln(), trial.shape];
        std::array::from_fn(|k| {
            if self.low[k] < self.high[k] { (at[k] - self.low[k]) / (self.high[k] - self.low[k]) } else { 0.0 }
        })
    }

    /// Maps a place in the unit square to a bandwidth and shape.
    fn setting(&self, place: Place) -> (f64, f64) {
        let at: Place = std::array::from_fn(|k| self.low[k] + place[k] * (self.high[k] - self.low[k]));
        (at[0].exp(), at[1].max(0.5))
    }
}

/// Returns the number by which each trial is compared: its accuracy less a small share of its loss. The share never
/// outweighs the accuracy on one validation point.
fn objective(tried: &[Evaluation], validation: usize) -> Vec<f64> {
    let weight = 0.25 / validation.max(1) as f64;
    let values: Vec<f64> =
        tried.iter().map(|trial| trial.quality.accuracy - weight * trial.quality.loss.min(4.0)).collect();
    // A failed fit counts as the worst success: a much lower value would hide the differences between the others.
    let worst = tried.iter().zip(&values).filter(|(trial, _)| trial.quality.loss.is_finite());
    let worst = worst.map(|(_, &value)| value).fold(f64::INFINITY, f64::min);
    let worst = if worst.is_finite() { worst } else { 0.0 };
    tried.iter().zip(values).map(|(trial, value)| if trial.quality.loss.is_finite() { value } else { worst }).collect()
}

/// Returns the bandwidths and shapes of the `count` best trials in `tried`, best first.
pub(super) fn best_places(tried: &[Evaluation], count: usize) -> Vec<(f64, f64)> {
    let mut order: Vec<&Evaluation> = tried.iter().collect();
    // The sort is stable: among equals the earlier one comes first.
    order.sort_by(|a, b| {
        b.quality.accuracy.total_cmp(&a.quality.accuracy).then(a.quality.loss.total_cmp(&b.quality.loss))
    });
    order.iter().take(count).map(|trial| (trial.bandwidth, trial.shape)).collect()
}

/// The best trial of a search.
pub(super) struct Winner {
    pub(super) kernel: Kernel,
    /// The best iteration of the trial.
    pub(super) best: Best,
    /// The quality on the validation points in the trial's best iteration.
    pub(super) quality: Quality,
    /// The metric and the coefficients of the trial's best iteration, as [`chosen`](crate::device::FitSession::chosen)
    /// returns them.
    pub(super) machine: (Option<Matrix>, Matrix),
    /// The outputs at the validation points in the trial's best iteration.
    pub(super) held_out: Matrix,
}

/// The inputs that all trials of a search have in common.
pub(super) struct Stage<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) validation: &'a Part,
    /// An orthonormal basis, if all points are coordinates in it.
    pub(super) basis: Option<&'a Matrix>,
    pub(super) classes: usize,
    /// The median distance between training points, of which bandwidths are multiples.
    pub(super) unit: f64,
    pub(super) context: &'a Context<'a>,
}

impl Stage<'_> {
    /// Tries as many pairs of bandwidth and shape as `config` says, each on the points `train`. Returns the best trial.
    pub(super) fn search(
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

    /// Tries the given pairs of bandwidth and shape on the points `train`. Returns the best trial.
    pub(super) fn confirm(
        &self,
        train: &Part,
        rfm: &RfmConfig,
        candidates: &[(f64, f64)],
        trace: &mut Vec<Evaluation>,
    ) -> Result<Winner> {
        let mut candidates = candidates.iter().copied();
        self.try_all(train, rfm, candidates.len() > 1, trace, |_| candidates.next())
    }

    /// Tries the pairs of bandwidth and shape that `next` returns, until it returns `None`. Appends every trial to
    /// `trace`, and returns the best one. `several` must be `true` if `next` may return more than one pair.
    fn try_all(
        &self,
        train: &Part,
        rfm: &RfmConfig,
        several: bool,
        trace: &mut Vec<Evaluation>,
        mut next: impl FnMut(&[Evaluation]) -> Option<(f64, f64)>,
    ) -> Result<Winner> {
        let context = self.context;
        let points = train.fit_points(self.classes, self.validation, self.basis, several);
        let mut session = self.device.open_fit(points, context)?;
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
            // The session keeps the best iteration of all trials.
            match outcome {
                Ok(best) if winner.is_none_or(|(_, _, before)| quality.beats(&before)) => {
                    session.choose()?;
                    winner = Some((kernel, best, quality));
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        let Some((kernel, best, quality)) = winner else {
            return Err(failure.unwrap_or(Error::Data("no setting was tried".into())));
        };
        let machine = session.chosen()?;
        Ok(Winner { kernel, best, quality, machine, held_out: session.held_out()? })
    }
}
