//! Counts with the query in the bag: the points whose score is at least the query's, for every label the query may
//! carry.
//!
//! The score of a point is `-ln p(y) = ln(1 + exp x)` with `x = ln Σ_{z≠y} exp e(z) - e(y)`, less the offset of its
//! class. The difference x is the point's log odds against its label. Bounds on x settle most pairs of a point and a
//! label ([`crate::posterior::bounds`]). The point's posterior with the query in the bag settles the others.

use crate::context::Context;
use crate::device::cpu::elementwise::{exp, ln};
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::posterior::bounds::{AT_LEAST, Bounds, OPEN, Pairs, QueryBounds};
use crate::posterior::expert::Predictions;
use crate::posterior::link::{Link, softplus};
use crate::posterior::weights::log_sum;
use crate::scores::by_class::Strata;
use pulp::Arch;

/// Labels whose probability relative to the largest is below `exp(NEGLIGIBLE)` change no score.
const NEGLIGIBLE: f64 = -40.0;
/// Scores within this relative distance count as equal, because equal points may differ by rounding. Counting one more
/// is always valid: it makes a p-value larger.
const TIE: f64 = 1e-6;
/// Scores less their offsets count as equal within this distance.
const OFFSET_TIE: f64 = 1e-12;
/// Queries of one parallel task.
const TILE: usize = 16;

/// The bag before any query joins it.
#[derive(Clone, Copy)]
pub(super) struct BagView<'a> {
    /// The stack's log posterior of every point for every label.
    pub(super) log_posterior: &'a Matrix<f64>,
    pub(super) labels: &'a [u32],
}

/// Returns the x with `ln(1 + exp(x)) = score`; scores below 0 give -∞.
fn odds_of(score: f64) -> f64 {
    if score > NEGLIGIBLE.abs() { score } else { score.max(0.0).exp_m1().ln() }
}

/// Returns `ln Σ exp` over all labels but one, without terms that are negligible beside the largest.
fn log_sum_without(row: &mut [f64], own: usize) -> f64 {
    let kept = std::mem::replace(&mut row[own], f64::NEG_INFINITY);
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = most + NEGLIGIBLE;
    let sum: f64 = row.iter().filter(|value| **value > least).map(|value| (value - most).exp()).sum();
    row[own] = kept;
    if most == f64::NEG_INFINITY { most } else { most + sum.ln() }
}

/// Returns `-ln p(label)` from unnormalised log posteriors.
pub(super) fn score(row: &mut [f64], label: usize) -> f64 {
    softplus(log_sum_without(row, label) - row[label])
}

/// Returns `-ln p(label)` of every label.
pub(super) fn scores(row: &mut [f64]) -> Vec<f64> {
    let total = log_sum(row);
    let of = |label: usize, row: &mut [f64]| {
        let share = (row[label] - total).exp();
        // The sum over the other labels as a difference, unless that cancels.
        if share > 0.5 { score(row, label) } else { softplus(total + (-share).ln_1p() - row[label]) }
    };
    (0..row.len()).map(|label| of(label, row)).collect()
}

/// Returns the least score that counts as no smaller than `score`.
pub(super) fn threshold_of(score: f64) -> f64 {
    score * (1.0 - TIE)
}

/// Returns the threshold after the offset is subtracted. Equal scores less equal offsets still count as equal.
pub(super) fn less_offset(threshold: f64, off: f64) -> f64 {
    if off == 0.0 { threshold } else { threshold - off - OFFSET_TIE }
}

/// The counting of a block of queries.
pub(super) struct Counter<'a> {
    pub(super) bag: BagView<'a>,
    pub(super) experts: &'a [(f64, Box<dyn Predictions + 'a>)],
    /// Groups of labels that are compared with each other; `None` compares all points.
    pub(super) strata: Option<&'a Strata>,
    pub(super) bounds: &'a Bounds,
    /// The [outputs](crate::posterior::expert::Expert::outputs) of every expert.
    pub(super) outputs: Vec<Option<(&'a Matrix<f64>, Link)>>,
}

/// The scores of one query.
pub(super) struct Query {
    /// The score of every label.
    pub(super) scores: Vec<f64>,
    /// The offset of every label, with the query in the bag.
    pub(super) offsets: Vec<f64>,
}

/// The scores that count as at least the query's, for every label.
struct QueryThresholds {
    /// The least score of a point with that label.
    scores: Vec<f64>,
    /// The log odds of these scores.
    odds: Vec<f64>,
    /// The least score less the offset, for points with other labels.
    targets: Vec<f64>,
    /// `exp(target) - 1`.
    grown: Vec<f64>,
}

impl QueryThresholds {
    fn new(query: &Query) -> Self {
        let scores: Vec<f64> = query.scores.iter().map(|&score| threshold_of(score)).collect();
        let odds = scores.iter().map(|&threshold| odds_of(threshold)).collect();
        let each = scores.iter().zip(&query.offsets);
        let targets: Vec<f64> = each.map(|(&threshold, &off)| less_offset(threshold, off)).collect();
        let grown = targets.iter().map(|target| target.exp_m1()).collect();
        Self { scores, odds, targets, grown }
    }
}

impl Counter<'_> {
    /// Returns 1 + the number of points of the bag whose score, with the query in the bag, is at least the query's; for
    /// every query and label.
    pub(super) fn count(&self, queries: &[Query], context: &Context<'_>) -> Result<Vec<Vec<u32>>> {
        let means = self.bounds.means(self.experts, queries.len(), context)?;
        let tile = |tile: usize| -> Vec<Vec<u32>> {
            let rows = tile * TILE..((tile + 1) * TILE).min(queries.len());
            let bounds_of =
                |query| self.bounds.with_query(&self.bag, &self.outputs, self.experts, &means, query);
            let bounds: Vec<QueryBounds> = rows.clone().map(bounds_of).collect();
            let thresholds: Vec<QueryThresholds> =
                queries[rows.clone()].iter().map(QueryThresholds::new).collect();
            let counts = self.count_tile(rows.start, &thresholds, &bounds);
            counts.into_iter().map(|counts| self.scaled(counts)).collect()
        };
        Ok(context.map(queries.len().div_ceil(TILE), tile).concat())
    }

    /// Returns whether points of `class` are compared with queries that carry `label`.
    fn compares(&self, class: u32, label: usize) -> bool {
        self.strata.is_none_or(|strata| strata.compares(class, label))
    }

    /// Rescales counts within strata to the number of all points.
    fn scaled(&self, mut counts: Vec<u32>) -> Vec<u32> {
        if let Some(strata) = self.strata {
            let each = counts.iter_mut().enumerate();
            each.for_each(|(label, count)| *count = strata.scaled(label, *count));
        }
        counts
    }

    fn count_tile(
        &self,
        first_query: usize,
        thresholds: &[QueryThresholds],
        bounds: &[QueryBounds],
    ) -> Vec<Vec<u32>> {
        let classes = self.bag.log_posterior.cols();
        let mut counts = vec![vec![1u32; classes]; thresholds.len()];
        let (mut pairs, mut row) = (Pairs::default(), vec![0.0; classes]);
        // Label by label, so that the experts' tables of a label are read once for all queries.
        let each = (0..classes).flat_map(|label| (0..thresholds.len()).map(move |at| (label, at)));
        for (label, at) in each {
            let of = (first_query + at, label);
            counts[at][label] += self.count_label(of, &bounds[at], &thresholds[at], &mut pairs, &mut row);
        }
        counts
    }

    /// Returns how many points of the bag reach the query's score if it carries `label`.
    fn count_label(
        &self,
        (query, label): (usize, usize),
        bounds: &QueryBounds,
        thresholds: &QueryThresholds,
        pairs: &mut Pairs,
        row: &mut [f64],
    ) -> u32 {
        let (target, grown) = (thresholds.targets[label], thresholds.grown[label]);
        let mut settled = 0;
        let mut settle = |pairs: &mut Pairs, row: &mut [f64]| {
            for (point, state) in self.bounds.settle(self.experts, (query, label), pairs) {
                settled += match state {
                    OPEN => self.reaches(query, (point as usize, label), bounds, thresholds, row),
                    state => u32::from(state == AT_LEAST),
                };
            }
        };
        let mut certain = 0;
        // Intervals come in descending order of their upper ends; a NaN does not end the loop.
        for interval in bounds.intervals.iter().take_while(|interval| !(f64::from(interval.high) < target)) {
            if interval.label as usize == label || !self.compares(interval.label, label) {
                continue;
            }
            if f64::from(interval.low) >= target {
                certain += 1;
                continue;
            }
            pairs.push(bounds, interval.point, self.bounds.odds_interval(grown, interval.label as usize));
            if pairs.is_full() {
                settle(pairs, row);
            }
        }
        settle(pairs, row);
        // Intervals hold for points with other labels; those with this label are settled one by one.
        let own = self.bounds.of_class(label).iter();
        let own: u32 =
            own.map(|&point| self.reaches(query, (point as usize, label), bounds, thresholds, row)).sum();
        settled + certain + own
    }

    /// Returns 1 if a point that the bounds leave open reaches the query's score, else 0.
    fn reaches(
        &self,
        query: usize,
        (point, label): (usize, usize),
        bounds: &QueryBounds,
        thresholds: &QueryThresholds,
        row: &mut [f64],
    ) -> u32 {
        let gain =
            self.experts.iter().map(|(weight, expert)| weight * expert.gain(query, point, label)).sum();
        let class = self.bag.labels[point] as usize;
        let (threshold, odds) = if class == label {
            (thresholds.scores[label], thresholds.odds[label])
        } else {
            let threshold = thresholds.targets[label] + self.bounds.offset(class);
            (threshold, odds_of(threshold))
        };
        let reaches = match self.bounds.settle_in_f64(&self.bag, bounds, (point, label), gain, odds) {
            OPEN => self.score(query, point, label, row) >= threshold,
            state => state == AT_LEAST,
        };
        u32::from(reaches)
    }

    /// Returns the score of a point with the query in the bag, carrying `label`.
    fn score(&self, query: usize, point: usize, label: usize, row: &mut [f64]) -> f64 {
        row.copy_from_slice(self.bag.log_posterior.row(point));
        for (weight, expert) in self.experts {
            expert.add_shift(query, point, *weight, row);
            row[label] += weight * expert.gain(query, point, label);
        }
        score(row, self.bag.labels[point] as usize)
    }
}

/// The largest exponent that f32 keeps here. Numbers beyond `exp(±MAX_EXPONENT)` are bounded on one side only.
pub(super) const MAX_EXPONENT: f64 = 43.0;
/// The relative error of scores in f32.
pub(super) const SCORE_ERROR: f64 = 1e-5;
/// Log odds below `-MIN_ODDS` have score 0 in f32; their exact score is below [`SCORE_FLOOR`].
const MIN_ODDS: f32 = 80.0;
/// The absolute error of scores near 0 in f32.
pub(super) const SCORE_FLOOR: f32 = 2e-35;

/// Returns f32 numbers below and above a value that is known up to `room`, for
/// [`Bounds::settle`](crate::posterior::bounds::Bounds::settle).
pub(super) fn interval(value: f64, room: f64) -> [f32; 2] {
    let (least, most) = ((-MAX_EXPONENT).exp(), MAX_EXPONENT.exp());
    let low = if value >= least { (value.min(most) - room).max(0.0) as f32 } else { 0.0 };
    let high = if value <= most { (value.max(least) + room) as f32 } else { f32::INFINITY };
    [low, high]
}

/// Returns a number that is at most `exp x`, and 0 where that is too small for f32.
pub(super) fn exp_below(x: f64) -> f32 {
    if x < -MAX_EXPONENT || x.is_nan() { 0.0 } else { (x.min(MAX_EXPONENT).exp() * (1.0 - 1e-6)) as f32 }
}

/// Returns a number that is at least `exp x`, and infinity where that is too large for f32.
pub(super) fn exp_above(x: f64) -> f32 {
    if x > MAX_EXPONENT || x.is_nan() {
        f32::INFINITY
    } else {
        (x.max(-MAX_EXPONENT).exp() * (1.0 + 1e-6)) as f32
    }
}

/// Replaces log odds x by the score `ln(1 + exp x)`, up to the errors [`SCORE_ERROR`] and [`SCORE_FLOOR`].
pub(super) fn to_scores(odds: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for x in odds {
                let far = exp(-x.abs().min(MIN_ODDS));
                // The series of ln(1 + t), where 1 + t would lose the digits of t.
                let series = far * (1.0 - far * (0.5 - far * (1.0 / 3.0 - 0.25 * far)));
                let below = if *x < -MIN_ODDS { 0.0 } else { series };
                let score = if *x < -3.0 { below } else { x.max(0.0) + ln(1.0 + far) };
                *x = if x.is_nan() { f32::NAN } else { score };
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_in_f32_are_near_the_formula() {
        let odds: Vec<f32> = (-9000..9000).map(|at| at as f32 * 0.011).collect();
        let mut scores = odds.clone();
        to_scores(&mut scores);
        for (&x, &score) in odds.iter().zip(&scores) {
            let expected = softplus(f64::from(x));
            let room = SCORE_ERROR * expected + f64::from(SCORE_FLOOR);
            assert!((f64::from(score) - expected).abs() < room, "{x}: {score} for {expected}");
        }
        let mut odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        to_scores(&mut odd);
        assert!(odd[0].is_nan() && odd[1] == f32::INFINITY && odd[2] == 0.0);
    }
}
