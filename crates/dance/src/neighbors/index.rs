//! The index of reference points, among which neighbors are searched, and the neighbors that it finds. A device returns
//! candidates, and the candidates' distances in f64 select the neighbors.

use std::cmp::Ordering;
use std::sync::Arc;

use super::squared_distance;
use crate::context::Context;
use crate::device::{Candidates, Device, IndexHandle, QueryHandle};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The largest number of queries in a parallel task: enough that a point loaded from memory serves several queries.
const GROUP: usize = 1024;
/// The number of queries in a parallel task if the device has computed the distances.
const SORTED: usize = 64;
/// The number of consecutive points in a bucket. The points of a bucket are near each other in memory. So pairs of a
/// query and a candidate are sorted by bucket only, and not by point.
const BUCKET: usize = 16;

/// Reference points, among which neighbors are searched. They are mapped by the root of the metric, and loaded on a
/// device.
#[derive(Clone)]
pub struct Index {
    handle: Arc<dyn IndexHandle>,
    points: Arc<Matrix>,
    /// One key per point, if the caller has set keys. Of points at the same distance, the one with the smallest key
    /// comes first.
    keys: Option<Arc<Vec<f64>>>,
    /// The reach of every point: the largest squared distance to a query at which the point is a reverse neighbor of
    /// the query.
    reach: Option<Arc<Vec<f64>>>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("points", &self.len()).finish_non_exhaustive()
    }
}

impl Index {
    /// Opens `points` on a device. The root of the metric must have mapped the points already. Fails with
    /// [`Error::Data`] if there are no points, or 2³² or more.
    pub fn open(device: &dyn Device, points: Matrix, context: &Context<'_>) -> Result<Self> {
        if points.rows() == 0 || points.cols() == 0 {
            return Err(Error::Data("there are no reference points to search".into()));
        }
        if u32::try_from(points.rows()).is_err() {
            return Err(Error::Data(format!("{} reference points are more than 2³² - 1", points.rows())));
        }
        let handle = Arc::from(device.open_index(&points, context)?);
        Ok(Self { handle, points: Arc::new(points), keys: None, reach: None })
    }

    /// Sets one key per point. Of points at the same distance, the point with the smaller key then comes first. If the
    /// keys are equal too, the point with the lower index comes first.
    pub fn with_keys(mut self, keys: Vec<f64>) -> Self {
        debug_assert_eq!(keys.len(), self.len());
        self.keys = Some(Arc::new(keys));
        self
    }

    /// Sets the reach of every point: the largest squared distance to a query at which the point is a reverse neighbor
    /// of the query. With +∞ the point is a reverse neighbor of every query, with a negative number of none. Fails with
    /// [`Error::Data`] if the index has clones.
    pub fn set_reach(&mut self, squared: Vec<f64>, context: &Context<'_>) -> Result<()> {
        let handle = Arc::get_mut(&mut self.handle)
            .ok_or_else(|| Error::Data("the reach of an index in use cannot change".into()))?;
        handle.set_reach(&squared, context)?;
        self.reach = Some(Arc::new(squared));
        Ok(())
    }

    /// Returns the key of the point with the index `id`, which decides between points at the same distance. Returns 0
    /// if the index has no keys.
    pub(crate) fn key(&self, id: u32) -> f64 {
        self.keys.as_ref().map_or(0.0, |keys| keys[id as usize])
    }

    /// Returns the reference points.
    pub fn points(&self) -> &Matrix {
        &self.points
    }

    /// Returns the number of reference points.
    pub fn len(&self) -> usize {
        self.points.rows()
    }

    /// Returns false, since an index has at least one point.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the `k` nearest reference points of every query.
    pub fn search(&self, queries: &Matrix, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.search_without(queries, k, None, context)
    }

    /// Returns the `k` nearest reference points of every query, except the point to skip. For each query, `skip` holds
    /// the index of this point, or `None`. With the index's own points as queries, the point to skip is the query
    /// itself.
    pub fn search_without(
        &self,
        queries: &Matrix,
        k: usize,
        skip: Option<&[Option<u32>]>,
        context: &Context<'_>,
    ) -> Result<Neighbors> {
        if let Some(skip) = skip.filter(|skip| skip.len() != queries.rows()) {
            return Err(Error::Shape {
                what: "points to skip (one per query)".into(),
                expected: queries.rows().to_string(),
                found: skip.len().to_string(),
            });
        }
        let mut found = Neighbors::default();
        self.in_blocks(queries, k, context, |queries, first| {
            // One more candidate replaces a skipped point.
            let wanted = k + usize::from(skip.is_some());
            let asked = self.handle.open_queries(queries, context)?;
            let candidates = asked.candidates(wanted, false, context)?;
            let skip = |row: usize| skip.and_then(|skip| skip[first + row]);
            found.append(self.nearest((queries, &*asked), &candidates, k, skip, context)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the `k` nearest neighbors of each of the first `count` points, among all other points of the index.
    pub fn search_own(&self, count: usize, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        let itself: Vec<_> = (0..count as u32).map(Some).collect();
        if count == self.len() {
            return self.search_without(&self.points, k, Some(&itself), context);
        }
        let own = self.points.select(&(0..count).collect::<Vec<_>>());
        self.search_without(&own, k, Some(&itself), context)
    }

    /// Returns the `k` nearest points of every query, and the reverse neighbors of every query. Reverse neighbors are
    /// the points that have the query within their reach, as pairs of index (ascending) and squared distance. Fails
    /// with [`Error::Data`] if [`set_reach`](Self::set_reach) was not called before.
    pub fn search_both_ways(
        &self,
        queries: &Matrix,
        k: usize,
        context: &Context<'_>,
    ) -> Result<(Neighbors, ReverseNeighbors)> {
        let Some(reach) = &self.reach else {
            return Err(Error::Data(
                "a search for reverse neighbors needs the reach of the points; set it first".into(),
            ));
        };
        let (mut found, mut reached) = (Neighbors::default(), ReverseNeighbors::new());
        self.in_blocks(queries, k, context, |queries, _| {
            let asked = self.handle.open_queries(queries, context)?;
            let candidates = asked.candidates(k, true, context)?;
            let mut nearest = Neighbors::with_capacity(queries.rows(), k.min(self.len()));
            let mut reaching = vec![Vec::new(); queries.rows()];
            // From the candidates of a query, take the reverse neighbors, sorted by index, and the nearest, sorted by
            // distance.
            let keep = |_, pairs: &mut Vec<(f64, u32)>, (nearest, reaching): &mut (NeighborSlots<'_>, &mut Vec<_>)| {
                let within = pairs.iter().filter(|(squared, id)| *squared <= reach[*id as usize]);
                **reaching = within.map(|&(squared, id)| (id, squared)).collect();
                reaching.sort_unstable_by_key(|&(id, _)| id);
                nearest.fill(self.first(k, pairs));
            };
            let mut slots: Vec<_> = nearest.slots().zip(&mut reaching).collect();
            self.distances((queries, &*asked), &candidates, &mut slots, keep, context)?;
            found.append(nearest);
            reached.extend(reaching);
            Ok(())
        })?;
        Ok((found, reached))
    }

    /// Returns the neighbors of the first `count` points, from the known indices of these neighbors. Only the distances
    /// are computed. `ids` holds the neighbors' indices, point after point, the same number for each point.
    pub(crate) fn neighbors_by_id(&self, count: usize, ids: &[u32], context: &Context<'_>) -> Result<Neighbors> {
        let k = ids.len().checked_div(count).unwrap_or(0);
        let mut lists = Candidates::default();
        for row in 0..count {
            lists.push(ids[row * k..][..k].iter().copied());
        }
        let own = self.points.select(&(0..count).collect::<Vec<_>>());
        self.nearest((&own, &*self.handle.open_queries(&own, context)?), &lists, k, |_| None, context)
    }

    /// Calls `work` on one block of queries after the other, with the index of the block's first query. An interruption
    /// ends the search between blocks.
    fn in_blocks(
        &self,
        queries: &Matrix,
        k: usize,
        context: &Context<'_>,
        mut work: impl FnMut(&Matrix, usize) -> Result<()>,
    ) -> Result<()> {
        if k == 0 {
            return Err(Error::config("number of neighbors", k, "at least 1"));
        }
        if queries.cols() != self.points.cols() {
            return Err(Error::Shape {
                what: "dimensions of the queries".into(),
                expected: self.points.cols().to_string(),
                found: queries.cols().to_string(),
            });
        }
        let block = self.handle.block();
        if queries.rows() <= block {
            return work(queries, 0);
        }
        for first in (0..queries.rows()).step_by(block) {
            context.check()?;
            let rows: Vec<usize> = (first..queries.rows().min(first + block)).collect();
            work(&queries.select(&rows), first)?;
        }
        Ok(())
    }

    /// Compares two points, each a pair of squared distance and index: by distance, then by key, then by index.
    fn nearer(&self, a: &(f64, u32), b: &(f64, u32)) -> Ordering {
        let keys = || self.key(a.1).total_cmp(&self.key(b.1));
        a.0.total_cmp(&b.0).then_with(keys).then(a.1.cmp(&b.1))
    }

    /// Returns the `k` nearest of each query's candidates, except the point whose index `skip` returns for the query.
    fn nearest(
        &self,
        (queries, asked): (&Matrix, &dyn QueryHandle),
        candidates: &Candidates,
        k: usize,
        skip: impl Fn(usize) -> Option<u32> + Sync + Send,
        context: &Context<'_>,
    ) -> Result<Neighbors> {
        let keep = |query, pairs: &mut Vec<(f64, u32)>, slots: &mut NeighborSlots<'_>| {
            if let Some(skipped) = skip(query) {
                pairs.retain(|&(_, id)| id != skipped);
            }
            slots.fill(self.first(k, pairs));
        };
        let mut found = Neighbors::with_capacity(queries.rows(), k.min(self.len()));
        let mut slots: Vec<_> = found.slots().collect();
        self.distances((queries, asked), candidates, &mut slots, keep, context)?;
        Ok(found)
    }

    /// Sorts points, each a pair of squared distance and index, and returns the `k` nearest.
    fn first<'a>(&self, k: usize, pairs: &'a mut [(f64, u32)]) -> &'a [(f64, u32)] {
        pairs.sort_unstable_by(|a, b| self.nearer(a, b));
        &pairs[..k.min(pairs.len())]
    }

    /// Computes the candidates' squared distances in f64. For every query, `keep` is called with the query's index, the
    /// candidates as pairs of squared distance and index, and the query's entry in `results`.
    ///
    /// If the device does not return the distances, the host goes through the points in order of memory. So a point is
    /// loaded once for all queries of a group that have it as a candidate.
    fn distances<T: Send>(
        &self,
        (queries, asked): (&Matrix, &dyn QueryHandle),
        candidates: &Candidates,
        results: &mut [T],
        keep: impl Fn(usize, &mut Vec<(f64, u32)>, &mut T) + Sync + Send,
        context: &Context<'_>,
    ) -> Result<()> {
        let rows = queries.rows();
        // The device has computed the distances.
        if let Some(squared) = asked.distances(candidates)? {
            let squared = (*squared).as_ref();
            let (ids, ends) = candidates.all();
            context.each_part(results, SORTED, |at, results| {
                let mut pairs = Vec::new();
                for (row, result) in (at * SORTED..).zip(results) {
                    let list = if row == 0 { 0 } else { ends[row - 1] }..ends[row];
                    pairs.clear();
                    pairs.extend(squared[list.clone()].iter().copied().zip(ids[list].iter().copied()));
                    keep(row, &mut pairs, result);
                }
            });
            return Ok(());
        }
        // The host computes them, for one group of queries per task.
        let threads = context.threads();
        let groups = threads * rows.div_ceil(threads * GROUP);
        let group = rows.div_ceil(groups.max(1)).max(1);
        context.each_part(results, group, |at, results| {
            let rows = at * group..at * group + results.len();
            let mut exact: Vec<Vec<(f64, u32)>> =
                rows.clone().map(|row| Vec::with_capacity(candidates.get(row).len())).collect();
            for (row, id) in self.pairs_by_bucket(candidates, rows.clone()) {
                let squared = squared_distance(queries.row(row as usize), self.points.row(id as usize));
                exact[row as usize - rows.start].push((squared, id));
            }
            for ((row, mut pairs), result) in rows.zip(exact).zip(results) {
                keep(row, &mut pairs, result);
            }
        });
        Ok(())
    }

    /// Returns all pairs of a query with an index in `rows` and one of the query's candidates. The pairs are sorted by
    /// bucket: the [`BUCKET`] consecutive points to which the candidate belongs.
    fn pairs_by_bucket(&self, candidates: &Candidates, rows: std::ops::Range<usize>) -> Vec<(u32, u32)> {
        let mut ends = vec![0usize; self.len().div_ceil(BUCKET) + 1];
        for row in rows.clone() {
            for &id in candidates.get(row) {
                ends[id as usize / BUCKET + 1] += 1;
            }
        }
        for bucket in 1..ends.len() {
            ends[bucket] += ends[bucket - 1];
        }
        let mut pairs = vec![(0u32, 0u32); ends.last().copied().unwrap_or(0)];
        for row in rows {
            for &id in candidates.get(row) {
                let place = &mut ends[id as usize / BUCKET];
                pairs[*place] = (row as u32, id);
                *place += 1;
            }
        }
        pairs
    }
}

/// The reverse neighbors of every query: the points that have the query within their reach. Each is a pair of index
/// (ascending) and squared distance.
pub(crate) type ReverseNeighbors = Vec<Vec<(u32, f64)>>;

/// The nearest reference points of every query, nearest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbors {
    /// The number of entries that every query has in `ids` and `squared`. Entries may be unused, if a query has fewer
    /// neighbors.
    stride: usize,
    /// The number of neighbors of every query, at most `stride`.
    lengths: Vec<u32>,
    ids: Vec<u32>,
    squared: Vec<f64>,
}

impl Neighbors {
    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns the indices of the reference points that are a query's neighbors, nearest first. There are as many as
    /// were searched for, or all reference points if they are fewer.
    pub fn ids(&self, query: usize) -> &[u32] {
        &self.ids[query * self.stride..][..self.lengths[query] as usize]
    }

    /// Returns the squared distances of a query to its neighbors, ascending.
    pub fn squared(&self, query: usize) -> &[f64] {
        &self.squared[query * self.stride..][..self.lengths[query] as usize]
    }

    /// Merges neighbors that were found for the same queries in two disjoint sets of points. Returns the `k` nearest
    /// neighbors of every query among the points of both sets. The indices in the result count the points of both sets.
    /// `rows` holds these indices for the points of `self`, and `other_rows` for the points of `other`, both ascending.
    pub(crate) fn merge(&self, rows: &[usize], other: &Self, other_rows: &[usize], k: usize) -> Self {
        let mut merged = Self::with_capacity(self.len(), k.min(rows.len() + other_rows.len()));
        let stride = merged.stride;
        for query in 0..self.len() {
            let one =
                self.squared(query).iter().copied().zip(self.ids(query).iter().map(|&id| rows[id as usize] as u32));
            let two = other.squared(query).iter().copied();
            let two = two.zip(other.ids(query).iter().map(|&id| other_rows[id as usize] as u32));
            let (mut one, mut two) = (one.peekable(), two.peekable());
            for place in 0..stride {
                let first = match (one.peek(), two.peek()) {
                    (Some(a), Some(b)) => a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_le(),
                    (a, _) => a.is_some(),
                };
                let Some((squared, id)) = (if first { one.next() } else { two.next() }) else { break };
                merged.squared[query * stride + place] = squared;
                merged.ids[query * stride + place] = id;
                merged.lengths[query] += 1;
            }
        }
        merged
    }

    /// Returns the indices of all neighbors among the reference points, query after query, and the number of neighbors
    /// per query. All queries must have the same number of neighbors.
    pub(crate) fn table(&self) -> (Vec<u32>, usize) {
        let columns = self.lengths.first().map_or(0, |&length| length as usize);
        ((0..self.len()).flat_map(|query| self.ids(query)).copied().collect(), columns)
    }

    /// Appends the neighbors of further queries. They must come from the same reference points, and every query must
    /// have the same number of neighbors.
    pub(crate) fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        debug_assert!(other.is_empty() || other.stride == self.stride);
        self.lengths.extend_from_slice(&other.lengths);
        self.ids.extend_from_slice(&other.ids);
        self.squared.extend_from_slice(&other.squared);
    }

    /// Returns the room for each query's neighbors, one query after the other, so that the neighbors can be written
    /// there.
    fn slots(&mut self) -> impl Iterator<Item = NeighborSlots<'_>> {
        let stride = self.stride.max(1);
        let lists = self.ids.chunks_mut(stride).zip(self.squared.chunks_mut(stride));
        self.lengths.iter_mut().zip(lists).map(|(length, (ids, squared))| NeighborSlots { length, ids, squared })
    }

    /// Creates empty lists for `queries` queries, with room for `stride` neighbors each.
    fn with_capacity(queries: usize, stride: usize) -> Self {
        let slots = queries * stride;
        Self { stride, lengths: vec![0; queries], ids: vec![0; slots], squared: vec![0.0; slots] }
    }
}

/// The room for one query's neighbors in [`Neighbors`].
struct NeighborSlots<'a> {
    length: &'a mut u32,
    ids: &'a mut [u32],
    squared: &'a mut [f64],
}

impl NeighborSlots<'_> {
    /// Writes one query's neighbors, which are pairs of squared distance and index, nearest first. There must be room
    /// for all of them.
    fn fill(&mut self, pairs: &[(f64, u32)]) {
        *self.length = pairs.len() as u32;
        for ((id, squared), pair) in self.ids.iter_mut().zip(self.squared.iter_mut()).zip(pairs) {
            (*squared, *id) = *pair;
        }
    }
}
