//! The Recursive Feature Machine: kernel ridge regression and AGOP in turns (the paper, §2.3 and appendix B).
//!
//! ```text
//! M₀ = I;  for t = 0…rounds:  fit βₜ under Mₜ;  judge it on the validation points;  Mₜ₊₁ = G / max(G)
//! ```
//! The best iterate wins (on some data that is M₀); the loop ends early when accuracy falls below best/1.1.
//! A round costs `n³/3 + 2n²c` for the regression and what [`agop`](crate::agop) says for the metric.
//!
//! The metric is used as it is, without its root: `M` enters distances as `aMbᵀ` and the AGOP through `ZM`
//! (see `distances`). The root is taken once, for the model.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, FitPoints, FitSession};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::metric;
use crate::observe::{self, Event, Observer};
use crate::random::Random;
use crate::ridge::RidgeReport;

/// Accuracy this far below the best ends the loop.
const COLLAPSE: f64 = 1.1;
/// The stream of random numbers that samples AGOP points.
const SAMPLE_PURPOSE: u64 = 0xa60b;

/// Settings of the loop that are not searched over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RfmConfig {
    /// Ridge of the regression.
    pub ridge: f64,
    /// Most AGOP updates.
    pub rounds: usize,
    /// Most points over which the AGOP is averaged, a seeded sample of them where there are more; `None` takes all.
    /// It is a mean over points, so thousands determine it; the cost falls in proportion.
    pub agop_points: Option<usize>,
    /// Rounds without a better validation score after which the loop ends; `None` never does for that reason.
    pub patience: Option<usize>,
    /// Seed of the AGOP sample.
    pub seed: u64,
}

impl Default for RfmConfig {
    fn default() -> Self {
        Self { ridge: 1e-3, rounds: 5, agop_points: Some(8000), patience: None, seed: 0 }
    }
}

impl RfmConfig {
    pub(crate) fn check(&self) -> Result<()> {
        if !(self.ridge.is_finite() && self.ridge >= 0.0) {
            return Err(Error::config("ridge", self.ridge, "a number of at least 0 (1e-3 is a good start)"));
        }
        if self.agop_points == Some(0) {
            return Err(Error::config("agop_points", 0, "at least 1"));
        }
        Ok(())
    }
}

/// How well outputs fit labels: more accurate is better, then a smaller squared loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Share of points whose largest output is at their label.
    pub accuracy: f64,
    /// Mean over points of `‖f - y‖²`, y one-hot.
    pub loss: f64,
}

impl Score {
    /// Scores `outputs` (a row a point) against labels.
    pub fn of(outputs: &Matrix, labels: &[u32]) -> Self {
        let mut hits = 0usize;
        let mut loss = 0.0;
        for (row, &label) in labels.iter().enumerate() {
            let outputs = outputs.row(row);
            hits += usize::from(largest(outputs) == label as usize);
            let squares: f64 = outputs.iter().map(|&value| f64::from(value).powi(2)).sum();
            loss += squares - 2.0 * f64::from(outputs[label as usize]) + 1.0;
        }
        let n = labels.len().max(1) as f64;
        Self { accuracy: hits as f64 / n, loss: loss / n }
    }

    /// Whether this score beats `other`.
    pub fn beats(&self, other: &Self) -> bool {
        self.accuracy > other.accuracy || (self.accuracy == other.accuracy && self.loss < other.loss)
    }
}

/// The first of the largest values.
pub(crate) fn largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
        }
    }
    best
}

/// One turn of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// 0 is the identity metric.
    pub round: usize,
    /// Score on the validation points; `None` without any.
    pub score: Option<Score>,
    /// How the regression was solved.
    pub report: RidgeReport,
    /// Wall-clock time of the regression and the AGOP before it.
    pub seconds: f64,
}

/// The best iterate of a loop.
#[derive(Clone, Debug)]
pub struct Iterate {
    /// Its round.
    pub round: usize,
    /// Its metric `M`; `None` is the identity.
    pub metric: Option<Matrix>,
    /// Its coefficients, n×c.
    pub beta: Matrix,
    /// Its score on the validation points.
    pub score: Option<Score>,
}

/// Runs the loop. With validation labels (those of the session's held-out points) the best iterate wins, otherwise the
/// last. `train` is the number of training points.
pub(crate) fn iterate(
    session: &mut dyn FitSession,
    train: usize,
    validation: &[u32],
    kernel: Kernel,
    config: &RfmConfig,
    observer: &dyn Observer,
) -> Result<Iterate> {
    let sample = agop_sample(train, config);
    let mut best: Option<Iterate> = None;
    let mut metric: Option<Matrix> = None;
    for round in 0..=config.rounds {
        observe::check(observer)?;
        let begin = Instant::now();
        let solution = session.solve(metric.as_ref(), kernel, config.ridge)?;
        if solution.report.ridge > config.ridge {
            observer.notice(&Event::Warning(format!(
                "the kernel matrix is not positive definite in 32-bit arithmetic at bandwidth {:.3}, shape {:.3}; \
                 ridge {:.1e} was used in place of {:.1e}",
                kernel.bandwidth(),
                kernel.shape(),
                solution.report.ridge,
                config.ridge
            )));
        }
        let score = (!validation.is_empty()).then(|| Score::of(&solution.held_out, validation));
        let better = match (&best, score) {
            (Some(Iterate { score: Some(best), .. }), Some(score)) => score.beats(best),
            _ => true,
        };
        let next = if round == config.rounds
            || collapsed(best.as_ref(), score)
            || tired(best.as_ref(), round, better, config)
        {
            None
        } else {
            observe::check(observer)?;
            normalised(session.agop(&solution.beta, sample.as_deref(), None)?)
        };
        let seconds = begin.elapsed().as_secs_f64();
        observer.notice(&Event::Round(Round { round, score, report: solution.report, seconds }));
        let last = next.is_none();
        let current = std::mem::replace(&mut metric, next);
        if better {
            best = Some(Iterate { round, metric: current, beta: solution.beta, score });
        }
        if last {
            break;
        }
    }
    best.ok_or_else(|| Error::Data("the loop had no rounds".into()))
}

fn collapsed(best: Option<&Iterate>, score: Option<Score>) -> bool {
    match (best.and_then(|best| best.score), score) {
        (Some(best), Some(score)) => score.accuracy < best.accuracy / COLLAPSE,
        _ => false,
    }
}

fn tired(best: Option<&Iterate>, round: usize, better: bool, config: &RfmConfig) -> bool {
    match (best, config.patience) {
        (Some(best), Some(patience)) => !better && round - best.round >= patience,
        _ => false,
    }
}

fn agop_sample(train: usize, config: &RfmConfig) -> Option<Vec<usize>> {
    let points = config.agop_points.filter(|&points| points < train)?;
    let mut rows: Vec<usize> = (0..train).collect();
    Random::new(config.seed, SAMPLE_PURPOSE).shuffle(&mut rows);
    rows.truncate(points);
    rows.sort_unstable();
    Some(rows)
}

/// `G / max(G)`; `None` when the gradient vanishes everywhere, so that there is nothing more to learn.
fn normalised(mut outer: Matrix) -> Option<Matrix> {
    let largest = outer.as_slice().iter().fold(0.0f32, |largest, &value| largest.max(value));
    if !(largest.is_finite() && largest > f32::MIN_POSITIVE) {
        return None;
    }
    for value in outer.as_mut_slice() {
        *value /= largest;
    }
    Some(outer)
}

/// A fitted kernel machine: everything needed to answer for new points.
#[derive(Clone, Debug, PartialEq)]
pub struct Rfm {
    /// The kernel; its bandwidth is a distance in mapped space.
    pub kernel: Kernel,
    /// Symmetric root of the metric, d×d.
    pub metric_root: Matrix,
    /// Points that fitted the kernel, normalised, n×d.
    pub train: Matrix,
    /// Coefficients, n×c.
    pub beta: Matrix,
    /// AGOP updates behind the metric.
    pub rounds: usize,
}

impl Rfm {
    pub(crate) fn new(kernel: Kernel, train: Matrix, iterate: Iterate) -> Result<Self> {
        let metric_root = match &iterate.metric {
            Some(metric) => metric::symmetric_root(metric)?,
            None => identity(train.cols()),
        };
        Ok(Self { kernel, metric_root, train, beta: iterate.beta, rounds: iterate.round })
    }

    /// Fits with given settings: the loop on `points`, no search.
    pub fn fit(
        backend: &dyn Backend,
        points: FitPoints<'_>,
        validation: &[u32],
        kernel: Kernel,
        config: &RfmConfig,
        observer: &dyn Observer,
    ) -> Result<(Self, Option<Score>)> {
        config.check()?;
        let mut session = backend.open(points, false)?;
        let best = iterate(&mut *session, points.train.rows(), validation, kernel, config, observer)?;
        drop(session);
        let score = best.score;
        Ok((Self::new(kernel, points.train.clone(), best)?, score))
    }

    /// Outputs `f(z) = K(z,Z)β` for normalised queries, a row a query.
    pub fn outputs(&self, backend: &dyn Backend, queries: &Matrix) -> Result<Matrix> {
        let centers = backend.project(&self.train, &self.metric_root)?;
        let queries = backend.project(queries, &self.metric_root)?;
        backend.predict(&queries, &centers, self.kernel, &self.beta)
    }
}

fn identity(d: usize) -> Matrix {
    let mut identity = Matrix::zeros(d, d);
    for at in 0..d {
        identity.row_mut(at)[at] = 1.0;
    }
    identity
}

/// The floor under class probabilities: xRFM's 1e-3, lower where many classes would let it swamp the tail.
pub fn default_floor(classes: usize) -> f32 {
    1e-3f32.min(0.1 / classes.max(1) as f32)
}

/// Class probabilities from outputs: clamped to [floor, 1 - floor] and normalised; no softmax.
pub fn probabilities(mut outputs: Matrix, floor: f32) -> Matrix {
    for row in 0..outputs.rows() {
        let values = outputs.row_mut(row);
        let mut sum = 0.0f64;
        for value in values.iter_mut() {
            *value = value.clamp(floor, 1.0 - floor);
            sum += f64::from(*value);
        }
        for value in values {
            *value = (f64::from(*value) / sum) as f32;
        }
    }
    outputs
}
