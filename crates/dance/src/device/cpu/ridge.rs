//! Kernel ridge regression: the coefficients `β = (K + λI)⁻¹ Y`, with the kernel matrix K, the ridge parameter λ and
//! the one-hot labels Y (the paper, appendix B). For n points with d dimensions and c classes:
//!
//! 1. **Squared distances** under the learned metric `M = R·Rᵀ`: `‖(a-b)R‖² = aMaᵀ + bMbᵀ - 2·aMbᵀ` for points a and b.
//!    So one matrix product gives all distances, and the root R is not needed. The formula loses digits for close
//!    points. If its result is below 1/256 of the sum `aMaᵀ + bMbᵀ`, the distance is recomputed from differences in
//!    f64. So duplicates have distance exactly 0. Cost: `n²·d` flops.
//! 2. **Cholesky factor** of `K + λI` in f32, in place, and the solution: `n³/3 + 2n²c` flops, one n×n matrix. If K is
//!    not positive definite in f32, as with a bandwidth so large that all rows are alike, λ is increased tenfold until
//!    `K + λI` is.
//! 3. **Refinement**: the residual `Y - (K + λI)β` is measured in f64 on a sample of rows. If it is poor, iterative
//!    refinement corrects β with the same factor.

use faer::Mat;
use pulp::Arch;
use rayon::prelude::*;

use crate::device::Regression;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::linalg::{self, Real, View};
use crate::numeric::matrix::Matrix;

/// The relative residual of a regression above which iterative refinement corrects the solution.
pub(in crate::device) const POOR: f64 = 1e-3;
/// The largest number of corrections in iterative refinement. Refinement also ends if a correction fails to halve the
/// residual.
pub(in crate::device) const MOST_REFINEMENTS: usize = 5;
/// The number of rows of the linear system on which the residual is measured.
pub(in crate::device) const PROBES: usize = 64;
/// The largest number of times that the ridge parameter is increased tenfold, if the kernel matrix has no Cholesky
/// factor.
pub(in crate::device) const RIDGE_STEPS: usize = 6;

/// The linear system `(K + λI)β = Y` of a regression, in the symbols of the [module](self).
pub(super) struct RidgeSystem<'a> {
    /// The squared distances among the n training points, in the lower triangle of an n×n matrix.
    pub(super) squared: &'a [f32],
    pub(super) kernel: Kernel,
    pub(super) labels: &'a [u32],
    pub(super) classes: usize,
}

impl RidgeSystem<'_> {
    fn n(&self) -> usize {
        self.labels.len()
    }

    /// Returns the coefficients and their numerical accuracy; the quality stays empty. Afterwards `work`, a buffer for
    /// an n×n matrix, holds the Cholesky factor.
    pub(super) fn solve(&self, ridge: f64, work: &mut [f32]) -> Result<(Matrix, Regression)> {
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

    /// Writes `K + ridge·I`, with the kernel matrix K, to the lower triangle of `work`.
    fn fill(&self, ridge: f64, work: &mut [f32]) {
        let n = self.n();
        work.par_chunks_mut(n).zip(self.squared.par_chunks(n)).enumerate().for_each(|(row, (out, squared))| {
            self.kernel.values(&squared[..row], &mut out[..row]);
            out[row] = (1.0 + ridge) as f32;
        });
    }

    fn solve_factorised(&self, ridge: f64, factor: &[f32]) -> Result<(Matrix, Regression)> {
        let n = self.n();
        let mut beta = Matrix::zeros(n, self.classes);
        for (row, &label) in self.labels.iter().enumerate() {
            beta.row_mut(row)[label as usize] = 1.0;
        }
        linalg::cholesky_solve(factor, &mut beta);
        let residual = self.sampled_residual(ridge, &beta);
        let mut report = Regression { quality: None, ridge, residual, refinements: 0 };
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
            report = Regression { residual, refinements: report.refinements + 1, ..report };
        }
        if report.residual.is_finite() {
            return Ok((beta, report));
        }
        Err(Error::NotPositiveDefinite { n, ridge, bandwidth: self.kernel.bandwidth() })
    }

    /// Writes row `row` of `K + ridge·I`, with the kernel matrix K, to `out`.
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

    /// Returns the rows with the indices `rows` of the residual `Y - (K + ridge·I)β`, in f64. K is the kernel matrix, Y
    /// the one-hot labels, and β the coefficients `beta`.
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

/// The limit below which a squared distance from the matrix product has lost too many digits. It is a share of the sum
/// of the two points' squared norms.
const CLOSE: f32 = 1.0 / 256.0;
/// The number of rows of distances in one parallel task.
const TILE: usize = 128;

/// Points with the numbers from which distances under a metric M are computed.
pub(super) struct Points<'a> {
    /// The points, one per row.
    plain: &'a Matrix,
    /// The points times the metric M.
    mapped: &'a Matrix,
    /// The squared norm `zMzᵀ` of every point z under the metric M.
    norms: Vec<f32>,
}

impl<'a> Points<'a> {
    /// Computes the squared norms of points under a metric. `mapped` must hold the product of `plain`, the points, with
    /// the metric.
    pub(super) fn new(plain: &'a Matrix, mapped: &'a Matrix) -> Self {
        let norm = |row| {
            let pairs = plain.row(row).iter().zip(mapped.row(row));
            pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>().max(0.0) as f32
        };
        Self { plain, mapped, norms: (0..plain.rows()).into_par_iter().map(norm).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.norms.len()
    }

    /// Returns the squared distance between point `row` here and point `other_row` of `other`. It is computed from the
    /// difference of the two points in f64.
    fn difference(&self, row: usize, other: &Self, other_row: usize) -> f32 {
        let plain = self.plain.row(row).iter().zip(other.plain.row(other_row));
        let mapped = self.mapped.row(row).iter().zip(other.mapped.row(other_row));
        let square = plain
            .zip(mapped)
            .map(|((&a, &b), (&ma, &mb))| (f64::from(a) - f64::from(b)) * (f64::from(ma) - f64::from(mb)));
        square.sum::<f64>().max(0.0) as f32
    }
}

/// Writes squared distances to `out`: from as many queries as fit into `out`, beginning with query `start`, to the
/// first `width` points. Each query has `stride` numbers in `out`, of which the first `width` are written. Runs on one
/// thread.
fn block(queries: &Points<'_>, start: usize, points: &Points<'_>, width: usize, out: &mut [f32], stride: usize) {
    let height = out.len() / stride;
    let left: View<'_> = linalg::view(queries.mapped).subrows(start, height);
    let right = linalg::view(points.plain).subrows(0, width);
    let target = linalg::row_major_mut(out, height, stride).subcols_mut(0, width);
    linalg::gemm(target, false, left, right.transpose(), 1.0);
    for (offset, row) in out.chunks_exact_mut(stride).enumerate() {
        let row = &mut row[..width];
        let query = start + offset;
        from_products(row, queries.norms[query], &points.norms, |point| queries.difference(query, points, point));
    }
}

/// Replaces the inner products in `row`, of one query with many points, by squared distances. `norm` and `norms` are
/// the squared norms of the query and of the points. `difference(i)` recomputes the squared distance to point i if the
/// point is close to the query.
pub(super) fn from_products(row: &mut [f32], norm: f32, norms: &[f32], difference: impl Fn(usize) -> f32) {
    let close = Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut close = false;
            for (value, &other) in row.iter_mut().zip(norms) {
                let sum = norm + other;
                *value = (sum - 2.0 * *value).max(0.0);
                close |= *value < CLOSE * sum;
            }
            close
        },
    );
    if close {
        for (point, value) in row.iter_mut().enumerate() {
            if *value < CLOSE * (norm + norms[point]) {
                *value = difference(point);
            }
        }
    }
}

/// Writes the squared distances among n points to the lower triangle of `out`, a row-major n×n matrix. The caller must
/// not read the numbers above the diagonal.
pub(super) fn lower_triangle(points: &Points<'_>, out: &mut [f32]) {
    let n = points.len();
    out.par_chunks_mut(TILE * n).enumerate().with_max_len(1).for_each(|(tile, rows)| {
        let start = tile * TILE;
        let width = start + rows.len() / n;
        block(points, start, points, width, rows, n);
        for (offset, row) in rows.chunks_exact_mut(n).enumerate() {
            row[start + offset] = 0.0;
        }
    });
}

/// Returns the squared distances from all `queries` to all `points`, row-major with one row per query.
pub(super) fn all_distances(queries: &Points<'_>, points: &Points<'_>) -> Vec<f32> {
    let n = points.len();
    let mut out = vec![0.0; queries.len() * n];
    out.par_chunks_mut(TILE * n).enumerate().for_each(|(tile, rows)| block(queries, tile * TILE, points, n, rows, n));
    out
}

/// Returns the median distance among the points, or among at most `sample` evenly spaced points.
pub(super) fn median_distance(points: &Matrix, sample: usize) -> f64 {
    let step = points.rows().div_ceil(sample).max(1);
    let chosen = points.select(&(0..points.rows()).step_by(step).collect::<Vec<_>>());
    let sides = Points::new(&chosen, &chosen);
    let n = chosen.rows();
    let squared = all_distances(&sides, &sides);
    let mut pairs: Vec<f32> = (1..n).flat_map(|row| squared[row * n..][..row].iter().copied()).collect();
    if pairs.is_empty() {
        return 0.0;
    }
    let middle = pairs.len() / 2;
    f64::from(*pairs.select_nth_unstable_by(middle, f32::total_cmp).1).sqrt()
}
