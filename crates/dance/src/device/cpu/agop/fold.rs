//! The folded form of the AGOP (average gradient outer product), in f32 or f64. `agop/mod.rs` defines the symbols.

use faer::{Mat, MatRef};
use rayon::prelude::*;

use super::{Gradients, folded_error};
use crate::numeric::linalg::{self, Real, View};
use crate::numeric::matrix::Matrix;

/// The number of columns of a tile, a multiple of 96, the block width of the matrix products.
const COLUMNS: usize = 960;

/// Returns `s·G`, the AGOP times the sample size, and an estimate of its relative error. `weights` holds the gradient
/// weights less `shift`, in both triangles.
pub(super) fn outer_product<T: Real>(
    gradients: &Gradients<'_>,
    sample: &[usize],
    weights: &[f32],
    shift: f32,
) -> (Matrix, f64) {
    let (n, d) = (gradients.beta.rows(), gradients.mapped.cols());
    let gathered: Matrix;
    let sampled_weights = if sample.len() == n {
        weights
    } else {
        gathered = gather_columns(weights, n, sample);
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

/// Returns `Q = wA`, the sums of the coefficients A (`beta`) weighted by w, in the sampled rows, and 0 in the others.
/// They are computed from `w - shift` and the column sums of A.
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

/// Returns `shift·bᵀF` in f64, which with its transpose is the part of `s·G` from the constant part of the weights.
/// Here `b = AᵀX`, `F = (t∘A - Q)ᵀX + ½·s·shift·b`, and t holds the row sums of the sampled columns of `w - shift`.
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

/// The inputs that all tiles share.
struct Fold<'a, T> {
    /// The gradient weights `w - shift`, n×n.
    all_weights: &'a [f32],
    /// The sampled columns of the weights, n×s.
    sampled_weights: &'a [f32],
    sampled: usize,
    beta: Mat<T>,
    mapped: Mat<T>,
    q: Mat<T>,
    /// The squared norm of every row of Q.
    diagonal: Vec<T>,
    /// The squared norm of every mapped point.
    norms: Vec<T>,
}

impl<T: Real> Fold<'_, T> {
    /// Writes the rows of `H·X` from `start` on to `out`, as many as it holds. Returns the sum of squares of the terms
    /// `H_ij xᵢ xⱼᵀ` of these rows.
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

    /// Completes a row of `H` from column `first` on: subtracts `w∘other`, halves the diagonal, and clears the part
    /// above it. Returns the sum of squares of the row's terms `H_ij xᵢ xⱼᵀ`.
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

/// Returns the columns `chosen` of the n×n matrix `square`.
fn gather_columns(square: &[f32], n: usize, chosen: &[usize]) -> Matrix {
    let mut out = Matrix::zeros(n, chosen.len());
    out.as_mut_slice().par_chunks_mut(chosen.len().max(1)).zip(square.par_chunks(n)).for_each(|(out, row)| {
        for (value, &column) in out.iter_mut().zip(chosen) {
            *value = row[column];
        }
    });
    out
}
