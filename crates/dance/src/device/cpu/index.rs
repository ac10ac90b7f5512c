//! Searches for nearest neighbors on the CPU, and the rounding bounds of searches on any device.
//!
//! A search ranks all points r for a query q by `‖r‖² - 2·q·r`, which is `‖q-r‖² - ‖q‖²`. One matrix product gives all
//! inner products `q·r`, in f32 and tile by tile. A [`Shortlist`] keeps the points that can be among the k nearest,
//! given the rounding error of the product. [`RoundingBound`] has a rigorous bound on this error.
//!
//! A point r may have a *reach*, the largest squared distance at which a query counts as near the point. Searches by
//! reach use the same products: a query is near r if `(‖r‖² - reach) - 2·q·r ≤ -‖q‖²`.
//!
//! Cost, for n points with d dimensions: `2·n·d` flops per query, and a few per cent more for the selection. Memory:
//! the points, packed, and one tile per thread.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{centered, check_width, mean, squared_norm, subtract};
use crate::context::Context;
use crate::device::{Candidates, IndexHandle, QueryHandle};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch};

/// The number of queries in one product. Its tile of results stays in cache until it is read.
const QUERY_TILE: usize = 96;
/// The number of points in one product: a multiple of the 16 columns in a panel of [packed
/// products](crate::numeric::packed).
const POINT_TILE: usize = 576;

/// Points that are packed for searches of neighbors.
pub(super) struct CpuIndex {
    rounding: RoundingBound,
    points: Packed,
}

impl CpuIndex {
    pub(super) fn open(points: &Matrix, context: &Context<'_>) -> Self {
        let (rounding, centered) = context.run(|| RoundingBound::of(points));
        Self { points: Packed::of_rows(centered.as_ref().unwrap_or(points), context), rounding }
    }

    /// Returns a shortlist that will collect the points among a query's `k` nearest, given rounding. `norm` is the
    /// query's squared norm after centering. The list holds all points from the start if products may overflow.
    fn nearest(&self, norm: f64, k: usize) -> Shortlist {
        let all = || Shortlist::all(self.rounding.norms.len());
        self.rounding.slack(norm).map_or_else(all, |slack| Shortlist::new(k, slack))
    }

    /// Returns a shortlist that will collect the points that can have a query within their [reach](self). `norm` is the
    /// query's squared norm after centering. The list holds all points from the start if products may overflow.
    fn reaching(&self, norm: f64) -> Shortlist {
        let all = || Shortlist::all(self.rounding.norms.len());
        self.rounding.reaching_limit(norm).map_or_else(all, Shortlist::within)
    }

    /// Returns the candidates of the queries with the indices `rows`, on one thread. With `reach`, the candidates
    /// include the points that can have the query within their [reach](self).
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
        listed(&mut nearest).union(&listed(&mut reaching))
    }
}

fn listed(lists: &mut [Shortlist]) -> Candidates {
    let mut all = Candidates::default();
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
            all.extend(tile);
        }
        Ok(all)
    }
}

/// The largest number of points whose values a shortlist compares at once.
const LANES: usize = 16;

/// The candidates of one query. The value of a point is the number by which it is ranked, such as `‖r‖² - 2·q·r` for a
/// query q and a point r.
struct Shortlist {
    /// The number of nearest points to find.
    k: usize,
    /// The bound on rounding errors: a point is a candidate if the [value](Shortlist) that ranks it is at most the k-th
    /// smallest value plus this bound.
    slack: f32,
    /// The [value](Shortlist) above which a point is not listed, because it cannot be among the k nearest.
    threshold: f32,
    /// The length above which the list is cut down to the points that can still be among the k nearest.
    full: usize,
    length: usize,
    /// The listed points. Each entry packs the [value](Shortlist) and the index of a point into one number, which sorts
    /// like the value. There is room for `LANES` entries more than `full`.
    entries: Vec<u64>,
}

impl Shortlist {
    /// Creates a list that keeps all points whose values are at most the k-th smallest value plus `slack`.
    fn new(k: usize, slack: f32) -> Self {
        let full = 2 * k.max(LANES);
        Self { k, slack, threshold: f32::INFINITY, full, length: 0, entries: vec![0; full + LANES] }
    }

    /// Creates a list that keeps all points whose values are at most `threshold`.
    fn within(threshold: f32) -> Self {
        Self { k: usize::MAX, threshold, ..Self::new(LANES, 0.0) }
    }

    /// Creates a list that holds all `n` points, for a query whose products may overflow.
    fn all(n: usize) -> Self {
        Self { k: 0, slack: 0.0, threshold: f32::NEG_INFINITY, full: n, length: n, entries: (0..n as u64).collect() }
    }

    /// Offers to the list the points whose indices begin at `start`. The value of a point is its number in `norms` less
    /// twice its number in `products`, the inner product with the query.
    fn offer(&mut self, start: u32, products: &[f32], norms: &[f32]) {
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

    /// Finds the k-th smallest value, and drops the points whose values exceed it by more than the bound on rounding
    /// errors.
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

    /// Cuts the list once more and returns the indices of the points that remain, in no order.
    fn finish(&mut self) -> impl Iterator<Item = u32> + '_ {
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

/// Packs the [value](Shortlist) and the index of a point into one number, which sorts like the value.
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

/// The bound on squared norms below which products cannot overflow f32. If a squared norm is larger, every point is a
/// candidate.
const LARGEST_NORM: f64 = 1e36;

/// The norms and [reaches](self) of an index's points, from which bounds on the rounding errors of a search follow. The
/// bounds hold for any order of summation, and so for any device.
pub(in crate::device) struct RoundingBound {
    pub(in crate::device) dimensions: usize,
    /// The mean that is subtracted from points and queries, because rounding errors grow with norms. `None` if
    /// centering would hardly make the norms smaller.
    pub(in crate::device) center: Option<Vec<f32>>,
    /// The squared norms of the centered points.
    pub(in crate::device) norms: Vec<f32>,
    largest_norm: f64,
    pub(in crate::device) reach: Option<Reach>,
}

/// The reaches of the points. The reach of a point is the largest squared distance at which a query counts as near the
/// point.
pub(in crate::device) struct Reach {
    /// The largest finite reach of a point.
    largest: f64,
    /// The squared norm of every point less the point's reach. The offset is -∞ for an infinite reach. It is +∞ for a
    /// negative reach, which no query is within.
    pub(in crate::device) offsets: Vec<f32>,
}

impl RoundingBound {
    /// Returns the bounds for a search among `points`, and the centered points; `None` if the points were not centered.
    pub(in crate::device) fn of(points: &Matrix) -> (Self, Option<Matrix>) {
        let center = mean(points);
        let rows = (0..points.rows()).into_par_iter();
        let average = rows.map(|row| squared_norm(points.row(row))).collect::<Vec<_>>().iter().sum::<f64>()
            / points.rows().max(1) as f64;
        let center = (squared_norm(&center) > 0.25 * average && average.is_finite()).then_some(center);
        let centered = center.as_ref().map(|center| centered(points, center));
        let used = centered.as_ref().unwrap_or(points);
        let norms: Vec<f64> = (0..used.rows()).into_par_iter().map(|row| squared_norm(used.row(row))).collect();
        let rounding = Self {
            dimensions: points.cols(),
            largest_norm: norms.iter().copied().fold(0.0, f64::max),
            norms: norms.iter().map(|&norm| norm as f32).collect(),
            center,
            reach: None,
        };
        (rounding, centered)
    }

    /// Sets the reach of every point: the largest squared distance at which a query counts as near the point.
    pub(in crate::device) fn set_reach(&mut self, squared: &[f64]) -> Result<()> {
        if squared.len() != self.norms.len() {
            return Err(Error::Shape {
                what: "reaches (one per point)".into(),
                expected: self.norms.len().to_string(),
                found: squared.len().to_string(),
            });
        }
        let offset = |(&norm, &reach): (&f32, &f64)| {
            if reach < 0.0 { f32::INFINITY } else { (f64::from(norm) - reach) as f32 }
        };
        let largest = squared.iter().copied().filter(|reach| reach.is_finite()).fold(0.0, f64::max);
        self.reach = Some(Reach { largest, offsets: self.norms.iter().zip(squared).map(offset).collect() });
        Ok(())
    }

    /// Returns [`Error::Data`] if a search by reach (`reaching`) was asked for before [`set_reach`](Self::set_reach).
    pub(in crate::device) fn check_reach(&self, reaching: bool) -> Result<()> {
        if reaching && self.reach.is_none() {
            return Err(Error::Data("the reaches of the index's points were not set".into()));
        }
        Ok(())
    }

    /// Returns an upper bound on twice the rounding error of `‖r‖² - 2·q·r` in f32, over all points r. The query q has
    /// the squared norm `query_norm` after centering. Returns `None` if products may overflow.
    ///
    /// With d dimensions and unit roundoff u, the bound adds up three errors. They are twice `d·u·‖q‖‖r‖` for the inner
    /// product, the error of centering q and r, and that of the last roundings.
    pub(in crate::device) fn slack(&self, query_norm: f64) -> Option<f32> {
        (query_norm.max(self.largest_norm) < LARGEST_NORM).then(|| self.error(query_norm) as f32)
    }

    /// Returns the bound that [`slack`](Self::slack) describes, in f64 and without a check for overflow.
    fn error(&self, query_norm: f64) -> f64 {
        let unit = f64::from(f32::EPSILON) / 2.0;
        let (query, point) = (query_norm.sqrt(), self.largest_norm.sqrt());
        let d = self.dimensions as f64;
        let error = unit * (2.1 * d * query * point + 8.0 * (query + point).powi(2));
        2.0 * error + d * f64::from(f32::MIN_POSITIVE)
    }

    /// Returns an upper bound on `(‖r‖² - reach) - 2·q·r` in f32, for all points r that have the query q within their
    /// [reach](self). `norm` is the query's squared norm after centering. Returns `None` if products may overflow.
    pub(in crate::device) fn reaching_limit(&self, norm: f64) -> Option<f32> {
        let largest = self.reach.as_ref().map_or(0.0, |reach| reach.largest);
        if norm.max(self.largest_norm).max(largest) >= LARGEST_NORM {
            return None;
        }
        let roundings = 4.0 * f64::from(f32::EPSILON) * (norm + self.largest_norm + largest);
        Some((self.error(norm) + roundings - norm) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

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

    /// Returns the inner product, summed by halves: the sum over each half is computed by halves again.
    fn halves(a: &[f32], b: &[f32]) -> f32 {
        match a.len() {
            0 => 0.0,
            1 => a[0] * b[0],
            n => halves(&a[..n / 2], &b[..n / 2]) + halves(&a[n / 2..], &b[n / 2..]),
        }
    }

    /// Returns an inner product in f32 by four orders of summation. A test takes them for the orders that devices may
    /// choose.
    fn products(a: &[f32], b: &[f32]) -> [f32; 4] {
        let forward = a.iter().zip(b).fold(0.0f32, |sum, (x, y)| sum + x * y);
        let backward = a.iter().zip(b).rev().fold(0.0f32, |sum, (x, y)| sum + x * y);
        let fused = a.iter().zip(b).fold(0.0f32, |sum, (x, y)| x.mul_add(*y, sum));
        [forward, backward, fused, halves(a, b)]
    }

    /// Draws points for a test that make rounding errors large. With `offset` they are far from the origin. `kind` 0
    /// draws normal numbers, 1 aligned points, and 2 points of alternating signs.
    fn nasty(kind: usize, rows: usize, d: usize, scale: f32, offset: f32, random: &mut Random) -> Matrix {
        let value = |at: usize, random: &mut Random| match kind {
            0 => random.normal() as f32,
            // Aligned: every product has the same sign, and no term cancels another.
            1 => 1.0 + 1.0 / 4096.0 + 1e-3 * random.uniform() as f32,
            // Products of alternating signs, which cancel almost entirely.
            _ => (if at.is_multiple_of(2) { 1.0 } else { -1.0 }) * (1.0 + 1e-4 * random.normal() as f32),
        };
        let values = (0..rows * d).map(|at| offset + scale * value(at % d, random)).collect();
        Matrix::new(values, rows, d).unwrap()
    }

    fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum()
    }

    /// The computed [value](Shortlist) of every point is within half the [slack](RoundingBound::slack) of the exact
    /// value. A point stays listed if its reach is exactly its squared distance to the query.
    #[test]
    fn rounding_errors_stay_within_the_bounds() {
        let mut random = Random::new(8, 8);
        let mut largest_share: f64 = 0.0;
        for (d, scale, offset) in [1, 3, 64, 700]
            .into_iter()
            .flat_map(|d| [1e-3f32, 1.0, 1e6].map(|scale| (d, scale)))
            .flat_map(|(d, scale)| [0.0f32, 1.0, 300.0].map(|far| (d, scale, far * scale)))
        {
            for kind in 0..3 {
                let points = nasty(kind, 24, d, scale, offset, &mut random);
                let queries = nasty(kind, 6, d, scale, offset, &mut random);
                let (mut rounding, moved) = RoundingBound::of(&points);
                let origin = rounding.center.clone().unwrap_or_else(|| vec![0.0; d]);
                let used = moved.as_ref().unwrap_or(&points);
                for query in 0..queries.rows() {
                    let exact: Vec<f64> =
                        (0..24).map(|row| squared_distance(points.row(row), queries.row(query))).collect();
                    rounding.set_reach(&exact).unwrap();
                    let mut own = queries.row(query).to_vec();
                    own.iter_mut().zip(&origin).for_each(|(value, center)| *value -= center);
                    let norm = squared_norm(&own);
                    let (slack, limit) = (rounding.slack(norm).unwrap(), rounding.reaching_limit(norm).unwrap());
                    let constant = squared_distance(queries.row(query), &origin);
                    for (row, exact) in exact.iter().enumerate() {
                        for product in products(used.row(row), &own) {
                            let error = f64::from(rounding.norms[row] - 2.0 * product) - (exact - constant);
                            let share = 2.0 * error.abs() / f64::from(slack);
                            largest_share = largest_share.max(share);
                            assert!(share <= 1.0, "d {d}, scale {scale}, offset {offset}, kind {kind}: {share}");
                            let reach = rounding.reach.as_ref().unwrap().offsets[row];
                            assert!(reach - 2.0 * product <= limit, "d {d}, scale {scale}, offset {offset}");
                        }
                    }
                }
            }
        }
        // The cases are hard enough to come near the bound, and a bound ten times smaller would fail.
        assert!(largest_share > 0.1, "{largest_share}");
    }
}
