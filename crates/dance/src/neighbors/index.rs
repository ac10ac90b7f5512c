//! Points that are searched: candidates from a device, distances in f64 from the one routine that decides.

use std::cmp::Ordering;
use std::sync::Arc;

use super::distance::squared_distance;
use super::list::{Neighbors, Places, Reached};
use crate::context::Context;
use crate::device::{Asked, Device, IdLists, IndexHandle};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// Most queries of a parallel task: enough that a point it fetches serves several.
const GROUP: usize = 1024;
/// Queries of a parallel task where distances are there already.
const SORTED: usize = 64;
/// Points that are close enough in memory to need no order among them.
const BUCKET: usize = 16;

/// Points in mapped space, opened on a device.
#[derive(Clone)]
pub struct Index {
    handle: Arc<dyn IndexHandle>,
    points: Arc<Matrix>,
    /// What decides between points at the same distance; the index where there are none.
    keys: Option<Arc<Vec<f64>>>,
    /// How far every point reaches, squared.
    reach: Option<Arc<Vec<f64>>>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("points", &self.len()).finish_non_exhaustive()
    }
}

impl Index {
    /// `points` are already mapped by the metric's root.
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

    /// Ties in distance go to the smaller key, then to the lower index. One key per point.
    pub fn with_keys(mut self, keys: Vec<f64>) -> Self {
        debug_assert_eq!(keys.len(), self.len());
        self.keys = Some(Arc::new(keys));
        self
    }

    /// Says how far every point reaches: squared distances, +∞ reaches everything, a negative number nothing. Before the
    /// index is cloned.
    pub fn set_reach(&mut self, squared: Vec<f64>, context: &Context<'_>) -> Result<()> {
        let handle = Arc::get_mut(&mut self.handle)
            .ok_or_else(|| Error::Data("the reach of an index in use cannot change".into()))?;
        handle.set_reach(&squared, context)?;
        self.reach = Some(Arc::new(squared));
        Ok(())
    }

    /// The key of a point; 0 where there are none.
    pub(crate) fn key(&self, id: u32) -> f64 {
        self.keys.as_ref().map_or(0.0, |keys| keys[id as usize])
    }

    /// The points as given.
    pub fn points(&self) -> &Matrix {
        &self.points
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.rows()
    }

    /// Never: there is at least one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `k` nearest points of every query.
    pub fn search(&self, queries: &Matrix, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.search_without(queries, k, None, context)
    }

    /// The `k` nearest points of every query, without the point that `skip` names for it (itself, when a point of the
    /// index is searched leave-one-out).
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
            // A point that is skipped afterwards takes one more place.
            let wanted = k + usize::from(skip.is_some());
            let asked = self.handle.ask(queries, context)?;
            let candidates = asked.candidates(wanted, false, context)?;
            let skip = |row: usize| skip.and_then(|skip| skip[first + row]);
            found.append(self.nearest((queries, &*asked), &candidates.nearest, k, skip, context)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Neighbors of the first `count` points, each among all others.
    pub fn search_own(&self, count: usize, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        let itself: Vec<_> = (0..count as u32).map(Some).collect();
        if count == self.len() {
            return self.search_without(&self.points, k, Some(&itself), context);
        }
        let own = self.points.select(&(0..count).collect::<Vec<_>>());
        self.search_without(&own, k, Some(&itself), context)
    }

    /// The `k` nearest points of every query, and the points that have the query within their reach.
    pub fn search_both_ways(
        &self,
        queries: &Matrix,
        k: usize,
        context: &Context<'_>,
    ) -> Result<(Neighbors, Reached)> {
        let Some(reach) = &self.reach else {
            return Err(Error::Data("the index was not told how far its points reach".into()));
        };
        let (mut found, mut reached) = (Neighbors::default(), Reached::default());
        self.in_blocks(queries, k, context, |queries, _| {
            let asked = self.handle.ask(queries, context)?;
            let candidates = asked.candidates(k, true, context)?;
            // Most points that reach a query are among its nearest too: one distance serves both ways.
            let either = candidates.nearest.union(&candidates.reaching);
            let mut nearest = Neighbors::with_room(queries.rows(), k.min(self.len()));
            let mut reaching = vec![Vec::new(); queries.rows()];
            let keep =
                |_, pairs: &mut Vec<(f64, u32)>, (nearest, reaching): &mut (Places<'_>, &mut Vec<_>)| {
                    let within = pairs.iter().filter(|(squared, id)| *squared <= reach[*id as usize]);
                    **reaching = within.map(|&(squared, id)| (id, squared)).collect();
                    reaching.sort_unstable_by_key(|&(id, _)| id);
                    nearest.fill(self.first(k, pairs));
                };
            let mut places: Vec<_> = nearest.places().zip(&mut reaching).collect();
            self.distances((queries, &*asked), &either, &mut places, keep, context)?;
            found.append(nearest);
            reached.lists.extend(reaching);
            Ok(())
        })?;
        Ok((found, reached))
    }

    /// The neighbors of the first `count` points whose numbers are known, as many for each.
    pub(crate) fn named(&self, count: usize, ids: &[u32], context: &Context<'_>) -> Result<Neighbors> {
        let k = ids.len().checked_div(count).unwrap_or(0);
        let mut lists = IdLists::default();
        for row in 0..count {
            lists.push(ids[row * k..][..k].iter().copied());
        }
        let own = self.points.select(&(0..count).collect::<Vec<_>>());
        self.nearest((&own, &*self.handle.ask(&own, context)?), &lists, k, |_| None, context)
    }

    /// Does `work` on blocks of queries, and asks in between whether to go on.
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

    /// The order of neighbors: by distance, key, index.
    fn nearer(&self, a: &(f64, u32), b: &(f64, u32)) -> Ordering {
        let keys = || self.key(a.1).total_cmp(&self.key(b.1));
        a.0.total_cmp(&b.0).then_with(keys).then(a.1.cmp(&b.1))
    }

    /// The `k` nearest of each query's candidates, without the one to skip.
    fn nearest(
        &self,
        (queries, asked): (&Matrix, &dyn Asked),
        candidates: &IdLists,
        k: usize,
        skip: impl Fn(usize) -> Option<u32> + Sync + Send,
        context: &Context<'_>,
    ) -> Result<Neighbors> {
        let keep = |query, pairs: &mut Vec<(f64, u32)>, place: &mut Places<'_>| {
            if let Some(skipped) = skip(query) {
                pairs.retain(|&(_, id)| id != skipped);
            }
            place.fill(self.first(k, pairs));
        };
        let mut found = Neighbors::with_room(queries.rows(), k.min(self.len()));
        let mut places: Vec<_> = found.places().collect();
        self.distances((queries, asked), candidates, &mut places, keep, context)?;
        Ok(found)
    }

    /// The `k` nearest, in order.
    fn first<'a>(&self, k: usize, pairs: &'a mut [(f64, u32)]) -> &'a [(f64, u32)] {
        pairs.sort_unstable_by(|a, b| self.nearer(a, b));
        &pairs[..k.min(pairs.len())]
    }

    /// Lets `keep` put what it makes of every query's candidates, with their squared distances in f64, in the query's place. Where the device
    /// leaves the distances to the host, it runs through the points from end to end, so that a point is fetched from memory once for all
    /// the queries of a group that have it.
    fn distances<T: Send>(
        &self,
        (queries, asked): (&Matrix, &dyn Asked),
        candidates: &IdLists,
        places: &mut [T],
        keep: impl Fn(usize, &mut Vec<(f64, u32)>, &mut T) + Sync + Send,
        context: &Context<'_>,
    ) -> Result<()> {
        let rows = queries.rows();
        if let Some(squared) = asked.distances(candidates)? {
            let squared = (*squared).as_ref();
            let (ids, ends) = candidates.all();
            context.each_part(places, SORTED, |at, places| {
                let mut pairs = Vec::new();
                for (row, place) in (at * SORTED..).zip(places) {
                    let list = if row == 0 { 0 } else { ends[row - 1] }..ends[row];
                    pairs.clear();
                    pairs.extend(squared[list.clone()].iter().copied().zip(ids[list].iter().copied()));
                    keep(row, &mut pairs, place);
                }
            });
            return Ok(());
        }
        let threads = context.threads();
        let groups = threads * rows.div_ceil(threads * GROUP);
        let group = rows.div_ceil(groups.max(1)).max(1);
        context.each_part(places, group, |at, places| {
            let rows = at * group..at * group + places.len();
            let mut exact: Vec<Vec<(f64, u32)>> =
                rows.clone().map(|row| Vec::with_capacity(candidates.get(row).len())).collect();
            for (row, id) in self.in_order_of_points(candidates, rows.clone()) {
                let squared = squared_distance(queries.row(row as usize), self.points.row(id as usize));
                exact[row as usize - rows.start].push((squared, id));
            }
            for ((row, mut pairs), place) in rows.zip(exact).zip(places) {
                keep(row, &mut pairs, place);
            }
        });
        Ok(())
    }

    /// Pairs of a query and a candidate, sorted by buckets of the latter.
    fn in_order_of_points(&self, candidates: &IdLists, rows: std::ops::Range<usize>) -> Vec<(u32, u32)> {
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
