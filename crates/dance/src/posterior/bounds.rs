//! Bounds on the scores of calibration points after a query is added. They settle most comparisons of a calibration
//! point with a label of the query (a pair) without computing posteriors.
//!
//! Let e(z) be the stack's log posterior of a point for label z. A point with label y has the log odds
//! `x = ln Σ_{z≠y} exp e(z) - e(y)`. Its score `ln(1 + exp x)`, less the offset of its class, grows with x. Let `q_z`
//! be the share of label z in the sum. A query that is added with label l changes x in three ways:
//! - All log posteriors shift: e(z) by some `δ_z` that does not depend on l. By Hoeffding's lemma `ln Σ q_z exp δ_z`
//!   lies between the mean `Σ q_z δ_z` and the mean plus R²/8, where R is the range of `δ_z` over z. One matrix product
//!   gives the means of all points; R is known per point. The [link](crate::posterior::maps) is concave: `δ_z` is at
//!   most the slope times the change of the output, and falls short of that by at most a curvature term.
//! - The log posterior e(y) of the point's own label shifts likewise.
//! - The log posterior e(l) of the query's label changes by a further term, the gain J. It multiplies the sum by
//!   `1 + q_l·exp(±R)·(exp J - 1)`.
//!
//! Experts bound J for each point over all l, and J moves x by at most J. This gives every point an interval for its
//! score. Intervals are sorted by their upper ends, so most pairs are settled without being visited. Every other pair
//! gets an interval for x in f32, widened by the rounding error. About one pair in thousands stays open; an interval in
//! f64 or the posterior itself settles it. So the counts are always those of the exact posteriors.
//!
//! Memory for n calibration points and c classes: 4·n·c bytes, and 4·n·c more for every ridge expert.

use std::iter::zip;

use pulp::Arch;

use crate::context::Context;
use crate::error::Result;
use crate::kernel::exp;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::posterior::count::BagView;
use crate::posterior::count::{MAX_EXPONENT, SCORE_ERROR, SCORE_FLOOR, exp_above, exp_below, interval, to_scores};
use crate::posterior::expert::Predictions;
use crate::posterior::maps::{Link, OutputStats};

/// The number of pairs (a calibration point and a label of the query) that are settled together. The columns of their
/// table fit into the first-level cache.
pub(super) const PAIRS: usize = 256;
/// The largest [gain](Predictions::gain) that gets a finite upper bound in f32.
const MOST: f32 = 40.0;
/// A bound on relative rounding errors in f32: a few units in the last place of every intermediate value.
const ROUNDING: f64 = 4e-6;
/// A bound on rounding errors in f32 for sums whose terms cancel, relative to the magnitude of the terms.
const CANCELLED: f64 = 1e-6;
/// A bound on relative rounding errors in f64.
const FINE: f64 = 1e-9;

/// The calibration points before a query is added, with the numbers from which bounds on their scores follow.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The log odds `ln Σ_{z≠y} exp e(z) - e(y)` of every point. Here y is the point's own label, and e(z) its log
    /// posterior of label z.
    log_odds: Vec<f64>,
    /// For every point, the logarithm of the sum of `exp e(z)` over all labels z but its own. Here e(z) is the point's
    /// log posterior of label z.
    others: Vec<f64>,
    /// For every label z and every point, the share of `exp e(z)` in the sum behind `others`. The shares of one label
    /// are side by side. The entry for a point's own label is NaN.
    shares: Vec<f32>,
    /// The shares times the slopes of the link function, one table per expert, packed for products with the outputs of
    /// queries. `None` for experts without a link function.
    packed: Vec<Option<Packed>>,
    /// Statistics of the regression outputs of every point, one list per expert. The list is empty for experts without
    /// a link function.
    stats: Vec<Vec<OutputStats>>,
    /// The indices of the calibration points that carry each label.
    of_class: Vec<Vec<u32>>,
    /// Three numbers for every class: its offset o, `exp o` and `exp o - 1`.
    offsets: Vec<[f64; 3]>,
}

/// Bounds on the log odds and the scores of all calibration points after one query is added. They are valid for every
/// label that the query may carry.
pub(super) struct QueryBounds {
    /// A lower bound on the log odds of every point. The [gain](Predictions::gain), which depends on the query's label,
    /// is left out.
    low: Vec<f64>,
    /// For every point, the width of the interval that starts at `low` and contains the log odds. The
    /// [gain](Predictions::gain) is left out.
    width: Vec<f64>,
    /// For every point, the largest less the least [shift](Predictions::add_shift) of its log posteriors. The shift is
    /// the change that does not depend on the query's label.
    range: Vec<f64>,
    factors: Vec<PointFactors>,
    /// The score intervals of all points, sorted by descending upper end.
    pub(super) intervals: Vec<ScoreInterval>,
}

/// Factors of one calibration point in f32. Bounds for every label of the query use them.
#[derive(Clone, Copy)]
struct PointFactors {
    /// The factors `exp R` and `exp(-R)`. R is the largest less the least [shift](Predictions::add_shift) of the
    /// point's log posteriors.
    spread: [f32; 2],
    /// A lower and an upper bound on `exp(-x)`. Here x is the point's log odds after the query is added, without the
    /// [gain](Predictions::gain).
    inverse: [f32; 2],
}

/// An interval that contains the score of a calibration point, less the offset of its class, after a query is added. It
/// is valid if the query carries another label than the point.
#[derive(Clone, Copy)]
pub(super) struct ScoreInterval {
    pub(super) low: f32,
    pub(super) high: f32,
    pub(super) point: u32,
    pub(super) label: u32,
}

/// Pairs of a calibration point and one label of a query, which are settled together. Each field is a column of this
/// table.
#[derive(Default)]
pub(super) struct Pairs {
    points: Vec<u32>,
    /// A lower and an upper bound on a factor. If the point's odds `exp x` grow by this factor or more, the point's
    /// score is at least the query's.
    wanted: Vec<[f32; 2]>,
    gain: Vec<f32>,
    share: Vec<f32>,
    spread: Vec<[f32; 2]>,
    settled: Vec<PairState>,
}

impl Pairs {
    pub(super) fn is_full(&self) -> bool {
        self.points.len() == PAIRS
    }

    /// Adds the pair of the calibration point with the index `point`. With odds `exp x` from a certain value on, the
    /// point's score is at least the query's. `wanted` is an interval that contains this value, and `moved` holds the
    /// bounds on all points.
    pub(super) fn push(&mut self, moved: &QueryBounds, point: u32, wanted: [f32; 2]) {
        let factors = &moved.factors[point as usize];
        self.points.push(point);
        self.wanted.push([wanted[0] * factors.inverse[0], wanted[1] * factors.inverse[1]]);
        self.gain.push(0.0);
        self.spread.push(factors.spread);
    }
}

/// The state of a pair of a calibration point and a label of the query: [`OPEN`], [`AT_LEAST`] or `BELOW`. It is a
/// number so that the loop over pairs uses vector instructions.
pub(super) type PairState = u32;
/// The state of a pair for which the bounds do not decide whether the point's score is at least the query's.
pub(super) const OPEN: PairState = 0;
/// The state of a pair for which the bounds show that the point's score is at least the query's.
pub(super) const AT_LEAST: PairState = 1;
const BELOW: PairState = 2;

impl Bounds {
    /// Prepares the bounds on the calibration points in `bag`. `outputs` holds the regression
    /// [outputs](crate::posterior::expert::Expert::outputs) of every expert, and `offsets` the offset of every class.
    pub(super) fn new(
        bag: &BagView<'_>,
        outputs: &[Option<(&Matrix<f64>, Link)>],
        offsets: &[f64],
        context: &Context<'_>,
    ) -> Self {
        let offsets = offsets.iter().map(|off| [*off, off.exp(), off.exp_m1()]).collect();
        let (n, classes) = (bag.labels.len(), bag.log_posterior.cols());
        let mut shares = vec![f32::NAN; n * classes];
        let (mut log_odds, mut others) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let mut stats = vec![Vec::new(); outputs.len()];
        let mut of_class = vec![Vec::new(); classes];
        for (point, &label) in bag.labels.iter().enumerate() {
            let (row, own) = (bag.log_posterior.row(point), label as usize);
            of_class[own].push(point as u32);
            let rest = || row.iter().enumerate().filter(|&(label, _)| label != own);
            let most = rest().map(|(_, &value)| value).fold(f64::NEG_INFINITY, f64::max);
            let total = most + rest().map(|(_, value)| (value - most).exp()).sum::<f64>().ln();
            log_odds.push(total - row[own]);
            others.push(total);
            for (label, value) in rest() {
                shares[label * n + point] = (value - total).exp() as f32;
            }
            for (stats, outputs) in stats.iter_mut().zip(outputs) {
                if let &Some((table, link)) = outputs {
                    stats.push(OutputStats::new(table.row(point), own, row, total, link));
                }
            }
        }
        // The products of shares and slopes are 0 for the point's own label.
        let pack = |&(table, link): &(&Matrix<f64>, Link)| {
            let value = |label: usize, point: usize| {
                let share = shares[label * n + point];
                if share.is_nan() { 0.0 } else { share * link.slope(table.row(point)[label]) as f32 }
            };
            Packed::new(classes, n, value, context)
        };
        let packed = outputs.iter().map(|outputs| outputs.as_ref().map(pack)).collect();
        Self { log_odds, others, shares, packed, stats, of_class, offsets }
    }

    /// Returns the offset of a class, which is subtracted from the scores of its points.
    pub(super) fn offset(&self, class: usize) -> f64 {
        self.offsets[class][0]
    }

    /// Returns a lower and an upper bound on the odds `exp x` at which a point of `class` has a given score. This
    /// score, less the class offset, is s. `grown` is `exp s - 1`.
    pub(super) fn odds_interval(&self, grown: f64, class: usize) -> [f32; 2] {
        let [_, factor, added] = self.offsets[class];
        // This is exp(s + o) - 1 for the offset o, without exp(s + o), which would lose the digits of a small result.
        let value = grown * factor + added;
        interval(value, 1e-6 * value.abs() + 1e-15 * (grown * factor).abs().max(added.abs()))
    }

    /// Returns the indices of the calibration points that carry `label`.
    pub(super) fn of_class(&self, label: usize) -> &[u32] {
        &self.of_class[label]
    }

    /// Returns a table of queries × calibration points for every expert, or `None` for an expert without
    /// [shifts](Predictions::shifts). An entry is a mean over labels, weighted by the point's shares. Its terms are the
    /// query's output times the slope of the link function at the point's output.
    pub(super) fn means(
        &self,
        experts: &[(f64, Box<dyn Predictions + '_>)],
        queries: usize,
        context: &Context<'_>,
    ) -> Result<Vec<Option<Matrix>>> {
        let mean = |(at, expert): (usize, &dyn Predictions)| -> Result<Option<Matrix>> {
            let outputs = (0..queries).map_while(|query| expert.shifts(query).map(|shifts| shifts.outputs));
            let rows: Vec<f32> = outputs.flatten().map(|&output| output as f32).collect();
            let Some(packed) = self.packed[at].as_ref().filter(|_| !rows.is_empty()) else { return Ok(None) };
            let classes = rows.len() / queries;
            packed.product(&Matrix::new(rows, queries, classes)?, context).map(Some)
        };
        experts.iter().enumerate().map(|(at, (_, expert))| mean((at, expert.as_ref()))).collect()
    }

    /// Returns the bounds on all calibration points after the query with the index `query` is added. They are valid for
    /// every label that the query may carry. `means` comes from [`means`](Self::means).
    pub(super) fn with_query(
        &self,
        bag: &BagView<'_>,
        outputs: &[Option<(&Matrix<f64>, Link)>],
        experts: &[(f64, Box<dyn Predictions + '_>)],
        means: &[Option<Matrix>],
        query: usize,
    ) -> QueryBounds {
        let n = self.log_odds.len();
        let (mut low, mut range, mut slack) = (self.log_odds.clone(), vec![0.0; n], vec![0.0; n]);
        let mut bent = vec![0.0f64; n];
        // Bound the shifts of the log posteriors, which do not depend on the query's label.
        for (at, (weight, expert)) in experts.iter().enumerate() {
            let (Some(shifts), Some(means), Some((table, link))) = (expert.shifts(query), &means[at], outputs[at])
            else {
                continue;
            };
            let (own, means) = (shifts.outputs, means.row(query));
            let least = own.iter().copied().fold(f64::INFINITY, f64::min);
            let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let size = most.abs().max(least.abs());
            let rounding = f64::from(f32::EPSILON) * own.len() as f64 * size;
            // Slopes lie between 0 and the largest slope, so the range of slopes times outputs includes 0.
            let ranging = most.max(0.0) - least.min(0.0);
            let curvature = link.curvature(f64::NEG_INFINITY);
            for (point, &label) in bag.labels.iter().enumerate() {
                let label = label as usize;
                let (shrunk, joined) = (shifts.shrunk[point], shifts.joined[point]);
                let stats = &self.stats[at][point];
                let of_own = shrunk * (table.row(point)[label] - 1.0) - joined * own[label];
                low[point] +=
                    weight * (shrunk * stats.mean - joined * f64::from(means[point]) - stats.own_slope * of_own);
                range[point] += weight * (shrunk.abs() * stats.range + joined.abs() * stats.slope * ranging);
                slack[point] += weight * joined.abs() * stats.slope * rounding;
                // The curvature of the link lowers log posteriors below their tangents. For the other labels this
                // lowers x, for the own label it raises x.
                let most = shrunk.abs() * stats.largest + joined.abs() * size;
                let others = 0.5 * weight * curvature * most * most;
                let near = link.curvature(table.row(point)[label] - of_own.abs());
                low[point] -= others;
                range[point] += others;
                bent[point] += others + 0.5 * weight * near * of_own * of_own;
            }
        }
        // Bound the gain J over all labels of the query.
        let (mut least, mut most) = (vec![0.0; n], vec![0.0; n]);
        for (weight, expert) in experts {
            expert.add_gain_bounds(query, *weight, &mut least, &mut most);
        }
        let (mut width, mut factors) = (vec![0.0; n], Vec::with_capacity(n));
        let mut ends = Vec::with_capacity(2 * n);
        for (point, slack) in slack.into_iter().enumerate() {
            let range = range[point];
            let room = slack + FINE * (1.0 + low[point].abs());
            low[point] -= room;
            width[point] = range * range / 8.0 + bent[point] + 2.0 * room;
            let [low, high] = [low[point], low[point] + width[point]];
            factors.push(PointFactors {
                spread: [range.min(MAX_EXPONENT).exp() as f32, (-range).exp() as f32],
                inverse: [exp_below(-high), exp_above(-low)],
            });
            // ln(1 + q(exp J - 1)) lies between 0 and the gain J for any share q.
            let [low, high] = [low + least[point].min(0.0), high + most[point].max(0.0)];
            let room = ROUNDING * (1.0 + low.abs().max(high.abs()));
            ends.extend([(low - room) as f32, (high + room) as f32]);
        }
        let intervals = self.score_intervals(bag, ends);
        QueryBounds { low, width, range, factors, intervals }
    }

    /// Returns the score intervals of the calibration points, sorted by descending upper end. `ends` holds two numbers
    /// per point in turn: a lower and an upper bound on its log odds.
    fn score_intervals(&self, bag: &BagView<'_>, mut ends: Vec<f32>) -> Vec<ScoreInterval> {
        to_scores(&mut ends);
        let each = bag.labels.iter().enumerate().zip(ends.chunks_exact(2));
        let mut intervals: Vec<ScoreInterval> = each
            .map(|((point, &label), ends)| {
                let off = self.offset(label as usize);
                let end = |at: usize, sign: f64| {
                    let score = f64::from(ends[at]);
                    let room = SCORE_ERROR * score + ROUNDING * off.abs() + f64::from(SCORE_FLOOR);
                    (score - off + sign * room) as f32
                };
                let [low, high] = [end(0, -1.0), end(1, 1.0)];
                ScoreInterval { low, high, point: point as u32, label }
            })
            .collect();
        intervals.sort_unstable_by(|a, b| b.high.total_cmp(&a.high));
        intervals
    }

    /// Compares the calibration points in `pairs` with one label of one query, and empties `pairs`. Returns every point
    /// with the state of its pair. The bounds are in f32.
    pub(super) fn settle<'p>(
        &self,
        experts: &[(f64, Box<dyn Predictions + '_>)],
        (query, label): (usize, usize),
        pairs: &'p mut Pairs,
    ) -> impl Iterator<Item = (u32, PairState)> + use<'p> {
        let shares = &self.shares[label * self.log_odds.len()..][..self.log_odds.len()];
        pairs.share.extend(pairs.points.iter().map(|&point| shares[point as usize]));
        let mut magnitude = 0.0;
        for (weight, expert) in experts {
            magnitude += weight * expert.add_gains((query, label), &pairs.points, *weight, &mut pairs.gain);
        }
        let pad = (ROUNDING + CANCELLED * magnitude) as f32;
        pairs.settled.resize(pairs.points.len(), OPEN);
        let Pairs { settled, gain, share, spread, wanted, .. } = &mut *pairs;
        Arch::new().dispatch(
            // `zip` moves `settled` into the closure: a closure that can be called twice is not inlined or vectorised.
            #[inline(always)]
            || {
                let known = gain.iter().zip(&*share).zip(spread.iter().zip(&*wanted));
                for (state, ((sum, share), ([grow, shrink], [least, most]))) in zip(settled, known) {
                    let grown = share * (exp(sum.clamp(-60.0, MOST)) - 1.0);
                    let room = pad * (1.0 + grown.abs());
                    let (one, other) = (grown * grow, grown * shrink);
                    let high = if *sum > MOST { f32::INFINITY } else { 1.0 + one.max(other) + room };
                    let low = 1.0 + one.min(other) - room;
                    *state = u32::from(low >= *most) * AT_LEAST + u32::from(high < *least) * BELOW;
                }
            },
        );
        for column in [&mut pairs.gain, &mut pairs.share] {
            column.clear();
        }
        pairs.spread.clear();
        pairs.wanted.clear();
        pairs.points.drain(..).zip(pairs.settled.drain(..))
    }

    /// Compares one calibration point with one label of the query, by bounds in f64. `gain` is the point's
    /// [gain](Predictions::gain) for this label. With log odds of at least `target`, the point's score is at least the
    /// query's.
    pub(super) fn settle_in_f64(
        &self,
        bag: &BagView<'_>,
        bounds: &QueryBounds,
        (point, label): (usize, usize),
        gain: f64,
        target: f64,
    ) -> PairState {
        let [mut low, mut high] = [bounds.low[point], bounds.low[point] + bounds.width[point]];
        if bag.labels[point] as usize == label {
            low -= gain;
            high -= gain;
        } else {
            let share = (bag.log_posterior.row(point)[label] - self.others[point]).exp();
            let grown = share * gain.exp_m1();
            let range = bounds.range[point];
            let (one, other) = (grown * range.exp(), grown * (-range).exp());
            low += (1.0 + one.min(other) - FINE).max(0.0).ln();
            high += (1.0 + one.max(other) + FINE).ln();
        }
        let room = FINE * (1.0 + target.abs());
        if low - room >= target {
            AT_LEAST
        } else if high + room < target {
            BELOW
        } else {
            OPEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval of odds contains the exact value `exp(s + offset) - 1`, even if this value is near 0.
    #[test]
    fn wanted_odds_lie_between_their_bounds() {
        let bag = BagView { log_posterior: &Matrix::<f64>::default(), labels: &[] };
        let offsets = [0.0, 0.7, -0.7, 3.0, -5.0, 1e-9];
        let bounds = Bounds::new(&bag, &[], &offsets, &Context::new(1).unwrap());
        for (class, off) in offsets.iter().enumerate() {
            for left in [-6.0, -0.7, -1e-9, 0.0, 1e-12, 1e-3, 0.5, 0.7 - 1e-13, 4.0, 30.0, 60.0, f64::INFINITY] {
                let [low, high] = bounds.odds_interval(f64::exp_m1(left), class);
                let expected = (left + off).exp_m1();
                assert!(f64::from(low) <= expected.max(0.0) && expected <= f64::from(high), "{left} {off}");
                let near = high.is_infinite() || f64::from(high - low) < 1e-5 * expected.abs() + 1e-14;
                assert!(near, "{left} {off}: {low} {high}");
            }
        }
    }
}
