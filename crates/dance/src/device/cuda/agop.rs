//! The average gradient outer product (AGOP) on the device, in f32 or f64. The [module of the
//! CPU](crate::device::cpu::agop) defines the two forms of the AGOP, and the symbols.
//!
//! Only one n×n matrix is allocated, for n training points. The gradient weights overwrite the squared distances and
//! the Cholesky factor, which are not needed any more. The folded form is computed by blocks of rows of the lower
//! triangle of `S`. If its estimated error is above the tolerance of the CPU, the folded form is computed again in f64.
//! TF32 is not used: three products in TF32 would be as exact, but slower than one in f32.

use cudarc::driver::CudaSlice;

use super::matrix::{Mat, MatMut};
use super::queue::{Number, Queue};
use super::ridge::{Shape, to_f64};
use crate::device::cpu::agop::{AgopForm, TOLERANCE, folded_error, median_of};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

/// The number of entries in a block of rows of the matrix `S` of the [folded form](crate::device::cpu::agop) in f32. In
/// f64 a block has half as many entries.
const BLOCK_NUMBERS: usize = 1 << 26;
/// The largest number of rows in a block of the lower triangle. Entries above the diagonal are computed but not used,
/// and smaller blocks have fewer of them.
const MOST_ROWS: usize = 1024;
/// The number of bytes that are gathered at a time from each row of [gradient weights](crate::kernel). Rows are
/// gathered if the AGOP (average gradient outer product) is over a sample.
pub(super) const PANEL_BYTES: usize = 32 * 1024;
/// The largest number of weighted coordinate differences that are held at a time, when the AGOP (average gradient outer
/// product) is computed by definition.
const DIFFERENCES: usize = 1 << 26;

/// The number type in which the [folded form](self) is computed: f32 or f64. The constants are names of GPU kernels in
/// `kernels.cu`.
pub(super) trait Real: Number + Into<f64> {
    const GATHER: &'static str;
    const SCATTER: &'static str;
    const ROW_SUMS: &'static str;
    const ROW_SQUARES: &'static str;
    const FOLD: &'static str;
    const REST: &'static str;
    /// Returns `square`, the matrix of [gradient weights](crate::kernel), without a copy if this type is f32; otherwise
    /// `None`.
    fn weights(square: &CudaSlice<f32>) -> Option<&CudaSlice<Self>>;
    /// Returns a copy of the first `count` elements of `values`, converted to this type.
    fn copied(queue: &Queue, values: &CudaSlice<f32>, count: usize) -> Result<CudaSlice<Self>>;
}

impl Real for f32 {
    const GATHER: &'static str = "gather_f32";
    const SCATTER: &'static str = "scatter_f32";
    const ROW_SUMS: &'static str = "row_sums_f32";
    const ROW_SQUARES: &'static str = "row_squares_f32";
    const FOLD: &'static str = "fold_f32";
    const REST: &'static str = "rest_f32";
    fn weights(square: &CudaSlice<f32>) -> Option<&CudaSlice<Self>> {
        Some(square)
    }

    fn copied(queue: &Queue, values: &CudaSlice<f32>, count: usize) -> Result<CudaSlice<Self>> {
        queue.copy(values, count)
    }
}

impl Real for f64 {
    const GATHER: &'static str = "gather_f64";
    const SCATTER: &'static str = "scatter_f64";
    const ROW_SUMS: &'static str = "row_sums_f64";
    const ROW_SQUARES: &'static str = "row_squares_f64";
    const FOLD: &'static str = "fold_f64";
    const REST: &'static str = "rest_f64";
    fn weights(_: &CudaSlice<f32>) -> Option<&CudaSlice<Self>> {
        None
    }

    fn copied(queue: &Queue, values: &CudaSlice<f32>, count: usize) -> Result<CudaSlice<Self>> {
        to_f64(queue, values, count)
    }
}

/// A fitted kernel ridge regression, from which the [AGOP](self) is computed.
pub(super) struct Gradients<'a> {
    pub(super) queue: &'a Queue,
    /// An n×n matrix for n training points: at first the squared distances below the diagonal, then the [gradient
    /// weights](crate::kernel) in both triangles.
    pub(super) square: &'a mut CudaSlice<f32>,
    pub(super) kernel: Kernel,
    /// The coefficients A of the regression, n×c for n training points and c classes.
    pub(super) beta: &'a CudaSlice<f32>,
    /// The mapped points `X = ZM` (the training points Z times the metric M), n×d for n points with d dimensions.
    pub(super) mapped: &'a CudaSlice<f32>,
    pub(super) n: usize,
    pub(super) classes: usize,
    pub(super) dimensions: usize,
}

impl Gradients<'_> {
    /// Returns the AGOP (average gradient outer product), averaged over the points with the indices `sample`.
    pub(super) fn outer_product(mut self, form: AgopForm, sample: &[u32]) -> Result<Matrix> {
        let points = self.queue.upload(sample)?;
        let mut outer = match form {
            AgopForm::Definition => {
                self.fill_weights(0.0)?;
                self.by_definition(&points, sample.len())?
            }
            AgopForm::Folded => {
                let shift = self.median_weight()?;
                self.fill_weights(shift)?;
                let (outer, error) = self.folded::<f32>(&points, sample.len(), shift)?;
                if error <= TOLERANCE { outer } else { self.folded::<f64>(&points, sample.len(), shift)?.0 }
            }
        };
        let scale = 1.0 / sample.len() as f32;
        for value in outer.as_mut_slice() {
            *value *= scale;
        }
        Ok(outer)
    }

    /// Returns the median of the [gradient weights](crate::kernel) in about 16 evenly spaced rows of their matrix,
    /// computed on the host.
    fn median_weight(&self) -> Result<f32> {
        const ROWS: usize = 16;
        let n = self.n;
        let mut squared = Vec::new();
        for row in (1..n).step_by(n.div_ceil(ROWS).max(1)) {
            squared.extend(self.queue.download(self.square, row * n, row)?);
        }
        Ok(median_of(&self.kernel, &squared))
    }

    fn fill_weights(&mut self, shift: f32) -> Result<()> {
        let (n, shape) = (self.n, Shape::of(self.kernel));
        let fill = self.queue.kernel("weights_both").output(self.square, n * n).size(n).real(shape.inverse);
        let tiles = n.div_ceil(32);
        fill.real(shape.half_q).real(shape.minus_q).real(shift).run((tiles, tiles), (32, 8))
    }

    fn by_definition(&self, points: &CudaSlice<u32>, s: usize) -> Result<Matrix> {
        let (queue, n, c, d) = (self.queue, self.n, self.classes, self.dimensions);
        let batch = (DIFFERENCES / (n * d)).clamp(1, s);
        let mut differences = queue.zeros(n * batch * d)?;
        let mut gradients = queue.zeros(c * batch * d)?;
        let mut outer = queue.zeros::<f32>(d * d)?;
        for first in (0..s).step_by(batch) {
            let count = batch.min(s - first);
            let width = count * d;
            let fill = queue.kernel("differences").input(self.square, n * n).input(self.mapped, n * d);
            let fill = fill.size(n).size(d).input(points, s).size(first).size(count);
            fill.output(&mut differences, n * width).run((n, 1), (256, 1))?;
            // Row l holds the gradients of class l at all points of the batch, one after the other.
            queue.product(
                MatMut::new(&mut gradients, c, width),
                false,
                Mat::new(self.beta, n, c).flip(),
                Mat::new(&differences, n, width),
                1.0,
            )?;
            let gradients = Mat::new(&gradients, c * count, d);
            queue.product(MatMut::new(&mut outer, d, d), first > 0, gradients.flip(), gradients, 1.0)?;
        }
        Matrix::new(queue.download(&outer, 0, d * d)?, d, d)
    }

    /// Returns the [AGOP](self) times the number of sampled points, in the folded form, and an estimate of its relative
    /// error.
    fn folded<T: Real>(&self, points: &CudaSlice<u32>, s: usize, shift: f32) -> Result<(Matrix, f64)> {
        // Q, and the squared norms of its rows and of the points.
        let (queue, n, c, d) = (self.queue, self.n, self.classes, self.dimensions);
        let in_f64 = [to_f64(queue, self.beta, n * c)?, to_f64(queue, self.mapped, n * d)?];
        let beta = T::copied(queue, self.beta, n * c)?;
        let mapped = T::copied(queue, self.mapped, n * d)?;
        let weights = Weights::<T>::new(self, points, s);
        let (q, row_sums) = self.weighted_sums(&weights, &beta, &in_f64[0], shift)?;
        let warps = (n.div_ceil(8), 1);
        let (mut diagonal, mut norms) = (queue.zeros::<f64>(n)?, queue.zeros::<f64>(n)?);
        let squares = queue.kernel(T::ROW_SQUARES).input(&q, n * c).size(n).size(c);
        squares.output(&mut diagonal, n).run(warps, (256, 1))?;
        let squares = queue.kernel(f32::ROW_SQUARES).input(self.mapped, n * d).size(n).size(d);
        squares.output(&mut norms, n).run(warps, (256, 1))?;
        // H·X, block by block of rows of the lower triangle.
        let block = (BLOCK_NUMBERS / n * 4 / size_of::<T>()).clamp(32, MOST_ROWS).min(n);
        let mut tiles = [queue.zeros::<T>(block * n)?, queue.zeros(block * n)?, queue.zeros(block * n)?];
        let (mut halves, mut spreads) = (queue.zeros::<T>(n * d)?, queue.zeros::<f64>(n)?);
        let mut panel = weights.room()?;
        for first in (0..n).step_by(block) {
            let (height, width) = (block.min(n - first), (first + block).min(n));
            let [tile, gram, crossed] = &mut tiles;
            weights.gram(MatMut::new(tile, height, width), first, &mut panel)?;
            let beta = Mat::new(&beta, n, c);
            let q = Mat::new(&q, n, c);
            let pairs = [(gram, false, beta, beta), (crossed, false, beta, q)];
            for (out, add, left, right) in pairs {
                let (left, right) = (left.part(first, height), right.part(0, width).flip());
                queue.product(MatMut::new(out, height, width), add, left, right, T::ONE)?;
            }
            let [tile, gram, crossed] = &mut tiles;
            let (left, right) = (q.part(first, height), beta.part(0, width).flip());
            queue.product(MatMut::new(crossed, height, width), true, left, right, T::ONE)?;
            let touched = height * width;
            let fold = queue.kernel(T::FOLD).output(tile, touched).input(gram, touched).input(crossed, touched);
            let fold = fold.input(self.square, n * n).size(n).size(first).size(width).input(&diagonal, n);
            fold.input(&norms, n).output(&mut spreads, n).run((height, 1), (256, 1))?;
            queue.product(
                MatMut::new(&mut halves, n, d).part(first, height),
                false,
                Mat::new(tile, height, width),
                Mat::new(&mapped, n, d).part(0, width),
                T::ONE,
            )?;
        }
        // XᵀHX and shift·bᵀF, which comes from the constant part of the weights. The result adds the transposes of
        // both.
        drop((tiles, panel));
        let mut lower = queue.zeros(d * d)?;
        let x = Mat::new(&mapped, n, d);
        queue.product(MatMut::new(&mut lower, d, d), false, x.flip(), Mat::new(&halves, n, d), T::ONE)?;
        let constant = self.shift_part(&q, &row_sums, &in_f64, s, shift)?;
        let lower: Vec<f64> = queue.download(&lower, 0, d * d)?.into_iter().map(T::into).collect();
        let spread: f64 = queue.download(&spreads, 0, n)?.iter().sum();
        let (mut outer, mut norm) = (Matrix::zeros(d, d), 0.0);
        for row in 0..d {
            for col in 0..d {
                let (at, mirrored) = (row * d + col, col * d + row);
                let value = lower[at] + lower[mirrored] + constant[at] + constant[mirrored];
                norm += value * value;
                outer.row_mut(row)[col] = value as f32;
            }
        }
        Ok((outer, folded_error(spread, norm)))
    }

    /// Returns `Q = wA`, the product of the [gradient weights](crate::kernel) w with the coefficients A (`beta`). Rows
    /// of Q outside the sample are 0. Also returns the row sums of the sampled columns of `w - shift`.
    fn weighted_sums<T: Real>(
        &self,
        weights: &Weights<'_, T>,
        beta: &CudaSlice<T>,
        beta_f64: &CudaSlice<f64>,
        shift: f32,
    ) -> Result<(CudaSlice<T>, CudaSlice<f64>)> {
        let (queue, n, c) = (self.queue, self.n, self.classes);
        let (ones, mut sums) = (queue.upload(&vec![1.0f64; n])?, queue.zeros::<f64>(c)?);
        queue.product(MatMut::new(&mut sums, 1, c), false, Mat::new(&ones, 1, n), Mat::new(beta_f64, n, c), 1.0)?;
        let (mut q, mut row_sums) = (queue.zeros::<T>(n * c)?, queue.zeros::<f64>(n)?);
        let mut panel = weights.room()?;
        let mut parts = queue.zeros::<T>(weights.width * c)?;
        for first in (0..weights.sampled).step_by(weights.width) {
            let columns = weights.columns(first, &mut panel)?;
            let count = columns.cols;
            let out = MatMut::new(&mut parts, count, c);
            queue.product(out, false, columns.flip(), Mat::new(beta, n, c), T::ONE)?;
            let scatter = queue.kernel(T::SCATTER).input(&parts, count * c).input(&sums, c).real(shift);
            let scatter = scatter.input(weights.points, weights.sampled).size(first).size(c);
            scatter.output(&mut q, n * c).run((count, 1), (256, 1))?;
            let add = queue.kernel(T::ROW_SUMS).input(columns.buffer, n * count).size(n).size(count);
            add.output(&mut row_sums, n).run((n.div_ceil(8), 1), (256, 1))?;
        }
        Ok((q, row_sums))
    }

    /// Returns the matrix `shift·bᵀF` in f64, with b and F of the [module of the CPU](crate::device::cpu::agop). This
    /// matrix plus its transpose is the part of the folded [AGOP](self) that comes from `shift`, the constant part of
    /// the [gradient weights](crate::kernel).
    fn shift_part<T: Real>(
        &self,
        q: &CudaSlice<T>,
        row_sums: &CudaSlice<f64>,
        [beta, mapped]: &[CudaSlice<f64>; 2],
        s: usize,
        shift: f32,
    ) -> Result<Vec<f64>> {
        let (queue, n, c, d) = (self.queue, self.n, self.classes, self.dimensions);
        let mut rest = queue.zeros(n * c)?;
        let fill = queue.kernel(T::REST).input(row_sums, n).input(self.beta, n * c).input(q, n * c).size(c);
        fill.output(&mut rest, n * c).run((n, 1), (256, 1))?;
        let (mut moments, mut other) = (queue.zeros(c * d)?, queue.zeros(c * d)?);
        for (out, left) in [(&mut moments, beta), (&mut other, &rest)] {
            let (left, right) = (Mat::new(left, n, c).flip(), Mat::new(mapped, n, d));
            queue.product(MatMut::new(out, c, d), false, left, right, 1.0)?;
        }
        let mut out = queue.zeros(d * d)?;
        let shift = f64::from(shift);
        let left = Mat::new(&moments, c, d).flip();
        let half = 0.5 * s as f64 * shift;
        queue.product(MatMut::new(&mut out, d, d), false, left, Mat::new(&other, c, d), shift)?;
        queue.product(MatMut::new(&mut out, d, d), true, left, Mat::new(&moments, c, d), shift * half)?;
        queue.download(&out, 0, d * d)
    }
}

/// A buffer for gathered columns of the [gradient weights](crate::kernel).
struct Panel<T> {
    numbers: CudaSlice<T>,
    /// The place in the sample of the point to which the buffer's first column belongs; `None` while the buffer is
    /// empty.
    first: Option<usize>,
}

/// The sampled columns of the [gradient weights](crate::kernel). They are used in place, or gathered in a buffer of
/// some columns at a time.
struct Weights<'a, T> {
    queue: &'a Queue,
    square: &'a CudaSlice<f32>,
    n: usize,
    points: &'a CudaSlice<u32>,
    sampled: usize,
    /// The number of columns that are gathered at a time.
    width: usize,
    /// The whole matrix of [gradient weights](crate::kernel), if its numbers have this type and all columns are
    /// sampled; otherwise `None`.
    whole: Option<&'a CudaSlice<T>>,
}

impl<'a, T: Real> Weights<'a, T> {
    fn new(gradients: &'a Gradients<'_>, points: &'a CudaSlice<u32>, sampled: usize) -> Self {
        let Gradients { queue, square, n, .. } = gradients;
        let whole = T::weights(square).filter(|_| sampled == *n);
        let width = if whole.is_some() { *n } else { (PANEL_BYTES / size_of::<T>()).min(sampled) };
        Self { queue, square, n: *n, points, sampled, width, whole }
    }

    /// Allocates a buffer for gathered columns of the [gradient weights](crate::kernel).
    fn room(&self) -> Result<Panel<T>> {
        let numbers = if self.whole.is_some() { 0 } else { self.n * self.width };
        Ok(Panel { numbers: self.queue.zeros(numbers)?, first: None })
    }

    /// Returns the sampled columns of the [gradient weights](crate::kernel) from column `first` on, at most `width` of
    /// them. Gathers them in `panel`, unless `whole` holds all columns.
    fn columns<'b>(&'b self, first: usize, panel: &'b mut Panel<T>) -> Result<Mat<'b, T>> {
        let n = self.n;
        if let Some(whole) = self.whole {
            return Ok(Mat::new(whole, n, n));
        }
        let count = self.width.min(self.sampled - first);
        if panel.first != Some(first) {
            let gather = self.queue.kernel(T::GATHER).input(self.square, n * n).size(n);
            let gather = gather.input(self.points, self.sampled).size(first).size(count);
            gather.output(&mut panel.numbers, n * count).run((n, 1), (256, 1))?;
            panel.first = Some(first);
        }
        Ok(Mat::new(&panel.numbers, n, count))
    }

    /// Writes a block of `w_s w_sᵀ` to `out`, with the sampled columns `w_s` of the [gradient weights](crate::kernel).
    /// The block has the rows from `first` on and the first columns, as many as `out` has.
    fn gram(&self, out: MatMut<'_, T>, first: usize, panel: &mut Panel<T>) -> Result<()> {
        let MatMut { buffer, rows: height, cols: width, .. } = out;
        for from in (0..self.sampled).step_by(self.width) {
            let columns = self.columns(from, panel)?;
            let (left, right) = (columns.part(first, height), columns.part(0, width).flip());
            let out = MatMut::new(&mut *buffer, height, width);
            self.queue.product(out, from > 0, left, right, T::ONE)?;
        }
        Ok(())
    }
}
