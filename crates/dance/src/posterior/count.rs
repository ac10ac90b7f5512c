//! Counting with the query in the bag: whose score is at least the query's, for every label it may carry.
//!
//! The score of a point is `-ln p(y) = ln(1 + exp x)` with `x = ln Σ_{z≠y} exp e(z) - e(y)`, less what is taken off that of its class. Most pairs of a point and a label are
//! settled by bounds on x ([`crate::posterior::bounds`]); the others by the point's posterior with the query in the bag.

use crate::context::Context;
use crate::error::Result;
use crate::posterior::bounds::{Bounds, Moved, OPEN, Pairs, REACHES};
use crate::posterior::expert::Asked;
use crate::posterior::link::Told;
use crate::posterior::weights::log_sum;
use crate::posterior::wide::Wide;
use crate::scores::by_class::Strata;

/// A label whose probability is below `exp(NEGLIGIBLE)` changes no score.
const NEGLIGIBLE: f64 = -40.0;
/// Scores this close, relatively, are the same: equal points must count as equal whatever their arithmetic rounds to. Counting
/// one more is always allowed: it makes a p-value larger.
const SAME: f64 = 1e-6;
/// Scores this close are the same once offsets are taken off.
const SAME_LESS: f64 = 1e-12;
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

/// The x with `ln(1 + exp(x)) = score`; every x reaches a score below 0.
fn odds_of(score: f64) -> f64 {
    if score > NEGLIGIBLE.abs() { score } else { score.max(0.0).exp_m1().ln() }
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

/// The same once `off` is taken off both: equal scores less equal offsets count as equal, whatever they round to.
pub(super) fn reaching_less(threshold: f64, off: f64) -> f64 {
    if off == 0.0 { threshold } else { threshold - off - SAME_LESS }
}

/// A bag that queries join.
#[derive(Clone, Copy)]
pub(super) struct Joining<'a> {
    pub(super) bag: Bagged<'a>,
    pub(super) experts: &'a [(f64, Box<dyn Asked + 'a>)],
    /// Who is compared with whom, where not all are.
    pub(super) strata: Option<&'a Strata>,
}

impl Joining<'_> {
    /// Whether points of `class` are compared with queries that carry `label`.
    pub(super) fn compares(&self, class: u32, label: usize) -> bool {
        self.strata.is_none_or(|strata| strata.compares(class, label))
    }

    /// Counts of strata on the scale of all points.
    pub(super) fn scaled(&self, mut counts: Vec<u32>) -> Vec<u32> {
        if let Some(strata) = self.strata {
            let each = counts.iter_mut().enumerate();
            each.for_each(|(label, count)| *count = strata.scaled(label, *count));
        }
        counts
    }
}

/// What the queries of a block are counted with.
pub(super) struct Counting<'a> {
    pub(super) joining: Joining<'a>,
    pub(super) bounds: &'a Bounds,
    /// What each expert's evidence of the bag is told from.
    pub(super) outputs: Vec<(&'a Wide, Told)>,
}

/// One query, as it is counted.
pub(super) struct Query {
    /// Its score of every label.
    pub(super) scores: Vec<f64>,
    /// What is taken off each.
    pub(super) offsets: Vec<f64>,
}

/// The scores that points must reach, for every label.
struct Wanted {
    /// By points of that label.
    thresholds: Vec<f64>,
    /// The odds of these.
    odds: Vec<f64>,
    /// By points of other labels, once what is off for them is off.
    targets: Vec<f64>,
    /// Exponentials of these, less 1.
    grown: Vec<f64>,
}

impl Wanted {
    fn new(query: &Query) -> Self {
        let thresholds: Vec<f64> = query.scores.iter().map(|&score| reaching(score)).collect();
        let odds = thresholds.iter().map(|&threshold| odds_of(threshold)).collect();
        let each = thresholds.iter().zip(&query.offsets);
        let targets: Vec<f64> = each.map(|(&threshold, &off)| reaching_less(threshold, off)).collect();
        let grown = targets.iter().map(|target| target.exp_m1()).collect();
        Self { thresholds, odds, targets, grown }
    }
}

impl Counting<'_> {
    /// For every query and label, 1 + the number of points of the bag whose score with the query among them is at least the
    /// query's.
    pub(super) fn count(&self, queries: &[Query], context: &Context<'_>) -> Result<Vec<Vec<u32>>> {
        let means = self.bounds.means(self.joining.experts, queries.len(), context)?;
        let tile = |tile: usize| -> Vec<Vec<u32>> {
            let rows = tile * TILE..((tile + 1) * TILE).min(queries.len());
            let moved = |query| {
                self.bounds.moved(&self.joining.bag, &self.outputs, self.joining.experts, &means, query)
            };
            let moved: Vec<Moved> = rows.clone().map(moved).collect();
            let wanted: Vec<Wanted> = queries[rows.clone()].iter().map(Wanted::new).collect();
            let counts = self.count_tile(rows.start, &wanted, &moved);
            counts.into_iter().map(|counts| self.joining.scaled(counts)).collect()
        };
        Ok(context.map(queries.len().div_ceil(TILE), tile).concat())
    }

    fn count_tile(&self, first_query: usize, wanted: &[Wanted], moved: &[Moved]) -> Vec<Vec<u32>> {
        let classes = self.joining.bag.evidence.cols();
        let mut counts = vec![vec![1u32; classes]; wanted.len()];
        let (mut pairs, mut row) = (Pairs::default(), vec![0.0; classes]);
        // Label by label, so that what experts know of a label is read once for all queries.
        let each = (0..classes).flat_map(|label| (0..wanted.len()).map(move |at| (label, at)));
        for (label, at) in each {
            let of = (first_query + at, label);
            counts[at][label] += self.count_label(of, &moved[at], &wanted[at], &mut pairs, &mut row);
        }
        counts
    }

    /// How many points of the bag reach the query's score where it carries `label`.
    fn count_label(
        &self,
        (query, label): (usize, usize),
        moved: &Moved,
        wanted: &Wanted,
        pairs: &mut Pairs,
        row: &mut [f64],
    ) -> u32 {
        let (target, grown) = (wanted.targets[label], wanted.grown[label]);
        let mut reached = 0;
        let mut look = |pairs: &mut Pairs, row: &mut [f64]| {
            for (point, settled) in self.bounds.settle(self.joining.experts, (query, label), pairs) {
                reached += match settled {
                    OPEN => self.reaches(query, (point as usize, label), moved, wanted, row),
                    settled => u32::from(settled == REACHES),
                };
            }
        };
        let mut surely = 0;
        // What is not a number is no reason to stop.
        for reach in moved.reaches.iter().take_while(|reach| !(f64::from(reach.high) < target)) {
            if reach.label as usize == label || !self.joining.compares(reach.label, label) {
                continue;
            }
            if f64::from(reach.low) >= target {
                surely += 1;
                continue;
            }
            pairs.push(moved, reach.point, self.bounds.around(grown, reach.label as usize));
            if pairs.is_full() {
                look(pairs, row);
            }
        }
        look(pairs, row);
        let own = self.bounds.of_class(label).iter();
        let own: u32 =
            own.map(|&point| self.reaches(query, (point as usize, label), moved, wanted, row)).sum();
        reached + surely + own
    }

    /// Whether a point that bounds leave open reaches the query's score, 1 or 0.
    fn reaches(
        &self,
        query: usize,
        (point, label): (usize, usize),
        moved: &Moved,
        wanted: &Wanted,
        row: &mut [f64],
    ) -> u32 {
        let gain = self
            .joining
            .experts
            .iter()
            .map(|(weight, expert)| weight * expert.join(query, point, label))
            .sum();
        let class = self.joining.bag.labels[point] as usize;
        let (threshold, odds) = if class == label {
            (wanted.thresholds[label], wanted.odds[label])
        } else {
            let threshold = wanted.targets[label] + self.bounds.offset(class);
            (threshold, odds_of(threshold))
        };
        let settled = match self.bounds.look_again(&self.joining.bag, moved, (point, label), gain, odds) {
            OPEN => self.score(query, point, label, row) >= threshold,
            settled => settled == REACHES,
        };
        u32::from(settled)
    }

    /// The score of a point with the query in the bag, carrying `label`.
    fn score(&self, query: usize, point: usize, label: usize, row: &mut [f64]) -> f64 {
        row.copy_from_slice(self.joining.bag.evidence.row(point));
        for (weight, expert) in self.joining.experts {
            expert.shift(query, point, *weight, row);
            row[label] += weight * expert.join(query, point, label);
        }
        score(row, self.joining.bag.labels[point] as usize)
    }
}
