//! The right side of a product that many queries share, packed once.
//!
//! Columns lie in panels of 16, the numbers of a panel one depth after the other, so that a product streams through memory
//! once whatever the number of rows on the left. Every number of the result is the sum over the depth **in its order**, one
//! fused multiply-add after the other: it does not depend on the rows beside it, on tiles, threads or the width of the
//! machine's vectors. So one query alone, and the same query in a batch, come out the same to the last bit, and a single
//! row costs about as much as reading the panels.
//!
//! Cost: `2·depth` flops per number; the left side is repacked in blocks of a few rows, which stay in cache.

use pulp::{Arch, Simd, WithSimd};

use crate::context::Context;
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::numeric::number::{Number, PANEL};

/// Depth of the blocks in which a panel is read: 32 KiB, which stay in the first-level cache over the rows of a tile.
const DEPTH: usize = 512;
/// Rows on the left that go through all panels together. A multiple of every block height below.
const TILE: usize = 96;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packed<T = f32> {
    depth: usize,
    columns: usize,
    /// Panel after panel, each `depth × PANEL`; columns that do not exist are 0.
    data: Vec<T>,
}

impl Packed {
    /// The rows of `matrix` are the columns: for inner products with them.
    pub(crate) fn of_rows(matrix: &Matrix, context: &Context<'_>) -> Self {
        Self::new(matrix.cols(), matrix.rows(), |depth, column| matrix.row(column)[depth], context)
    }

    /// `matrix` as it is: for products `left · matrix`.
    pub(crate) fn of_columns(matrix: &Matrix, context: &Context<'_>) -> Self {
        Self::new(matrix.rows(), matrix.cols(), |depth, column| matrix.row(depth)[column], context)
    }

    /// `left · self` in parallel over rows.
    pub(crate) fn product(&self, left: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        in_tiles(left, self.columns, context, |left, out| {
            self.multiply(left, 0..self.columns, out, &mut Scratch::default());
        })
    }
}

impl<T: Number> Packed<T> {
    /// `value(depth, column)` throughout.
    pub(crate) fn new(
        depth: usize,
        columns: usize,
        value: impl Fn(usize, usize) -> T + Sync,
        context: &Context<'_>,
    ) -> Self {
        let mut data = vec![T::default(); columns.div_ceil(PANEL) * PANEL * depth];
        context.each_part(&mut data, (depth * PANEL).max(1), |panel, data| {
            let first = panel * PANEL;
            let width = PANEL.min(columns - first);
            for (depth, data) in data.chunks_exact_mut(PANEL).enumerate() {
                for (offset, number) in data[..width].iter_mut().enumerate() {
                    *number = value(depth, first + offset);
                }
            }
        });
        Self { depth, columns, data }
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// The numbers of one column.
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = T> + '_ {
        let panel = &self.data[column / PANEL * PANEL * self.depth..][..self.depth * PANEL];
        panel.iter().skip(column % PANEL).step_by(PANEL).copied()
    }

    /// `left · self[columns]` on one thread. `columns` begins at the begin of a panel; `left` and `out` are row-major.
    pub(crate) fn multiply(
        &self,
        left: &[T],
        columns: std::ops::Range<usize>,
        out: &mut [T],
        scratch: &mut Scratch<T>,
    ) {
        debug_assert!(columns.start.is_multiple_of(PANEL));
        if columns.is_empty() || out.is_empty() {
            return;
        }
        if self.depth == 0 {
            return out.fill(T::default());
        }
        let rows = out.len() / columns.len();
        for first in (0..rows).step_by(TILE) {
            let height = TILE.min(rows - first);
            let left = &left[first * self.depth..][..height * self.depth];
            let out = &mut out[first * columns.len()..][..height * columns.len()];
            Arch::new().dispatch(Multiply { packed: self, left, columns: columns.clone(), out, scratch });
        }
    }
}

/// A matrix of `columns`, made from tiles of the rows of another: `work(rows, out)`, in parallel. Tiles are large enough that
/// panels are read few times, and small enough that all threads have work.
pub(crate) fn in_tiles(
    rows: &Matrix,
    columns: usize,
    context: &Context<'_>,
    work: impl Fn(&[f32], &mut [f32]) + Sync + Send,
) -> Result<Matrix> {
    let (count, cols) = (rows.rows(), rows.cols());
    let tile = count.div_ceil(context.threads()).next_multiple_of(12).clamp(12, TILE);
    let tiles = context.map(count.div_ceil(tile), |at| {
        let (first, last) = (at * tile, ((at + 1) * tile).min(count));
        let mut out = vec![0.0; (last - first) * columns];
        work(&rows.as_slice()[first * cols..last * cols], &mut out);
        out
    });
    let mut tiles = tiles.into_iter();
    let mut all = tiles.next().unwrap_or_default();
    all.reserve_exact(count * columns - all.len());
    tiles.for_each(|tile| all.extend(tile));
    Matrix::new(all, count, columns)
}

/// Room for the left side, repacked; kept from call to call.
#[derive(Default)]
pub(crate) struct Scratch<T = f32> {
    left: Vec<T>,
}

struct Multiply<'a, T> {
    packed: &'a Packed<T>,
    left: &'a [T],
    columns: std::ops::Range<usize>,
    out: &'a mut [T],
    scratch: &'a mut Scratch<T>,
}

impl<T: Number> WithSimd for Multiply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let alone = self.out.len() == self.columns.len();
        // As many rows at once as registers hold beside the panel.
        match PANEL / T::lanes::<S>() {
            1 if alone => self.one_row::<S, 1>(simd),
            2 if alone => self.one_row::<S, 2>(simd),
            4 if alone => self.one_row::<S, 4>(simd),
            1 => self.blocks::<S, 12, 1>(simd),
            2 => self.blocks::<S, 6, 2>(simd),
            4 => self.blocks::<S, 3, 4>(simd),
            8 => self.blocks::<S, 1, 8>(simd),
            _ => self.blocks::<S, 1, 16>(simd),
        }
    }
}

impl<T: Number> Multiply<'_, T> {
    /// Blocks of `ROWS` rows, the last of what is left over, against panels of `VECTORS` vectors. All of them meet a panel before the next
    /// is fetched: where rows are few, fetching panels is what a product costs.
    #[inline(always)]
    fn blocks<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let Self { packed, left, columns, out, scratch } = self;
        let (depth, width) = (packed.depth, columns.len());
        // Depth after depth, as many numbers each as the block has rows.
        let blocks = &mut scratch.left;
        blocks.resize(left.len(), T::default());
        for (block, rows) in blocks.chunks_mut(ROWS * depth).zip(left.chunks(ROWS * depth)) {
            let count = rows.len() / depth;
            for (row, numbers) in rows.chunks_exact(depth).enumerate() {
                for (to, &number) in block.iter_mut().skip(row).step_by(count).zip(numbers) {
                    *to = number;
                }
            }
        }
        for start in (0..depth).step_by(DEPTH) {
            let height = DEPTH.min(depth - start);
            for column in (0..width).step_by(PANEL) {
                let panel = &packed.data[(columns.start + column) * depth + start * PANEL..];
                let (panel, used) = (&panel[..height * PANEL], PANEL.min(width - column));
                for (block, out) in blocks.chunks(ROWS * depth).zip(out.chunks_mut(ROWS * width)) {
                    let rows = block.len() / depth;
                    let block = &block[start * rows..][..height * rows];
                    let place = Place { begin: start == 0, out: &mut out[column..], stride: width, used };
                    if rows == ROWS {
                        tile::<T, S, ROWS, VECTORS>(simd, block, panel, place);
                    } else {
                        some_rows::<T, S, VECTORS>(simd, rows, block, panel, place);
                    }
                }
            }
        }
    }

    /// One row alone, four panels side by side: one sum waits for the last, so several must be under way.
    #[inline(always)]
    fn one_row<S: Simd, const VECTORS: usize>(self, simd: S) {
        let Self { packed, left, columns, out, .. } = self;
        let panels = &packed.data[columns.start * packed.depth..];
        let mut panels = panels.chunks_exact(packed.depth * PANEL);
        let mut outs = out.chunks_mut(PANEL);
        while outs.len() >= 4 {
            let four = std::array::from_fn(|_| panels.next().unwrap_or_default());
            let sums = row_sums::<T, S, VECTORS, 4>(simd, left, four);
            for (sums, out) in sums.iter().zip(outs.by_ref()) {
                store::<T, S, VECTORS>(sums, out);
            }
        }
        for (panel, out) in panels.zip(outs) {
            store::<T, S, VECTORS>(&row_sums::<T, S, VECTORS, 1>(simd, left, [panel])[0], out);
        }
    }
}

/// One row against several panels, in registers over the whole depth.
#[inline(always)]
fn row_sums<T: Number, S: Simd, const VECTORS: usize, const PANELS: usize>(
    simd: S,
    left: &[T],
    panels: [&[T]; PANELS],
) -> [[T::Vector<S>; VECTORS]; PANELS] {
    let mut sums = [[T::splat(simd, T::default()); VECTORS]; PANELS];
    let panels: [&[[T; PANEL]]; PANELS] = panels.map(|panel| &panel.as_chunks().0[..left.len()]);
    for (depth, &number) in left.iter().enumerate() {
        let factor = T::splat(simd, number);
        for which in 0..PANELS {
            let panel = &T::vectors::<S>(&panels[which][depth])[..VECTORS];
            for vector in 0..VECTORS {
                sums[which][vector] = T::mul_add(simd, factor, panel[vector], sums[which][vector]);
            }
        }
    }
    sums
}

#[inline(always)]
fn store<T: Number, S: Simd, const VECTORS: usize>(sums: &[T::Vector<S>; VECTORS], out: &mut [T]) {
    let mut numbers = [T::default(); PANEL];
    T::vectors_mut::<S>(&mut numbers)[..VECTORS].copy_from_slice(sums);
    out.copy_from_slice(&numbers[..out.len()]);
}

/// Where a block of rows goes: a row every `stride` numbers, `used` of a panel's columns; to be begun or added to.
struct Place<'a, T> {
    begin: bool,
    out: &'a mut [T],
    stride: usize,
    used: usize,
}

/// A block of fewer rows than registers hold.
#[inline(always)]
fn some_rows<T: Number, S: Simd, const VECTORS: usize>(
    simd: S,
    rows: usize,
    left: &[T],
    panel: &[T],
    place: Place<'_, T>,
) {
    match rows {
        1 => tile::<T, S, 1, VECTORS>(simd, left, panel, place),
        2 => tile::<T, S, 2, VECTORS>(simd, left, panel, place),
        3 => tile::<T, S, 3, VECTORS>(simd, left, panel, place),
        4 => tile::<T, S, 4, VECTORS>(simd, left, panel, place),
        5 => tile::<T, S, 5, VECTORS>(simd, left, panel, place),
        6 => tile::<T, S, 6, VECTORS>(simd, left, panel, place),
        7 => tile::<T, S, 7, VECTORS>(simd, left, panel, place),
        8 => tile::<T, S, 8, VECTORS>(simd, left, panel, place),
        9 => tile::<T, S, 9, VECTORS>(simd, left, panel, place),
        10 => tile::<T, S, 10, VECTORS>(simd, left, panel, place),
        _ => tile::<T, S, 11, VECTORS>(simd, left, panel, place),
    }
}

/// `out (+)= left · panel`: one block of rows, one panel, in registers over the depth.
#[inline(always)]
fn tile<T: Number, S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    left: &[T],
    panel: &[T],
    place: Place<'_, T>,
) {
    let Place { begin, out, stride, used } = place;
    let mut sums = [[T::splat(simd, T::default()); VECTORS]; ROWS];
    if !begin {
        for (row, sums) in sums.iter_mut().enumerate() {
            let mut numbers = [T::default(); PANEL];
            numbers[..used].copy_from_slice(&out[row * stride..][..used]);
            sums.copy_from_slice(&T::vectors::<S>(&numbers)[..VECTORS]);
        }
    }
    let (left, _) = left.as_chunks::<ROWS>();
    let (panel, _) = panel.as_chunks::<PANEL>();
    for (left, panel) in left.iter().zip(panel) {
        let panel = &T::vectors::<S>(panel)[..VECTORS];
        for row in 0..ROWS {
            let factor = T::splat(simd, left[row]);
            for vector in 0..VECTORS {
                sums[row][vector] = T::mul_add(simd, factor, panel[vector], sums[row][vector]);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        store::<T, S, VECTORS>(sums, &mut out[row * stride..][..used]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    fn random(rows: usize, cols: usize, seed: u64) -> Matrix {
        let mut random = Random::new(seed, 8);
        Matrix::new((0..rows * cols).map(|_| random.normal() as f32).collect(), rows, cols).unwrap()
    }

    /// In the order of the depth, one fused multiply-add after the other.
    fn sum(left: &[f32], right: impl Iterator<Item = f32>) -> f32 {
        left.iter().zip(right).fold(0.0, |sum, (&a, b)| a.mul_add(b, sum))
    }

    /// Whether the machine multiplies and adds in one rounding, as `f32::mul_add` does everywhere.
    fn fused() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma");
        #[cfg(not(target_arch = "x86_64"))]
        cfg!(target_arch = "aarch64")
    }

    #[test]
    fn every_number_is_the_sum_in_the_order_of_the_depth() {
        let few = (1..=13).map(|rows| (rows, 530, 35));
        for (rows, depth, columns) in few.chain([
            (1, 1, 1),
            (1, 7, 40),
            (5, 16, 16),
            (13, 511, 17),
            (97, 513, 31),
            (200, 1100, 5),
            (3, 4, 0),
            (4, 0, 3),
        ]) {
            let (left, right) = (random(rows, depth, 1), random(columns, depth, 2));
            let context = Context::new(2).unwrap();
            let packed = Packed::of_rows(&right, &context);
            let found = packed.product(&left, &context).unwrap();
            for row in 0..rows {
                for column in 0..columns {
                    let expected = sum(left.row(row), right.row(column).iter().copied());
                    // Without fused instructions every product rounds once more; the order is the same.
                    let close = (found.row(row)[column] - expected).abs() <= 1e-4 * depth as f32;
                    assert!(
                        close && (found.row(row)[column] == expected || !fused()),
                        "{rows} {depth} {columns}"
                    );
                    assert!(packed.column(column).eq(right.row(column).iter().copied()));
                }
            }
            let mut turned = Matrix::zeros(depth, columns);
            for row in 0..depth {
                for column in 0..columns {
                    turned.row_mut(row)[column] = right.row(column)[row];
                }
            }
            assert_eq!(Packed::of_columns(&turned, &context).product(&left, &context).unwrap(), found);
        }
    }

    #[test]
    fn a_range_of_columns_is_part_of_the_whole() {
        let (left, right) = (random(20, 33, 3), random(100, 33, 4));
        let context = Context::new(2).unwrap();
        let packed = Packed::of_rows(&right, &context);
        let whole = packed.product(&left, &context).unwrap();
        for range in [0..100, 16..40, 32..33, 96..100] {
            let mut out = vec![f32::NAN; 20 * range.len()];
            packed.multiply(left.as_slice(), range.clone(), &mut out, &mut Scratch::default());
            for (row, out) in out.chunks_exact(range.len()).enumerate() {
                assert_eq!(out, &whole.row(row)[range.clone()]);
            }
        }
    }
}
