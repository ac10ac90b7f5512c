//! The average gradient outer product (AGOP) of a kernel ridge regression, exactly, in two forms.
//!
//! There are n training points zᵢ with d dimensions and c classes; `f_l` is the output of class l. The average is
//! over s of the points (all, or a sample): `G = (1/s) Σᵢ Σ_l ∇f_l(zᵢ) ∇f_l(zᵢ)ᵀ`. With the coefficients `A = β`
//! (n×c), the metric M, the mapped points `X = ZM` with rows xᵢ, and the symmetric n×n matrix w of gradient weights
//! (see
//! `kernel`), `∇f_l(zᵢ) = Σⱼ A_jl w_ji (xᵢ - xⱼ)`. The sign ∘ is the product entry by entry, and `w_s` are the sampled
//! columns of w.
//!
//! - **By definition**: every gradient is computed; `2·s·n·c·d + 2·s·c·d²` flops.
//! - **Folded**: the sums over classes and points are taken before the products with X. With `Q = wA` (rows outside the
//!   sample 0), `s·G = Xᵀ S X`, `S = diag(‖Qᵢ‖²) - w∘(AQᵀ) - w∘(QAᵀ) + (AAᵀ)∘(w_s w_sᵀ)`, symmetric.
//!   Only the lower triangle of `S` is computed, tile by tile, and never stored. With its diagonal halved it is `H`,
//!   and `s·G = XᵀHX + (XᵀHX)ᵀ`. `n²·s + 2·n·s·c + 3·n²·c + n²·d + 2·n·d²` flops.
//!
//! The form with fewer operations is used. Memory beside `w`: n×(c+d), n×s when sampled, and two tiles per thread.
//!
//! **Rounding.** The coefficients β alternate in sign: `Σⱼ β_jl` is far smaller than `Σⱼ |β_jl|`, and folding squares
//! that ratio. Two measures keep the folded form as exact as the form by definition:
//! - A constant part μ of `w` needs no n×n product. With `w = μ + w'`, the column sums `a = Aᵀ1` and `b = AᵀX`, the
//!   gradients are `g'_il + μ(a_l xᵢ - b_l)`, and `s·G = Xᵀ S' X + μ(bᵀF + Fᵀb)`, where `g'` and `S'` have `w'` for `w`
//!   (`Q` stays `wA`), `F = (t∘A - Q)ᵀX + ½sμb`, and `t` are the row sums of the sampled columns of `w'`. Distances
//!   concentrate in many dimensions, so with `μ` the median weight, `w'` is small and so is the error.
//! - The error of the result is estimated from the size of the terms relative to their sum. If it exceeds the
//!   tolerance, the folded form is computed again in f64, in about twice the time, from the same f32 `w`.

mod fold;

use rayon::prelude::*;

use crate::device::AgopForm;
use crate::kernel::Kernel;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;

/// Returns the number of floating-point operations of `form` for `n` points, `s` of them sampled, `c` classes and `d`
/// dimensions.
pub fn flops(form: AgopForm, n: usize, s: usize, c: usize, d: usize) -> f64 {
    let (n, s, c, d) = (n as f64, s as f64, c as f64, d as f64);
    match form {
        AgopForm::Definition => 2.0 * s * n * c * d + 2.0 * s * c * d * d,
        AgopForm::Folded => n * n * s + 2.0 * n * s * c + 3.0 * n * n * c + n * n * d + 2.0 * n * d * d,
    }
}

/// Returns the form with fewer operations for `n` points, `s` of them sampled, `c` classes and `d` dimensions.
pub(in crate::device) fn cheaper_form(n: usize, s: usize, c: usize, d: usize) -> AgopForm {
    if flops(AgopForm::Definition, n, s, c, d) < flops(AgopForm::Folded, n, s, c, d) {
        AgopForm::Definition
    } else {
        AgopForm::Folded
    }
}

/// The estimated relative error above which the folded form is computed again in f64.
pub(in crate::device) const TOLERANCE: f64 = 5e-6;

/// A fitted kernel ridge regression, as input of the AGOP.
pub(crate) struct Gradients<'a> {
    /// Squared distances between the training points under the metric, lower triangle of n×n.
    pub(crate) squared: &'a [f32],
    pub(crate) kernel: Kernel,
    /// The coefficients A, n×c.
    pub(crate) beta: &'a Matrix,
    /// The mapped points `X = ZM` (the training points Z times the metric M), n×d.
    pub(crate) mapped: &'a Matrix,
}

impl Gradients<'_> {
    /// Returns the AGOP G (d×d) over the points `sample`, or over all points if `None`. `work` (n×n) is overwritten
    /// with gradient weights.
    pub(crate) fn outer_product(&self, form: AgopForm, sample: Option<&[usize]>, work: &mut [f32]) -> Matrix {
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
                let (outer, error) = fold::outer_product::<f32>(self, sample, work, shift);
                if error <= TOLERANCE { outer } else { fold::outer_product::<f64>(self, sample, work, shift).0 }
            }
        };
        let scale = 1.0 / sample.len() as f32;
        for value in outer.as_mut_slice() {
            *value *= scale;
        }
        outer
    }

    /// Returns the median of a sample of the gradient weights.
    fn median_weight(&self) -> f32 {
        const ROWS: usize = 64;
        let n = self.beta.rows();
        let mut squared = Vec::new();
        for row in (1..n).step_by(n.div_ceil(ROWS).max(1)) {
            squared.extend_from_slice(&self.squared[row * n..][..row]);
        }
        median_of(&self.kernel, &squared)
    }

    /// Writes the gradient weights less `shift` to both triangles of `work`. The weight of a pair at distance 0 does
    /// not matter, since it is multiplied by the difference of the points; 0 is written for it.
    fn fill_weights(&self, shift: f32, work: &mut [f32]) {
        let n = self.beta.rows();
        work.par_chunks_mut(n).zip(self.squared.par_chunks(n)).enumerate().for_each(|(row, (out, squared))| {
            self.kernel.weights(&squared[..row], &mut out[..row]);
            for value in &mut out[..row] {
                *value = if *value == 0.0 { 0.0 } else { *value - shift };
            }
            out[row] = 0.0;
        });
        mirror(work, n);
    }

    fn by_definition(&self, sample: &[usize], weights: &[f32]) -> Matrix {
        /// The number of partial sums. They are added in order, so the result does not depend on the threads.
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

    /// Returns the gradients `∇f_l(zᵢ) = Σⱼ A_jl w_ji (xᵢ - xⱼ)` of all classes l at the point i = `point`, c×d. The
    /// differences are computed one by one, because the expanded sum would lose digits by cancellation.
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

/// Returns the median gradient weight of pairs at the given squared distances.
pub(in crate::device) fn median_of(kernel: &Kernel, squared: &[f32]) -> f32 {
    if squared.is_empty() {
        return 0.0;
    }
    let mut weights = vec![0.0; squared.len()];
    kernel.weights(squared, &mut weights);
    let middle = weights.len() / 2;
    *weights.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// Returns the estimated relative error of a folded sum in f32. `spread` is the sum of squares of its terms, `norm`
/// that of its results. Each term has a rounding error of a few units; together they grow like the root of their
/// squares.
pub(in crate::device) fn folded_error(spread: f64, norm: f64) -> f64 {
    if norm > 0.0 { 3.0 * f64::from(f32::EPSILON) * (2.0 * spread / norm).sqrt() } else { 0.0 }
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
