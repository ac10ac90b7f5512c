//! Counting with the query in the bag: whose score is at least the query's, for every label it may carry.
//!
//! The score of a point is `-ln p(y) = ln Σ_z exp(e(z) - e(y))`. A query that joins with label l shifts all evidence of a point a
//! little, whatever l is, and the evidence for l in particular. So each point is scored once per query, and again only for labels
//! whose part of its posterior is not negligible: others change nothing that f64 could tell.

use super::expert::Asked;
use super::wide::Wide;

/// A label whose probability is below `exp(NEGLIGIBLE)` before and after changes no score.
const NEGLIGIBLE: f64 = -40.0;
/// Scores this close, relatively, are the same: equal points must count as equal whatever their arithmetic rounds to. Counting
/// one more is always allowed: it makes a p-value larger.
const SAME: f64 = 1e-6;

/// The bag as every query finds it.
pub(super) struct Bagged<'a> {
    /// Evidence of every point for every label, weighted.
    pub(super) evidence: &'a Wide,
    pub(super) labels: &'a [u32],
}

/// `ln(1 + exp(x))`.
pub(super) fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

/// `ln Σ exp` over all labels but those named.
fn log_sum_without(row: &mut [f64], own: usize, other: Option<usize>) -> f64 {
    let kept = (row[own], other.map(|other| row[other]));
    row[own] = f64::NEG_INFINITY;
    if let Some(other) = other {
        row[other] = f64::NEG_INFINITY;
    }
    let sum = log_sum_of_most(row);
    row[own] = kept.0;
    if let (Some(other), Some(value)) = (other, kept.1) {
        row[other] = value;
    }
    sum
}

/// `ln Σ exp`, without what is negligible beside the largest.
fn log_sum_of_most(row: &[f64]) -> f64 {
    let mut lanes = [f64::NEG_INFINITY; 8];
    let (chunks, rest) = row.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    let most = lanes.iter().chain(rest).copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    let least = most + NEGLIGIBLE;
    let sum: f64 = row.iter().filter(|value| **value > least).map(|value| (value - most).exp()).sum();
    most + sum.ln()
}

/// `-ln p(label)` of evidence.
pub(super) fn score(row: &mut [f64], label: usize) -> f64 {
    softplus(log_sum_without(row, label, None) - row[label])
}

/// The least score that counts as no smaller than `score`.
pub(super) fn reaching(score: f64) -> f64 {
    score * (1.0 - SAME)
}

/// For every label, 1 + the number of points of the bag whose score with the query among them is at least the query's.
pub(super) fn counts(
    bag: &Bagged<'_>,
    experts: &[(f64, Box<dyn Asked + '_>)],
    query: usize,
    scores: &[f64],
) -> Vec<u32> {
    let classes = scores.len();
    let thresholds: Vec<f64> = scores.iter().map(|&score| reaching(score)).collect();
    let mut order: Vec<usize> = (0..classes).collect();
    order.sort_unstable_by(|&a, &b| thresholds[a].total_cmp(&thresholds[b]));
    let sorted: Vec<f64> = order.iter().map(|&label| thresholds[label]).collect();
    // How many points reach exactly so many thresholds, and what single labels make of that.
    let mut reach = vec![0i64; classes + 1];
    let mut moved = vec![0i64; classes];
    let (mut row, mut joined) = (vec![0.0; classes], vec![0.0; classes]);
    for (point, &label) in bag.labels.iter().enumerate() {
        let own = label as usize;
        row.copy_from_slice(bag.evidence.row(point));
        joined.fill(0.0);
        for (weight, expert) in experts {
            expert.shift(query, point, *weight, &mut row);
            expert.join(query, point, *weight, &mut joined);
        }
        let others = log_sum_without(&mut row, own, None);
        let before = softplus(others - row[own]);
        reach[sorted.partition_point(|&threshold| threshold <= before)] += 1;
        let mut correct = |label: usize, after: f64| {
            moved[label] += i64::from(after >= thresholds[label]) - i64::from(before >= thresholds[label]);
        };
        correct(own, softplus(others - (row[own] + joined[own])));
        let least = others + NEGLIGIBLE;
        for label in 0..classes {
            let (old, new) = (row[label], row[label] + joined[label]);
            if (old <= least && new <= least) || label == own {
                continue;
            }
            let share = (old - others).exp();
            let after = if share > 0.5 {
                let rest = log_sum_without(&mut row, own, Some(label));
                let most = rest.max(new);
                most + ((rest - most).exp() + (new - most).exp()).ln()
            } else {
                others + ((new - others).exp() - share).ln_1p()
            };
            correct(label, softplus(after - row[own]));
        }
    }
    // A point that reaches k thresholds reaches the k smallest.
    let mut counts = vec![0u32; classes];
    let mut reaching = 0;
    for (place, &label) in order.iter().enumerate().rev() {
        reaching += reach[place + 1];
        counts[label] = (1 + reaching + moved[label]) as u32;
    }
    counts
}
