//! Points to be searched on the CPU.
//!
//! `‖q-r‖² - ‖q‖² = ‖r‖² - 2·q·r`: one matrix product ranks all points of a query. The product runs in f32 over tiles, and a
//! bounded [`Shortlist`] keeps what can still be among the k nearest **given the rounding error of the product**: a rigorous
//! bound, not a guess. The other way round, `‖q-r‖² ≤ reach_r` is `(‖r‖² - reach_r) - 2·q·r ≤ -‖q‖²`: the same products,
//! compared with one number per query.
//!
//! Cost: `2·n·d` flops per query and a few per cent for the selection. Memory: the points, packed, and one tile per thread.

use std::ops::Range;

use rayon::prelude::*;

use super::packed::{Packed, Scratch};
use super::shortlist::Shortlist;
use super::{check_width, mean, squared_norm, subtract};
use crate::context::Context;
use crate::device::{Candidates, IdLists, IndexHandle};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Queries of one product, and points: the tile stays in cache until it is looked at.
const QUERY_TILE: usize = 96;
const POINT_TILE: usize = 576; // a multiple of a panel's 16
/// Beyond this squared norm, products may overflow f32 and every point is a candidate.
const LARGEST_NORM: f64 = 1e36;

pub(super) struct CpuIndex {
    dimensions: usize,
    /// What the points were moved by, when that makes them much shorter: rounding errors shrink with the norms.
    center: Option<Vec<f32>>,
    points: Packed,
    /// Squared norms of the (moved) points.
    norms: Vec<f32>,
    largest_norm: f64,
    reach: Option<Reach>,
}

struct Reach {
    /// The largest finite one, squared.
    largest: f64,
    /// `‖r‖² - reach_r`; -∞ reaches everything, +∞ nothing.
    offsets: Vec<f32>,
}

impl CpuIndex {
    pub(super) fn open(points: &Matrix) -> Self {
        let center = mean(points);
        let rows = (0..points.rows()).into_par_iter();
        let average = rows.map(|row| squared_norm(points.row(row))).collect::<Vec<_>>().iter().sum::<f64>()
            / points.rows().max(1) as f64;
        let center = (squared_norm(&center) > 0.25 * average && average.is_finite()).then_some(center);
        let moved = center.as_ref().map(|center| super::moved(points, center));
        let used = moved.as_ref().unwrap_or(points);
        let norms: Vec<f64> =
            (0..used.rows()).into_par_iter().map(|row| squared_norm(used.row(row))).collect();
        Self {
            dimensions: points.cols(),
            largest_norm: norms.iter().copied().fold(0.0, f64::max),
            norms: norms.iter().map(|&norm| norm as f32).collect(),
            points: Packed::of_rows(used),
            center,
            reach: None,
        }
    }

    /// An upper bound on twice the error of `‖r‖² - 2·q·r` as computed, for a query of the given squared norm: the dot
    /// product (`d·u·‖q‖‖r‖`, doubled), the moving of both points, and the last roundings.
    fn slack(&self, query_norm: f64) -> f64 {
        let unit = f64::from(f32::EPSILON) / 2.0;
        let (query, point) = (query_norm.sqrt(), self.largest_norm.sqrt());
        let d = self.dimensions as f64;
        let error = unit * (2.1 * d * query * point + 8.0 * (query + point).powi(2));
        2.0 * error + d * f64::from(f32::MIN_POSITIVE)
    }

    /// A list for the nearest points of a query of this (moved) squared norm.
    fn nearest(&self, norm: f64, k: usize) -> Shortlist {
        if norm.max(self.largest_norm) < LARGEST_NORM {
            Shortlist::new(k, self.slack(norm) as f32)
        } else {
            Shortlist::all(self.norms.len())
        }
    }

    /// A list for what can reach a query of this (moved) squared norm.
    fn reaching(&self, reach: &Reach, norm: f64) -> Shortlist {
        if norm.max(self.largest_norm).max(reach.largest) >= LARGEST_NORM {
            return Shortlist::all(self.norms.len());
        }
        let roundings = 4.0 * f64::from(f32::EPSILON) * (norm + self.largest_norm + reach.largest);
        Shortlist::within((self.slack(norm) + roundings - norm) as f32)
    }

    /// The candidates of the queries in `rows`, on one thread.
    fn tile(&self, queries: &Matrix, rows: Range<usize>, k: usize, reach: Option<&Reach>) -> Candidates {
        let (d, n, count) = (self.dimensions, self.norms.len(), rows.len());
        let mut moved = queries.as_slice()[rows.start * d..rows.end * d].to_vec();
        if let Some(center) = &self.center {
            moved.chunks_exact_mut(d).for_each(|row| subtract(row, center));
        }
        let norms: Vec<f64> = moved.chunks_exact(d).map(squared_norm).collect();
        let mut nearest: Vec<Shortlist> = norms.iter().map(|&norm| self.nearest(norm, k)).collect();
        let mut reaching: Vec<Shortlist> = match reach {
            Some(reach) => norms.iter().map(|&norm| self.reaching(reach, norm)).collect(),
            None => Vec::new(),
        };
        let mut products = vec![0.0; count * POINT_TILE.min(n)];
        let mut scratch = Scratch::default();
        for start in (0..n).step_by(POINT_TILE) {
            let width = POINT_TILE.min(n - start);
            let products = &mut products[..count * width];
            self.points.multiply(&moved, start..start + width, products, &mut scratch);
            let offer = |lists: &mut [Shortlist], levels: &[f32]| {
                for (list, products) in lists.iter_mut().zip(products.chunks_exact(width)) {
                    list.offer(start as u32, products, &levels[start..start + width]);
                }
            };
            offer(&mut nearest, &self.norms);
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

    fn candidates(
        &self,
        queries: &Matrix,
        k: usize,
        reaching: bool,
        context: &Context<'_>,
    ) -> Result<Candidates> {
        check_width("queries", self.dimensions, queries.cols())?;
        let reach = match (reaching, &self.reach) {
            (false, _) => None,
            (true, Some(reach)) => Some(reach),
            (true, None) => {
                return Err(Error::Data("the index was not told how far its points reach".into()));
            }
        };
        let rows = queries.rows();
        // Every thread gets as many tiles as any other; they do not change the result.
        let threads = context.threads();
        let tiles = threads * rows.div_ceil(threads * QUERY_TILE);
        let tile = rows.div_ceil(tiles.max(1)).max(1);
        let tiles = context.map(rows.div_ceil(tile), |at| {
            self.tile(queries, at * tile..((at + 1) * tile).min(rows), k, reach)
        });
        let mut all = Candidates::default();
        for tile in &tiles {
            all.nearest.extend(&tile.nearest);
            all.reaching.extend(&tile.reaching);
        }
        Ok(all)
    }
}
