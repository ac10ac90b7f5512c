//! The Recursive Feature Machine: kernel ridge regression and its AGOP (average gradient outer product) in turns (the
//! paper, §2.3 and appendix B). M is the metric, β the coefficients, and G the AGOP:
//!
//! ```text
//! M₀ = I;  for t = 0…rounds:  fit βₜ under Mₜ;  score it on the validation points;  Mₜ₊₁ = G / max(G)
//! ```
//! The best iterate is kept; on some data that is M₀. The loop ends early if accuracy falls below best/1.1. With n
//! points and c classes, the regression of a round costs `n³/3 + 2n²c` flops; `device::cpu::agop` has the cost of the
//! AGOP.
//!
//! The loop uses the metric without its root: distances of points a and b need products `aMbᵀ`, and the AGOP needs `ZM`
//! for the points Z (see `device::cpu`). The root is computed once, for the model.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Part, metric};
use crate::context::Context;
use crate::device::{Device, FitSession, Iterate, Solved};
use crate::error::{Error, Result};
use crate::event::{Event, Quality, Round};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;
use crate::setters::setters;

/// The loop ends if accuracy falls below the best divided by this.
const COLLAPSE: f64 = 1.1;
/// The tag of the random stream that draws the points over which the AGOP is averaged.
const SAMPLE_PURPOSE: u64 = 0xa60b;

/// The settings of the loop that are not searched over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RfmConfig {
    /// The ridge of the regression.
    pub ridge: f64,
    /// The largest number of AGOP updates.
    pub rounds: usize,
    /// The largest number of points over which the AGOP is averaged. If there are more, a seeded sample is drawn; with
    /// `None` all points are used. The AGOP is a mean over points, so thousands determine it, and its cost is
    /// proportional to their number.
    pub agop_points: Option<usize>,
    /// The number of rounds without a better validation score that ends the loop; `None` sets no such limit.
    pub patience: Option<usize>,
    /// The seed of the AGOP sample.
    pub seed: u64,
}

setters!(RfmConfig {
    ridge: f64,
    rounds: usize,
    agop_points: Option<usize>,
    patience: Option<usize>,
    seed: u64,
});

impl Default for RfmConfig {
    fn default() -> Self {
        Self { ridge: 1e-3, rounds: 5, agop_points: Some(8000), patience: None, seed: 0 }
    }
}

impl RfmConfig {
    pub(super) fn check(&self) -> Result<()> {
        if !(self.ridge.is_finite() && self.ridge >= 0.0) {
            return Err(Error::config("ridge", self.ridge, "a number of at least 0 (1e-3 is a good start)"));
        }
        if self.agop_points == Some(0) {
            return Err(Error::config("agop_points", 0, "at least 1"));
        }
        Ok(())
    }
}

/// The best iterate of a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Best {
    /// The number of AGOP updates before the iterate.
    pub(super) round: usize,
    /// The iterate's quality on the held-out points; `None` without such points.
    pub(super) quality: Option<Quality>,
}

/// Runs the loop from the identity metric. The session keeps the iterate that is best on the held-out points, or the
/// last one without such points. `train` is the number of training points.
pub(super) fn iterate(
    session: &mut dyn FitSession,
    train: usize,
    kernel: Kernel,
    config: &RfmConfig,
    context: &Context<'_>,
) -> Result<Best> {
    let sample = agop_sample(train, config);
    let mut best: Option<Best> = None;
    session.begin(None, context)?;
    for round in 0..=config.rounds {
        context.check()?;
        let begin = Instant::now();
        let Solved { quality, report } = session.solve(kernel, config.ridge, context)?;
        if report.ridge > config.ridge {
            context.warn(format!(
                "the kernel matrix is not positive definite in 32-bit arithmetic at bandwidth {:.3}, shape {:.3}; \
                 ridge {:.1e} was used in place of {:.1e}",
                kernel.bandwidth(),
                kernel.shape(),
                report.ridge,
                config.ridge
            ));
        }
        // Keep the iterate if it is better; stop if it is much worse, or if patience runs out.
        let before = best.and_then(|best| best.quality);
        let better = match (before, quality) {
            (Some(before), Some(quality)) => quality.beats(&before),
            _ => true,
        };
        let collapsed = match (before, quality) {
            (Some(before), Some(quality)) => quality.accuracy < before.accuracy / COLLAPSE,
            _ => false,
        };
        let impatient = match (best, config.patience) {
            (Some(best), Some(patience)) => !better && round - best.round >= patience,
            _ => false,
        };
        if better {
            session.keep()?;
            best = Some(Best { round, quality });
        }
        let ends = round == config.rounds || collapsed || impatient;
        // Learn the next metric; a metric that vanishes ends the loop as well.
        let goes_on = !ends && {
            context.check()?;
            session.learn(sample.as_deref(), None, context)?
        };
        let seconds = begin.elapsed().as_secs_f64();
        context.notice(&Event::Round(Round { round, quality, report, seconds }));
        if !goes_on {
            break;
        }
    }
    best.ok_or_else(|| Error::Data("the loop had no rounds".into()))
}

fn agop_sample(train: usize, config: &RfmConfig) -> Option<Vec<usize>> {
    let points = config.agop_points.filter(|&points| points < train)?;
    let mut rows: Vec<usize> = (0..train).collect();
    Random::new(config.seed, SAMPLE_PURPOSE).shuffle(&mut rows);
    rows.truncate(points);
    rows.sort_unstable();
    Some(rows)
}

/// A fitted kernel machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Rfm {
    /// The kernel; its bandwidth is a distance under the learned metric.
    pub kernel: Kernel,
    /// The symmetric root of the metric, d×d.
    pub metric_root: Matrix,
    /// The normalised training points, n×d.
    pub train: Matrix,
    /// The labels of the training points.
    pub labels: Vec<u32>,
    /// The coefficients, one row per training point, one column per class.
    pub beta: Matrix,
    /// The number of AGOP updates that led to the metric.
    pub rounds: usize,
}

impl Rfm {
    pub(super) fn new(
        kernel: Kernel,
        points: Part,
        rounds: usize,
        iterate: Iterate,
        context: &Context<'_>,
    ) -> Result<Self> {
        let metric_root = match &iterate.metric {
            Some(metric) => context.run(|| metric::symmetric_root(metric))?,
            None => identity(points.embeddings.cols()),
        };
        let Part { embeddings: train, labels } = points;
        Ok(Self { kernel, metric_root, train, labels, beta: iterate.beta, rounds })
    }

    /// Fits a machine with this kernel to normalised points, without search and held-out points; the result of the last
    /// round is kept.
    pub fn fit(
        device: &dyn Device,
        points: Part,
        classes: usize,
        kernel: Kernel,
        config: &RfmConfig,
        context: &Context<'_>,
    ) -> Result<Self> {
        Self::fit_in(device, points, None, classes, kernel, config, context)
    }

    /// Fits a machine with this kernel. If there is a `basis`, the points are coordinates in it.
    pub(super) fn fit_in(
        device: &dyn Device,
        points: Part,
        basis: Option<&Matrix>,
        classes: usize,
        kernel: Kernel,
        config: &RfmConfig,
        context: &Context<'_>,
    ) -> Result<Self> {
        config.check()?;
        let none = Part { embeddings: Matrix::zeros(0, points.embeddings.cols()), labels: Vec::new() };
        let mut session = device.open_fit(points.fit_points(classes, &none, basis), false, context)?;
        let best = iterate(&mut *session, points.labels.len(), kernel, config, context)?;
        session.choose()?;
        let iterate = session.chosen()?;
        drop(session);
        Self::new(kernel, points, best.round, iterate, context)
    }
}

pub(super) fn identity(d: usize) -> Matrix {
    let mut identity = Matrix::zeros(d, d);
    for at in 0..d {
        identity.row_mut(at)[at] = 1.0;
    }
    identity
}
