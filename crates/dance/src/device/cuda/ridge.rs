//! Kernel ridge regression on the device, as on the [CPU](crate::device::cpu::ridge). It computes the coefficients `β =
//! (K + λI)⁻¹ Y`, with the kernel matrix K, the ridge parameter λ and the one-hot labels Y.
//!
//! cuSOLVER computes the Cholesky factor in f32, in the triangle above the squared distances. At least one step of
//! iterative refinement follows, whose residual `Y - (K + λI)β` is computed in f64. TF32 is not used: a factor in TF32
//! changes outputs by 5 to 10 %, and refinement does not converge from there.

use cudarc::driver::CudaSlice;

use super::matrix::{Mat, MatMut};
use super::queue::Queue;
use crate::device::Regression;
use crate::device::cpu::ridge::{MOST_REFINEMENTS, POOR, PROBES, RIDGE_STEPS};
use crate::error::{Error, Result};
use crate::kernel::Kernel;

/// The number of entries of the kernel matrix that are computed in f64 at a time, within the limits on rows in
/// [`block_rows`].
const BLOCK_NUMBERS: usize = 1 << 25;

/// The parameters with which GPU kernels compute a kernel function of bandwidth L and shape ξ, in f32: 1/L², 1/(2ξ) and
/// -1/ξ.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) inverse: f32,
    pub(super) half_q: f32,
    pub(super) minus_q: f32,
}

impl Shape {
    pub(super) fn of(kernel: Kernel) -> Self {
        Self {
            inverse: (1.0 / kernel.bandwidth().powi(2)) as f32,
            half_q: (0.5 / kernel.shape()) as f32,
            minus_q: (-1.0 / kernel.shape()) as f32,
        }
    }
}

/// The linear system `(K + λI)β = Y` of a regression, in the symbols of the [module](self).
pub(super) struct RidgeSystem<'a> {
    pub(super) queue: &'a Queue,
    /// An n×n matrix for n training points: squared distances below the diagonal. On and above the diagonal there is
    /// room for the kernel matrix and its Cholesky factor.
    pub(super) square: &'a mut CudaSlice<f32>,
    pub(super) labels: &'a CudaSlice<u32>,
    pub(super) kernel: Kernel,
    pub(super) n: usize,
    pub(super) classes: usize,
}

/// Returns the number of rows of the n×n kernel matrix that are computed in f64 at a time.
pub(super) fn block_rows(n: usize) -> usize {
    (BLOCK_NUMBERS / n.max(1)).clamp(32, 4096).min(n.max(1))
}

impl RidgeSystem<'_> {
    /// Returns the coefficients and their numerical accuracy; the quality stays empty. Afterwards the Cholesky factor
    /// is on and above the diagonal of `square`.
    pub(super) fn solve(&mut self, ridge: f64) -> Result<(CudaSlice<f32>, Regression)> {
        let (n, shape) = (self.n, Shape::of(self.kernel));
        let mut used = ridge;
        for _ in 0..=RIDGE_STEPS {
            let tiles = n.div_ceil(32);
            let fill = self.queue.kernel("kernel_upper").output(self.square, n * n).size(n);
            fill.real(shape.inverse).real(shape.half_q).real((1.0 + used) as f32).run((tiles, tiles), (32, 8))?;
            if self.queue.factorise(self.square, n)? {
                return self.solve_factorised(used);
            }
            used = (used * 10.0).max(1e-6);
        }
        Err(self.not_positive_definite(used / 10.0))
    }

    fn solve_factorised(&self, ridge: f64) -> Result<(CudaSlice<f32>, Regression)> {
        let (queue, n, c) = (self.queue, self.n, self.classes);
        let mut beta = queue.zeros(n * c)?;
        let labels = self.labels;
        let one_hot = queue.kernel("one_hot").output(&mut beta, n * c).input(labels, n).size(n).size(c);
        one_hot.run((n.div_ceil(256), 1), (256, 1))?;
        queue.solve(self.square, n, &mut beta, c)?;
        let residual = self.sampled_residual(ridge, &beta)?;
        let mut report = Regression { quality: None, ridge, residual, refinements: 0 };
        while report.refinements < MOST_REFINEMENTS {
            let mut corrected = self.residual(ridge, &beta)?;
            queue.solve(self.square, n, &mut corrected, c)?;
            let sum = queue.kernel("add").output(&mut corrected, n * c).input(&beta, n * c).size(n * c);
            sum.run((blocks_of(n * c), 1), (256, 1))?;
            let residual = self.sampled_residual(ridge, &corrected)?;
            if !(residual < report.residual) {
                break;
            }
            let halved = residual < 0.5 * report.residual;
            beta = corrected;
            report = Regression { residual, refinements: report.refinements + 1, ..report };
            if report.residual <= POOR || !halved {
                break;
            }
        }
        if report.residual.is_finite() { Ok((beta, report)) } else { Err(self.not_positive_definite(ridge)) }
    }

    /// Computes `count` rows of `-(K + ridge·I)β` in f64: row `first` and every `step`-th row after it. K is the kernel
    /// matrix, and β the coefficients `beta`. The result goes to the rows of `out` from row `at` on. `rows` is a buffer
    /// for rows of K.
    fn products(
        &self,
        (first, step, count): (usize, usize, usize),
        ridge: f64,
        (beta, rows): (&CudaSlice<f64>, &mut CudaSlice<f64>),
        (out, at): (&mut CudaSlice<f64>, usize),
    ) -> Result<()> {
        let (n, c, shape) = (self.n, self.classes, Shape::of(self.kernel));
        let fill = self.queue.kernel("kernel_rows").input(self.square, n * n);
        let fill = fill.size(n).size(first).size(step).size(count).real(shape.inverse).real(shape.half_q);
        let fill = fill.real((1.0 + ridge) as f32).output(rows, count * n);
        fill.run((n.div_ceil(32), count.div_ceil(32)), (32, 8))?;
        let target = MatMut::new(out, at + count, c).part(at, count);
        self.queue.product(target, false, Mat::new(rows, count, n), Mat::new(beta, n, c), -1.0)
    }

    fn sampled_residual(&self, ridge: f64, beta: &CudaSlice<f32>) -> Result<f64> {
        let (queue, n, c) = (self.queue, self.n, self.classes);
        let step = n.div_ceil(PROBES).max(1);
        let count = n.div_ceil(step);
        let beta = to_f64(queue, beta, n * c)?;
        let (mut rows, mut out) = (queue.zeros(count * n)?, queue.zeros(count * c)?);
        self.products((0, step, count), ridge, (&beta, &mut rows), (&mut out, 0))?;
        let add = queue.kernel("add_one_hot").output(&mut out, count * c).input(self.labels, n);
        add.size(0).size(step).size(count).size(c).run((count.div_ceil(256), 1), (256, 1))?;
        let squares: f64 = queue.download(&out, 0, count * c)?.iter().map(|value| value * value).sum();
        Ok((squares / count as f64).sqrt())
    }

    /// Returns the residual `Y - (K + ridge·I)β`, computed in f64. K is the kernel matrix, Y the one-hot labels, and β
    /// the coefficients `beta`.
    fn residual(&self, ridge: f64, beta: &CudaSlice<f32>) -> Result<CudaSlice<f32>> {
        let (queue, n, c) = (self.queue, self.n, self.classes);
        let block = block_rows(n);
        let beta = to_f64(queue, beta, n * c)?;
        let (mut rows, mut out) = (queue.zeros(block * n)?, queue.zeros::<f64>(n * c)?);
        for first in (0..n).step_by(block) {
            let count = block.min(n - first);
            self.products((first, 1, count), ridge, (&beta, &mut rows), (&mut out, first))?;
        }
        let add = queue.kernel("add_one_hot").output(&mut out, n * c).input(self.labels, n);
        add.size(0).size(1).size(n).size(c).run((n.div_ceil(256), 1), (256, 1))?;
        let mut in_f32 = queue.zeros(n * c)?;
        let copy = queue.kernel("narrow").input(&out, n * c).output(&mut in_f32, n * c).size(n * c);
        copy.run((blocks_of(n * c), 1), (256, 1))?;
        Ok(in_f32)
    }

    fn not_positive_definite(&self, ridge: f64) -> Error {
        Error::NotPositiveDefinite { n: self.n, ridge, bandwidth: self.kernel.bandwidth() }
    }
}

/// Returns the number of blocks of 256 GPU threads that go through `count` numbers in a loop.
pub(super) fn blocks_of(count: usize) -> usize {
    count.div_ceil(256).clamp(1, 1 << 16)
}

/// Returns a copy of the first `count` elements of `values`, converted to f64.
pub(super) fn to_f64(queue: &Queue, values: &CudaSlice<f32>, count: usize) -> Result<CudaSlice<f64>> {
    let mut copied = queue.zeros(count)?;
    let copy = queue.kernel("widen").input(values, count).output(&mut copied, count).size(count);
    copy.run((blocks_of(count), 1), (256, 1))?;
    Ok(copied)
}
