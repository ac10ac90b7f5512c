//! Searches on the CPU.
//!
//! One matrix product ranks all points of a query, because `‖q-r‖² - ‖q‖² = ‖r‖² - 2·q·r`. It runs in f32 over tiles. A
//! bounded [`Shortlist`] keeps the points that can be among the k nearest **given the rounding error of the product**,
//! which has a rigorous bound. Searches by reach use the same products: `‖q-r‖² ≤ reach_r` is
//! `(‖r‖² - reach_r) - 2·q·r ≤ -‖q‖²`, a comparison with one number per query.
//!
//! Cost: `2·n·d` flops per query and a few per cent for the selection. Memory: the points, packed, and one tile per
//! thread.

use std::ops::Range;

use super::shortlist::Shortlist;
use super::{check_width, squared_norm, subtract};
use crate::context::Context;
use crate::device::rounding::{Reach, RoundingBound};
use crate::device::{Asked, Candidates, IdLists, IndexHandle};
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch};

/// Queries and points of one product, whose tile stays in cache until it is read.
const QUERY_TILE: usize = 96;
const POINT_TILE: usize = 576; // a multiple of a panel's 16

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

    /// Returns a list for the points within the rounding bound of the nearest ones, or for all.
    fn nearest(&self, norm: f64, k: usize) -> Shortlist {
        let all = || Shortlist::all(self.rounding.norms.len());
        self.rounding.slack(norm).map_or_else(all, |slack| Shortlist::new(k, slack))
    }

    /// Returns a list for the points that can reach a query of this squared norm after centering.
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

    fn ask<'a>(&'a self, queries: &'a Matrix, _: &Context<'_>) -> Result<Box<dyn Asked + 'a>> {
        check_width("queries", self.rounding.dimensions, queries.cols())?;
        Ok(Box::new(CpuQueries { index: self, queries }))
    }
}

struct CpuQueries<'a> {
    index: &'a CpuIndex,
    queries: &'a Matrix,
}

impl Asked for CpuQueries<'_> {
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
