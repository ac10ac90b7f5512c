//! Searches for nearest neighbors on the CPU.
//!
//! One matrix product ranks all points r for a query q, because `‖q-r‖² - ‖q‖² = ‖r‖² - 2·q·r`. It runs in f32 over
//! tiles. A bounded [`Shortlist`] keeps the points that can be among the k nearest **given the rounding error of the
//! product**, which has a rigorous bound. A point r may have a reach, the largest squared distance at which a query
//! counts as near it. Searches by reach use the same products: `‖q-r‖² ≤ reach_r` is
//! `(‖r‖² - reach_r) - 2·q·r ≤ -‖q‖²`, a comparison with one number per query.
//!
//! Cost, for n points with d dimensions: `2·n·d` flops per query, and a few per cent for the selection. Memory: the
//! points, packed, and one tile per thread.

use super::{check_width, squared_norm, subtract};
use crate::context::Context;
use crate::device::rounding::{Reach, RoundingBound};
use crate::device::{Candidates, IdLists, IndexHandle, QueryHandle};
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// The number of queries in one product. Its tile of results stays in cache until it is read.
const QUERY_TILE: usize = 96;
/// The number of points in one product, a multiple of a panel's 16 columns.
const POINT_TILE: usize = 576;

/// Points that are packed for searches.
pub(super) struct CpuIndex {
    rounding: RoundingBound,
    points: Packed,
}

impl CpuIndex {
    pub(super) fn open(points: &Matrix, context: &Context<'_>) -> Self {
        let (rounding, centered) = context.run(|| RoundingBound::of(points));
        Self { points: Packed::of_rows(centered.as_ref().unwrap_or(points), context), rounding }
    }

    /// Creates the list of a query with this squared norm for points that may be among its `k` nearest; for all points
    /// if products may overflow.
    fn nearest(&self, norm: f64, k: usize) -> Shortlist {
        let all = || Shortlist::all(self.rounding.norms.len());
        self.rounding.slack(norm).map_or_else(all, |slack| Shortlist::new(k, slack))
    }

    /// Creates the list of a query with this squared norm for points that may have it within their reach; for all
    /// points if products may overflow.
    fn reaching(&self, norm: f64) -> Shortlist {
        let all = || Shortlist::all(self.rounding.norms.len());
        self.rounding.reaching_limit(norm).map_or_else(all, Shortlist::within)
    }

    /// Returns the candidates of the queries in `rows`. Runs on one thread.
    fn tile(&self, queries: &Matrix, rows: Range<usize>, k: usize, reach: Option<&Reach>) -> Candidates {
        let (d, n, count) = (self.rounding.dimensions, self.rounding.norms.len(), rows.len());
        let mut centered = queries.as_slice()[rows.start * d..rows.end * d].to_vec();
        if let Some(center) = &self.rounding.center {
            centered.chunks_exact_mut(d).for_each(|row| subtract(row, center));
        }
        let norms: Vec<f64> = centered.chunks_exact(d).map(squared_norm).collect();
        let mut nearest: Vec<Shortlist> = norms.iter().map(|&norm| self.nearest(norm, k)).collect();
        let mut reaching: Vec<Shortlist> = match reach {
            Some(_) => norms.iter().map(|&norm| self.reaching(norm)).collect(),
            None => Vec::new(),
        };
        let mut products = vec![0.0; count * POINT_TILE.min(n)];
        let mut scratch = Scratch::default();
        for start in (0..n).step_by(POINT_TILE) {
            let width = POINT_TILE.min(n - start);
            let products = &mut products[..count * width];
            self.points.multiply(&centered, start..start + width, products, &mut scratch);
            let offer = |lists: &mut [Shortlist], levels: &[f32]| {
                for (list, products) in lists.iter_mut().zip(products.chunks_exact(width)) {
                    list.offer(start as u32, products, &levels[start..start + width]);
                }
            };
            offer(&mut nearest, &self.rounding.norms);
            if let Some(reach) = reach {
                offer(&mut reaching, &reach.offsets);
            }
        }
        Candidates { nearest: listed(&mut nearest), reaching: listed(&mut reaching) }
    }
}

fn listed(lists: &mut [Shortlist]) -> IdLists {
    let mut all = IdLists::default();
    for list in lists {
        all.push(list.finish());
    }
    all
}

impl IndexHandle for CpuIndex {
    fn set_reach(&mut self, squared: &[f64], _: &Context<'_>) -> Result<()> {
        self.rounding.set_reach(squared)
    }

    fn open_queries<'a>(&'a self, queries: &'a Matrix, _: &Context<'_>) -> Result<Box<dyn QueryHandle + 'a>> {
        check_width("queries", self.rounding.dimensions, queries.cols())?;
        Ok(Box::new(CpuQueries { index: self, queries }))
    }
}

struct CpuQueries<'a> {
    index: &'a CpuIndex,
    queries: &'a Matrix,
}

impl QueryHandle for CpuQueries<'_> {
    fn candidates(&self, k: usize, reaching: bool, context: &Context<'_>) -> Result<Candidates> {
        let rounding = &self.index.rounding;
        rounding.check_reach(reaching)?;
        let reach = rounding.reach.as_ref().filter(|_| reaching);
        let rows = self.queries.rows();
        // Every thread gets the same number of tiles. Tiles do not change the result.
        let threads = context.threads();
        let tiles = threads * rows.div_ceil(threads * QUERY_TILE);
        let tile = rows.div_ceil(tiles.max(1)).max(1);
        let tiles = context.map(rows.div_ceil(tile), |at| {
            self.index.tile(self.queries, at * tile..((at + 1) * tile).min(rows), k, reach)
        });
        let mut all = Candidates::default();
        for tile in &tiles {
            all.nearest.extend(&tile.nearest);
            all.reaching.extend(&tile.reaching);
        }
        Ok(all)
    }
}

/// The largest number of values compared at once.
const LANES: usize = 16;

/// A list of candidates for one query.
pub(super) struct Shortlist {
    /// The number of nearest points to find.
    k: usize,
    /// The rounding bound: values up to the k-th smallest plus this are kept.
    slack: f32,
    /// The largest value that is listed. Points with larger values cannot be among the k nearest.
    threshold: f32,
    /// The length at which the list is cut.
    full: usize,
    length: usize,
    /// Pairs of value and id, each packed into one number that sorts like the value. There is room for `LANES` more
    /// than `full`.
    entries: Vec<u64>,
}

impl Shortlist {
    /// Creates a list of all values up to the k-th smallest plus `slack`.
    pub(super) fn new(k: usize, slack: f32) -> Self {
        let full = 2 * k.max(LANES);
        Self { k, slack, threshold: f32::INFINITY, full, length: 0, entries: vec![0; full + LANES] }
    }

    /// Creates a list of all values up to `threshold`, however many.
    pub(super) fn within(threshold: f32) -> Self {
        Self { k: usize::MAX, threshold, ..Self::new(LANES, 0.0) }
    }

    /// Creates a list of all `n` points, for a query whose products may overflow.
    pub(super) fn all(n: usize) -> Self {
        Self { k: 0, slack: 0.0, threshold: f32::NEG_INFINITY, full: n, length: n, entries: (0..n as u64).collect() }
    }

    /// Offers the points from `start` on to the list. The value of a point is its entry of `norms` less twice its entry
    /// of `products`, the inner product with the query.
    pub(super) fn offer(&mut self, start: u32, products: &[f32], norms: &[f32]) {
        if self.threshold == f32::NEG_INFINITY {
            return;
        }
        Arch::new().dispatch(Offer { list: self, start, products, norms });
    }

    #[inline(always)]
    fn append(&mut self, first: u32, values: &[f32]) {
        let room = &mut self.entries[self.length..self.length + LANES];
        let mut taken = 0;
        for (&value, id) in values.iter().zip(first..) {
            // `taken` is at most the number of values read before, so the entry exists.
            room[taken % LANES] = entry(value, id);
            taken += usize::from(value <= self.threshold);
        }
        self.length += taken;
        if self.length > self.full {
            self.cut();
        }
    }

    /// Finds the k-th smallest value and drops entries that exceed it by more than the slack.
    #[inline(never)]
    fn cut(&mut self) {
        if self.length <= self.k {
            if self.length > self.full {
                self.make_room(self.length);
            }
            return;
        }
        let kth = *self.entries[..self.length].select_nth_unstable(self.k - 1).1;
        self.threshold = value(kth) + self.slack;
        let mut kept = self.k;
        for place in self.k..self.length {
            if value(self.entries[place]) <= self.threshold {
                self.entries[kept] = self.entries[place];
                kept += 1;
            }
        }
        self.length = kept;
        // Many values within the slack: make room, so that the next call does not cut again.
        self.make_room(kept);
    }

    fn make_room(&mut self, kept: usize) {
        self.full = self.full.max(2 * kept);
        self.entries.resize(self.full + LANES, 0);
    }

    /// Cuts the list once more and returns the ids that remain, in no order.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = u32> + '_ {
        if self.threshold != f32::NEG_INFINITY {
            self.cut();
        }
        self.entries[..self.length].iter().map(|&entry| entry as u32) // the id is in the lower half
    }
}

struct Offer<'a> {
    list: &'a mut Shortlist,
    start: u32,
    products: &'a [f32],
    norms: &'a [f32],
}

impl WithSimd for Offer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { list, start, products, norms } = self;
        let (chunks, rest) = S::as_simd_f32s(products);
        let (norm_chunks, rest_norms) = S::as_simd_f32s(norms);
        let minus_two = simd.splat_f32s(-2.0);
        let mut first = start;
        for (&products, &norms) in chunks.iter().zip(norm_chunks) {
            let values = simd.mul_add_f32s(minus_two, products, norms);
            let within = simd.less_than_or_equal_f32s(values, simd.splat_f32s(list.threshold));
            if simd.first_true_m32s(within) < S::F32_LANES {
                let mut lanes = [f32::INFINITY; LANES];
                S::as_mut_simd_f32s(&mut lanes).0[0] = values;
                list.append(first, &lanes[..S::F32_LANES]);
            }
            first += S::F32_LANES as u32;
        }
        let mut lanes = [f32::INFINITY; LANES];
        for (value, (product, norm)) in lanes.iter_mut().zip(rest.iter().zip(rest_norms)) {
            *value = norm - 2.0 * product;
        }
        list.append(first, &lanes[..rest.len()]);
    }
}

/// Packs a value and an id into one number, which sorts like the value.
#[inline(always)]
fn entry(value: f32, id: u32) -> u64 {
    let bits = value.to_bits();
    let ordered = bits ^ (((bits as i32) >> 31) as u32 | 0x8000_0000);
    (u64::from(ordered) << 32) | u64::from(id)
}

#[inline(always)]
fn value(entry: u64) -> f32 {
    let ordered = (entry >> 32) as u32;
    f32::from_bits(ordered ^ ((!ordered as i32 >> 31) as u32 | 0x8000_0000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_order_like_their_values() {
        let values = [f32::NEG_INFINITY, -3.5, -1e-20, -0.0, 0.0, 1e-20, 2.0, 7e30, f32::INFINITY];
        for pair in values.windows(2) {
            assert!(entry(pair[0], 9) < entry(pair[1], 0));
        }
        for original in values {
            assert_eq!(value(entry(original, 77)).to_bits(), original.to_bits());
        }
    }

    #[test]
    fn keeps_what_lies_within_the_slack() {
        let norms: Vec<f32> = (0..1000).map(|i| ((i * 389) % 1000) as f32).collect();
        let mut list = Shortlist::new(10, 2.0);
        for start in (0..1000).step_by(77) {
            let end = (start + 77).min(1000);
            list.offer(start as u32, &vec![0.0; end - start], &norms[start..end]);
        }
        let mut kept: Vec<f32> = list.finish().map(|id| norms[id as usize]).collect();
        kept.sort_unstable_by(f32::total_cmp);
        assert_eq!(kept, (0..12).map(|i| i as f32).collect::<Vec<_>>());
    }

    #[test]
    fn keeps_everything_within_a_fixed_threshold() {
        let norms: Vec<f32> = (0..1000).map(|i| ((i * 389) % 1000) as f32).collect();
        let mut list = Shortlist::within(700.0);
        list.offer(0, &[0.0; 1000], &norms);
        let mut kept: Vec<f32> = list.finish().map(|id| norms[id as usize]).collect();
        kept.sort_unstable_by(f32::total_cmp);
        assert_eq!(kept, (0..=700).map(|i| i as f32).collect::<Vec<_>>());
    }
}
