//! Neighbors the other way round: the reference points that have a query within their own reach.
//!
//! `‖q-r‖² ≤ reach_r` is `(‖r‖² - reach_r) - 2·q·r ≤ -‖q‖²`: the products of the search, compared with one number a query.
//! As there, f32 only preselects, with a rigorous allowance for its rounding; distances in f64 decide.

use super::LARGEST_NORM;
use super::candidates::Candidates;
use super::reference::Reference;

/// How far every reference point reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    squared: Vec<f64>,
    largest: f64,
    /// `‖r‖² - reach_r`; -∞ reaches everything, +∞ nothing.
    pub(super) offsets: Vec<f32>,
}

impl Reach {
    /// Squared distances, one a reference point: +∞ reaches everything, a negative number nothing.
    pub fn new(reference: &Reference, squared: Vec<f64>) -> Self {
        let offset = |(&norm, &reach): (&f32, &f64)| {
            if reach < 0.0 { f32::INFINITY } else { (f64::from(norm) - reach) as f32 }
        };
        let offsets = reference.norms.iter().zip(&squared).map(offset).collect();
        let largest = squared.iter().copied().filter(|reach| reach.is_finite()).fold(0.0, f64::max);
        Self { squared, largest, offsets }
    }

    /// A list for what can reach a query of this (moved) squared norm.
    pub(super) fn candidates(&self, reference: &Reference, norm: f64) -> Candidates {
        if norm.max(reference.largest_norm).max(self.largest) >= LARGEST_NORM {
            return Candidates::all(reference.len());
        }
        let roundings = 4.0 * f64::from(f32::EPSILON) * (norm + reference.largest_norm + self.largest);
        Candidates::within((reference.slack(norm) + roundings - norm) as f32)
    }

    /// What really reaches the query.
    pub(super) fn keep(&self, pairs: Vec<(f64, u32)>) -> Vec<(u32, f64)> {
        let within = pairs.into_iter().filter(|&(squared, id)| squared <= self.squared[id as usize]);
        let mut kept: Vec<(u32, f64)> = within.map(|(squared, id)| (id, squared)).collect();
        kept.sort_unstable_by_key(|&(id, _)| id);
        kept
    }
}

/// For every query, the reference points that reach it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reached {
    lists: Vec<Vec<(u32, f64)>>,
}

impl Reached {
    pub(super) fn new(lists: Vec<Vec<(u32, f64)>>) -> Self {
        Self { lists }
    }

    /// Reference indices, ascending, and squared distances of what reaches one query.
    pub fn get(&self, query: usize) -> &[(u32, f64)] {
        &self.lists[query]
    }
}
