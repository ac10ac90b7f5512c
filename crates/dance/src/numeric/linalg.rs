//! Dense linear algebra on faer: products, Cholesky factors, triangular solves and eigenvectors.
//!
//! **Parallel and reproducible.** Work is cut into tiles whose size depends on the shapes of the matrices alone, and
//! one thread computes each tile. So a result has the same bits for every number of threads. Parallel functions must be
//! called inside [`Context::run`](crate::Context::run). [`Matrix`] is row-major.

use std::ops::{AddAssign, Mul, MulAssign, SubAssign};

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::prelude::{Reborrow, ReborrowMut};
use faer::traits::RealField;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

use crate::numeric::matrix::Matrix;

pub(crate) type View<'a> = MatRef<'a, f32>;
pub(crate) type ViewMut<'a> = MatMut<'a, f32>;

/// A floating-point type for computations: f32, or f64 where the rounding errors of f32 are too large.
pub(crate) trait Real:
    RealField + Copy + Default + Send + Sync + Into<f64> + Mul<Output = Self> + AddAssign + SubAssign + MulAssign
{
    const ONE: Self;

    fn from_f32(value: f32) -> Self;

    fn from_f64(value: f64) -> Self;

    /// Returns a copy of `matrix` in this type.
    fn widen(matrix: &Matrix) -> Mat<Self> {
        Mat::from_fn(matrix.rows(), matrix.cols(), |row, col| Self::from_f32(matrix.row(row)[col]))
    }

    /// Computes `out = left · rightᵀ` in this type, from operands in f32, on one thread.
    fn weights_gram(out: MatMut<'_, Self>, left: View<'_>, right: View<'_>);

    /// Computes `out = weightsᵀ · right` in this type, in parallel.
    fn weighted_product(out: MatMut<'_, Self>, weights: View<'_>, right: MatRef<'_, Self>);
}

impl Real for f32 {
    const ONE: Self = 1.0;

    fn from_f32(value: f32) -> Self {
        value
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn weights_gram(out: ViewMut<'_>, left: View<'_>, right: View<'_>) {
        gemm(out, false, left, right.transpose(), 1.0);
    }

    fn weighted_product(out: ViewMut<'_>, weights: View<'_>, right: View<'_>) {
        product(out, weights.transpose(), right);
    }
}

impl Real for f64 {
    const ONE: Self = 1.0;

    fn from_f32(value: f32) -> Self {
        f64::from(value)
    }

    fn from_f64(value: f64) -> Self {
        value
    }

    /// Computes `out = left · rightᵀ`. The operands are converted to f64 one block of columns at a time, so that no
    /// second large matrix is allocated.
    fn weights_gram(mut out: MatMut<'_, f64>, left: View<'_>, right: View<'_>) {
        const DEPTH: usize = 512;
        let depth = left.ncols();
        for first in (0..depth).step_by(DEPTH) {
            let width = DEPTH.min(depth - first);
            let block = |view: View<'_>| Mat::from_fn(view.nrows(), width, |i, j| f64::from(view[(i, first + j)]));
            let (left, right) = (block(left), block(right));
            gemm(out.rb_mut(), first > 0, left.as_ref(), right.transpose(), 1.0);
        }
    }

    fn weighted_product(out: MatMut<'_, f64>, weights: View<'_>, right: MatRef<'_, f64>) {
        let rows = tile_rows(out.nrows());
        out.par_row_chunks_mut(rows).enumerate().for_each(|(tile, out)| {
            let weights = weights.subcols(tile * rows, out.nrows());
            let weights = Mat::from_fn(weights.nrows(), weights.ncols(), |i, j| f64::from(weights[(i, j)]));
            gemm(out, false, weights.transpose(), right, 1.0);
        });
    }
}

/// Returns a faer view of `matrix`.
pub(crate) fn view(matrix: &Matrix) -> View<'_> {
    row_major(matrix.as_slice(), matrix.rows(), matrix.cols())
}

/// Returns a mutable faer view of `matrix`.
pub(crate) fn view_mut(matrix: &mut Matrix) -> ViewMut<'_> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    row_major_mut(matrix.as_mut_slice(), rows, cols)
}

pub(crate) fn row_major<T>(data: &[T], rows: usize, cols: usize) -> MatRef<'_, T> {
    MatRef::from_row_major_slice(data, rows, cols)
}

pub(crate) fn row_major_mut<T>(data: &mut [T], rows: usize, cols: usize) -> MatMut<'_, T> {
    MatMut::from_row_major_slice_mut(data, rows, cols)
}

/// Computes `scale · left · right` on one thread. The product replaces `out`, or is added to `out` if `accumulate`.
pub(crate) fn gemm<T: Real>(out: MatMut<'_, T>, accumulate: bool, left: MatRef<'_, T>, right: MatRef<'_, T>, scale: T) {
    let accum = if accumulate { Accum::Add } else { Accum::Replace };
    matmul(out, accum, left, right, scale, Par::Seq);
}

/// Returns the sum of `values` in f64. The order of the additions is fixed, and compilers can vectorise it.
pub(crate) fn sum(values: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|&value| f64::from(value)).sum();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(value);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// Returns the number of rows in each tile of a matrix with `rows` rows. Tiles are large enough for fast products, and
/// small enough that threads finish together.
fn tile_rows(rows: usize) -> usize {
    match rows {
        0..512 => 64,
        512..2048 => 128,
        _ => 256,
    }
}

/// Computes `out = left · right`, in parallel over tiles of `out`.
pub(crate) fn product<T: Real>(out: MatMut<'_, T>, left: MatRef<'_, T>, right: MatRef<'_, T>) {
    // A result of few rows and many columns is cut by columns.
    if out.nrows() < 128 && out.ncols() > out.nrows() {
        return product(out.transpose_mut(), right.transpose(), left.transpose());
    }
    let rows = tile_rows(out.nrows());
    out.par_row_chunks_mut(rows).enumerate().for_each(|(tile, out)| {
        let left = left.subrows(tile * rows, out.nrows());
        gemm(out, false, left, right, T::ONE);
    });
}

/// Replaces the lower triangle of the symmetric n×n matrix `a` by its Cholesky factor, in `n³/3` flops. The upper
/// triangle is neither read nor written. `Err` holds the row of the first pivot that is not positive.
///
/// The algorithm is left-looking in block columns. For each block column, one product applies all updates. Then the
/// diagonal block is factorised, and the rows below are solved against this block.
pub(crate) fn cholesky<T: Real>(a: &mut [T], n: usize) -> Result<(), usize> {
    // Multiples of 96, the block width of the matrix product.
    let block = if n < 1024 { 96 } else { 192 };
    let mut scratch = MemBuffer::new(cholesky_in_place_scratch::<T>(block, Par::Seq, Default::default()));
    for start in (0..n).step_by(block) {
        let width = block.min(n - start);
        let (top, below) = a.split_at_mut((start + width) * n);
        let diagonal_rows = &mut top[start * n..];
        {
            // The diagonal block: subtract the columns that are done, then factorise.
            let (done, rest) = row_major_mut(diagonal_rows, width, n).split_at_col_mut(start);
            let mut diagonal = rest.subcols_mut(0, width);
            gemm(diagonal.rb_mut(), true, done.rb(), done.rb().transpose(), T::from_f64(-1.0));
            let stack = MemStack::new(&mut scratch);
            cholesky_in_place(diagonal, Default::default(), Par::Seq, stack, Default::default()).map_err(|error| {
                match error {
                    faer::linalg::cholesky::llt::factor::LltError::NonPositivePivot { index } => start + index,
                }
            })?;
        }
        // The rows below, in parallel: subtract the columns that are done, then solve against the block.
        let diagonal_rows = row_major(diagonal_rows, width, n);
        let (done, rest) = diagonal_rows.split_at_col(start);
        let factor = rest.subcols(0, width);
        let rows_below = below.len() / n.max(1);
        below.par_chunks_mut(tile_rows(rows_below) * n).for_each(|rows| {
            let height = rows.len() / n;
            let (left, right) = row_major_mut(rows, height, n).split_at_col_mut(start);
            let mut panel = right.subcols_mut(0, width);
            gemm(panel.rb_mut(), true, left.rb(), done.transpose(), T::from_f64(-1.0));
            solve_lower_triangular_in_place(factor, panel.transpose_mut(), Par::Seq);
        });
    }
    Ok(())
}

/// Solves `L·Lᵀ·x = right` in place for every column of `right`, in parallel. `L` is the lower triangle of `factor`, a
/// row-major n×n matrix for n rows of `right`.
pub(crate) fn cholesky_solve(factor: &[f32], right: &mut Matrix) {
    let n = right.rows();
    let lower = row_major(factor, n, n);
    let width = right.cols().div_ceil(4).next_multiple_of(16).min(128);
    // The triangular kernels need a column-major right-hand side, hence a copy of each chunk.
    view_mut(right).par_col_chunks_mut(width).for_each(|mut columns| {
        let mut work = Mat::<f32>::zeros(n, columns.ncols());
        work.copy_from(columns.rb());
        solve_lower_triangular_in_place(lower, work.as_mut(), Par::Seq);
        solve_upper_triangular_in_place(lower.transpose(), work.as_mut(), Par::Seq);
        columns.copy_from(&work);
    });
}

/// Replaces every row x of `rows` by `L⁻¹x`, or by `L⁻ᵀx` if `transposed`, in parallel. `L` is the lower triangle of
/// the row-major n×n matrix `factor`.
pub(crate) fn solve_rows(factor: &[f64], n: usize, rows: &mut [f64], transposed: bool) {
    const ROWS: usize = 64;
    let lower = row_major(factor, n, n);
    rows.par_chunks_mut((ROWS * n).max(1)).for_each(|rows| {
        let height = rows.len() / n;
        let columns = row_major_mut(rows, height, n).transpose_mut();
        if transposed {
            solve_upper_triangular_in_place(lower.transpose(), columns, Par::Seq);
        } else {
            solve_lower_triangular_in_place(lower, columns, Par::Seq);
        }
    });
}

/// Returns the inverse of the symmetric positive definite n×n matrix `a`. The lower triangle of `a` becomes its
/// Cholesky factor. `Err` holds the row of the first pivot that is not positive.
pub(crate) fn inverse(a: &mut [f64], n: usize) -> Result<Vec<f64>, usize> {
    cholesky(a, n)?;
    let mut inverse = vec![0.0; n * n];
    for row in 0..n {
        inverse[row * n + row] = 1.0;
    }
    solve_rows(a, n, &mut inverse, false);
    solve_rows(a, n, &mut inverse, true);
    Ok(inverse)
}

/// Returns the diagonal of `(L·Lᵀ)⁻¹`, which holds the squared norms of the columns of `L⁻¹`. `L` is the lower triangle
/// of the row-major n×n matrix `factor`. The cost is `n³/3` flops.
pub(crate) fn inverse_diagonal(factor: &[f32], n: usize) -> Vec<f32> {
    const BLOCK: usize = 96;
    let lower = row_major(factor, n, n);
    let of_block = |block: usize| {
        // A column of `L⁻¹` is 0 above the diagonal, so the rows above the block need no work.
        let first = block * BLOCK;
        let (height, width) = (n - first, BLOCK.min(n - first));
        let mut columns = Mat::<f32>::zeros(height, width);
        for at in 0..width {
            columns[(at, at)] = 1.0;
        }
        let factor = lower.submatrix(first, first, height, height);
        solve_lower_triangular_in_place(factor, columns.as_mut(), Par::Seq);
        let norm = |column: usize| (0..height).map(|row| f64::from(columns[(row, column)]).powi(2)).sum::<f64>() as f32;
        (0..width).map(norm).collect::<Vec<_>>()
    };
    (0..n.div_ceil(BLOCK)).into_par_iter().map(of_block).collect::<Vec<_>>().concat()
}

/// Returns the eigenvalues (ascending) and eigenvectors (columns) of a symmetric d×d matrix; `None` if the algorithm
/// does not converge.
pub(crate) fn symmetric_eigen(symmetric: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let d = symmetric.nrows();
    let mut values = vec![0.0; d];
    let mut vectors = Mat::zeros(d, d);
    let request = self_adjoint_evd_scratch::<f64>(d, ComputeEigenvectors::Yes, Par::Seq, Default::default());
    let mut scratch = MemBuffer::new(request);
    self_adjoint_evd(
        symmetric,
        DiagMut::from_slice_mut(&mut values),
        Some(vectors.as_mut()),
        Par::Seq,
        MemStack::new(&mut scratch),
        Default::default(),
    )
    .ok()?;
    Some((values, vectors))
}

/// Copies the lower triangle of the n×n matrix `square` to the upper triangle, in parallel over rows.
pub(crate) fn mirror(square: &mut [f32], n: usize) {
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

/// Returns the columns with the indices `chosen` of the n×n matrix `square`, in parallel over rows.
pub(crate) fn gather_columns(square: &[f32], n: usize, chosen: &[usize]) -> Matrix {
    let mut out = Matrix::zeros(n, chosen.len());
    out.as_mut_slice().par_chunks_mut(chosen.len().max(1)).zip(square.par_chunks(n)).for_each(|(out, row)| {
        for (value, &column) in out.iter_mut().zip(chosen) {
            *value = row[column];
        }
    });
    out
}
