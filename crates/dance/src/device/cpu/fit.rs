//! A fit on the CPU. The n×n matrices, for n training points, are allocated once. Every iteration and every kernel that
//! is tried uses them again.

use std::sync::Arc;

use rayon::prelude::*;

use super::agop::{Gradients, cheaper_form};
use super::ridge::{self, Points, RidgeSystem};
use super::{centered, check_width, linalg, mean};
use crate::context::{Context, Quality};
use crate::device::{FitPoints, FitSession, Regression};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

/// The number of held-out points in one parallel task: the tile of their kernel values stays in cache while the
/// coefficients are read.
const TILE: usize = 64;

/// Returns the largest number of bytes that a fit would have allocated at one time. The fit has `train` training points
/// and `held_out` held-out points, and the classes and dimensions of `points`.
pub(super) fn bytes(points: FitPoints<'_>, train: usize, held_out: usize) -> u64 {
    let (n, m, d, c) = (train as u64, held_out as u64, points.train.cols() as u64, points.classes as u64);
    let square = n * n * if points.several { 3 } else { 2 };
    let held_out = m * (n * if points.several { 2 } else { 1 } + 2 * d + c);
    // The terms count f32 numbers. The AGOP in f64 takes most: points centered, mapped and in f64, and H·X (n×d); β,
    // its right-hand side and Q, also in f64 (n×c). Refinement adds 256 rows of the kernel matrix in f64.
    let tall = n * (9 * d + 14 * c + 512);
    4 * (square + held_out + tall + 6 * d * d)
}

/// A fitted regression: its metric, its coefficients (`beta`) and its outputs at the held-out points.
#[derive(Clone)]
struct Solution {
    /// The metric under which the regression was fitted; `None` is the identity.
    metric: Option<Arc<Matrix>>,
    beta: Arc<Matrix>,
    /// The regression's outputs at the held-out points.
    outputs: Arc<Matrix>,
}

/// A fit in progress on the CPU.
pub(super) struct CpuFit<'a> {
    points: FitPoints<'a>,
    /// The centered training points.
    train: Matrix,
    /// The centered held-out points.
    held_out: Matrix,
    metric: Option<Arc<Matrix>>,
    /// The centered training points times the metric; `None` for the identity metric.
    mapped: Option<Matrix>,
    /// The squared distances among the n training points under the metric of the last regression, in the lower triangle
    /// of an n×n matrix.
    squared: Vec<f32>,
    /// A buffer of n×n numbers, for n training points. While a regression is fitted, it holds the kernel matrix and its
    /// Cholesky factor. While the metric is learned, it holds the [gradient weights](crate::kernel) of the kernel.
    work: Vec<f32>,
    /// The squared distances under the identity metric, if several kernels will be tried. The first list holds those
    /// among training points (lower triangle), the second those from held-out to training points.
    initial: Option<(Vec<f32>, Vec<f32>)>,
    /// The last regression, with its kernel.
    solved: Option<(Kernel, Solution)>,
    /// The best regression so far in the trial of the current kernel.
    kept: Option<Solution>,
    /// The best regression of all kernels tried.
    chosen: Option<Solution>,
    /// The outputs at the held-out points that [`held_out`](FitSession::held_out) returns.
    outputs: Option<Arc<Matrix>>,
}

impl<'a> CpuFit<'a> {
    pub(super) fn open(points: FitPoints<'a>) -> Result<Self> {
        check_fit(points)?;
        let n = points.train.rows();
        let center = mean(points.train);
        Ok(Self {
            points,
            train: centered(points.train, &center),
            held_out: centered(points.held_out, &center),
            metric: None,
            mapped: None,
            squared: vec![0.0; n * n],
            work: vec![0.0; n * n],
            initial: None,
            solved: None,
            kept: None,
            chosen: None,
            outputs: None,
        })
    }

    /// Updates `mapped` and `squared` for the current metric, and returns the squared distances from held-out points to
    /// training points.
    fn measure(&mut self) -> Vec<f32> {
        if let (None, Some((squared, held_out))) = (&self.metric, &self.initial) {
            self.mapped = None;
            let n = self.train.rows();
            let rows = self.squared.par_chunks_mut(n).zip(squared.par_chunks(n)).enumerate();
            rows.for_each(|(row, (to, from))| to[..=row].copy_from_slice(&from[..=row]));
            return held_out.clone();
        }
        let map = |points: &Matrix| self.metric.as_ref().map(|metric| product(points, metric));
        let (mapped, mapped_held_out) = (map(&self.train), map(&self.held_out));
        self.mapped = mapped;
        let train = Points::new(&self.train, self.mapped.as_ref().unwrap_or(&self.train));
        let held_out = Points::new(&self.held_out, mapped_held_out.as_ref().unwrap_or(&self.held_out));
        ridge::lower_triangle(&train, &mut self.squared);
        ridge::all_distances(&held_out, &train)
    }

    fn solve_on_workers(&mut self, kernel: Kernel, ridge: f64) -> Result<Regression> {
        (self.solved, self.outputs) = (None, None);
        let squared = self.measure();
        let system =
            RidgeSystem { squared: &self.squared, kernel, labels: self.points.labels, classes: self.points.classes };
        let (beta, mut regression) = system.solve(ridge, &mut self.work)?;
        let outputs = outputs(&squared, self.held_out.rows(), kernel, &beta);
        if self.points.several && self.metric.is_none() && self.initial.is_none() {
            self.initial = Some((self.squared.clone(), squared));
        }
        let labels = self.points.held_out_labels;
        regression.quality = (!labels.is_empty()).then(|| Quality::of(&outputs, labels));
        let (beta, outputs) = (Arc::new(beta), Arc::new(outputs));
        self.outputs = Some(Arc::clone(&outputs));
        self.solved = Some((kernel, Solution { metric: self.metric.clone(), beta, outputs }));
        Ok(regression)
    }
}

impl FitSession for CpuFit<'_> {
    fn begin(&mut self, metric: Option<&Matrix>, _: &Context<'_>) -> Result<()> {
        if let Some(metric) = metric {
            check_width("metric", self.train.cols(), metric.cols())?;
        }
        self.metric = metric.map(|metric| Arc::new(metric.clone()));
        (self.solved, self.kept, self.outputs) = (None, None, None);
        Ok(())
    }

    fn solve(&mut self, kernel: Kernel, ridge: f64, context: &Context<'_>) -> Result<Regression> {
        context.run(|| self.solve_on_workers(kernel, ridge))
    }

    fn learn(&mut self, sample: Option<&[usize]>, context: &Context<'_>) -> Result<bool> {
        let Some((kernel, solution)) = &self.solved else { return Err(not_solved()) };
        let (n, d) = (self.train.rows(), self.train.cols());
        let sampled = sample.map_or(n, <[usize]>::len);
        let form = cheaper_form(n, sampled, self.points.classes, d);
        let mapped = self.mapped.as_ref().unwrap_or(&self.train);
        let gradients = Gradients { squared: &self.squared, kernel: *kernel, beta: &solution.beta, mapped };
        let work = &mut self.work;
        let outer = context.run(|| gradients.outer_product(form, sample, work));
        let Some(metric) = as_metric(outer, self.points.basis, context) else { return Ok(false) };
        self.metric = Some(Arc::new(metric));
        Ok(true)
    }

    fn keep(&mut self) -> Result<()> {
        let Some((_, solution)) = &self.solved else { return Err(not_solved()) };
        self.kept = Some(solution.clone());
        Ok(())
    }

    fn choose(&mut self) -> Result<()> {
        self.chosen = Some(self.kept.clone().ok_or_else(not_solved)?);
        Ok(())
    }

    fn chosen(&mut self) -> Result<(Option<Matrix>, Matrix)> {
        let Solution { metric, beta, outputs } = self.chosen.take().ok_or_else(not_solved)?;
        (self.kept, self.solved) = (None, None); // drops other references, so that nothing is copied
        self.outputs = Some(outputs);
        Ok((metric.map(Arc::unwrap_or_clone), Arc::unwrap_or_clone(beta)))
    }

    fn held_out(&mut self) -> Result<Matrix> {
        self.outputs.as_ref().map(|outputs| (**outputs).clone()).ok_or_else(not_solved)
    }

    fn leave_one_out(&mut self, context: &Context<'_>) -> Result<Matrix> {
        let Some((_, solution)) = &self.solved else { return Err(not_solved()) };
        Ok(leave_one_out(&self.work, &solution.beta, self.points.labels, context))
    }
}

/// Returns the leave-one-out outputs of a regression at every training point. `beta` holds the regression's
/// coefficients. The lower triangle of the n×n matrix `factor` holds the Cholesky factor of the kernel matrix plus
/// ridge.
pub(in crate::device) fn leave_one_out(factor: &[f32], beta: &Matrix, labels: &[u32], context: &Context<'_>) -> Matrix {
    let n = labels.len();
    let diagonal = context.run(|| linalg::inverse_diagonal(factor, n));
    // β = (K + ridge·I)⁻¹ Y. The error at point i after training without i is βᵢ divided by entry i of the inverse's
    // diagonal.
    let mut outputs = Matrix::zeros(n, beta.cols());
    for (row, &label) in labels.iter().enumerate() {
        let to = outputs.row_mut(row);
        to[label as usize] = 1.0;
        for (output, beta) in to.iter_mut().zip(beta.row(row)) {
            *output -= beta / diagonal[row];
        }
    }
    outputs
}

/// Returns the error of a call that needs a regression before any has been fitted.
pub(in crate::device) fn not_solved() -> Error {
    Error::Data("a fit session was used before a regression was solved".into())
}

/// Returns [`Error::Shape`] if the numbers of points and labels differ, or if training and held-out points have
/// different dimensions.
pub(in crate::device) fn check_fit(points: FitPoints<'_>) -> Result<()> {
    for (what, expected, found) in [
        ("labels (one per training point)", points.train.rows(), points.labels.len()),
        ("labels (one per held-out point)", points.held_out.rows(), points.held_out_labels.len()),
    ] {
        if expected != found {
            let (expected, found) = (expected.to_string(), found.to_string());
            return Err(Error::Shape { what: what.into(), expected, found });
        }
    }
    check_width("held-out points", points.train.cols(), points.held_out.cols())
}

/// Scales an AGOP (average gradient outer product) to a metric whose largest entry is 1 in the encoder's coordinates.
/// Returns `None` if the gradients vanish or overflow. With a `basis`, the AGOP is given in the coordinates of that
/// basis.
pub(in crate::device) fn as_metric(mut outer: Matrix, basis: Option<&Matrix>, context: &Context<'_>) -> Option<Matrix> {
    let largest = largest_entry(&outer, basis, context);
    if !(largest.is_finite() && largest > f32::MIN_POSITIVE) {
        return None;
    }
    for value in outer.as_mut_slice() {
        *value /= largest;
    }
    Some(outer)
}

/// Returns the largest entry of a metric in the encoder's coordinates. With a `basis`, the metric is given in the
/// coordinates of that basis.
fn largest_entry(metric: &Matrix, basis: Option<&Matrix>, context: &Context<'_>) -> f32 {
    match basis {
        None => metric.as_slice().iter().fold(0.0f32, |largest, &value| largest.max(value)),
        Some(basis) => context.run(|| largest_on_diagonal(metric, basis)),
    }
}

/// Returns the largest of the numbers `bᵢᵀ G bᵢ`, with the metric G and the columns bᵢ of `basis`. These numbers are
/// the diagonal of G in the encoder's coordinates. A positive semidefinite matrix has its largest entry on its
/// diagonal.
fn largest_on_diagonal(metric: &Matrix, basis: &Matrix) -> f32 {
    let mapped = product(metric, basis);
    let mut diagonal = vec![0.0f64; basis.cols()];
    for row in 0..basis.rows() {
        for (sum, (a, b)) in diagonal.iter_mut().zip(basis.row(row).iter().zip(mapped.row(row))) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    }
    diagonal.into_iter().fold(0.0, f64::max) as f32
}

fn product(left: &Matrix, right: &Matrix) -> Matrix {
    let mut out = Matrix::zeros(left.rows(), right.cols());
    linalg::product(linalg::view_mut(&mut out), linalg::view(left), linalg::view(right));
    out
}

/// Returns the outputs `K·beta` of a regression at as many points as `points` says. K holds the kernel values at
/// `squared`, the squared distances of these points to the training points.
fn outputs(squared: &[f32], points: usize, kernel: Kernel, beta: &Matrix) -> Matrix {
    let (n, c) = (beta.rows(), beta.cols());
    let mut out = Matrix::zeros(points, c);
    let rows = out.as_mut_slice().par_chunks_mut(TILE * c).zip(squared.par_chunks(TILE * n));
    rows.for_each_init(Vec::new, |values, (out, squared)| {
        values.resize(squared.len(), 0.0);
        kernel.values(squared, values);
        let height = squared.len() / n;
        let out = linalg::row_major_mut(out, height, c);
        linalg::gemm(out, false, linalg::row_major(values, height, n), linalg::view(beta), 1.0);
    });
    out
}
