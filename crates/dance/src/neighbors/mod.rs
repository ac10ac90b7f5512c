//! Exact nearest neighbors in mapped space (the paper, §3.1: `N_k(Z, Z̃)`).
//!
//! `‖q-r‖² - ‖q‖² = ‖r‖² - 2·q·r`: one matrix product ranks all reference points of a query. The product runs in f32
//! over tiles, a bounded list keeps what can still be among the k nearest **given the rounding error of the
//! product** (a rigorous bound, not a guess), and only those few distances are computed again from the differences in
//! f64. So the answer is that of f64 whatever the product rounds to: duplicates of a point tie exactly, a point is at
//! distance 0 of its copies, and neither the tiles, nor the number of threads or queries, nor the device can change a
//! neighbor. Ties go to the smaller key where the reference has keys, else to the lower index.
//!
//! [`Reach`] asks the other way round in the same pass: which reference points have the query within their own reach?
//!
//! Cost: `2·n·d` flops a query and a few per cent for the selection. Memory beside the result: one tile a thread, and a
//! second copy of the reference when its mean is large beside its spread.
//!
//! ```
//! use dance::{Matrix, backend::{Backend, Cpu}, neighbors::Reference};
//! let reference = Reference::new(Matrix::new(vec![0.0, 1.0, 3.0], 3, 1)?);
//! let neighbors = Cpu::new(1)?.neighbors(&reference, &Matrix::new(vec![0.9], 1, 1)?, 2, None)?;
//! assert_eq!(neighbors.ids(0), [1, 0]);
//! # Ok::<(), dance::Error>(())
//! ```

mod candidates;
mod reach;
mod reference;

use rayon::prelude::*;

use crate::distances::squared_difference;
use crate::error::{Error, Result};
use crate::linalg;
use crate::matrix::Matrix;
use candidates::Candidates;
pub use reach::{Reach, Reached};
pub use reference::Reference;
use reference::{squared_norm, subtract};

/// Queries and reference points of one product: the tile stays in cache until it is looked at.
const QUERY_TILE: usize = 1024;
const REFERENCE_TILE: usize = 576; // a multiple of the product kernel's 96
/// Most queries a parallel task: enough that a reference point it fetches serves several.
const QUERY_GROUP: usize = 1024;
/// Reference points that are close enough in memory to need no order among them.
const BUCKET: usize = 16;
/// Beyond this squared norm, products may overflow f32 and every point is a candidate.
const LARGEST_NORM: f64 = 1e36;

/// The nearest reference points of every query, nearest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbors {
    stride: usize,
    lengths: Vec<u32>,
    ids: Vec<u32>,
    squared: Vec<f64>,
}

impl Neighbors {
    /// Number of queries.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Reference indices of the neighbors of one query; fewer than asked for when the reference has fewer.
    pub fn ids(&self, query: usize) -> &[u32] {
        &self.ids[query * self.stride..][..self.lengths[query] as usize]
    }

    /// Squared distances of the neighbors of one query.
    pub fn squared(&self, query: usize) -> &[f64] {
        &self.squared[query * self.stride..][..self.lengths[query] as usize]
    }

    /// The neighbors among two disjoint parts of a reference, from the neighbors in each part. The rows of a part, in
    /// ascending order, say where its points are in the whole.
    pub fn merge(&self, rows: &[usize], other: &Self, other_rows: &[usize], k: usize) -> Self {
        let mut merged = Self::with_room(self.len(), k.min(rows.len() + other_rows.len()));
        let stride = merged.stride;
        for query in 0..self.len() {
            let one = self
                .squared(query)
                .iter()
                .copied()
                .zip(self.ids(query).iter().map(|&id| rows[id as usize] as u32));
            let two = other.squared(query).iter().copied();
            let two = two.zip(other.ids(query).iter().map(|&id| other_rows[id as usize] as u32));
            let (mut one, mut two) = (one.peekable(), two.peekable());
            for place in 0..stride {
                let first = match (one.peek(), two.peek()) {
                    (Some(a), Some(b)) => nearer(a, b).is_le(),
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

    /// The neighbors that `ids` name, `k` of them for each of the reference's first `rows` points: distances computed, and
    /// ordered by them.
    pub(crate) fn of_first(reference: &Reference, rows: usize, ids: &[u32], k: usize) -> Self {
        let mut found = Self::with_room(rows, k);
        let outputs = found.ids.par_chunks_mut(k.max(1)).zip(found.squared.par_chunks_mut(k.max(1)));
        outputs.zip(ids.par_chunks(k.max(1))).enumerate().for_each(|(row, ((to_ids, to_squared), ids))| {
            let point = reference.points.row(row);
            let pair = |&id: &u32| (squared_difference(point, reference.points.row(id as usize)), id);
            let mut pairs: Vec<_> = ids.iter().map(pair).collect();
            pairs.sort_unstable_by(|a, b| reference.nearer(a, b));
            for (&(squared, id), (to_id, to_squared)) in pairs.iter().zip(to_ids.iter_mut().zip(to_squared)) {
                (*to_id, *to_squared) = (id, squared);
            }
        });
        found.lengths.fill(k as u32);
        found
    }

    /// Reference indices of all queries, each with as many neighbors as any other; and that number.
    pub(crate) fn table(&self) -> (Vec<u32>, usize) {
        let columns = self.lengths.first().map_or(0, |&length| length as usize);
        ((0..self.len()).flat_map(|query| self.ids(query)).copied().collect(), columns)
    }

    /// The neighbors of some of the queries.
    pub fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self::with_room(queries.len(), self.stride);
        for (place, &query) in queries.iter().enumerate() {
            let (from, to) = (query * self.stride, place * self.stride);
            selected.ids[to..to + self.stride].copy_from_slice(&self.ids[from..from + self.stride]);
            selected.squared[to..to + self.stride].copy_from_slice(&self.squared[from..from + self.stride]);
            selected.lengths[place] = self.lengths[query];
        }
        selected
    }

    /// Appends further queries, asked of the same reference for as many neighbors.
    pub fn append(&mut self, other: &Self) {
        if self.is_empty() {
            self.stride = other.stride;
        }
        debug_assert!(other.is_empty() || other.stride == self.stride);
        self.lengths.extend_from_slice(&other.lengths);
        self.ids.extend_from_slice(&other.ids);
        self.squared.extend_from_slice(&other.squared);
    }

    fn with_room(queries: usize, stride: usize) -> Self {
        let room = queries * stride;
        Self { stride, lengths: vec![0; queries], ids: vec![0; room], squared: vec![0.0; room] }
    }
}

/// The order of neighbors: by distance, then by reference index.
fn nearer(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// The `k` nearest points of every query, without the reference point that `skip` names for it (itself, when a
/// reference point is searched leave-one-out). With `reach`, also the reference points that have the query within theirs.
/// Runs on the pool it is called in.
pub(crate) fn search(
    reference: &Reference,
    queries: &Matrix,
    k: usize,
    skip: Option<&[Option<u32>]>,
    reach: Option<&Reach>,
) -> Result<(Neighbors, Reached)> {
    check(reference, queries, k, skip)?;
    let k = k.min(reference.len());
    let mut found = Neighbors::with_room(queries.rows(), k);
    let stride = found.stride;
    // Every thread gets as many groups as any other; they do not change the result.
    let threads = rayon::current_num_threads();
    let groups = threads * queries.rows().div_ceil(threads * QUERY_GROUP);
    let group = queries.rows().div_ceil(groups.max(1)).max(1);
    let outputs = found.lengths.par_chunks_mut(group);
    let outputs = outputs
        .zip(found.ids.par_chunks_mut(group * stride))
        .zip(found.squared.par_chunks_mut(group * stride));
    let reached = outputs.enumerate().with_max_len(1).map(|(index, ((lengths, ids), squared))| {
        let first = index * group;
        let rows = first..first + lengths.len();
        let (mut lists, mut reaching) = candidates_of(reference, queries, rows, k, skip, reach);
        let mut exact = exact_distances(reference, queries, first, &mut lists);
        let outputs = lengths.iter_mut().zip(ids.chunks_mut(stride)).zip(squared.chunks_mut(stride));
        for ((row, exact), ((length, ids), squared)) in (first..).zip(&mut exact).zip(outputs) {
            if let Some(skipped) = skip.and_then(|skip| skip[row]) {
                exact.retain(|&(_, id)| id != skipped);
            }
            exact.sort_unstable_by(|a, b| reference.nearer(a, b));
            exact.truncate(k);
            *length = exact.len() as u32;
            for ((&mut (distance, id), to_id), to_squared) in exact.iter_mut().zip(ids).zip(squared) {
                (*to_id, *to_squared) = (id, distance);
            }
        }
        let reaching = exact_distances(reference, queries, first, &mut reaching);
        reach.map_or_else(Vec::new, |reach| reaching.into_iter().map(|pairs| reach.keep(pairs)).collect())
    });
    let reached: Vec<Vec<_>> = reached.collect();
    Ok((found, Reached::new(reached.into_iter().flatten().collect())))
}

/// What can be among the k nearest of each of the queries in `rows`, and what can reach it, by their products.
fn candidates_of(
    reference: &Reference,
    queries: &Matrix,
    rows: std::ops::Range<usize>,
    k: usize,
    skip: Option<&[Option<u32>]>,
    reach: Option<&Reach>,
) -> (Vec<Candidates>, Vec<Candidates>) {
    let (d, n) = (queries.cols(), reference.len());
    let mut moved = queries.as_slice()[rows.start * d..rows.end * d].to_vec();
    if let Some(center) = &reference.center {
        moved.chunks_exact_mut(d).for_each(|row| subtract(row, center));
    }
    let points = reference.moved.as_ref().unwrap_or(&reference.points);
    let norms: Vec<f64> = moved.chunks_exact(d).map(squared_norm).collect();
    let mut reaching: Vec<Candidates> = match reach {
        Some(reach) => norms.iter().map(|&norm| reach.candidates(reference, norm)).collect(),
        None => Vec::new(),
    };
    let mut lists: Vec<Candidates> = rows
        .zip(norms)
        .map(|(row, norm)| {
            // A point that is skipped afterwards takes one more place here.
            let wanted = k + usize::from(skip.is_some_and(|skip| skip[row].is_some()));
            if norm.max(reference.largest_norm) < LARGEST_NORM {
                Candidates::new(wanted, reference.slack(norm) as f32)
            } else {
                Candidates::all(n)
            }
        })
        .collect();
    let mut products = vec![0.0; QUERY_TILE.min(lists.len()) * REFERENCE_TILE.min(n)];
    for start in (0..n).step_by(REFERENCE_TILE) {
        let width = REFERENCE_TILE.min(n - start);
        let right = linalg::view(points).subrows(start, width);
        let norms = &reference.norms[start..start + width];
        let mut reaching = reaching.chunks_mut(QUERY_TILE);
        for (lists, moved) in lists.chunks_mut(QUERY_TILE).zip(moved.chunks(QUERY_TILE * d)) {
            let left = linalg::row_major(moved, lists.len(), d);
            let products = &mut products[..lists.len() * width];
            linalg::gemm(
                linalg::row_major_mut(products, lists.len(), width),
                false,
                left,
                right.transpose(),
                1.0,
            );
            for (list, products) in lists.iter_mut().zip(products.chunks_exact(width)) {
                list.offer(start as u32, products, norms);
            }
            if let (Some(reach), Some(reaching)) = (reach, reaching.next()) {
                let offsets = &reach.offsets[start..start + width];
                for (list, products) in reaching.iter_mut().zip(products.chunks_exact(width)) {
                    list.offer(start as u32, products, offsets);
                }
            }
        }
    }
    (lists, reaching)
}

/// `(squared distance in f64, id)` of every candidate of every query. Runs through the reference from end to end, so that
/// a point is fetched from memory once for all the queries that have it.
fn exact_distances(
    reference: &Reference,
    queries: &Matrix,
    first: usize,
    lists: &mut [Candidates],
) -> Vec<Vec<(f64, u32)>> {
    let mut ends = vec![0usize; reference.len().div_ceil(BUCKET) + 1];
    for list in &mut *lists {
        for &entry in list.finish() {
            ends[entry as u32 as usize / BUCKET + 1] += 1;
        }
    }
    for bucket in 1..ends.len() {
        ends[bucket] += ends[bucket - 1];
    }
    let mut pairs = vec![(0u32, 0u32); ends.last().copied().unwrap_or(0)];
    for (query, list) in lists.iter_mut().enumerate() {
        for &entry in list.finish() {
            let place = &mut ends[entry as u32 as usize / BUCKET];
            pairs[*place] = (query as u32, entry as u32);
            *place += 1;
        }
    }
    let mut exact: Vec<_> = lists.iter_mut().map(|list| Vec::with_capacity(list.finish().len())).collect();
    for (query, id) in pairs {
        let (query, point) = (query as usize, reference.points.row(id as usize));
        exact[query].push((squared_difference(queries.row(first + query), point), id));
    }
    exact
}

fn check(reference: &Reference, queries: &Matrix, k: usize, skip: Option<&[Option<u32>]>) -> Result<()> {
    if k == 0 {
        return Err(Error::config("number of neighbors", k, "at least 1"));
    }
    if reference.is_empty() || reference.points.cols() == 0 {
        return Err(Error::Data("there are no reference points to search".into()));
    }
    if u32::try_from(reference.len()).is_err() {
        return Err(Error::Data(format!("{} reference points are more than 2³² - 1", reference.len())));
    }
    if queries.cols() != reference.points.cols() {
        return Err(Error::Shape {
            what: "dimensions of the queries".into(),
            expected: reference.points.cols().to_string(),
            found: queries.cols().to_string(),
        });
    }
    match skip {
        Some(skip) if skip.len() != queries.rows() => Err(Error::Shape {
            what: "points to skip (one a query)".into(),
            expected: queries.rows().to_string(),
            found: skip.len().to_string(),
        }),
        _ => Ok(()),
    }
}
