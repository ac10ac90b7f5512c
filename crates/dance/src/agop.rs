//! The average gradient outer product of a kernel ridge regression, exactly, in two forms.
//!
//! `G = (1/s) Σᵢ Σ_l ∇f_l(zᵢ) ∇f_l(zᵢ)ᵀ` over the classes `l` and `s` of the `n` training points (all, or a sample). With
//! `A = β`, `x = zM` and `w` the symmetric n×n matrix of gradient weights ([`Kernel::weights`]),
//! `∇f_l(zᵢ) = Σⱼ A_jl w_ji (xᵢ - xⱼ)`.
//!
//! - **By definition**: every gradient is formed; `2·s·n·c·d + 2·s·c·d²` flops.
//! - **Folded**: the sums over `l` and `i` are done first. With `Q = wA` (rows outside the sample 0),
//!   `s·G = Xᵀ S X`, `S = diag(‖Qᵢ‖²) - w∘(AQᵀ) - w∘(QAᵀ) + (AAᵀ)∘(w_s w_sᵀ)`, symmetric.
//!   Only the lower triangle of `S` is formed, tile by tile and never stored: with its diagonal halved it is `H`, and
//!   `s·G = XᵀHX + (XᵀHX)ᵀ`. `n²·s + 2·n·s·c + 3·n²·c + n²·d + 2·n·d²` flops.
//!
//! The cheaper form is chosen by these counts. Memory beside `w`: n×(c+d), n×s when sampled, and two tiles a thread.

use rayon::prelude::*;

use crate::kernel::Kernel;
use crate::linalg::{self, View};
use crate::matrix::Matrix;

/// How the average gradient outer product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgopForm {
    /// One gradient after the other.
    Definition,
    /// Two matrix products of n×n.
    Folded,
}

/// Floating-point operations of `form` for `n` points, `s` of them sampled, `c` classes and `d` dimensions.
pub fn flops(form: AgopForm, n: usize, s: usize, c: usize, d: usize) -> f64 {
    let (n, s, c, d) = (n as f64, s as f64, c as f64, d as f64);
    match form {
        AgopForm::Definition => 2.0 * s * n * c * d + 2.0 * s * c * d * d,
        AgopForm::Folded => n * n * s + 2.0 * n * s * c + 3.0 * n * n * c + n * n * d + 2.0 * n * d * d,
    }
}

/// The form with fewer operations.
pub fn cheaper_form(n: usize, s: usize, c: usize, d: usize) -> AgopForm {
    if flops(AgopForm::Definition, n, s, c, d) < flops(AgopForm::Folded, n, s, c, d) {
        AgopForm::Definition
    } else {
        AgopForm::Folded
    }
}

/// A fitted kernel ridge regression, as the AGOP sees it.
pub(crate) struct Gradients<'a> {
    /// Squared distances, lower triangle of n×n.
    pub(crate) squared: &'a [f32],
    pub(crate) kernel: Kernel,
    /// `A`, n×c.
    pub(crate) beta: &'a Matrix,
    /// `X = ZM`, n×d.
    pub(crate) mapped: &'a Matrix,
}

impl Gradients<'_> {
    /// `G` (d×d) over the points `sample` (all when `None`); `work` (n×n) holds `w` afterwards.
    pub(crate) fn outer_product(&self, form: AgopForm, sample: Option<&[usize]>, work: &mut [f32]) -> Matrix {
        let n = self.beta.rows();
        self.fill_weights(work);
        let everything: Vec<usize>;
        let chosen = match sample {
            Some(sample) => sample,
            None => {
                everything = (0..n).collect();
                &everything
            }
        };
        let mut outer = match form {
            AgopForm::Definition => self.by_definition(chosen, work),
            AgopForm::Folded => {
                self.balance_diagonal(chosen, work);
                self.folded(chosen, work)
            }
        };
        let scale = 1.0 / chosen.len() as f32;
        for value in outer.as_mut_slice() {
            *value *= scale;
        }
        outer
    }

    /// The symmetric matrix `w`, both triangles.
    fn fill_weights(&self, work: &mut [f32]) {
        let n = self.beta.rows();
        work.par_chunks_mut(n).zip(self.squared.par_chunks(n)).enumerate().for_each(|(row, (out, squared))| {
            self.kernel.weights(&squared[..row], &mut out[..row]);
            out[row] = 0.0;
        });
        mirror(work, n);
    }

    /// Chooses the diagonal of `w`.
    ///
    /// A point's own weight multiplies `xᵢ - xᵢ = 0`, so any value is exact; but β is large and alternating where the
    /// ridge is small, and with `wᵢᵢ = 0` the terms of `S` would be far larger than their sum. The `wᵢᵢ` that makes `Qᵢ`
    /// smallest removes that.
    fn balance_diagonal(&self, sample: &[usize], weights: &mut [f32]) {
        let n = self.beta.rows();
        let mut q = Matrix::zeros(n, self.beta.cols());
        linalg::product(linalg::view_mut(&mut q), false, linalg::row_major(weights, n, n), linalg::view(self.beta), 1.0);
        for &row in sample {
            let (mut along, mut norm) = (0.0f64, 0.0f64);
            for (&a, &q) in self.beta.row(row).iter().zip(q.row(row)) {
                along += f64::from(a) * f64::from(q);
                norm += f64::from(a).powi(2);
            }
            weights[row * n + row] = if norm > 0.0 { (-along / norm) as f32 } else { 0.0 };
        }
    }

    fn folded(&self, sample: &[usize], weights: &[f32]) -> Matrix {
        let (n, c, d) = (self.beta.rows(), self.beta.cols(), self.mapped.cols());
        let all_weights = linalg::row_major(weights, n, n);
        let gathered: Matrix;
        let sampled_weights: View<'_> = if sample.len() == n {
            all_weights
        } else {
            gathered = gather_columns(weights, n, sample);
            linalg::view(&gathered)
        };

        let mut sampled_q = Matrix::zeros(sample.len(), c);
        let beta = linalg::view(self.beta);
        linalg::product(linalg::view_mut(&mut sampled_q), false, sampled_weights.transpose(), beta, 1.0);
        let mut q = Matrix::zeros(n, c);
        let mut diagonal = vec![0.0f32; n];
        for (place, &row) in sample.iter().enumerate() {
            q.row_mut(row).copy_from_slice(sampled_q.row(place));
            diagonal[row] = sampled_q.row(place).iter().map(|&value| f64::from(value).powi(2)).sum::<f64>() as f32;
        }
        drop(sampled_q);

        // H·X, one task a tile of rows; the longest rows first, so that the threads finish together.
        let tile = if n < 1024 { 64 } else { 256 };
        let mut halves = Matrix::zeros(n, d);
        let tasks: Vec<_> = halves.as_mut_slice().chunks_mut(tile * d).enumerate().rev().collect();
        let fold = Fold { gradients: self, all_weights, sampled_weights, q: linalg::view(&q), diagonal: &diagonal };
        tasks.into_par_iter().with_max_len(1).for_each(|(index, out)| fold.rows(index * tile, out));

        let mut lower = Matrix::zeros(d, d);
        let mapped = linalg::view(self.mapped);
        linalg::product(linalg::view_mut(&mut lower), false, mapped.transpose(), linalg::view(&halves), 1.0);
        let mut outer = Matrix::zeros(d, d);
        for row in 0..d {
            for col in 0..d {
                outer.row_mut(row)[col] = lower.row(row)[col] + lower.row(col)[row];
            }
        }
        outer
    }

    fn by_definition(&self, sample: &[usize], weights: &[f32]) -> Matrix {
        /// Partial sums, added in order: the result does not depend on who computed which.
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

    /// `∇f_l(zᵢ)` for every class, c×d: `Pᵢxᵢᵀ - (A∘wᵢ)ᵀX`, `P_il = Σⱼ A_jl w_ji`.
    fn gradients_at(&self, point: usize, weights: &[f32], scratch: &mut Vec<f32>) -> Matrix {
        let (n, c, d) = (self.beta.rows(), self.beta.cols(), self.mapped.cols());
        scratch.clear();
        for (&weight, coefficients) in weights.iter().zip(self.beta.as_slice().chunks_exact(c)) {
            scratch.extend(coefficients.iter().map(|coefficient| weight * coefficient));
        }
        let mut gradients = Matrix::zeros(c, d);
        let weighted = linalg::row_major(scratch, n, c);
        let mapped = linalg::view(self.mapped);
        linalg::gemm(linalg::view_mut(&mut gradients), false, weighted.transpose(), mapped, -1.0);
        let mut sums = vec![0.0f64; c];
        for row in scratch.chunks_exact(c) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += f64::from(value);
            }
        }
        for (class, &sum) in sums.iter().enumerate() {
            for (gradient, &x) in gradients.row_mut(class).iter_mut().zip(self.mapped.row(point)) {
                *gradient += sum as f32 * x;
            }
        }
        gradients
    }
}

/// What every tile of the folded form reads.
struct Fold<'a> {
    gradients: &'a Gradients<'a>,
    all_weights: View<'a>,
    sampled_weights: View<'a>,
    q: View<'a>,
    diagonal: &'a [f32],
}

impl Fold<'_> {
    /// Rows `start…` of `H·X` into `out`.
    fn rows(&self, start: usize, out: &mut [f32]) {
        const COLUMNS: usize = 1024;
        let d = self.gradients.mapped.cols();
        let height = out.len() / d;
        let beta = linalg::view(self.gradients.beta);
        let mapped = linalg::view(self.gradients.mapped);
        let mut tile = vec![0.0f32; height * COLUMNS];
        let mut other = vec![0.0f32; height * COLUMNS];
        let end = start + height;
        for first in (0..end).step_by(COLUMNS) {
            let width = COLUMNS.min(end - first);
            let (tile, other) = (&mut tile[..height * width], &mut other[..height * width]);
            let product = |out: &mut [f32], add: bool, left: View<'_>, right: View<'_>| {
                let (left, right) = (left.subrows(start, height), right.subrows(first, width));
                linalg::gemm(linalg::row_major_mut(out, height, width), add, left, right.transpose(), 1.0);
            };
            product(tile, false, self.sampled_weights, self.sampled_weights);
            product(other, false, beta, beta);
            for (value, factor) in tile.iter_mut().zip(&*other) {
                *value *= factor;
            }
            product(other, false, beta, self.q);
            product(other, true, self.q, beta);
            for (offset, (tile, other)) in tile.chunks_exact_mut(width).zip(other.chunks_exact(width)).enumerate() {
                let row = start + offset;
                for (column, (value, factor)) in (first..).zip(tile.iter_mut().zip(other)) {
                    *value -= self.all_weights[(row, column)] * factor;
                }
                if row < first + width {
                    tile[row - first] = 0.5 * (tile[row - first] + self.diagonal[row]);
                    tile[row - first + 1..].fill(0.0);
                }
            }
            let tile = linalg::row_major(tile, height, width);
            linalg::gemm(
                linalg::row_major_mut(out, height, d),
                true,
                tile,
                mapped.subrows(first, width),
                1.0,
            );
        }
    }
}

/// Columns `chosen` of the n×n matrix, n×s.
fn gather_columns(square: &[f32], n: usize, chosen: &[usize]) -> Matrix {
    let mut out = Matrix::zeros(n, chosen.len());
    let s = chosen.len().max(1);
    out.as_mut_slice().par_chunks_mut(s).zip(square.par_chunks(n)).for_each(|(out, row)| {
        for (value, &column) in out.iter_mut().zip(chosen) {
            *value = row[column];
        }
    });
    out
}

/// Copies the lower triangle of the n×n matrix to the upper.
fn mirror(square: &mut [f32], n: usize) {
    const TILE: usize = 64;
    for start in (0..n).step_by(TILE) {
        let height = TILE.min(n - start);
        let (top, below) = square.split_at_mut((start + height) * n);
        let rows = &mut top[start * n..];
        for row in 0..height {
            for column in row + 1..height {
                rows[row * n + start + column] = rows[column * n + start + row];
            }
        }
        rows.par_chunks_mut(16 * n).enumerate().for_each(|(strip, rows)| {
            let first = start + strip * 16;
            for (place, source) in below.chunks(TILE * n).enumerate() {
                for (row, out) in rows.chunks_exact_mut(n).enumerate() {
                    let out = &mut out[start + height + place * TILE..];
                    for (source, value) in source.chunks_exact(n).zip(out) {
                        *value = source[first + row];
                    }
                }
            }
        });
    }
}
