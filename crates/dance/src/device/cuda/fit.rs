//! A fit on the device: points are uploaded once, the n×n matrix is allocated once, and coefficients stay on the
//! device.
//!
//! In every iteration the host receives two numbers per held-out point, from which the quality of a regression follows.
//! It also receives the AGOP (average gradient outer product), a d×d matrix for d dimensions. The host divides the AGOP
//! by its largest entry to get the next metric.

use std::sync::Arc;

use cudarc::driver::CudaSlice;

use super::agop::{Gradients, PANEL_BYTES};
use super::matrix::{Mat, MatMut};
use super::queue::Queue;
use super::ridge::{RidgeSystem, Shape, block_rows, blocks_of};
use super::{Gpu, Points};
use crate::context::{Context, Quality};
use crate::device::cpu::agop::cheaper_form;
use crate::device::cpu::{as_metric, centered, check_fit, check_width, leave_one_out, mean, not_solved};
use crate::device::{FitPoints, FitSession, Regression, most_that_fit};
use crate::error::{Error, Result, human_bytes};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

/// The largest number of kernel values that are computed at a time, for pairs of a held-out point and a training point.
const BLOCK_NUMBERS: usize = 1 << 26;

/// Returns the largest number of bytes that a fit would have allocated on the device at one time. The fit has `train`
/// training points and `held_out` held-out points, and the classes and dimensions of `points`.
pub(super) fn bytes(points: FitPoints<'_>, train: usize, held_out: usize) -> u64 {
    let (n, m, d, c) = (train as u64, held_out as u64, points.train.cols() as u64, points.classes as u64);
    // The terms count f32 numbers: points, mapped and in f64, and H·X (n×d); β three times, with the correction in f64,
    // or Q with the buffers of the AGOP in f64 (n×c).
    let tall = n * (9 * d + 14 * c) + m * (3 * d + 4 * c);
    // Blocks of the kernel matrix in f64, of the matrix S of the AGOP in f64, and of held-out points. The work space of
    // cuSOLVER is smaller than one of them.
    let blocks = 2 * (block_rows(train) as u64) * n + 3 * (1 << 26) + n * PANEL_BYTES as u64 / 4;
    4 * (n * n + tall + blocks + 8 * d * d + 2 * c * d)
}

/// A fitted regression: its metric, its coefficients (`beta`) and its outputs at the held-out points.
#[derive(Clone)]
struct Solution {
    /// The metric under which the regression was fitted; `None` is the identity.
    metric: Option<Arc<Matrix>>,
    beta: Arc<CudaSlice<f32>>,
    /// The regression's outputs at the held-out points.
    outputs: Arc<CudaSlice<f32>>,
}

/// A fit in progress on a graphics processor.
pub(super) struct CudaFit<'a> {
    gpu: Arc<Gpu>,
    points: FitPoints<'a>,
    train: Points,
    held_out: Points,
    labels: CudaSlice<u32>,
    held_out_labels: CudaSlice<u32>,
    metric: Option<Arc<Matrix>>,
    /// An n×n matrix for n training points: squared distances below the diagonal, and the Cholesky factor on and above
    /// it. When the metric is learned, [gradient weights](crate::kernel) overwrite both.
    square: CudaSlice<f32>,
    /// `true` if `square` holds the squared distances under the metric of the last regression.
    measured: bool,
    /// The last regression, with its kernel.
    solved: Option<(Kernel, Solution)>,
    /// The best regression so far in the trial of the current kernel.
    kept: Option<Solution>,
    /// The best regression of all kernels tried.
    chosen: Option<Solution>,
    /// The outputs at the held-out points that [`held_out`](FitSession::held_out) returns.
    outputs: Option<Arc<CudaSlice<f32>>>,
}

impl<'a> CudaFit<'a> {
    pub(super) fn open(gpu: &Arc<Gpu>, points: FitPoints<'a>) -> Result<Self> {
        check_fit(points)?;
        let (n, d) = (points.train.rows(), points.train.cols());
        let center = mean(points.train);
        let queue = gpu.queue()?;
        let (needed, free) = (bytes(points, n, points.held_out.rows()), queue.free_bytes()?);
        if needed > free {
            let fits = most_that_fit(n, |train| bytes(points, train, points.held_out.rows()) <= free);
            let problem = format!(
                "fitting {n} points of {d} dimensions and {} classes needs {} of its memory and {} is free: fit on \
                 fewer points (about {fits} would fit), or on the CPU",
                points.classes,
                human_bytes(needed),
                human_bytes(free)
            );
            return Err(Error::Device { device: gpu.name().to_owned(), problem });
        }
        let train = Points::new(&queue, &centered(points.train, &center))?;
        let held_out = Points::new(&queue, &centered(points.held_out, &center))?;
        let (labels, held_out_labels) = (queue.upload(points.labels)?, queue.upload(points.held_out_labels)?);
        let square = queue.zeros(n * n)?;
        drop(queue);
        Ok(Self {
            gpu: Arc::clone(gpu),
            points,
            train,
            held_out,
            labels,
            held_out_labels,
            metric: None,
            square,
            measured: false,
            solved: None,
            kept: None,
            chosen: None,
            outputs: None,
        })
    }

    /// Writes the squared distances among the training points under `metric` to the matrix `square`.
    fn measure(&mut self, queue: &Queue, metric: Option<&Matrix>) -> Result<()> {
        self.measured = false;
        self.train.map(queue, metric)?;
        self.held_out.map(queue, metric)?;
        let (n, d) = (self.train.rows, self.train.cols);
        let (left, right) = (Mat::new(self.train.mapped(), n, d), Mat::new(&self.train.plain, n, d));
        queue.product(MatMut::new(&mut self.square, n, n), false, left, right.flip(), 1.0)?;
        self.train.distances(queue, (0, n), &self.train, &mut self.square, true)?;
        self.measured = true;
        Ok(())
    }

    /// Returns the outputs `K·beta` of a regression at the held-out points. K holds the kernel values of these points
    /// with the training points.
    fn outputs(&self, queue: &Queue, kernel: Kernel, beta: &CudaSlice<f32>) -> Result<CudaSlice<f32>> {
        let (m, n, d, c) = (self.held_out.rows, self.train.rows, self.train.cols, self.points.classes);
        let block = (BLOCK_NUMBERS / n).clamp(1, m.max(1));
        let mut values = queue.zeros(if m == 0 { 0 } else { block * n })?;
        let mut out = queue.zeros(m * c)?;
        for first in (0..m).step_by(block) {
            let count = block.min(m - first);
            let left = Mat::new(self.held_out.mapped(), m, d).part(first, count);
            let right = Mat::new(&self.train.plain, n, d).flip();
            queue.product(MatMut::new(&mut values, count, n), false, left, right, 1.0)?;
            self.held_out.distances(queue, (first, count), &self.train, &mut values, false)?;
            kernel_values(queue, kernel, &mut values, count * n)?;
            let target = MatMut::new(&mut out, m, c).part(first, count);
            queue.product(target, false, Mat::new(&values, count, n), Mat::new(beta, n, c), 1.0)?;
        }
        Ok(out)
    }

    /// Returns the quality of `outputs` at the held-out points; `None` without such points.
    fn quality(&self, queue: &Queue, outputs: &CudaSlice<f32>) -> Result<Option<Quality>> {
        let (m, c) = (self.held_out.rows, self.points.classes);
        if m == 0 {
            return Ok(None);
        }
        let (mut hits, mut losses) = (queue.zeros::<f64>(m)?, queue.zeros::<f64>(m)?);
        let kernel =
            queue.kernel("score_outputs").input(outputs, m * c).input(&self.held_out_labels, m).size(m).size(c);
        kernel.output(&mut hits, m).output(&mut losses, m).run((m.div_ceil(8), 1), (256, 1))?;
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / m as f64;
        let (hits, losses) = (queue.download(&hits, 0, m)?, queue.download(&losses, 0, m)?);
        Ok(Some(Quality { accuracy: mean(hits), loss: mean(losses) }))
    }

    fn downloaded(&self, queue: &Queue, values: &CudaSlice<f32>, rows: usize) -> Result<Matrix> {
        let c = self.points.classes;
        Matrix::new(queue.download(values, 0, rows * c)?, rows, c)
    }
}

impl FitSession for CudaFit<'_> {
    fn begin(&mut self, metric: Option<&Matrix>, _: &Context<'_>) -> Result<()> {
        if let Some(metric) = metric {
            check_width("metric", self.train.cols, metric.cols())?;
        }
        self.metric = metric.map(|metric| Arc::new(metric.clone()));
        (self.solved, self.kept, self.outputs) = (None, None, None);
        Ok(())
    }

    fn solve(&mut self, kernel: Kernel, ridge: f64, _: &Context<'_>) -> Result<Regression> {
        (self.solved, self.outputs) = (None, None);
        let gpu = Arc::clone(&self.gpu);
        let queue = gpu.queue()?;
        let metric = self.metric.clone();
        self.measure(&queue, metric.as_deref())?;
        let mut system = RidgeSystem {
            queue: &queue,
            square: &mut self.square,
            labels: &self.labels,
            kernel,
            n: self.train.rows,
            classes: self.points.classes,
        };
        let (beta, mut regression) = system.solve(ridge)?;
        let outputs = self.outputs(&queue, kernel, &beta)?;
        regression.quality = self.quality(&queue, &outputs)?;
        let (beta, outputs) = (Arc::new(beta), Arc::new(outputs));
        self.outputs = Some(Arc::clone(&outputs));
        self.solved = Some((kernel, Solution { metric, beta, outputs }));
        Ok(regression)
    }

    fn learn(&mut self, sample: Option<&[usize]>, context: &Context<'_>) -> Result<bool> {
        let Some((kernel, solution)) = self.solved.clone() else { return Err(not_solved()) };
        let (n, d, classes) = (self.train.rows, self.train.cols, self.points.classes);
        let sample: Vec<u32> = match sample.filter(|sample| sample.len() < n) {
            Some(sample) => sample.iter().map(|&row| row as u32).collect(),
            None => (0..n as u32).collect(),
        };
        let form = cheaper_form(n, sample.len(), classes, d);
        let gpu = Arc::clone(&self.gpu);
        let queue = gpu.queue()?;
        if !self.measured {
            self.measure(&queue, solution.metric.as_deref())?;
        }
        self.measured = false;
        let gradients = Gradients {
            queue: &queue,
            square: &mut self.square,
            kernel,
            beta: &solution.beta,
            mapped: self.train.mapped(),
            n,
            classes,
            dimensions: d,
        };
        let outer = gradients.outer_product(form, &sample)?;
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
        (self.kept, self.solved, self.outputs) = (None, None, Some(outputs));
        let beta = self.downloaded(&*self.gpu.queue()?, &beta, self.train.rows)?;
        Ok((metric.map(Arc::unwrap_or_clone), beta))
    }

    fn held_out(&mut self) -> Result<Matrix> {
        let outputs = self.outputs.as_ref().ok_or_else(not_solved)?;
        self.downloaded(&*self.gpu.queue()?, outputs, self.held_out.rows)
    }

    fn leave_one_out(&mut self, context: &Context<'_>) -> Result<Matrix> {
        let Some((_, solution)) = self.solved.as_ref().filter(|_| self.measured) else {
            return Err(not_solved());
        };
        let n = self.train.rows;
        let queue = self.gpu.queue()?;
        let beta = self.downloaded(&queue, &solution.beta, n)?;
        // The factor is above the diagonal, transposed. The host computes the rest, because the points are few.
        let square = queue.download(&self.square, 0, n * n)?;
        let factor: Vec<f32> = (0..n * n).map(|at| square[at % n * n + at / n]).collect();
        Ok(leave_one_out(&factor, &beta, self.points.labels, context))
    }
}

/// Replaces the first `count` numbers in `values`, which are squared distances, by kernel values.
pub(super) fn kernel_values(queue: &Queue, kernel: Kernel, values: &mut CudaSlice<f32>, count: usize) -> Result<()> {
    let shape = Shape::of(kernel);
    let fill = queue.kernel("kernel_values").output(values, count).size(count);
    fill.real(shape.inverse).real(shape.half_q).run((blocks_of(count), 1), (256, 1))
}
