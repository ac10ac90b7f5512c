//! Counting with the query in the bag: whose score is at least the query's, for every label it may carry.
//!
//! The score of a point is `-ln p(y) = ln(1 + exp x)` with `x = ln Σ_{z≠y} exp e(z) - e(y)`. Most pairs of a point and a label are
//! settled by bounds on x ([`super::bounds`]); the others by the point's posterior with the query in the bag.

use super::bounds::{Bounds, CHUNK, Moved, Settled};
use super::expert::Asked;
use super::weights::log_sum;
use super::wide::Wide;
use crate::context::Context;
use crate::error::Result;

/// A label whose probability is below `exp(NEGLIGIBLE)` changes no score.
const NEGLIGIBLE: f64 = -40.0;
/// Scores this close, relatively, are the same: equal points must count as equal whatever their arithmetic rounds to. Counting
/// one more is always allowed: it makes a p-value larger.
const SAME: f64 = 1e-6;
/// Queries of a parallel task.
const TILE: usize = 16;

/// The bag as every query finds it.
#[derive(Clone, Copy)]
pub(super) struct Bagged<'a> {
    /// Evidence of every point for every label, weighted.
    pub(super) evidence: &'a Wide,
    pub(super) labels: &'a [u32],
}

/// `ln(1 + exp(x))`.
pub(super) fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

/// The x with `ln(1 + exp(x)) = score`.
fn odds_of(score: f64) -> f64 {
    if score > NEGLIGIBLE.abs() { score } else { score.exp_m1().ln() }
}

/// `ln Σ exp` over all labels but one, without what is negligible beside the largest.
fn log_sum_without(row: &mut [f64], own: usize) -> f64 {
    let kept = std::mem::replace(&mut row[own], f64::NEG_INFINITY);
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = most + NEGLIGIBLE;
    let sum: f64 = row.iter().filter(|value| **value > least).map(|value| (value - most).exp()).sum();
    row[own] = kept;
    if most == f64::NEG_INFINITY { most } else { most + sum.ln() }
}

/// `-ln p(label)` of evidence.
pub(super) fn score(row: &mut [f64], label: usize) -> f64 {
    softplus(log_sum_without(row, label) - row[label])
}

/// `-ln p(label)` of every label.
pub(super) fn scores(row: &mut [f64]) -> Vec<f64> {
    let total = log_sum(row);
    let of = |label: usize, row: &mut [f64]| {
        let share = (row[label] - total).exp();
        // The others' sum by a difference, where that loses nothing.
        if share > 0.5 { score(row, label) } else { softplus(total + (-share).ln_1p() - row[label]) }
    };
    (0..row.len()).map(|label| of(label, row)).collect()
}

/// The least score that counts as no smaller than `score`.
pub(super) fn reaching(score: f64) -> f64 {
    score * (1.0 - SAME)
}

/// What the queries of a block are counted with.
pub(super) struct Counting<'a> {
    pub(super) bag: Bagged<'a>,
    pub(super) bounds: &'a Bounds,
    /// What each expert says of the bag.
    pub(super) tables: Vec<&'a Wide>,
    pub(super) experts: &'a [(f64, Box<dyn Asked + 'a>)],
}

impl Counting<'_> {
    /// For every query and label, 1 + the number of points of the bag whose score with the query among them is at least the
    /// query's, `scores`.
    pub(super) fn count(&self, scores: &[Vec<f64>], context: &Context<'_>) -> Result<Vec<Vec<u32>>> {
        let means = self.bounds.means(self.experts, scores.len(), context)?;
        let tile = |tile: usize| {
            let queries = tile * TILE..((tile + 1) * TILE).min(scores.len());
            let moved = queries
                .clone()
                .map(|query| self.bounds.moved(&self.bag, &self.tables, self.experts, &means, query));
            let moved: Vec<Moved> = moved.collect();
            self.count_tile(queries.start, &scores[queries], &moved)
        };
        Ok(context.map(scores.len().div_ceil(TILE), tile).concat())
    }

    fn count_tile(&self, first_query: usize, scores: &[Vec<f64>], moved: &[Moved]) -> Vec<Vec<u32>> {
        let (points, classes) = (self.bag.labels.len(), self.bag.evidence.cols());
        let thresholds: Vec<Vec<f64>> =
            scores.iter().map(|scores| scores.iter().map(|&score| reaching(score)).collect()).collect();
        let targets: Vec<Vec<f64>> =
            thresholds.iter().map(|all| all.iter().map(|&threshold| odds_of(threshold)).collect()).collect();
        let mut counts = vec![vec![1u32; classes]; scores.len()];
        let (mut gain, mut open, mut row) = ([0.0f32; CHUNK], Vec::new(), vec![0.0; classes]);
        for first in (0..points).step_by(CHUNK) {
            let gain = &mut gain[..CHUNK.min(points - first)];
            for label in 0..classes {
                for (at, moved) in moved.iter().enumerate() {
                    let query = first_query + at;
                    gain.fill(0.0);
                    let mut magnitude = 0.0;
                    for (weight, expert) in self.experts {
                        magnitude += weight * expert.gains(query, label, first, *weight, gain);
                    }
                    let target = targets[at][label];
                    open.clear();
                    counts[at][label] +=
                        self.bounds.settle(moved, (label, target), first, (gain, magnitude), &mut open);
                    for &point in &open {
                        let each = self.experts.iter();
                        let gain =
                            each.map(|(weight, expert)| weight * expert.join(query, point, label)).sum();
                        let reaches =
                            match self.bounds.look_again(&self.bag, moved, (point, label), gain, target) {
                                Settled::Reaches => true,
                                Settled::Stays => false,
                                Settled::Open => {
                                    self.score(query, point, label, &mut row) >= thresholds[at][label]
                                }
                            };
                        counts[at][label] += u32::from(reaches);
                    }
                }
            }
        }
        counts
    }

    /// The score of a point with the query in the bag, carrying `label`.
    fn score(&self, query: usize, point: usize, label: usize, row: &mut [f64]) -> f64 {
        row.copy_from_slice(self.bag.evidence.row(point));
        for (weight, expert) in self.experts {
            expert.shift(query, point, *weight, row);
            row[label] += weight * expert.join(query, point, label);
        }
        score(row, self.bag.labels[point] as usize)
    }
}
