//! The average gradient outer product (AGOP) of a kernel ridge regression, exactly, in two forms.
//!
//! The regression has n training points zᵢ with d dimensions, and c classes; `f_l` is the output of class l. The AGOP
//! is `G = (1/s) Σᵢ Σ_l ∇f_l(zᵢ) ∇f_l(zᵢ)ᵀ`, the mean over s points i: all, or a sample. The symbols are the
//! coefficients `A` (n×c), the metric M, and the mapped points `X = ZM` with rows xᵢ. `w` is the symmetric n×n matrix
//! of gradient weights (see [`kernel`](crate::kernel)). The gradient is `∇f_l(zᵢ) = Σⱼ A_jl w_ji (xᵢ - xⱼ)`. `w_s` are
//! the sampled columns of w, ∘ is the product entry by entry, and `1` is a vector of ones.
//!
//! - **By definition**: every gradient is computed; `2·s·n·c·d + 2·s·c·d²` flops.
//! - **Folded**: the sums over classes and points are taken before the products with X. With `Q = wA` (rows outside the
//!   sample are 0), `s·G = Xᵀ S X`, and S is the symmetric matrix `diag(‖Qᵢ‖²) - w∘(AQᵀ) - w∘(QAᵀ) + (AAᵀ)∘(w_s w_sᵀ)`.
//!   Only the lower triangle of `S` is computed, tile by tile, and never stored. `H` is this triangle with its diagonal
//!   halved, so `s·G = XᵀHX + (XᵀHX)ᵀ`. `n²·s + 2·n·s·c + 3·n²·c + n²·d + 2·n·d²` flops.
//!
//! The form with fewer operations is used. Memory beside `w`: n×(c+d), n×s with a sample, and two tiles per thread.
//!
//! **Rounding.** The coefficients A of a class alternate in sign, so their sum is far smaller than the sum of their
//! magnitudes. The folded form squares this ratio, and two measures keep it as exact as the form by definition:
//! - A constant part μ of `w` needs no n×n product. With `w = μ + w'`, and the column sums `a = Aᵀ1` and `b = AᵀX`, the
//!   gradients are `g'_il + μ(a_l xᵢ - b_l)`. So `s·G = Xᵀ S' X + μ(bᵀF + Fᵀb)`, with `F = (t∘A - Q)ᵀX + ½sμb`. Here
//!   `g'` and `S'` have `w'` in place of `w` (`Q` stays `wA`), and `t` are the row sums of the sampled columns of `w'`.
//!   Distances concentrate in many dimensions, so with the median weight as `μ`, `w'` is small and so is the error.
//! - The error of the result is estimated from the size of the terms relative to their sum. If the error exceeds the
//!   tolerance, the folded form is computed again in f64, in about twice the time, from the same f32 `w`.

use faer::{Mat, MatRef};
use rayon::prelude::*;

use crate::kernel::Kernel;
use crate::numeric::linalg::{self, Real, View};
use crate::numeric::matrix::Matrix;

/// The form in which the AGOP (average gradient outer product) is computed. Both forms, which the [module](self)
/// defines, have the same result up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::device) enum AgopForm {
    /// Computes the gradient of every class at every point.
    Definition,
    /// Sums over points and classes first, and multiplies by the points afterwards, so that no gradient is computed.
    Folded,
}

/// Returns the number of floating-point operations of the AGOP (average gradient outer product), in the cheaper of the
/// two forms. `n` is the number of training points, `s` the number of sampled ones, `c` the number of classes, and `d`
/// the number of dimensions.
pub fn flops(n: usize, s: usize, c: usize, d: usize) -> f64 {
    let [definition, folded] = flops_by_form(n, s, c, d);
    definition.min(folded)
}

/// Returns the numbers of floating-point operations of the [AGOP](self): by definition, then folded. The parameters are
/// those of [`flops`].
fn flops_by_form(n: usize, s: usize, c: usize, d: usize) -> [f64; 2] {
    let (n, s, c, d) = (n as f64, s as f64, c as f64, d as f64);
    let folded = n * n * s + 2.0 * n * s * c + 3.0 * n * n * c + n * n * d + 2.0 * n * d * d;
    [2.0 * s * n * c * d + 2.0 * s * c * d * d, folded]
}

#[cfg(test)]
thread_local! {
    /// The form of the [AGOP](self) that a test forces on its thread, so that both forms are tested.
    pub(in crate::device) static FORCED: std::cell::Cell<Option<AgopForm>> = const { std::cell::Cell::new(None) };
}

/// Returns the form of the [AGOP](self) with fewer operations. The parameters are those of [`flops`].
pub(in crate::device) fn cheaper_form(n: usize, s: usize, c: usize, d: usize) -> AgopForm {
    #[cfg(test)]
    if let Some(form) = FORCED.get() {
        return form;
    }
    let [definition, folded] = flops_by_form(n, s, c, d);
    if definition < folded { AgopForm::Definition } else { AgopForm::Folded }
}

/// The estimated relative error of the [AGOP](self) above which the folded form is computed again in f64.
pub(in crate::device) const TOLERANCE: f64 = 5e-6;

/// A fitted kernel ridge regression, from which the [AGOP](self) is computed.
pub(super) struct Gradients<'a> {
    /// The squared distances among the n training points under the metric, in the lower triangle of an n×n matrix.
    pub(super) squared: &'a [f32],
    pub(super) kernel: Kernel,
    /// The coefficients A of the regression, n×c for n training points and c classes.
    pub(super) beta: &'a Matrix,
    /// The mapped points `X = ZM` (the training points Z times the metric M), n×d for n points with d dimensions.
    pub(super) mapped: &'a Matrix,
}

impl Gradients<'_> {
    /// Returns the AGOP (average gradient outer product), averaged over the points with the indices `sample`, or over
    /// all points if `None`. Overwrites `work`, a buffer for an n×n matrix, with the [gradient weights](crate::kernel)
    /// of the n training points.
    pub(super) fn outer_product(&self, form: AgopForm, sample: Option<&[usize]>, work: &mut [f32]) -> Matrix {
        let n = self.beta.rows();
        let everything: Vec<usize>;
        let sample = if let Some(sample) = sample {
            sample
        } else {
            everything = (0..n).collect();
            &everything
        };
        let mut outer = match form {
            AgopForm::Definition => {
                self.fill_weights(0.0, work);
                self.by_definition(sample, work)
            }
            AgopForm::Folded => {
                let shift = self.median_weight();
                self.fill_weights(shift, work);
                let (outer, error) = folded::<f32>(self, sample, work, shift);
                if error <= TOLERANCE { outer } else { folded::<f64>(self, sample, work, shift).0 }
            }
        };
        let scale = 1.0 / sample.len() as f32;
        for value in outer.as_mut_slice() {
            *value *= scale;
        }
        outer
    }

    /// Returns the median of the [gradient weights](crate::kernel) in about 64 evenly spaced rows of their matrix.
    fn median_weight(&self) -> f32 {
        const ROWS: usize = 64;
        let n = self.beta.rows();
        let mut squared = Vec::new();
        for row in (1..n).step_by(n.div_ceil(ROWS).max(1)) {
            squared.extend_from_slice(&self.squared[row * n..][..row]);
        }
        median_of(&self.kernel, &squared)
    }

    /// Writes the [gradient weight](crate::kernel) of every pair of points, less `shift`, to both triangles of `work`.
    /// A pair at distance 0 gets the number 0. Its weight does not matter, because it is multiplied by the difference
    /// of the two points.
    fn fill_weights(&self, shift: f32, work: &mut [f32]) {
        let n = self.beta.rows();
        work.par_chunks_mut(n).zip(self.squared.par_chunks(n)).enumerate().for_each(|(row, (out, squared))| {
            self.kernel.weights(&squared[..row], &mut out[..row]);
            for value in &mut out[..row] {
                *value = if *value == 0.0 { 0.0 } else { *value - shift };
            }
            out[row] = 0.0;
        });
        linalg::mirror(work, n);
    }

    /// Returns the [AGOP](self) times the number of points in `sample`. Computes the gradient at each of these points
    /// from the gradient `weights`.
    fn by_definition(&self, sample: &[usize], weights: &[f32]) -> Matrix {
        /// The number of partial sums. They are added in order, so the result does not depend on the number of threads.
        const PARTS: usize = 16;
        let (n, d) = (self.beta.rows(), self.mapped.cols());
        let part = sample.len().div_ceil(PARTS).max(1);
        let partial = sample.par_chunks(part).with_max_len(1).map(|points| {
            let mut sum = Matrix::zeros(d, d);
            let mut scratch = Vec::new();
            for &point in points {
                let gradients = self.gradients_at(point, &weights[point * n..][..n], &mut scratch);
                let gradients = linalg::view(&gradients);
                linalg::gemm(linalg::view_mut(&mut sum), true, gradients.transpose(), gradients, 1.0);
            }
            sum
        });
        let partial: Vec<Matrix> = partial.collect();
        let mut outer = Matrix::zeros(d, d);
        for part in &partial {
            for (sum, value) in outer.as_mut_slice().iter_mut().zip(part.as_slice()) {
                *sum += value;
            }
        }
        outer
    }

    /// Returns the gradients of the regression's outputs at one point, one row per class. The differences to the other
    /// points are computed one by one, because the expanded sum would lose digits by cancellation.
    fn gradients_at(&self, point: usize, weights: &[f32], scratch: &mut Vec<f32>) -> Matrix {
        let (n, c, d) = (self.beta.rows(), self.beta.cols(), self.mapped.cols());
        scratch.clear();
        let here = self.mapped.row(point);
        for (&weight, there) in weights.iter().zip(self.mapped.as_slice().chunks_exact(d)) {
            scratch.extend(here.iter().zip(there).map(|(here, there)| weight * (here - there)));
        }
        let mut gradients = Matrix::zeros(c, d);
        let beta = linalg::view(self.beta);
        let differences = linalg::row_major(scratch, n, d);
        linalg::gemm(linalg::view_mut(&mut gradients), false, beta.transpose(), differences, 1.0);
        gradients
    }
}

/// Returns the median of the kernel's [gradient weights](crate::kernel) at the squared distances `squared`; 0 if there
/// are none.
pub(in crate::device) fn median_of(kernel: &Kernel, squared: &[f32]) -> f32 {
    if squared.is_empty() {
        return 0.0;
    }
    let mut weights = vec![0.0; squared.len()];
    kernel.weights(squared, &mut weights);
    let middle = weights.len() / 2;
    *weights.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// Returns the estimated relative error of the [folded form](self) in f32. `spread` is the sum of squares of the terms
/// that the form adds up. `norm` is the sum of squares of the result's entries. Each term has a rounding error of a few
/// units in the last place. Together these errors grow like the root of the sum of their squares.
pub(in crate::device) fn folded_error(spread: f64, norm: f64) -> f64 {
    if norm > 0.0 { 3.0 * f64::from(f32::EPSILON) * (2.0 * spread / norm).sqrt() } else { 0.0 }
}

/// The number of columns of a tile of the matrix S in the [folded form](self). It is a multiple of 96, the block width
/// of the matrix products.
const COLUMNS: usize = 960;

/// Returns the [AGOP](self) times the number of points in `sample`, in the folded form, and an estimate of its relative
/// error. `weights` holds the [gradient weights](crate::kernel) less `shift`, in both triangles.
fn folded<T: Real>(gradients: &Gradients<'_>, sample: &[usize], weights: &[f32], shift: f32) -> (Matrix, f64) {
    let (n, d) = (gradients.beta.rows(), gradients.mapped.cols());
    let gathered: Matrix;
    let sampled_weights = if sample.len() == n {
        weights
    } else {
        gathered = linalg::gather_columns(weights, n, sample);
        gathered.as_slice()
    };
    let beta = T::widen(gradients.beta);
    let mapped = T::widen(gradients.mapped);
    let q = weighted_sums::<T>(gradients.beta, &beta, sampled_weights, sample, shift);
    let fold = Fold {
        all_weights: weights,
        sampled_weights,
        sampled: sample.len(),
        diagonal: (0..n).map(|row| squared_norm(&q, row)).collect(),
        norms: (0..n).map(|row| squared_norm(&mapped, row)).collect(),
        beta,
        mapped,
        q,
    };

    // H·X, one task per tile of rows. The longest rows come first, so that the threads finish together.
    let tile = if n < 1024 { 64 } else { 256 };
    let mut halves = vec![T::default(); n * d];
    let tasks: Vec<_> = halves.chunks_mut(tile * d).enumerate().rev().collect();
    let spreads: Vec<f64> =
        tasks.into_par_iter().with_max_len(1).map(|(index, out)| fold.rows(index * tile, out)).collect();

    // XᵀHX, and shift·bᵀF from the constant part of the weights. The result adds the transposes of both.
    let mut lower = Mat::<T>::zeros(d, d);
    let halves = MatRef::from_row_major_slice(&halves, n, d);
    linalg::product(lower.as_mut(), fold.mapped.transpose(), halves);
    let constant = shift_part(gradients, &fold, sample, shift);
    let mut outer = Matrix::zeros(d, d);
    let mut norm = 0.0;
    for row in 0..d {
        for col in 0..d {
            let shifted = constant[(row, col)] + constant[(col, row)];
            let value = lower[(row, col)].into() + lower[(col, row)].into() + shifted;
            norm += value * value;
            outer.row_mut(row)[col] = value as f32;
        }
    }
    (outer, folded_error(spreads.iter().sum(), norm))
}

/// Returns `Q = wA`, the product of the [gradient weights](crate::kernel) w with the coefficients A (`beta`). Rows of Q
/// outside the sample are 0. The product is computed from `w - shift` and the column sums of A.
fn weighted_sums<T: Real>(
    beta: &Matrix,
    beta_f64: &Mat<T>,
    sampled_weights: &[f32],
    sample: &[usize],
    shift: f32,
) -> Mat<T> {
    let (n, c) = (beta.rows(), beta.cols());
    let mut sums = vec![0.0f64; c];
    for row in beta.as_slice().chunks_exact(c) {
        for (sum, &value) in sums.iter_mut().zip(row) {
            *sum += f64::from(value);
        }
    }
    let mut parts = Mat::<T>::zeros(sample.len(), c);
    let sampled_weights = linalg::row_major(sampled_weights, n, sample.len());
    T::weighted_product(parts.as_mut(), sampled_weights, beta_f64.as_ref());
    let mut q = Mat::<T>::zeros(beta.rows(), c);
    for (class, sum) in sums.iter().enumerate() {
        for (place, &row) in sample.iter().enumerate() {
            q[(row, class)] = T::from_f64(parts[(place, class)].into() + f64::from(shift) * sum);
        }
    }
    q
}

fn squared_norm<T: Real>(matrix: &Mat<T>, row: usize) -> T {
    T::from_f64(matrix.row(row).iter().map(|&value| value.into() * value.into()).sum())
}

/// Returns the matrix `shift·bᵀF` in f64, with b and F of the [module](self). This matrix plus its transpose is the
/// part of the folded AGOP that comes from `shift`, the constant part of the [gradient weights](crate::kernel).
fn shift_part<T: Real>(gradients: &Gradients<'_>, fold: &Fold<'_, T>, sample: &[usize], shift: f32) -> Mat<f64> {
    let (n, c, d) = (gradients.beta.rows(), gradients.beta.cols(), gradients.mapped.cols());
    let row_sums: Vec<f64> = fold.sampled_weights.par_chunks(fold.sampled.max(1)).map(linalg::sum).collect();
    let mapped = f64::widen(gradients.mapped);
    let beta = f64::widen(gradients.beta);
    let mut moments = Mat::<f64>::zeros(c, d);
    linalg::product(moments.as_mut(), beta.transpose(), mapped.as_ref());
    let rest = Mat::from_fn(n, c, |row, col| row_sums[row] * beta[(row, col)] - fold.q[(row, col)].into());
    let mut other = Mat::<f64>::zeros(c, d);
    linalg::product(other.as_mut(), rest.transpose(), mapped.as_ref());
    let shift = f64::from(shift);
    let half = 0.5 * sample.len() as f64 * shift;
    let other = Mat::from_fn(c, d, |row, col| shift * (other[(row, col)] + half * moments[(row, col)]));
    let mut out = Mat::<f64>::zeros(d, d);
    linalg::product(out.as_mut(), moments.transpose(), other.as_ref());
    out
}

/// The matrices from which every tile of the folded form is computed, in the symbols of the [module](self).
struct Fold<'a, T> {
    /// The [gradient weights](crate::kernel) of n training points less their constant part, n×n.
    all_weights: &'a [f32],
    /// The columns of `all_weights` that belong to the s sampled points, n×s.
    sampled_weights: &'a [f32],
    /// The number of sampled points.
    sampled: usize,
    /// The coefficients A of the regression, n×c for n training points and c classes.
    beta: Mat<T>,
    /// The mapped points X (training points times the metric), n×d for n points with d dimensions.
    mapped: Mat<T>,
    /// The product Q of the [gradient weights](crate::kernel) with the coefficients, n×c for n training points and c
    /// classes.
    q: Mat<T>,
    /// The squared norm of every row of Q.
    diagonal: Vec<T>,
    /// The squared norm of every mapped point.
    norms: Vec<T>,
}

impl<T: Real> Fold<'_, T> {
    /// Writes rows of `H·X` to `out`, as many as `out` holds, from row `start` on. Returns the sum of squares of the
    /// terms `H_ij xᵢ xⱼᵀ` of these rows i. The [module](self) defines H, X and xᵢ.
    fn rows(&self, start: usize, out: &mut [T]) -> f64 {
        let d = self.mapped.ncols();
        let height = out.len() / d;
        let end = start + height;
        let mut tile = vec![T::default(); height * COLUMNS];
        let mut other = vec![T::default(); height * COLUMNS];
        let mut spread = 0.0;
        for first in (0..end).step_by(COLUMNS) {
            let width = COLUMNS.min(end - first);
            let (tile, other) = (&mut tile[..height * width], &mut other[..height * width]);
            let product = |out: &mut [T], add: bool, left: &Mat<T>, right: &Mat<T>| {
                let (left, right) = (left.subrows(start, height), right.subrows(first, width));
                linalg::gemm(linalg::row_major_mut(out, height, width), add, left, right.transpose(), T::ONE);
            };
            // The lower triangle of (AAᵀ)∘(w_s w_sᵀ) - w∘(AQᵀ + QAᵀ), in one tile.
            T::weights_gram(
                linalg::row_major_mut(tile, height, width),
                self.weight_rows(start, height),
                self.weight_rows(first, width),
            );
            product(other, false, &self.beta, &self.beta);
            for (value, factor) in tile.iter_mut().zip(&*other) {
                *value *= *factor;
            }
            product(other, false, &self.beta, &self.q);
            product(other, true, &self.q, &self.beta);
            for (offset, (tile, other)) in tile.chunks_exact_mut(width).zip(other.chunks_exact(width)).enumerate() {
                spread += self.finish_row(start + offset, first, tile, other);
            }
            linalg::gemm(
                linalg::row_major_mut(out, height, d),
                true,
                linalg::row_major(tile, height, width),
                self.mapped.subrows(first, width),
                T::ONE,
            );
        }
        spread
    }

    fn weight_rows(&self, start: usize, count: usize) -> View<'_> {
        linalg::row_major(&self.sampled_weights[start * self.sampled..][..count * self.sampled], count, self.sampled)
    }

    /// Completes row i (`row`) of the matrix `H` of the [module](self), from column `first` on, in `tile`. Subtracts
    /// `w∘other`, halves the diagonal, and clears the entries above the diagonal. Returns the sum of squares of the
    /// row's terms `H_ij xᵢ xⱼᵀ`.
    fn finish_row(&self, row: usize, first: usize, tile: &mut [T], other: &[T]) -> f64 {
        let weights = &self.all_weights[row * self.norms.len() + first..][..tile.len()];
        for ((value, factor), &weight) in tile.iter_mut().zip(other).zip(weights) {
            *value -= T::from_f32(weight) * *factor;
        }
        match row.checked_sub(first) {
            None => tile.fill(T::default()),
            Some(at) if at < tile.len() => {
                tile[at] = T::from_f64(0.5 * (tile[at].into() + self.diagonal[row].into()));
                tile[at + 1..].fill(T::default());
            }
            Some(_) => {}
        }
        let mut sum = T::default();
        for (value, norm) in tile.iter().zip(&self.norms[first..]) {
            sum += *value * *value * *norm;
        }
        sum.into() * self.norms[row].into()
    }
}
