//! Squared distances under the learned metric, from one matrix product.
//!
//! With the learned metric `M = R·Rᵀ`, the squared distance of points a and b is `‖(a-b)R‖² = aMaᵀ + bMbᵀ - 2·aMbᵀ`. So
//! the root R is not needed: one side of the product holds the points `z`, the other `zM`. For points already mapped by
//! `R`, both sides are the same.
//!
//! The formula loses digits for close points. A pair whose squared distance is below 1/256 of the sum of its squared
//! norms is recomputed from the differences in f64, so duplicates have distance exactly 0 whatever the rounding of the
//! product.
//!
//! Cost: `2·d` flops per pair in d dimensions (half of that for the lower triangle of a symmetric matrix).

use pulp::Arch;
use rayon::prelude::*;

use crate::numeric::linalg::{self, View};
use crate::numeric::matrix::Matrix;

/// A squared distance from the product has lost too many digits if it is below this share of the sum of the two squared
/// norms.
const CLOSE: f32 = 1.0 / 256.0;
/// The number of rows in one parallel task.
const TILE: usize = 128;

/// Points z (`plain`), the points zM mapped by the metric M (`mapped`), and the squared norms zMzᵀ.
pub(super) struct Points<'a> {
    plain: &'a Matrix,
    mapped: &'a Matrix,
    norms: Vec<f32>,
}

impl<'a> Points<'a> {
    /// Computes the squared norms of points; `mapped` must be `plain·M` with the metric M.
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

    fn difference(&self, row: usize, other: &Self, other_row: usize) -> f32 {
        let plain = self.plain.row(row).iter().zip(other.plain.row(other_row));
        let mapped = self.mapped.row(row).iter().zip(other.mapped.row(other_row));
        let square = plain
            .zip(mapped)
            .map(|((&a, &b), (&ma, &mb))| (f64::from(a) - f64::from(b)) * (f64::from(ma) - f64::from(mb)));
        square.sum::<f64>().max(0.0) as f32
    }
}

/// Writes the squared distances from the queries `start…` to the first `width` points. Each query has `stride` numbers
/// in `out`, of which the first `width` are written. Runs on one thread.
pub(super) fn block(
    queries: &Points<'_>,
    start: usize,
    points: &Points<'_>,
    width: usize,
    out: &mut [f32],
    stride: usize,
) {
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

/// Turns the inner products of a query with points (`row`) into squared distances. `norm` and `norms` are the squared
/// norms of the query and the points. `difference` recomputes the squared distance to a close point.
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

/// Writes the lower triangle of all squared distances among `points`, row-major n×n. Values above the diagonal have no
/// meaning.
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

/// Returns all squared distances from `queries` to `points`, row-major.
pub(super) fn all(queries: &Points<'_>, points: &Points<'_>) -> Vec<f32> {
    let n = points.len();
    let mut out = vec![0.0; queries.len() * n];
    out.par_chunks_mut(TILE * n).enumerate().for_each(|(tile, rows)| block(queries, tile * TILE, points, n, rows, n));
    out
}

/// Returns the median distance among at most `sample` evenly spaced points.
pub(super) fn median(points: &Matrix, sample: usize) -> f64 {
    let step = points.rows().div_ceil(sample).max(1);
    let chosen = points.select(&(0..points.rows()).step_by(step).collect::<Vec<_>>());
    let sides = Points::new(&chosen, &chosen);
    let n = chosen.rows();
    let squared = all(&sides, &sides);
    let mut pairs: Vec<f32> = (1..n).flat_map(|row| squared[row * n..][..row].iter().copied()).collect();
    if pairs.is_empty() {
        return 0.0;
    }
    let middle = pairs.len() / 2;
    f64::from(*pairs.select_nth_unstable_by(middle, f32::total_cmp).1).sqrt()
}
