//! Counts in full calibration. For every label that the query may carry, the query is added to the calibration points.
//! The count is the number of points, the query included, whose score is at least the query's.
//!
//! The score of a point with label y is `-ln p(y) = ln(1 + exp x)`, less the offset of its class. Here
//! `x = ln Σ_{z≠y} exp e(z) - e(y)` is the point's log odds against its label, and e(z) is the stack's log posterior of
//! label z. Bounds on x settle most pairs of a calibration point and a label of the query
//! ([`crate::posterior::bounds`]). For the other pairs, the point's posterior is computed with the query added.

use crate::context::Context;
use crate::error::Result;
use crate::kernel::{exp, ln};
use crate::numeric::matrix::Matrix;
use crate::posterior::bounds::{AT_LEAST, Bounds, OPEN, Pairs, QueryBounds};
use crate::posterior::expert::Predictions;
use crate::posterior::maps::{Link, NEGLIGIBLE, log_sum, score, softplus};
use crate::scores::calibration::Strata;
use pulp::Arch;

/// The largest relative difference of two scores that count as equal, because the scores of equal points may differ by
/// rounding. Counting one point more is always valid, because it makes a p-value larger.
const TIE: f64 = 1e-6;
/// Scores less class offsets count as equal if they differ by at most this number.
const OFFSET_TIE: f64 = 1e-12;
/// The number of queries in a parallel task.
const TILE: usize = 16;

/// A view of the calibration points (the bag) before a query is added.
#[derive(Clone, Copy)]
pub(super) struct BagView<'a> {
    /// The [stack](super::Stack)'s log posteriors of the calibration points: one row per point, one column per label.
    pub(super) log_posterior: &'a Matrix<f64>,
    pub(super) labels: &'a [u32],
}

/// Returns the log odds x of a point with the given score, so that `ln(1 + exp x) = score`. Returns -∞ if `score` is 0
/// or less.
fn log_odds_of(score: f64) -> f64 {
    if score > NEGLIGIBLE.abs() { score } else { score.max(0.0).exp_m1().ln() }
}

/// Returns the score `-ln p(label)` of every label. `row` holds the unnormalised log posteriors of one point.
pub(super) fn scores(row: &mut [f64]) -> Vec<f64> {
    let total = log_sum(row);
    let of = |label: usize, row: &mut [f64]| {
        let share = (row[label] - total).exp();
        // The sum over the other labels is the total less the own share, unless this difference loses digits.
        if share > 0.5 { score(row, label) } else { softplus(total + (-share).ln_1p() - row[label]) }
    };
    (0..row.len()).map(|label| of(label, row)).collect()
}

/// Returns a number slightly below `score`. Scores from this number on count as at least `score`, because scores of
/// equal points may differ by rounding.
pub(super) fn threshold_of(score: f64) -> f64 {
    score * (1.0 - TIE)
}

/// Returns `threshold` less the class offset `off`, lowered slightly. So a score less its offset counts as equal
/// although the two subtractions round.
pub(super) fn less_offset(threshold: f64, off: f64) -> f64 {
    if off == 0.0 { threshold } else { threshold - off - OFFSET_TIE }
}

/// The inputs from which the counts of all labels follow, for a block of queries.
pub(super) struct Counter<'a> {
    pub(super) bag: BagView<'a>,
    pub(super) experts: &'a [(f64, Box<dyn Predictions + 'a>)],
    /// Groups of labels (strata): a point is compared only with points whose labels are in the same group. `None`
    /// stands for a single group.
    pub(super) strata: Option<&'a Strata>,
    pub(super) bounds: &'a Bounds,
    /// The regression [outputs](crate::posterior::expert::Expert::outputs) of every expert for the calibration points;
    /// `None` for experts without a regression.
    pub(super) outputs: Vec<Option<(&'a Matrix<f64>, Link)>>,
}

/// The scores of one query, and the class offsets that are subtracted from them.
pub(super) struct Query {
    /// The score of the query for every label that it may carry.
    pub(super) scores: Vec<f64>,
    /// The offset of every class, after the query is added to the points of this class.
    pub(super) offsets: Vec<f64>,
}

/// Thresholds for the scores of calibration points, one for every label that the query may carry. A point is counted if
/// its score is at least the threshold.
struct QueryThresholds {
    /// The thresholds for points that carry the query's label. Such a point and the query have equal offsets, so none
    /// is subtracted.
    scores: Vec<f64>,
    /// The log odds of a point whose score equals the threshold in `scores`.
    log_odds: Vec<f64>,
    /// The thresholds for points that carry other labels. The offset of the query's class is subtracted here, and the
    /// offset of the point's class from the point's score.
    targets: Vec<f64>,
    /// The number `exp(target) - 1` for every entry of `targets`.
    grown: Vec<f64>,
}

impl QueryThresholds {
    fn new(query: &Query) -> Self {
        let scores: Vec<f64> = query.scores.iter().map(|&score| threshold_of(score)).collect();
        let log_odds = scores.iter().map(|&threshold| log_odds_of(threshold)).collect();
        let each = scores.iter().zip(&query.offsets);
        let targets: Vec<f64> = each.map(|(&threshold, &off)| less_offset(threshold, off)).collect();
        let grown = targets.iter().map(|target| target.exp_m1()).collect();
        Self { scores, log_odds, targets, grown }
    }
}

impl Counter<'_> {
    /// Returns the count of every label of every query. It is 1 + the number of calibration points whose score is at
    /// least the query's, after the query is added with this label. Counts within a stratum are rescaled to all points.
    pub(super) fn count(&self, queries: &[Query], context: &Context<'_>) -> Result<Vec<Vec<u32>>> {
        let means = self.bounds.means(self.experts, queries.len(), context)?;
        let tile = |tile: usize| -> Vec<Vec<u32>> {
            let rows = tile * TILE..((tile + 1) * TILE).min(queries.len());
            let bounds_of = |query| self.bounds.with_query(&self.bag, &self.outputs, self.experts, &means, query);
            let bounds: Vec<QueryBounds> = rows.clone().map(bounds_of).collect();
            let thresholds: Vec<QueryThresholds> = queries[rows.clone()].iter().map(QueryThresholds::new).collect();
            let counts = self.count_tile(rows.start, &thresholds, &bounds);
            counts.into_iter().map(|counts| self.scaled(counts)).collect()
        };
        Ok(context.map(queries.len().div_ceil(TILE), tile).concat())
    }

    /// Returns whether calibration points of `class` are compared with a query that carries `label`. They are if both
    /// labels are in one stratum.
    fn compares(&self, class: u32, label: usize) -> bool {
        self.strata.is_none_or(|strata| strata.compares(class, label))
    }

    /// Rescales the count of every label, so that a count among the points of the label's stratum becomes one among all
    /// calibration points.
    fn scaled(&self, mut counts: Vec<u32>) -> Vec<u32> {
        if let Some(strata) = self.strata {
            let each = counts.iter_mut().enumerate();
            each.for_each(|(label, count)| *count = strata.scaled(label, *count));
        }
        counts
    }

    fn count_tile(&self, first_query: usize, thresholds: &[QueryThresholds], bounds: &[QueryBounds]) -> Vec<Vec<u32>> {
        let classes = self.bag.log_posterior.cols();
        let mut counts = vec![vec![1u32; classes]; thresholds.len()];
        let (mut pairs, mut row) = (Pairs::default(), vec![0.0; classes]);
        // The loop runs over labels first, so that the experts' tables of a label are read once for all queries.
        let each = (0..classes).flat_map(|label| (0..thresholds.len()).map(move |at| (label, at)));
        for (label, at) in each {
            let of = (first_query + at, label);
            counts[at][label] += self.count_label(of, &bounds[at], &thresholds[at], &mut pairs, &mut row);
        }
        counts
    }

    /// Returns the number of calibration points whose score is at least the query's, if the query carries `label`.
    /// `pairs` and `row` are buffers.
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
        // Intervals are sorted by descending upper end, so the first one below the target ends the loop. A NaN does not
        // end it.
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
        // The intervals are valid only for points with other labels. Points with this label are compared one by one.
        let own = self.bounds.of_class(label).iter();
        let own: u32 = own.map(|&point| self.reaches(query, (point as usize, label), bounds, thresholds, row)).sum();
        settled + certain + own
    }

    /// Returns 1 if the score of `point` is at least the query's, and 0 otherwise, if the query carries `label`. The
    /// point's posterior is computed only if bounds in f64 do not decide. `row` is a buffer.
    fn reaches(
        &self,
        query: usize,
        (point, label): (usize, usize),
        bounds: &QueryBounds,
        thresholds: &QueryThresholds,
        row: &mut [f64],
    ) -> u32 {
        let gain = self.experts.iter().map(|(weight, expert)| weight * expert.gain(query, point, label)).sum();
        let class = self.bag.labels[point] as usize;
        let (threshold, log_odds) = if class == label {
            (thresholds.scores[label], thresholds.log_odds[label])
        } else {
            let threshold = thresholds.targets[label] + self.bounds.offset(class);
            (threshold, log_odds_of(threshold))
        };
        let reaches = match self.bounds.settle_in_f64(&self.bag, bounds, (point, label), gain, log_odds) {
            OPEN => self.score(query, point, label, row) >= threshold,
            state => state == AT_LEAST,
        };
        u32::from(reaches)
    }

    /// Returns the score of a calibration point after the query is added with `label`. `row` is a buffer for the
    /// point's log posteriors.
    fn score(&self, query: usize, point: usize, label: usize, row: &mut [f64]) -> f64 {
        row.copy_from_slice(self.bag.log_posterior.row(point));
        for (weight, expert) in self.experts {
            expert.add_shift(query, point, *weight, row);
            row[label] += weight * expert.gain(query, point, label);
        }
        score(row, self.bag.labels[point] as usize)
    }
}

/// The largest exponent of bounds in f32. A number below `exp(-MAX_EXPONENT)` gets the lower bound 0, and a number
/// above `exp(MAX_EXPONENT)` the upper bound infinity.
pub(super) const MAX_EXPONENT: f64 = 43.0;
/// A bound on the relative error of scores in f32.
pub(super) const SCORE_ERROR: f64 = 1e-5;
/// The limit for log odds in f32: log odds below `-MIN_LOG_ODDS` give the score 0. The exact score is then below
/// [`SCORE_FLOOR`].
const MIN_LOG_ODDS: f32 = 80.0;
/// A bound on the absolute error of scores near 0 in f32.
pub(super) const SCORE_FLOOR: f32 = 2e-35;

/// Returns a lower and an upper bound in f32 on a number that is known as `value`, with an error of at most `room`.
/// Bounds of this form are inputs of [`Bounds::settle`].
pub(super) fn interval(value: f64, room: f64) -> [f32; 2] {
    let (least, most) = ((-MAX_EXPONENT).exp(), MAX_EXPONENT.exp());
    let low = if value >= least { (value.min(most) - room).max(0.0) as f32 } else { 0.0 };
    let high = if value <= most { (value.max(least) + room) as f32 } else { f32::INFINITY };
    [low, high]
}

/// Returns a lower bound on `exp x` in f32: 0 if `exp x` is too small or x is NaN.
pub(super) fn exp_below(x: f64) -> f32 {
    if x < -MAX_EXPONENT || x.is_nan() { 0.0 } else { (x.min(MAX_EXPONENT).exp() * (1.0 - 1e-6)) as f32 }
}

/// Returns an upper bound on `exp x` in f32: infinity if `exp x` is too large or x is NaN.
pub(super) fn exp_above(x: f64) -> f32 {
    if x > MAX_EXPONENT || x.is_nan() { f32::INFINITY } else { (x.max(-MAX_EXPONENT).exp() * (1.0 + 1e-6)) as f32 }
}

/// Replaces each log odds x by the score `ln(1 + exp x)`. The relative error is at most [`SCORE_ERROR`], and the
/// absolute error near 0 at most [`SCORE_FLOOR`].
pub(super) fn to_scores(log_odds: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for x in log_odds {
                let far = exp(-x.abs().min(MIN_LOG_ODDS));
                // A series gives ln(1 + t) for small t, because 1 + t loses the digits of t.
                let series = far * (1.0 - far * (0.5 - far * (1.0 / 3.0 - 0.25 * far)));
                let below = if *x < -MIN_LOG_ODDS { 0.0 } else { series };
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
