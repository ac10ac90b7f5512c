//! Which points of the bag reach the query's score for which label, settled without forming their posteriors.
//!
//! A point with label y has `x = ln Σ_{z≠y} exp e(z) - e(y)`, and its score `ln(1 + exp x)`, less what is taken off that of its class,
//! grows with x. A query that joins with label l changes x in
//! three ways, with `q_z` the share of z in that sum:
//! - all evidence shifts a little whatever l is. By Hoeffding's lemma `ln Σ q_z exp δ_z` lies between the mean `Σ q_z δ_z` and that
//!   plus R²/8, where R is the range of the shifts δ: the mean is one product for all points, R is known per point. Where outputs are
//!   [told](crate::posterior::link), their shifts times slopes stand for δ, which is less by what the curvature makes of it, at most;
//! - the point's own evidence shifts, which is known, or likewise;
//! - evidence for l gains J, which multiplies the sum by `1 + q_l·exp(±R)·(exp J - 1)`.
//!
//! Experts know between which numbers J lies for a point whatever l is, and x moves by no more than J. That settles most points for
//! most labels with one comparison: points stand in the order of the most that their scores may be, and a label is looked at up to the query's.
//! Every pair that is left has an interval for x, in f32 with room for its rounding, at a few operations. What the interval leaves open,
//! about one pair in thousands, is looked at again in f64 and then decided by the posterior itself: the counts are those of the
//! posteriors, always.
//!
//! Memory: 8·n·c bytes, and 4·n·c for every expert that tells outputs.

use std::iter::zip;

use pulp::Arch;

use crate::context::Context;
use crate::device::cpu::elementwise::exp;
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::posterior::count::Bagged;
use crate::posterior::expert::Asked;
use crate::posterior::link::Told;
use crate::posterior::rounding::{LARGEST, SCORED, TINY, above_zero, around, below_infinity, scores_of};
use crate::posterior::wide::Wide;

/// Pairs that are settled together: what is known of them stays in the first-level cache.
pub(super) const PAIRS: usize = 256;
/// A gain beyond this is not bounded from above.
const MOST: f32 = 40.0;
/// Relative room for rounding in f32: a few units in the last place of every number on the way.
const ROUNDING: f64 = 4e-6;
/// The same for sums of `magnitude`, where larger numbers cancel.
const CANCELLED: f64 = 1e-6;
/// The same in f64.
const FINE: f64 = 1e-9;

/// What is known of the bag before any query.
#[derive(Debug)]
pub(super) struct Bounds {
    /// x of every point.
    odds: Vec<f64>,
    /// `ln Σ exp e(z)` over labels but the point's own.
    others: Vec<f64>,
    /// Shares of labels, label by label; not a number where it is the point's own.
    shares: Vec<f32>,
    /// For every expert that tells outputs, shares times slopes, for products with outputs, 0 where it is the point's own; last, shares
    /// alone, where any expert tells outputs as they are.
    packed: Vec<Option<Packed>>,
    /// For every expert, what is known of a point.
    spread: Vec<Vec<Spread>>,
    /// The points of every label.
    of_class: Vec<Vec<u32>>,
    /// What is taken off the score of every class, o, with `exp o` and `exp o - 1`.
    offsets: Vec<[f64; 3]>,
}

/// Of an expert's outputs b of a point for labels but its own.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// The mean of `g'(b)·b` under the point's shares, and how far it ranges.
    mean: f64,
    range: f64,
    /// The largest `g'(b)`.
    slope: f64,
    /// The largest b in size.
    largest: f64,
    /// `g'(b)` of its own label.
    own_slope: f64,
}

/// What is known of the bag when a query is there, whatever its label.
pub(super) struct Moved {
    /// The least x may be without J.
    low: Vec<f64>,
    /// By how much it may exceed that.
    width: Vec<f64>,
    /// R.
    range: Vec<f64>,
    /// What pairs are settled with.
    factors: Vec<Factors>,
    /// All points, from the one with the largest `high`.
    pub(super) reaches: Vec<Reach>,
}

/// What is known of a point for pairs with any label.
#[derive(Clone, Copy)]
struct Factors {
    /// What J is for any label.
    gain: f32,
    /// `exp R` and its inverse.
    spread: [f32; 2],
    /// Below and above `exp(-x)`.
    inverse: [f32; 2],
}

/// Between which numbers the score of a point, less the offset of its class, lies if the query carries any label but the point's.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    pub(super) low: f32,
    pub(super) high: f32,
    pub(super) point: u32,
    pub(super) label: u32,
}

/// Pairs of points with one label, to be settled together; columns of what is known of each.
#[derive(Default)]
pub(super) struct Pairs {
    points: Vec<u32>,
    /// How often its `exp x` without J the query's is, at least and at most.
    wanted: Vec<[f32; 2]>,
    gain: Vec<f32>,
    share: Vec<f32>,
    spread: Vec<[f32; 2]>,
    settled: Vec<Settled>,
}

impl Pairs {
    pub(super) fn is_full(&self) -> bool {
        self.points.len() == PAIRS
    }

    /// `wanted` is what the point must reach, below and above the exponential of its odds.
    pub(super) fn push(&mut self, moved: &Moved, point: u32, wanted: [f32; 2]) {
        let factors = &moved.factors[point as usize];
        self.points.push(point);
        self.wanted.push([wanted[0] * factors.inverse[0], wanted[1] * factors.inverse[1]]);
        self.gain.push(factors.gain);
        self.spread.push(factors.spread);
    }
}

/// What a point does, as a number: [`OPEN`], [`REACHES`] or `STAYS`.
pub(super) type Settled = u32;
/// It is not known yet.
pub(super) const OPEN: Settled = 0;
/// Its score is at least the query's.
pub(super) const REACHES: Settled = 1;
const STAYS: Settled = 2;

impl Bounds {
    /// `outputs` are what the experts' evidence is told from.
    pub(super) fn new(
        bag: &Bagged<'_>,
        outputs: &[(&Wide, Told)],
        offsets: &[f64],
        context: &Context<'_>,
    ) -> Self {
        let offsets = offsets.iter().map(|off| [*off, off.exp(), off.exp_m1()]).collect();
        let (n, classes) = (bag.labels.len(), bag.evidence.cols());
        let mut shares = vec![f32::NAN; n * classes];
        let (mut odds, mut others) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let mut spread = vec![Vec::with_capacity(n); outputs.len()];
        let mut of_class = vec![Vec::new(); classes];
        for (point, &label) in bag.labels.iter().enumerate() {
            let (row, own) = (bag.evidence.row(point), label as usize);
            of_class[own].push(point as u32);
            let rest = || row.iter().enumerate().filter(|&(label, _)| label != own);
            let most = rest().map(|(_, &value)| value).fold(f64::NEG_INFINITY, f64::max);
            let total = most + rest().map(|(_, value)| (value - most).exp()).sum::<f64>().ln();
            odds.push(total - row[own]);
            others.push(total);
            for (label, value) in rest() {
                shares[label * n + point] = (value - total).exp() as f32;
            }
            for (spread, &(table, told)) in spread.iter_mut().zip(outputs) {
                let outputs = table.row(point);
                let (mut mean, mut least, mut most) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
                let (mut slope, mut largest) = (0.0f64, 0.0f64);
                for (label, value) in rest() {
                    let output = outputs[label];
                    let sloping = told.slope(output) * output;
                    mean += (value - total).exp() * sloping;
                    [least, most] = [least.min(sloping), most.max(sloping)];
                    slope = slope.max(told.slope(output));
                    largest = largest.max(output.abs());
                }
                let own_slope = told.slope(outputs[own]);
                spread.push(Spread { mean, range: (most - least).max(0.0), slope, largest, own_slope });
            }
        }
        let pack = |slope: &(dyn Fn(usize, usize) -> f64 + Sync)| {
            Packed::new(
                classes,
                n,
                |label, point| {
                    let share = shares[label * n + point];
                    if share.is_nan() { 0.0 } else { share * slope(point, label) as f32 }
                },
                context,
            )
        };
        let told = outputs.iter().map(|&(table, told)| {
            (!told.is_plain()).then(|| pack(&|point, label| told.slope(table.row(point)[label])))
        });
        let mut packed: Vec<Option<Packed>> = told.collect();
        packed.push(outputs.iter().any(|(_, told)| told.is_plain()).then(|| pack(&|_, _| 1.0)));
        Self { odds, others, shares, packed, spread, of_class, offsets }
    }

    /// What is taken off the score of a class.
    pub(super) fn offset(&self, class: usize) -> f64 {
        self.offsets[class][0]
    }

    /// Below and above `exp x` of a point of `class` whose score less the offset is s, where `grown` is `exp s - 1`.
    pub(super) fn around(&self, grown: f64, class: usize) -> [f32; 2] {
        let [_, factor, added] = self.offsets[class];
        // exp(s + o) - 1, without the 1 that would swallow a small one.
        let value = grown * factor + added;
        around(value, 1e-6 * value.abs() + 1e-15 * (grown * factor).abs().max(added.abs()))
    }

    /// The points that carry a label.
    pub(super) fn of_class(&self, label: usize) -> &[u32] {
        &self.of_class[label]
    }

    /// For every expert that shifts evidence, the mean of its outputs for each query, times slopes, under the shares of each point.
    pub(super) fn means(
        &self,
        experts: &[(f64, Box<dyn Asked + '_>)],
        queries: usize,
        context: &Context<'_>,
    ) -> Result<Vec<Option<Matrix>>> {
        let mean = |(at, expert): (usize, &dyn Asked)| -> Result<Option<Matrix>> {
            let outputs = (0..queries).map_while(|query| expert.shifts(query).map(|shifts| shifts.outputs));
            let rows: Vec<f32> = outputs.flatten().map(|&output| output as f32).collect();
            let packed = self.packed[at].as_ref().or(self.packed[experts.len()].as_ref());
            let Some(packed) = packed.filter(|_| !rows.is_empty()) else { return Ok(None) };
            let classes = rows.len() / queries;
            packed.product(&Matrix::new(rows, queries, classes)?, context).map(Some)
        };
        experts.iter().enumerate().map(|(at, (_, expert))| mean((at, expert.as_ref()))).collect()
    }

    /// What a query changes whatever its label.
    pub(super) fn moved(
        &self,
        bag: &Bagged<'_>,
        outputs: &[(&Wide, Told)],
        experts: &[(f64, Box<dyn Asked + '_>)],
        means: &[Option<Matrix>],
        query: usize,
    ) -> Moved {
        let n = self.odds.len();
        let (mut low, mut range, mut slack) = (self.odds.clone(), vec![0.0; n], vec![0.0; n]);
        let (mut gain, mut bent) = (vec![0.0f64; n], vec![0.0f64; n]);
        for (at, (weight, expert)) in experts.iter().enumerate() {
            let (Some(shifts), Some(means)) = (expert.shifts(query), &means[at]) else { continue };
            let ((table, told), own, means) = (outputs[at], shifts.outputs, means.row(query));
            let least = own.iter().copied().fold(f64::INFINITY, f64::min);
            let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let size = most.abs().max(least.abs());
            let rounding = f64::from(f32::EPSILON) * own.len() as f64 * size;
            // With slopes that differ, what ranges is outputs from 0.
            let ranging = if told.is_plain() { most - least } else { most.max(0.0) - least.min(0.0) };
            let curvature = told.curvature(f64::NEG_INFINITY);
            for (point, &label) in bag.labels.iter().enumerate() {
                let label = label as usize;
                let (shrunk, joined) = (shifts.shrunk[point], shifts.joined[point]);
                let spread = &self.spread[at][point];
                let of_own = shrunk * (table.row(point)[label] - 1.0) - joined * own[label];
                low[point] += weight
                    * (shrunk * spread.mean - joined * f64::from(means[point]) - spread.own_slope * of_own);
                range[point] +=
                    weight * (shrunk.abs() * spread.range + joined.abs() * spread.slope * ranging);
                slack[point] += weight * joined.abs() * spread.slope * rounding;
                if told.is_plain() {
                    gain[point] += weight * joined;
                    continue;
                }
                // How much less than slopes say evidence may become: for the others, which lowers x, and for the own label.
                let most = shrunk.abs() * spread.largest + joined.abs() * size;
                let others = 0.5 * weight * curvature * most * most;
                let near = told.curvature(table.row(point)[label] - of_own.abs());
                low[point] -= others;
                range[point] += others;
                bent[point] += others + 0.5 * weight * near * of_own * of_own;
            }
        }
        let (mut least, mut most) = (gain.clone(), gain.clone());
        for (weight, expert) in experts {
            expert.between(query, *weight, &mut least, &mut most);
        }
        let mut ends = Vec::with_capacity(2 * n);
        let mut moved = Moved {
            width: vec![0.0; n],
            factors: Vec::with_capacity(n),
            reaches: Vec::with_capacity(n),
            low,
            range,
        };
        for (point, slack) in slack.into_iter().enumerate() {
            let range = moved.range[point];
            let room = slack + FINE * (1.0 + moved.low[point].abs());
            moved.low[point] -= room;
            moved.width[point] = range * range / 8.0 + bent[point] + 2.0 * room;
            let [low, high] = [moved.low[point], moved.low[point] + moved.width[point]];
            moved.factors.push(Factors {
                gain: gain[point] as f32,
                spread: [range.min(LARGEST).exp() as f32, (-range).exp() as f32],
                inverse: [above_zero(-high), below_infinity(-low)],
            });
            // ln(1 + s(exp J - 1)) lies between 0 and J for any share s.
            let [low, high] = [low + least[point].min(0.0), high + most[point].max(0.0)];
            let room = ROUNDING * (1.0 + low.abs().max(high.abs()));
            ends.extend([(low - room) as f32, (high + room) as f32]);
        }
        scores_of(&mut ends);
        for ((point, &label), ends) in bag.labels.iter().enumerate().zip(ends.chunks_exact(2)) {
            let off = self.offset(label as usize);
            let end = |at: usize, sign: f64| {
                let score = f64::from(ends[at]);
                (score - off + sign * (SCORED * score + ROUNDING * off.abs() + f64::from(TINY))) as f32
            };
            let [low, high] = [end(0, -1.0), end(1, 1.0)];
            moved.reaches.push(Reach { low, high, point: point as u32, label });
        }
        moved.reaches.sort_unstable_by(|a, b| b.high.total_cmp(&a.high));
        moved
    }

    /// Settles pairs of `label`, which are taken out of `pairs`.
    pub(super) fn settle<'p>(
        &self,
        experts: &[(f64, Box<dyn Asked + '_>)],
        (query, label): (usize, usize),
        pairs: &'p mut Pairs,
    ) -> impl Iterator<Item = (u32, Settled)> + use<'p> {
        let shares = &self.shares[label * self.odds.len()..][..self.odds.len()];
        pairs.share.extend(pairs.points.iter().map(|&point| shares[point as usize]));
        let mut magnitude = 0.0;
        for (weight, expert) in experts {
            magnitude += weight * expert.gains((query, label), &pairs.points, *weight, &mut pairs.gain);
        }
        let pad = (ROUNDING + CANCELLED * magnitude) as f32;
        pairs.settled.resize(pairs.points.len(), OPEN);
        let Pairs { settled, gain, share, spread, wanted, .. } = &mut *pairs;
        Arch::new().dispatch(
            // `zip` takes `settled`: a closure that could be called twice would not be inlined, and nothing vectorised.
            #[inline(always)]
            || {
                let known = gain.iter().zip(&*share).zip(spread.iter().zip(&*wanted));
                for (state, ((sum, share), ([wide, narrow], [least, most]))) in zip(settled, known) {
                    let grown = share * (exp(sum.clamp(-60.0, MOST)) - 1.0);
                    let room = pad * (1.0 + grown.abs());
                    let (one, other) = (grown * wide, grown * narrow);
                    let high = if *sum > MOST { f32::INFINITY } else { 1.0 + one.max(other) + room };
                    let low = 1.0 + one.min(other) - room;
                    *state = u32::from(low >= *most) * REACHES + u32::from(high < *least) * STAYS;
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

    /// One pair again, in f64; `gain` is the whole J.
    pub(super) fn look_again(
        &self,
        bag: &Bagged<'_>,
        moved: &Moved,
        (point, label): (usize, usize),
        gain: f64,
        target: f64,
    ) -> Settled {
        let [mut low, mut high] = [moved.low[point], moved.low[point] + moved.width[point]];
        if bag.labels[point] as usize == label {
            low -= gain;
            high -= gain;
        } else {
            let share = (bag.evidence.row(point)[label] - self.others[point]).exp();
            let grown = share * gain.exp_m1();
            let range = moved.range[point];
            let (one, other) = (grown * range.exp(), grown * (-range).exp());
            low += (1.0 + one.min(other) - FINE).max(0.0).ln();
            high += (1.0 + one.max(other) + FINE).ln();
        }
        let room = FINE * (1.0 + target.abs());
        if low - room >= target {
            REACHES
        } else if high + room < target {
            STAYS
        } else {
            OPEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a point of a class must have, against the formula: also where the offset leaves next to nothing of the score.
    #[test]
    fn wanted_odds_lie_between_their_bounds() {
        let bag = Bagged { evidence: &Wide::default(), labels: &[] };
        let offsets = [0.0, 0.7, -0.7, 3.0, -5.0, 1e-9];
        let bounds = Bounds::new(&bag, &[], &offsets, &Context::new(1).unwrap());
        for (class, off) in offsets.iter().enumerate() {
            for left in
                [-6.0, -0.7, -1e-9, 0.0, 1e-12, 1e-3, 0.5, 0.7 - 1e-13, 4.0, 30.0, 60.0, f64::INFINITY]
            {
                let [low, high] = bounds.around(f64::exp_m1(left), class);
                let expected = (left + off).exp_m1();
                assert!(f64::from(low) <= expected.max(0.0) && expected <= f64::from(high), "{left} {off}");
                let near = high.is_infinite() || f64::from(high - low) < 1e-5 * expected.abs() + 1e-14;
                assert!(near, "{left} {off}: {low} {high}");
            }
        }
    }
}
