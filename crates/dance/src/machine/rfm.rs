//! The Recursive Feature Machine (RFM): kernel ridge regression and the AGOP (average gradient outer product) of its
//! solution in turns (the paper, §2.3 and appendix B). With the metric M, the coefficients β and the AGOP G:
//!
//! ```text
//! M₀ = I;  for t = 0…rounds:  fit βₜ under Mₜ;  evaluate it on the validation points;  Mₜ₊₁ = G / max(G)
//! ```
//! The best iteration is kept; on some data that is iteration 0, with the identity metric. The loop ends early if the
//! accuracy falls below the best accuracy divided by 1.1. With n points and c classes, the regression of an iteration
//! costs `n³/3 + 2n²c` flops; [`agop_flops`](crate::device::cpu::agop_flops) returns the cost
//! of the AGOP.
//!
//! **Root.** The loop needs M alone. Models need its symmetric root `R = M^(1/2)`, a d×d matrix for d dimensions. It is
//! computed once, by an eigendecomposition of about `10·d³` flops in f64, on the host for every device.
//!
//! **Span.** Distances between points, and every metric learned from them, depend only on the span of the points. So a
//! fit on n points with more than n dimensions uses the points' coordinates in an orthonormal basis B of their span,
//! and no cost grows with the square of the dimensions. The root `R_n` of the metric in these coordinates is mapped
//! back by `R = Bᵀ R_n B`. If no metric is learned, the root is the identity of all dimensions, because new points have
//! a part outside the span. The largest entry of the metric, by which it is divided, is taken in the original
//! coordinates.

use std::time::Instant;

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::context::{Context, Event, Quality};
use crate::device::{Device, FitPoints, FitSession, Regression};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;

/// The loop of the [module](self) ends if the accuracy falls below the best accuracy divided by this number.
const COLLAPSE: f64 = 1.1;
/// The number of the random stream that draws the points over which the AGOP (average gradient outer product) is
/// averaged.
const SAMPLE_PURPOSE: u64 = 0xa60b;

/// A part of the points, such as the training points, with their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The embeddings, one row per point, normalised.
    pub embeddings: Matrix,
    /// The class index of every point.
    pub labels: Vec<u32>,
}

impl Part {
    /// Returns a part without points. Its matrix has `dimensions` columns.
    pub(crate) fn none(dimensions: usize) -> Self {
        Self { embeddings: Matrix::with_columns(dimensions), labels: Vec::new() }
    }

    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self { embeddings: self.embeddings.select(rows), labels: rows.iter().map(|&row| self.labels[row]).collect() }
    }

    /// Returns the input of a fit on these training points, evaluated at the points `held_out`. With a `basis`, all
    /// points are coordinates in it.
    pub(crate) fn fit_points<'a>(
        &'a self,
        classes: usize,
        held_out: &'a Self,
        basis: Option<&'a Matrix>,
        several: bool,
    ) -> FitPoints<'a> {
        FitPoints {
            train: &self.embeddings,
            labels: &self.labels,
            classes,
            held_out: &held_out.embeddings,
            held_out_labels: &held_out.labels,
            basis,
            several,
        }
    }
}

/// The settings of the kernel machine that the search for a kernel does not vary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RfmConfig {
    /// The ridge parameter of the regression.
    pub(crate) ridge: f64,
    /// The largest number of times that the metric is learned.
    pub(crate) rounds: usize,
    /// The largest number of points over which the AGOP (average gradient outer product) is averaged. If there are more
    /// points, a seeded sample is drawn; with `None` all points are used. Thousands of points determine the AGOP,
    /// because it is a mean over points.
    pub(crate) agop_points: Option<usize>,
    /// The number of iterations in a row after which the loop ends, if none of them improves the quality on the
    /// validation points. `None` sets no such limit.
    pub(crate) patience: Option<usize>,
    /// The seed of the sample of points over which the AGOP (average gradient outer product) is averaged.
    pub(crate) seed: u64,
}

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

/// The best iteration of the loop that the [module](self) describes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Best {
    /// The number of the iteration, counted from 0. The metric was learned as many times before this iteration.
    pub(super) round: usize,
    /// The iteration's quality on the held-out points; `None` without such points.
    pub(super) quality: Option<Quality>,
}

/// Runs the loop that the [module](self) describes, from the identity metric. `session` keeps the iteration that is
/// best on the held-out points, or the last iteration without such points. `train` is the number of training points.
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
        let Regression { quality, ridge, residual, refinements } = session.solve(kernel, config.ridge, context)?;
        if ridge > config.ridge {
            context.warn(format!(
                "the kernel matrix is not positive definite in 32-bit arithmetic at bandwidth {:.3}, shape {:.3}; \
                 ridge {:.1e} was used in place of {:.1e}",
                kernel.bandwidth(),
                kernel.shape(),
                ridge,
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
            session.learn(sample.as_deref(), context)?
        };
        let seconds = begin.elapsed().as_secs_f64();
        context.notice(&Event::Round { round, quality, ridge, residual, refinements, seconds });
        if !goes_on {
            break;
        }
    }
    best.ok_or_else(|| Error::Data("the loop had no rounds".into()))
}

/// Returns the rows of the training points over which the AGOP (average gradient outer product) is averaged, ascending;
/// `None` for all points.
fn agop_sample(train: usize, config: &RfmConfig) -> Option<Vec<usize>> {
    let points = config.agop_points.filter(|&points| points < train)?;
    let mut rows: Vec<usize> = (0..train).collect();
    Random::new(config.seed, SAMPLE_PURPOSE).shuffle(&mut rows);
    rows.truncate(points);
    rows.sort_unstable();
    Some(rows)
}

/// A fitted kernel machine with n training points, d dimensions and c classes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rfm {
    /// The kernel. Its bandwidth is a distance under the learned metric.
    pub(crate) kernel: Kernel,
    /// The symmetric root of the metric, d×d for d dimensions.
    pub(crate) metric_root: Matrix,
    /// The normalised training points, n×d for n points with d dimensions.
    pub(crate) train: Matrix,
    /// The labels of the training points.
    pub(crate) labels: Vec<u32>,
    /// The coefficients of the regression, n×c for n training points and c classes.
    pub(crate) beta: Matrix,
    /// The number of times that the metric was learned. With 0, the metric is the identity.
    pub(crate) rounds: usize,
}

impl Rfm {
    /// Makes a machine from the training points, and from the metric and coefficients that a fit session has chosen.
    pub(super) fn new(
        kernel: Kernel,
        points: Part,
        rounds: usize,
        (metric, beta): (Option<Matrix>, Matrix),
        context: &Context<'_>,
    ) -> Result<Self> {
        let metric_root = match &metric {
            Some(metric) => context.run(|| symmetric_root(metric))?,
            None => identity(points.embeddings.cols()),
        };
        let Part { embeddings: train, labels } = points;
        Ok(Self { kernel, metric_root, train, labels, beta, rounds })
    }

    /// Fits a machine with the given kernel to normalised points, without a search and without held-out points. The
    /// last iteration is kept. With a `basis`, the points are coordinates in it.
    pub(crate) fn fit(
        device: &dyn Device,
        points: Part,
        basis: Option<&Matrix>,
        classes: usize,
        kernel: Kernel,
        config: &RfmConfig,
        context: &Context<'_>,
    ) -> Result<Self> {
        config.check()?;
        let none = Part::none(points.embeddings.cols());
        let mut session = device.open_fit(points.fit_points(classes, &none, basis, false), context)?;
        let best = iterate(&mut *session, points.labels.len(), kernel, config, context)?;
        session.choose()?;
        let chosen = session.chosen()?;
        drop(session);
        Self::new(kernel, points, best.round, chosen, context)
    }
}

fn identity(d: usize) -> Matrix {
    let mut identity = Matrix::zeros(d, d);
    for at in 0..d {
        identity.row_mut(at)[at] = 1.0;
    }
    identity
}

/// Returns the symmetric root of a metric, with negative eigenvalues set to 0.
fn symmetric_root(metric: &Matrix) -> Result<Matrix> {
    let d = metric.rows();
    if metric.cols() != d {
        return Err(Error::Shape {
            what: "metric".into(),
            expected: "a square matrix".into(),
            found: format!("{d} × {}", metric.cols()),
        });
    }
    let symmetric =
        Mat::from_fn(d, d, |row, col| 0.5 * (f64::from(metric.row(row)[col]) + f64::from(metric.row(col)[row])));
    let finite = metric.as_slice().iter().all(|value| value.is_finite());
    let Some((values, vectors)) = finite.then(|| linalg::symmetric_eigen(symmetric.as_ref())).flatten() else {
        return Err(Error::Data("the learned metric has no root: it contains numbers that are not finite".into()));
    };
    // The root V·√Λ·Vᵀ, from eigenvectors V and eigenvalues Λ, as a product of V·Λ^(1/4) with its transpose.
    let half = Mat::from_fn(d, d, |row, col| vectors[(row, col)] * values[col].max(0.0).powf(0.25));
    let mut root = Mat::<f64>::zeros(d, d);
    linalg::product(root.as_mut(), half.as_ref(), half.transpose());
    Matrix::new((0..d * d).map(|at| root[(at / d, at % d)] as f32).collect(), d, d)
}

/// The share below which the sum of squares of the points along a direction counts as a rounding error. It is a share
/// of the largest such sum.
const NEGLIGIBLE: f64 = 1e-13;

/// The largest number n of points that are fitted as coordinates in their [span](self). With more points, the
/// eigendecomposition of an n×n matrix takes longer than it saves.
const MOST_POINTS: usize = 2048;

/// The span of some points: an orthonormal basis of the span, and the points' coordinates in this basis.
#[derive(Debug)]
pub(super) struct Span {
    /// The orthonormal basis of the span, one direction per row: r×d for r directions in d dimensions.
    pub(super) basis: Matrix,
    /// The coordinates of the points in the basis, n×r for n points and r directions.
    pub(super) coordinates: Matrix,
}

impl Span {
    /// Returns the largest number of bytes that [`of`](Self::of) has allocated at one time: for the points, their inner
    /// products and the eigenvectors, in f64.
    pub(super) fn bytes(points: &Matrix) -> u64 {
        let (n, d) = (points.rows() as u64, points.cols() as u64);
        8 * n.saturating_mul(2 * d + 5 * n)
    }

    /// Returns the span of the points, if there are fewer points than dimensions. Returns `None` if a fit in the span
    /// would save nothing.
    pub(super) fn of(points: &Matrix, context: &Context<'_>) -> Option<Self> {
        let (n, d) = (points.rows(), points.cols());
        if n >= d || n > MOST_POINTS {
            return None;
        }
        context.run(|| {
            let points = Mat::from_fn(n, d, |row, col| f64::from(points.row(row)[col]));
            let mut gram = Mat::<f64>::zeros(n, n);
            linalg::product(gram.as_mut(), points.as_ref(), points.transpose());
            let (values, vectors) = linalg::symmetric_eigen(gram.as_ref())?;
            let largest = values.last().copied().filter(|value| value.is_finite() && *value > 0.0)?;
            let kept: Vec<usize> = (0..n).rev().filter(|&at| values[at] > NEGLIGIBLE * largest).collect();
            let r = kept.len();
            // X = U·√Λ·B, so B = Λ^(-1/2)·Uᵀ·X and the coordinates are U·√Λ.
            let combine = Mat::from_fn(r, n, |row, col| vectors[(col, kept[row])] / values[kept[row]].sqrt());
            let mut basis = Mat::<f64>::zeros(r, d);
            linalg::product(basis.as_mut(), combine.as_ref(), points.as_ref());
            let coordinates =
                (0..n * r).map(|at| (vectors[(at / r, kept[at % r])] * values[kept[at % r]].sqrt()) as f32);
            Some(Self {
                basis: Matrix::new((0..r * d).map(|at| basis[(at / d, at % d)] as f32).collect(), r, d).ok()?,
                coordinates: Matrix::new(coordinates.collect(), n, r).ok()?,
            })
        })
    }

    /// Maps a machine that was fitted in the span back to the original dimensions. `train` holds the machine's training
    /// points in the original dimensions.
    pub(super) fn expand(&self, machine: Rfm, train: Matrix, context: &Context<'_>) -> Rfm {
        let (r, d) = (self.basis.rows(), self.basis.cols());
        let metric_root = if machine.rounds == 0 {
            identity(d)
        } else {
            context.run(|| {
                let mut half = Matrix::zeros(r, d);
                linalg::product(
                    linalg::view_mut(&mut half),
                    linalg::view(&machine.metric_root),
                    linalg::view(&self.basis),
                );
                let mut root = Matrix::zeros(d, d);
                let basis = linalg::view(&self.basis);
                linalg::product(linalg::view_mut(&mut root), basis.transpose(), linalg::view(&half));
                root
            })
        };
        Rfm { metric_root, train, ..machine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_times_itself_is_the_metric() {
        // BᵀB is positive semidefinite and singular.
        let b = [[1.0, 2.0, -1.0], [0.5, -1.0, 3.0]];
        let metric: Vec<f32> = (0..9).map(|at| b.iter().map(|row| row[at / 3] * row[at % 3]).sum()).collect();
        let metric = Matrix::new(metric, 3, 3).unwrap();
        let root = symmetric_root(&metric).unwrap();
        for row in 0..3 {
            for col in 0..3 {
                let product: f32 = (0..3).map(|k| root.row(row)[k] * root.row(k)[col]).sum();
                assert!((product - metric.row(row)[col]).abs() < 1e-5);
                assert_eq!(root.row(row)[col], root.row(col)[row]);
            }
        }
    }

    #[test]
    fn shapes_are_checked() {
        assert!(matches!(symmetric_root(&Matrix::zeros(2, 3)), Err(Error::Shape { .. })));
        let broken = Matrix::new(vec![f32::NAN; 4], 2, 2).unwrap();
        assert!(matches!(symmetric_root(&broken), Err(Error::Data(_))));
    }

    #[test]
    fn coordinates_keep_every_distance_and_the_basis_is_orthonormal() {
        let (n, d) = (9, 30);
        let mut random = Random::new(1, 1);
        let mut points = Matrix::new((0..n * d).map(|_| random.normal() as f32).collect(), n, d).unwrap();
        let twin = points.row(2).to_vec();
        points.row_mut(5).copy_from_slice(&twin); // one direction fewer
        let context = Context::new(2).unwrap();
        let span = Span::of(&points, &context).unwrap();
        assert_eq!((span.basis.rows(), span.coordinates.cols()), (n - 1, n - 1));
        let squared = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum() };
        for a in 0..n {
            for b in 0..n {
                let (there, here) =
                    (squared(points.row(a), points.row(b)), squared(span.coordinates.row(a), span.coordinates.row(b)));
                assert!((there - here).abs() < 1e-4, "{a} {b}: {there} {here}");
            }
        }
        for a in 0..n - 1 {
            for b in 0..n - 1 {
                let product: f32 = span.basis.row(a).iter().zip(span.basis.row(b)).map(|(a, b)| a * b).sum();
                assert!((product - f32::from(u8::from(a == b))).abs() < 1e-5);
            }
        }
        assert!(Span::of(&Matrix::zeros(5, 5), &context).is_none());
        assert!(Span::of(&Matrix::zeros(3, 5), &context).is_none(), "points at the origin span nothing");
    }
}
