//! Every call of faer, behind the few operations the rest needs.
//!
//! **Parallel and reproducible.** Work is cut into tiles whose size depends on the shapes alone, each tile runs one
//! sequential kernel, and rayon only decides which thread runs it: the result has the same bits for any number of
//! threads. Callers run inside a [`Threads`](crate::backend::Threads) pool.
//!
//! Matrices are row-major; a "product" is `out = left · rightᵀ`, both operands stored with the summed index last.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

use crate::matrix::Matrix;

pub(crate) type View<'a> = MatRef<'a, f32>;
pub(crate) type ViewMut<'a> = MatMut<'a, f32>;

/// The whole of `matrix`.
pub(crate) fn view(matrix: &Matrix) -> View<'_> {
    row_major(matrix.as_slice(), matrix.rows(), matrix.cols())
}

/// The whole of `matrix`, mutable.
pub(crate) fn view_mut(matrix: &mut Matrix) -> ViewMut<'_> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    row_major_mut(matrix.as_mut_slice(), rows, cols)
}

pub(crate) fn row_major(data: &[f32], rows: usize, cols: usize) -> View<'_> {
    MatRef::from_row_major_slice(data, rows, cols)
}

pub(crate) fn row_major_mut(data: &mut [f32], rows: usize, cols: usize) -> ViewMut<'_> {
    MatMut::from_row_major_slice_mut(data, rows, cols)
}

/// `out (+)= scale · left · right` on one thread.
pub(crate) fn gemm(out: ViewMut<'_>, accumulate: bool, left: View<'_>, right: View<'_>, scale: f32) {
    let accum = if accumulate { Accum::Add } else { Accum::Replace };
    matmul(out, accum, left, right, scale, Par::Seq);
}

/// Rows a tile: enough for the kernel's full speed, few enough that two threads finish together.
fn tile_rows(rows: usize) -> usize {
    match rows {
        0..512 => 64,
        512..2048 => 128,
        _ => 256,
    }
}

/// `out (+)= scale · left · right`, in parallel over tiles of `out`.
pub(crate) fn product(out: ViewMut<'_>, accumulate: bool, left: View<'_>, right: View<'_>, scale: f32) {
    // A wide, low result is cut by columns instead.
    if out.nrows() < 128 && out.ncols() > out.nrows() {
        return product(out.transpose_mut(), accumulate, right.transpose(), left.transpose(), scale);
    }
    let rows = tile_rows(out.nrows());
    out.par_row_chunks_mut(rows).enumerate().for_each(|(tile, out)| {
        let left = left.subrows(tile * rows, out.nrows());
        gemm(out, accumulate, left, right, scale);
    });
}

/// `out = left · right` in f64.
pub(crate) fn product_f64(out: MatMut<'_, f64>, left: MatRef<'_, f64>, right: MatRef<'_, f64>) {
    let rows = tile_rows(out.nrows());
    out.par_row_chunks_mut(rows).enumerate().for_each(|(tile, out)| {
        let left = left.subrows(tile * rows, out.nrows());
        matmul(out, Accum::Replace, left, right, 1.0, Par::Seq);
    });
}

/// Replaces the lower triangle of the n×n matrix `a` by its Cholesky factor; the rest is left alone.
///
/// Left-looking in block columns: a block column takes all its updates as one product of full depth, then its diagonal
/// block is factorised and the rows below are solved against it. `n³/3` flops. `Err` is the row of the first pivot that
/// is not positive.
pub(crate) fn cholesky(a: &mut [f32], n: usize) -> Result<(), usize> {
    let block = if n < 1024 { 64 } else { 128 };
    let mut scratch = MemBuffer::new(cholesky_in_place_scratch::<f32>(block, Par::Seq, Default::default()));
    for start in (0..n).step_by(block) {
        let width = block.min(n - start);
        let (top, below) = a.split_at_mut((start + width) * n);
        let diagonal_rows = &mut top[start * n..];
        {
            let (done, rest) = row_major_mut(diagonal_rows, width, n).split_at_col_mut(start);
            let mut diagonal = rest.subcols_mut(0, width);
            gemm(diagonal.rb_mut(), true, done.rb(), done.rb().transpose(), -1.0);
            let stack = MemStack::new(&mut scratch);
            cholesky_in_place(diagonal, Default::default(), Par::Seq, stack, Default::default())
                .map_err(|error| match error {
                    faer::linalg::cholesky::llt::factor::LltError::NonPositivePivot { index } => start + index,
                })?;
        }
        let diagonal_rows = row_major(diagonal_rows, width, n);
        let (done, rest) = diagonal_rows.split_at_col(start);
        let factor = rest.subcols(0, width);
        let rows_below = below.len() / n.max(1);
        below.par_chunks_mut(tile_rows(rows_below) * n).for_each(|rows| {
            let height = rows.len() / n;
            let (left, right) = row_major_mut(rows, height, n).split_at_col_mut(start);
            let mut panel = right.subcols_mut(0, width);
            gemm(panel.rb_mut(), true, left.rb(), done.transpose(), -1.0);
            solve_lower_triangular_in_place(factor, panel.transpose_mut(), Par::Seq);
        });
    }
    Ok(())
}

/// Solves `L·Lᵀ·x = right` in place, `L` the lower triangle of the n×n matrix `factor`; columns in parallel.
pub(crate) fn cholesky_solve(factor: &[f32], right: &mut Matrix) {
    let n = right.rows();
    let lower = row_major(factor, n, n);
    let width = right.cols().div_ceil(4).next_multiple_of(16).min(128);
    // The triangular kernels want the right-hand side in columns: solve in a column-major copy of each chunk.
    view_mut(right).par_col_chunks_mut(width).for_each(|mut columns| {
        let mut work = Mat::<f32>::zeros(n, columns.ncols());
        work.copy_from(columns.rb());
        solve_lower_triangular_in_place(lower, work.as_mut(), Par::Seq);
        solve_upper_triangular_in_place(lower.transpose(), work.as_mut(), Par::Seq);
        columns.copy_from(&work);
    });
}

/// Eigenvalues (ascending) and eigenvectors (columns) of a symmetric d×d matrix, in f64.
pub(crate) fn symmetric_eigen(symmetric: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let d = symmetric.nrows();
    let mut values = vec![0.0; d];
    let mut vectors = Mat::zeros(d, d);
    let request =
        self_adjoint_evd_scratch::<f64>(d, ComputeEigenvectors::Yes, Par::Seq, Default::default());
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
