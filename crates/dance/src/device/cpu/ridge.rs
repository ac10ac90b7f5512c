//! Kernel ridge regression: `β = (K + ridge·I)⁻¹ Y`, with the kernel matrix `K` and the one-hot labels `Y` (the paper,
//! appendix B).
//!
//! The Cholesky factor is computed in f32, in place: `n³/3 + 2n²c` flops for n points and c classes, and one n×n
//! matrix. The residual `Y - (K + ridge·I)β` is then measured in f64 on a sample of rows. If it is poor, iterative
//! refinement corrects β with the same factor. If `K` is not positive definite in f32, as with a bandwidth so large
//! that all rows are alike, the ridge is increased tenfold until `K + ridge·I` is. The report holds the ridge that was
//! used.

use faer::Mat;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::event::RidgeReport;
use crate::kernel::Kernel;
use crate::numeric::linalg::{self, Real};
use crate::numeric::matrix::Matrix;

/// The relative residual above which the solution is refined.
pub(in crate::device) const POOR: f64 = 1e-3;
/// The largest number of corrections in iterative refinement. It also ends if a correction fails to halve the residual.
pub(in crate::device) const MOST_REFINEMENTS: usize = 5;
/// The number of rows on which the residual is measured.
pub(in crate::device) const PROBES: usize = 64;
/// The largest number of tenfold steps of the ridge.
pub(in crate::device) const RIDGE_STEPS: usize = 6;

/// The linear system: squared distances (lower triangle) and the kernel that turns them into `K`.
pub(super) struct RidgeSystem<'a> {
    pub(super) squared: &'a [f32],
    pub(super) kernel: Kernel,
    pub(super) labels: &'a [u32],
    pub(super) classes: usize,
}

impl RidgeSystem<'_> {
    fn n(&self) -> usize {
        self.labels.len()
    }

    /// Solves the system. Afterwards `work` (n×n) holds the Cholesky factor.
    pub(super) fn solve(&self, ridge: f64, work: &mut [f32]) -> Result<(Matrix, RidgeReport)> {
        let mut used = ridge;
        for _ in 0..=RIDGE_STEPS {
            self.fill(used, work);
            if linalg::cholesky(work, self.n()).is_ok() {
                return self.solve_factorised(used, work);
            }
            used = (used * 10.0).max(1e-6);
        }
        Err(Error::NotPositiveDefinite { n: self.n(), ridge: used / 10.0, bandwidth: self.kernel.bandwidth() })
    }

    /// Writes `K + ridge·I` to the lower triangle of `work`.
    fn fill(&self, ridge: f64, work: &mut [f32]) {
        let n = self.n();
        work.par_chunks_mut(n).zip(self.squared.par_chunks(n)).enumerate().for_each(|(row, (out, squared))| {
            self.kernel.values(&squared[..row], &mut out[..row]);
            out[row] = (1.0 + ridge) as f32;
        });
    }

    fn solve_factorised(&self, ridge: f64, factor: &[f32]) -> Result<(Matrix, RidgeReport)> {
        let n = self.n();
        let mut beta = Matrix::zeros(n, self.classes);
        for (row, &label) in self.labels.iter().enumerate() {
            beta.row_mut(row)[label as usize] = 1.0;
        }
        linalg::cholesky_solve(factor, &mut beta);
        let mut report = RidgeReport { ridge, residual: self.sampled_residual(ridge, &beta), refinements: 0 };
        while !(report.residual <= POOR) && report.refinements < MOST_REFINEMENTS {
            let mut corrected = self.residual(ridge, &beta);
            linalg::cholesky_solve(factor, &mut corrected);
            for (correction, value) in corrected.as_mut_slice().iter_mut().zip(beta.as_slice()) {
                *correction += value;
            }
            let residual = self.sampled_residual(ridge, &corrected);
            if !(residual < 0.5 * report.residual) {
                break;
            }
            beta = corrected;
            report = RidgeReport { residual, refinements: report.refinements + 1, ..report };
        }
        if report.residual.is_finite() {
            return Ok((beta, report));
        }
        Err(Error::NotPositiveDefinite { n, ridge, bandwidth: self.kernel.bandwidth() })
    }

    /// Writes row `row` of `K + ridge·I` to `out`.
    fn kernel_row(&self, row: usize, ridge: f64, out: &mut [f32]) {
        let n = self.n();
        out[..row].copy_from_slice(&self.squared[row * n..][..row]);
        for (other, value) in out.iter_mut().enumerate().skip(row + 1) {
            *value = self.squared[other * n + row];
        }
        out[row] = 0.0;
        self.kernel.values_in_place(out);
        out[row] = (1.0 + ridge) as f32;
    }

    /// Returns the given rows of the residual `Y - (K + ridge·I)β`, in f64.
    fn residual_rows(&self, rows: &[usize], ridge: f64, beta: &Mat<f64>) -> Mat<f64> {
        let n = self.n();
        let mut kernel = Mat::<f64>::zeros(rows.len(), n);
        let mut values = vec![0.0; n];
        for (place, &row) in rows.iter().enumerate() {
            self.kernel_row(row, ridge, &mut values);
            for (column, &value) in values.iter().enumerate() {
                kernel[(place, column)] = -f64::from(value);
            }
        }
        let mut residual = Mat::zeros(rows.len(), self.classes);
        linalg::product(residual.as_mut(), kernel.as_ref(), beta.as_ref());
        for (place, &row) in rows.iter().enumerate() {
            residual[(place, self.labels[row] as usize)] += 1.0;
        }
        residual
    }

    fn sampled_residual(&self, ridge: f64, beta: &Matrix) -> f64 {
        let n = self.n();
        let rows: Vec<usize> = (0..n).step_by(n.div_ceil(PROBES).max(1)).collect();
        let residual = self.residual_rows(&rows, ridge, &f64::widen(beta));
        (residual.squared_norm_l2() / rows.len() as f64).sqrt()
    }

    fn residual(&self, ridge: f64, beta: &Matrix) -> Matrix {
        let beta = f64::widen(beta);
        let mut out = Matrix::zeros(self.n(), self.classes);
        let rows: Vec<usize> = (0..self.n()).collect();
        for (block, target) in rows.chunks(256).zip(out.as_mut_slice().chunks_mut(256 * self.classes)) {
            let residual = self.residual_rows(block, ridge, &beta);
            for (place, values) in target.chunks_exact_mut(self.classes).enumerate() {
                for (class, value) in values.iter_mut().enumerate() {
                    *value = residual[(place, class)] as f32;
                }
            }
        }
        out
    }
}
