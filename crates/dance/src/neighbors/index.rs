//! The index of reference points. A device returns candidates, and their exact distances select the neighbors.

use super::list::{NeighborSlots, Neighbors, ReverseNeighbors};
use crate::context::Context;
use crate::device::{Device, IdLists, IndexHandle, QueryHandle};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;
use pulp::{Arch, Simd, WithSimd};
use std::cmp::Ordering;
use std::sync::Arc;

/// The largest number of queries in a parallel task: enough that a point loaded from memory serves several queries.
const GROUP: usize = 1024;
/// The number of queries in a parallel task if the device computes the distances.
const SORTED: usize = 64;
/// The number of consecutive points in a bucket. Points of one bucket are near in memory, so pairs are sorted by bucket
/// only.
const BUCKET: usize = 16;

/// Reference points, mapped by the root of the metric and loaded on a device for searches.
#[derive(Clone)]
pub struct Index {
    handle: Arc<dyn IndexHandle>,
    points: Arc<Matrix>,
    /// The keys that order points at the same distance; without keys, their indices order them.
    keys: Option<Arc<Vec<f64>>>,
    /// The reach of every point: the largest squared distance at which it is a reverse neighbor of a query.
    reach: Option<Arc<Vec<f64>>>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("points", &self.len()).finish_non_exhaustive()
    }
}

impl Index {
    /// Opens `points`, which are already mapped by the metric's root, on a device.
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

    /// Sets one key per point: ties in distance then go to the smaller key, then to the lower index.
    pub fn with_keys(mut self, keys: Vec<f64>) -> Self {
        debug_assert_eq!(keys.len(), self.len());
        self.keys = Some(Arc::new(keys));
        self
    }

    /// Sets the reach of every point: the largest squared distance at which it is a reverse neighbor of a query. With
    /// +∞ it always is, with a negative number never. Fails once the index has been cloned.
    pub fn set_reach(&mut self, squared: Vec<f64>, context: &Context<'_>) -> Result<()> {
        let handle = Arc::get_mut(&mut self.handle)
            .ok_or_else(|| Error::Data("the reach of an index in use cannot change".into()))?;
        handle.set_reach(&squared, context)?;
        self.reach = Some(Arc::new(squared));
        Ok(())
    }

    /// Returns the key of a point; 0 without keys.
    pub(crate) fn key(&self, id: u32) -> f64 {
        self.keys.as_ref().map_or(0.0, |keys| keys[id as usize])
    }

    /// Returns the points.
    pub fn points(&self) -> &Matrix {
        &self.points
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.points.rows()
    }

    /// Returns false, since an index has at least one point.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the `k` nearest points of every query.
    pub fn search(&self, queries: &Matrix, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.search_without(queries, k, None, context)
    }

    /// Returns the `k` nearest points of every query, without the point that `skip` holds for it. In a leave-one-out
    /// search of the index's own points, this is the query itself.
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
            found.append(self.nearest((queries, &*asked), &candidates.nearest, k, skip, context)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the `k` neighbors of each of the first `count` points among all other points.
    pub fn search_own(&self, count: usize, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        let itself: Vec<_> = (0..count as u32).map(Some).collect();
        if count == self.len() {
            return self.search_without(&self.points, k, Some(&itself), context);
        }
        let own = self.points.select(&(0..count).collect::<Vec<_>>());
        self.search_without(&own, k, Some(&itself), context)
    }

    /// Returns the `k` nearest points of every query, and its reverse neighbors: the points that have the query within
    /// their reach.
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
        let (mut found, mut reached) = (Neighbors::default(), ReverseNeighbors::default());
        self.in_blocks(queries, k, context, |queries, _| {
            let asked = self.handle.open_queries(queries, context)?;
            let candidates = asked.candidates(k, true, context)?;
            // Most reverse neighbors of a query are also among its nearest points, so one distance serves both
            // directions.
            let either = candidates.nearest.union(&candidates.reaching);
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
            self.distances((queries, &*asked), &either, &mut slots, keep, context)?;
            found.append(nearest);
            reached.lists.extend(reaching);
            Ok(())
        })?;
        Ok((found, reached))
    }

    /// Returns the neighbors of the first `count` points. `ids` holds the neighbors' indices, row after row, the same
    /// number for each point.
    pub(crate) fn neighbors_by_id(&self, count: usize, ids: &[u32], context: &Context<'_>) -> Result<Neighbors> {
        let k = ids.len().checked_div(count).unwrap_or(0);
        let mut lists = IdLists::default();
        for row in 0..count {
            lists.push(ids[row * k..][..k].iter().copied());
        }
        let own = self.points.select(&(0..count).collect::<Vec<_>>());
        self.nearest((&own, &*self.handle.open_queries(&own, context)?), &lists, k, |_| None, context)
    }

    /// Calls `work` on blocks of queries, with the index of the block's first query; an interruption ends the job
    /// between blocks.
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

    /// Compares neighbors by distance, key, then index.
    fn nearer(&self, a: &(f64, u32), b: &(f64, u32)) -> Ordering {
        let keys = || self.key(a.1).total_cmp(&self.key(b.1));
        a.0.total_cmp(&b.0).then_with(keys).then(a.1.cmp(&b.1))
    }

    /// Returns the `k` nearest of each query's candidates, without the point that `skip` returns for it.
    fn nearest(
        &self,
        (queries, asked): (&Matrix, &dyn QueryHandle),
        candidates: &IdLists,
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

    /// Sorts pairs of squared distance and index, and returns the `k` nearest.
    fn first<'a>(&self, k: usize, pairs: &'a mut [(f64, u32)]) -> &'a [(f64, u32)] {
        pairs.sort_unstable_by(|a, b| self.nearer(a, b));
        &pairs[..k.min(pairs.len())]
    }

    /// Computes the candidates' squared distances in f64. Calls `keep` for every query, with the query, its candidates
    /// as pairs of squared distance and index, and its entry in `results`.
    ///
    /// If the device does not return the distances, the host goes through the points in order of memory. So a point is
    /// loaded once for all queries of a group that have it as a candidate.
    fn distances<T: Send>(
        &self,
        (queries, asked): (&Matrix, &dyn QueryHandle),
        candidates: &IdLists,
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

    /// Returns all pairs of a query in `rows` and one of its candidates, sorted by the candidate's bucket.
    fn pairs_by_bucket(&self, candidates: &IdLists, rows: std::ops::Range<usize>) -> Vec<(u32, u32)> {
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

/// Returns `‖a-b‖²` in f64. The differences are summed in the same order on every machine.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    Arch::new().dispatch(SquaredDifference { a, b })
}

/// The work of [`squared_distance`]. A type, since a closure would be compiled without the vector instructions.
struct SquaredDifference<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl WithSimd for SquaredDifference<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        const LANES: usize = 32;
        let mut sums = [0.0f64; LANES];
        let (a, b) = (self.a.chunks_exact(LANES), self.b.chunks_exact(LANES));
        let rest = a.remainder().iter().zip(b.remainder());
        let rest = rest.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>();
        for (a, b) in a.zip(b) {
            for lane in 0..LANES {
                let difference = f64::from(a[lane]) - f64::from(b[lane]);
                sums[lane] += difference * difference;
            }
        }
        // Sum by halves, so that additions do not depend on each other.
        for half in [16, 8, 4, 2, 1] {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
        }
        sums[0] + rest
    }
}
