//! Matrix products whose right operand is fixed: it is packed once and multiplied with many queries.
//!
//! The columns of the right operand lie in *panels* of 16 columns. A panel is stored row by row, so that a product
//! reads the panel once from memory. The *depth* is the summation index of the product: the row of the right operand.
//! Every entry of the product is summed over the depth **in ascending order**, one fused multiply-add after the other.
//! An entry does not depend on the other rows of the left operand, or on tiles, threads or the vector width. So a query
//! gives the same bits alone and in a batch. The product of a single row takes about as long as reading the panels.
//!
//! Cost: 2 flops for every entry of the product and every step of the depth. The left operand is repacked in blocks of
//! a few rows, which stay in cache.

use pulp::{Arch, Simd, WithSimd};

use crate::context::Context;
use crate::error::Result;
use crate::numeric::matrix::Matrix;

/// The number of rows of a panel (16 packed columns, see the [module](self)) that are read at a time. As f32 they are
/// 32 KiB, which stay in the first-level cache while a tile is computed.
const DEPTH: usize = 512;
/// The number of rows of the left operand that are multiplied with all panels at a time. It is a multiple of 12, 6, 3
/// and 1, the numbers of rows that fit into the registers of different processors.
const TILE: usize = 96;

/// The packed right operand of a product; see the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packed<T = f32> {
    depth: usize,
    columns: usize,
    /// The panels one after the other, each with `depth` rows of [`PANEL`] numbers. Columns of zeros fill up the last
    /// panel.
    data: Vec<T>,
}

impl Packed {
    /// Packs the transpose of `matrix`. A product `left · self` then holds the inner products of the rows of `left`
    /// with the rows of `matrix`.
    pub(crate) fn of_rows(matrix: &Matrix, context: &Context<'_>) -> Self {
        Self::new(matrix.cols(), matrix.rows(), |depth, column| matrix.row(column)[depth], context)
    }

    /// Packs `matrix`, for products `left · matrix`.
    pub(crate) fn of_columns(matrix: &Matrix, context: &Context<'_>) -> Self {
        Self::new(matrix.rows(), matrix.cols(), |depth, column| matrix.row(depth)[column], context)
    }

    /// Returns the product `left · self`, computed in parallel over the rows of `left`.
    pub(crate) fn product(&self, left: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        in_tiles(left, self.columns, context, |left, out| {
            self.multiply(left, 0..self.columns, out, &mut Scratch::default());
        })
    }
}

impl<T: Number> Packed<T> {
    /// Packs the matrix whose entry in row `depth` and column `column` is `value(depth, column)`.
    pub(crate) fn new(
        depth: usize,
        columns: usize,
        value: impl Fn(usize, usize) -> T + Sync + Send,
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

    /// Returns the numbers of the column with the index `column`.
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = T> + '_ {
        let panel = &self.data[column / PANEL * PANEL * self.depth..][..self.depth * PANEL];
        panel.iter().skip(column % PANEL).step_by(PANEL).copied()
    }

    /// Computes the product of `left` with a range of this matrix's columns, on one thread. The range `columns` must
    /// start at the first column of a panel. `left` and `out` are row-major.
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

/// Returns a matrix of `columns` columns, with one row for every row of `rows`, computed in parallel. Each call
/// `work(tile, out)` gets a tile of a few rows, and writes the result's rows for them to `out`. The number of rows in a
/// tile changes no result. Large tiles read packed panels less often, and small tiles keep all threads at work.
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

/// A buffer for the repacked left operand of a product, for reuse between products.
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
        let single = self.out.len() == self.columns.len();
        // As many rows at once as fit into registers beside the panel.
        match PANEL / T::lanes::<S>() {
            1 if single => self.one_row::<S, 1>(simd),
            2 if single => self.one_row::<S, 2>(simd),
            4 if single => self.one_row::<S, 4>(simd),
            1 => self.blocks::<S, 12, 1>(simd),
            2 => self.blocks::<S, 6, 2>(simd),
            4 => self.blocks::<S, 3, 4>(simd),
            8 => self.blocks::<S, 1, 8>(simd),
            _ => self.blocks::<S, 1, 16>(simd),
        }
    }
}

impl<T: Number> Multiply<'_, T> {
    /// Multiplies blocks of `ROWS` rows of the left operand with [panels](self), whose rows take `VECTORS` SIMD
    /// vectors. The last block may have fewer rows. All blocks use a panel before the next panel is loaded, since with
    /// few rows loading takes most of the time.
    #[inline(always)]
    fn blocks<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let Self { packed, left, columns, out, scratch } = self;
        let (depth, width) = (packed.depth, columns.len());
        // Repack the left operand: for every depth, the numbers of the block's rows side by side.
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
        // Multiply one depth block at a time; the first overwrites the output, the others add to it.
        for start in (0..depth).step_by(DEPTH) {
            let height = DEPTH.min(depth - start);
            for column in (0..width).step_by(PANEL) {
                let panel = &packed.data[(columns.start + column) * depth + start * PANEL..];
                let (panel, used) = (&panel[..height * PANEL], PANEL.min(width - column));
                for (block, out) in blocks.chunks(ROWS * depth).zip(out.chunks_mut(ROWS * width)) {
                    let rows = block.len() / depth;
                    let block = &block[start * rows..][..height * rows];
                    let block_out = OutputBlock { overwrite: start == 0, out: &mut out[column..], stride: width, used };
                    if rows == ROWS {
                        tile::<T, S, ROWS, VECTORS>(simd, block, panel, block_out);
                    } else {
                        partial_tile::<T, S, VECTORS>(simd, rows, block, panel, block_out);
                    }
                }
            }
        }
    }

    /// Multiplies a single row with four [panels](self) at a time. The sums of the four panels do not depend on each
    /// other, which hides the latency of the multiply-adds.
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

/// Returns the products of one row of the left operand with several [panels](self). The products are summed in
/// registers over the whole depth.
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
        for place in 0..PANELS {
            let panel = &T::vectors::<S>(&panels[place][depth])[..VECTORS];
            for vector in 0..VECTORS {
                sums[place][vector] = T::mul_add(simd, factor, panel[vector], sums[place][vector]);
            }
        }
    }
    sums
}

/// Writes the sums in `VECTORS` SIMD vectors to `out`, as many as `out` holds.
#[inline(always)]
fn store<T: Number, S: Simd, const VECTORS: usize>(sums: &[T::Vector<S>; VECTORS], out: &mut [T]) {
    let mut numbers = [T::default(); PANEL];
    T::vectors_mut::<S>(&mut numbers)[..VECTORS].copy_from_slice(sums);
    out.copy_from_slice(&numbers[..out.len()]);
}

/// The place for the product of one block of rows with one [panel](self).
struct OutputBlock<'a, T> {
    /// True if the product replaces the numbers in `out`; otherwise it is added to them.
    overwrite: bool,
    out: &'a mut [T],
    /// The number of elements of `out` from the start of one row to the start of the next.
    stride: usize,
    /// The number of the panel's columns that belong to the matrix. The other columns only fill up the last panel.
    used: usize,
}

/// Multiplies one [panel](self) with a block of fewer rows than fit into the registers.
#[inline(always)]
fn partial_tile<T: Number, S: Simd, const VECTORS: usize>(
    simd: S,
    rows: usize,
    left: &[T],
    panel: &[T],
    output: OutputBlock<'_, T>,
) {
    match rows {
        1 => tile::<T, S, 1, VECTORS>(simd, left, panel, output),
        2 => tile::<T, S, 2, VECTORS>(simd, left, panel, output),
        3 => tile::<T, S, 3, VECTORS>(simd, left, panel, output),
        4 => tile::<T, S, 4, VECTORS>(simd, left, panel, output),
        5 => tile::<T, S, 5, VECTORS>(simd, left, panel, output),
        6 => tile::<T, S, 6, VECTORS>(simd, left, panel, output),
        7 => tile::<T, S, 7, VECTORS>(simd, left, panel, output),
        8 => tile::<T, S, 8, VECTORS>(simd, left, panel, output),
        9 => tile::<T, S, 9, VECTORS>(simd, left, panel, output),
        10 => tile::<T, S, 10, VECTORS>(simd, left, panel, output),
        _ => tile::<T, S, 11, VECTORS>(simd, left, panel, output),
    }
}

/// Multiplies one [panel](self) with a block of `ROWS` rows. The products are summed in registers over the depth.
#[inline(always)]
fn tile<T: Number, S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    left: &[T],
    panel: &[T],
    output: OutputBlock<'_, T>,
) {
    let OutputBlock { overwrite, out, stride, used } = output;
    let mut sums = [[T::splat(simd, T::default()); VECTORS]; ROWS];
    if !overwrite {
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

/// The number of columns in a [panel](self) of a packed matrix: two AVX2 vectors of f32, or one of AVX-512.
pub(crate) const PANEL: usize = 16;

/// A number type for packed products: f32, or f64 where rounding must not change a decision.
pub(crate) trait Number: Copy + Default + Send + Sync + 'static {
    /// A SIMD vector of this type.
    type Vector<S: Simd>: Copy;

    /// Returns the number of lanes of a SIMD vector.
    fn lanes<S: Simd>() -> usize;
    /// Returns a vector with `number` in every lane.
    fn splat<S: Simd>(simd: S, number: Self) -> Self::Vector<S>;
    /// Returns `a·b + c` in every lane.
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns one row of a [panel](self) as SIMD vectors.
    fn vectors<S: Simd>(panel: &[Self; PANEL]) -> &[Self::Vector<S>];
    /// Returns one row of a [panel](self) as mutable SIMD vectors.
    fn vectors_mut<S: Simd>(panel: &mut [Self; PANEL]) -> &mut [Self::Vector<S>];
}

macro_rules! number {
    ($number:ty, $vector:ident, $lanes:ident, $splat:ident, $mul_add:ident, $as_simd:ident, $as_mut_simd:ident) => {
        impl Number for $number {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, number: Self) -> S::$vector {
                simd.$splat(number)
            }

            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
                simd.$mul_add(a, b, c)
            }

            #[inline(always)]
            fn vectors<S: Simd>(panel: &[Self; PANEL]) -> &[S::$vector] {
                S::$as_simd(panel).0
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(panel: &mut [Self; PANEL]) -> &mut [S::$vector] {
                S::$as_mut_simd(panel).0
            }
        }
    };
}

number!(f32, f32s, F32_LANES, splat_f32s, mul_add_f32s, as_simd_f32s, as_mut_simd_f32s);
number!(f64, f64s, F64_LANES, splat_f64s, mul_add_f64s, as_simd_f64s, as_mut_simd_f64s);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    fn random(rows: usize, cols: usize, seed: u64) -> Matrix {
        let mut random = Random::new(seed, 8);
        Matrix::new((0..rows * cols).map(|_| random.normal() as f32).collect(), rows, cols).unwrap()
    }

    /// Returns an inner product, the number that a test expects: summed from the first term to the last, by fused
    /// multiply-adds.
    fn sum(left: &[f32], right: impl Iterator<Item = f32>) -> f32 {
        left.iter().zip(right).fold(0.0, |sum, (&a, b)| a.mul_add(b, sum))
    }

    /// Returns whether the machine has fused multiply-add instructions, which round once as `f32::mul_add` does.
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
                    // Without fused instructions every product is rounded as well; the order does not change.
                    let close = (found.row(row)[column] - expected).abs() <= 1e-4 * depth as f32;
                    assert!(close && (found.row(row)[column] == expected || !fused()), "{rows} {depth} {columns}");
                    assert!(packed.column(column).eq(right.row(column).iter().copied()));
                }
            }
            let mut transposed = Matrix::zeros(depth, columns);
            for row in 0..depth {
                for column in 0..columns {
                    transposed.row_mut(row)[column] = right.row(column)[row];
                }
            }
            assert_eq!(Packed::of_columns(&transposed, &context).product(&left, &context).unwrap(), found);
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
