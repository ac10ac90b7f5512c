//! Which points of the bag reach the query's score for which label, settled without forming their posteriors.
//!
//! A point with label y has `x = ln Σ_{z≠y} exp e(z) - e(y)`, and its score grows with x. A query that joins with label l changes x in
//! three ways, with `q_z` the share of z in that sum:
//! - all evidence shifts a little whatever l is. By Hoeffding's lemma `ln Σ q_z exp δ_z` lies between the mean `Σ q_z δ_z` and that
//!   plus R²/8, where R is the range of the shifts δ: the mean is one product for all points, R is known per point;
//! - the point's own evidence shifts, which is known;
//! - evidence for l gains J, which multiplies the sum by `1 + q_l·exp(±R)·(exp J - 1)`.
//!
//! So every pair of a point and a label has an interval for x, in f32 with room for its rounding, n·c pairs at a few operations each.
//! What the interval leaves open, about one pair in thousands, is looked at again in f64 and then decided by the posterior itself:
//! the counts are those of the posteriors, always.
//!
//! Memory: 8·n·c bytes.

use pulp::Arch;

use super::count::Bagged;
use super::expert::Asked;
use super::wide::Wide;
use crate::context::Context;
use crate::device::cpu::elementwise::exp;
use crate::device::cpu::packed::Packed;
use crate::error::Result;
use crate::matrix::Matrix;

/// Points that are looked at together: what is known of them for some queries stays in the second-level cache.
pub(super) const CHUNK: usize = 512;
/// Numbers beyond `exp(±LARGEST)` are bounded by it on one side and not at all on the other.
const LARGEST: f64 = 43.0;
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
    /// The same for products with evidence, 0 where it is the point's own.
    packed: Packed,
    /// For every expert, the mean of its evidence under the shares of a point and how far it ranges.
    spread: Vec<Vec<[f64; 2]>>,
}

/// What is known of the bag when a query is there, whatever its label.
pub(super) struct Moved {
    /// The least x may be without J.
    low: Vec<f64>,
    /// By how much it may exceed that.
    width: Vec<f64>,
    /// R.
    range: Vec<f64>,
    /// What J is for any label.
    gain: Vec<f32>,
    /// `exp R` and its inverse.
    spread: [Vec<f32>; 2],
    /// Below and above `exp(-x)`.
    inverse: [Vec<f32>; 2],
}

/// What a point does, as a number: [`OPEN`], [`REACHES`] or `STAYS`.
pub(super) type Settled = u32;
/// It is not known yet.
pub(super) const OPEN: Settled = 0;
/// Its score is at least the query's.
pub(super) const REACHES: Settled = 1;
const STAYS: Settled = 2;

impl Bounds {
    /// `tables` are the evidences of the experts.
    pub(super) fn new(bag: &Bagged<'_>, tables: &[&Wide]) -> Self {
        let (n, classes) = (bag.labels.len(), bag.evidence.cols());
        let mut shares = vec![f32::NAN; n * classes];
        let mut rows = vec![0.0f32; n * classes];
        let (mut odds, mut others) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let mut spread = vec![Vec::with_capacity(n); tables.len()];
        for (point, &label) in bag.labels.iter().enumerate() {
            let (row, own) = (bag.evidence.row(point), label as usize);
            let rest = || row.iter().enumerate().filter(|&(label, _)| label != own);
            let most = rest().map(|(_, &value)| value).fold(f64::NEG_INFINITY, f64::max);
            let total = most + rest().map(|(_, value)| (value - most).exp()).sum::<f64>().ln();
            odds.push(total - row[own]);
            others.push(total);
            for (label, value) in rest() {
                let share = (value - total).exp() as f32;
                shares[label * n + point] = share;
                rows[point * classes + label] = share;
            }
            for (spread, table) in spread.iter_mut().zip(tables) {
                let evidence = table.row(point);
                let (mut mean, mut least, mut largest) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
                for (label, value) in rest() {
                    mean += (value - total).exp() * evidence[label];
                    least = least.min(evidence[label]);
                    largest = largest.max(evidence[label]);
                }
                spread.push([mean, (largest - least).max(0.0)]);
            }
        }
        let packed = Packed::new(classes, n, |label, point| rows[point * classes + label]);
        Self { odds, others, shares, packed, spread }
    }

    /// For every expert that shifts evidence, the mean of what it says of each query under the shares of each point.
    pub(super) fn means(
        &self,
        experts: &[(f64, Box<dyn Asked + '_>)],
        queries: usize,
        context: &Context<'_>,
    ) -> Result<Vec<Option<Matrix>>> {
        let mean = |expert: &dyn Asked| {
            (queries > 0 && expert.shifts(0).is_some()).then(|| {
                let rows = (0..queries).flat_map(|query| expert.evidence(query)).map(|&value| value as f32);
                let rows: Vec<f32> = rows.collect();
                let classes = rows.len() / queries;
                self.packed.product(&Matrix::new(rows, queries, classes)?, context)
            })
        };
        experts.iter().map(|(_, expert)| mean(expert.as_ref()).transpose()).collect()
    }

    /// What a query changes whatever its label.
    pub(super) fn moved(
        &self,
        bag: &Bagged<'_>,
        tables: &[&Wide],
        experts: &[(f64, Box<dyn Asked + '_>)],
        means: &[Option<Matrix>],
        query: usize,
    ) -> Moved {
        let n = self.odds.len();
        let (mut low, mut range, mut slack) = (self.odds.clone(), vec![0.0; n], vec![0.0; n]);
        let mut gain = vec![0.0f64; n];
        for (at, (weight, expert)) in experts.iter().enumerate() {
            let (Some(shifts), Some(means)) = (expert.shifts(query), &means[at]) else { continue };
            let (own, means) = (expert.evidence(query), means.row(query));
            let least = own.iter().copied().fold(f64::INFINITY, f64::min);
            let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let rounding = f64::from(f32::EPSILON) * own.len() as f64 * most.abs().max(least.abs());
            for (point, &label) in bag.labels.iter().enumerate() {
                let label = label as usize;
                let (shrunk, joined) = (weight * shifts.shrunk[point], weight * shifts.joined[point]);
                let [mean, spread] = self.spread[at][point];
                let of_own = shrunk * (tables[at].row(point)[label] - 1.0) - joined * own[label];
                low[point] += shrunk * mean - joined * f64::from(means[point]) - of_own;
                range[point] += shrunk.abs() * spread + joined.abs() * (most - least);
                slack[point] += joined.abs() * rounding;
                gain[point] += joined;
            }
        }
        let mut moved = Moved {
            width: vec![0.0; n],
            gain: gain.iter().map(|&gain| gain as f32).collect(),
            spread: [vec![0.0; n], vec![0.0; n]],
            inverse: [vec![0.0; n], vec![0.0; n]],
            low,
            range,
        };
        for (point, slack) in slack.into_iter().enumerate() {
            let range = moved.range[point];
            let room = slack + FINE * (1.0 + moved.low[point].abs());
            moved.low[point] -= room;
            moved.width[point] = range * range / 8.0 + 2.0 * room;
            let [low, high] = [moved.low[point], moved.low[point] + moved.width[point]];
            moved.inverse[0][point] = above_zero(-high);
            moved.inverse[1][point] = below_infinity(-low);
            moved.spread[0][point] = range.min(LARGEST).exp() as f32;
            moved.spread[1][point] = (-range).exp() as f32;
        }
        moved
    }

    /// Settles a label for points from `first`: says which reach what is `wanted` of them, below and above `exp x` of the query's
    /// score. `gain` holds what J is beyond the part that any label has.
    pub(super) fn settle<'s>(
        &self,
        moved: &Moved,
        (label, first): (usize, usize),
        wanted: [&[f32]; 2],
        (gain, magnitude): (&[f32], f64),
        state: &'s mut [Settled; CHUNK],
    ) -> &'s [Settled] {
        let (n, count) = (self.odds.len(), gain.len());
        let part = first..first + count;
        let shares = &self.shares[label * n..][part.clone()];
        let pad = (ROUNDING + CANCELLED * magnitude) as f32;
        let [wide, narrow] = [&moved.spread[0][part.clone()], &moved.spread[1][part.clone()]];
        let [below, above] = [&moved.inverse[0][part.clone()], &moved.inverse[1][part.clone()]];
        let base = &moved.gain[part];
        let state = &mut state[..count];
        Arch::new().dispatch(
            #[inline(always)]
            || {
                let each = state.iter_mut().zip(gain).zip(base).zip(shares);
                let spread = wide.iter().zip(narrow);
                let bounds = below.iter().zip(above).zip(wanted[0].iter().zip(wanted[1]));
                for (((((state, gain), base), share), (wide, narrow)), ((below, above), (least, most))) in
                    each.zip(spread).zip(bounds)
                {
                    let sum = *gain + base;
                    let grown = share * (exp(sum.clamp(-60.0, MOST)) - 1.0);
                    let room = pad * (1.0 + grown.abs());
                    let (one, other) = (grown * wide, grown * narrow);
                    let high = if sum > MOST { f32::INFINITY } else { 1.0 + one.max(other) + room };
                    let low = 1.0 + one.min(other) - room;
                    let reaches = low >= most * above;
                    let stays = high < least * below;
                    *state = u32::from(reaches) * REACHES + u32::from(stays) * STAYS;
                }
            },
        );
        state
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

/// Below and above `exp x`, for [`Bounds::settle`].
pub(super) fn around(x: f64) -> [f32; 2] {
    [above_zero(x), below_infinity(x)]
}

/// At most `exp x`, and not too small for f32.
fn above_zero(x: f64) -> f32 {
    if x < -LARGEST || x.is_nan() { 0.0 } else { (x.min(LARGEST).exp() * (1.0 - 1e-6)) as f32 }
}

/// At least `exp x`, and not too large for f32.
fn below_infinity(x: f64) -> f32 {
    if x > LARGEST || x.is_nan() { f32::INFINITY } else { (x.max(-LARGEST).exp() * (1.0 + 1e-6)) as f32 }
}
