//! What is taken off the scores of classes so that they are covered more alike: up to half of how much harder than others the fit points found
//! each, as far as that enlarges no sets.
//!
//! The mean score of k points of a class is part chance. With the variance v of scores within classes and the variance u of the classes'
//! own means around that of all (both by the analysis of variance), `k/(k + v/u)` of what such a mean differs by is to be believed.
//!
//! Up to half of it, because the two aims part: scores as they are have the smallest sets, which a small offset enlarges in the second order
//! only, while it evens classes out in the first. How small is small differs: where few points tell how hard a class is, or even the best labels
//! are doubtful, half is too much. So each half of the points gets the offsets that the other half finds, and the share is the largest whose sets
//! are as small as those without, chance included.

use std::ops::Range;

use crate::posterior::settings::MOST_OFFSET;
use crate::posterior::weights::log_sum;
use crate::posterior::wide::Wide;

/// Shares of what is believed that are tried.
const SHARES: [f64; 4] = [0.5, 0.375, 0.25, 0.125];
/// Error levels at which sets are compared.
const LEVELS: [f64; 2] = [0.1, 0.05];
/// By what part sets may grow at each, with two standard errors.
const GROWTH: f64 = 0.01;

/// Of every class, from `evidence` about fit points that the experts had not seen: the first `half` of them were judged by the others, and the
/// other way round.
pub(super) fn offsets(evidence: &Wide, labels: &[u32], half: usize, classes: usize) -> Vec<f64> {
    let scored = Scored::new(evidence, labels, half, classes);
    let plain = LEVELS.map(|alpha| scored.sizes(0.0, alpha));
    let keeps = |share: &f64| {
        let grown = |(&alpha, plain): (&f64, &Vec<f64>)| growth(&scored.sizes(*share, alpha), plain);
        LEVELS.iter().zip(&plain).all(|level| grown(level) <= GROWTH)
    };
    let share = SHARES.into_iter().find(keeps).unwrap_or(0.0);
    let off = |off: f64| (share * off).clamp(-MOST_OFFSET, MOST_OFFSET);
    believed(&scored.own, labels, classes).into_iter().map(off).collect()
}

/// By what part sets have grown, with two standard errors.
fn growth(after: &[f64], before: &[f64]) -> f64 {
    let n = before.len() as f64;
    let mean = after.iter().zip(before).map(|(a, b)| a - b).sum::<f64>() / n;
    let squares: f64 = after.iter().zip(before).map(|(a, b)| (a - b - mean).powi(2)).sum();
    (mean * n + 2.0 * squares.sqrt()) / before.iter().sum::<f64>().max(1.0)
}

/// Fit points with the scores of their labels.
struct Scored<'a> {
    labels: &'a [u32],
    /// Every label's, point by point.
    scores: Vec<f64>,
    /// That of the own label.
    own: Vec<f64>,
    half: usize,
    /// The offsets that either half finds.
    found: [Vec<f64>; 2],
    classes: usize,
}

impl<'a> Scored<'a> {
    fn new(evidence: &Wide, labels: &'a [u32], half: usize, classes: usize) -> Self {
        let mut scores = Vec::with_capacity(labels.len() * classes);
        let mut own = Vec::with_capacity(labels.len());
        for (row, &label) in labels.iter().enumerate() {
            let row = evidence.row(row);
            let total = log_sum(row);
            scores.extend(row.iter().map(|value| total - value));
            own.push(total - row[label as usize]);
        }
        let [first, second] = [0..half, half..labels.len()];
        let of = |points: Range<usize>| believed(&own[points.clone()], &labels[points], classes);
        let found = [of(first), of(second)];
        Self { labels, scores, own, half, found, classes }
    }

    /// The offsets of a point's labels: those of the half that it is not in.
    fn off(&self, point: usize) -> &[f64] {
        &self.found[usize::from(point < self.half)]
    }

    /// Sizes of the points' sets.
    fn sizes(&self, share: f64, alpha: f64) -> Vec<f64> {
        let own = self.own.iter().zip(self.labels).enumerate();
        let mut sorted: Vec<f64> =
            own.map(|(at, (score, &label))| score - share * self.off(at)[label as usize]).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = ((1.0 - alpha) * (sorted.len() + 1) as f64).ceil() as usize;
        let threshold = sorted.get(place.max(1) - 1).copied().unwrap_or(f64::INFINITY);
        let rows = self.scores.chunks_exact(self.classes).enumerate();
        rows.map(|(at, row)| {
            let each = row.iter().zip(self.off(at));
            each.filter(|&(score, off)| score - share * off <= threshold).count() as f64
        })
        .collect()
    }
}

/// How much harder than all points those of every class are, as far as their scores are to be believed.
fn believed(scores: &[f64], labels: &[u32], classes: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); classes];
    for (&score, &label) in scores.iter().zip(labels) {
        let (sum, count) = &mut sums[label as usize];
        *sum += score;
        *count += 1.0;
    }
    let n = scores.len() as f64;
    let average = scores.iter().sum::<f64>() / n;
    let present = || sums.iter().filter(|(_, count)| *count > 0.0);
    let within: f64 = scores
        .iter()
        .zip(labels)
        .map(|(&score, &label)| (score - sums[label as usize].0 / sums[label as usize].1).powi(2))
        .sum();
    let between: f64 = present().map(|(sum, count)| count * (sum / count - average).powi(2)).sum();
    let seen = present().count() as f64;
    let v = within / (n - seen);
    let u = (between - (seen - 1.0) * v) / (n - present().map(|(_, count)| count * count).sum::<f64>() / n);
    if !(u > 0.0 && v.is_finite()) {
        return vec![0.0; classes];
    }
    sums.iter().map(|(sum, count)| (sum - count * average) / (count + v / u)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// By hand: scores 1, 3 and 5, 7: within 4/(4-2) = 2, between (16 - 2)/(4 - 8/4) = 7, so 2/(2 + 2/7) of ±2.
    #[test]
    fn what_a_class_differs_by_is_believed_in_part() {
        let found = believed(&[1.0, 3.0, 5.0, 7.0], &[0, 0, 2, 2], 3);
        for (found, expected) in found.iter().zip([-1.75, 0.0, 1.75]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    /// Where classes do not differ, next to nothing is believed; where they do, about what they differ by.
    #[test]
    fn chance_is_not_taken_for_difficulty() {
        let random = &mut Random::new(1, 2);
        let labels: Vec<u32> = (0..600).map(|at| at % 60).collect();
        for apart in [0.0, 3.0] {
            let own: Vec<f64> = (0..60).map(|_| apart * random.normal()).collect();
            let scores: Vec<f64> =
                labels.iter().map(|&label| own[label as usize] + random.normal()).collect();
            let found = believed(&scores, &labels, 60);
            let middle = own.iter().sum::<f64>() / 60.0;
            for (found, own) in found.iter().zip(own) {
                // The standard error of a mean of ten is 0.32.
                assert!((found - (own - middle)).abs() < 0.32 * if apart > 0.0 { 4.0 } else { 1.0 });
            }
        }
    }

    /// Points of 20 classes; the own label stands out by 3 to 7, by its class.
    fn drawn(points: usize, random: &mut Random) -> (Wide, Vec<u32>) {
        let labels: Vec<u32> = (0..points).map(|_| random.below(20) as u32).collect();
        let mut evidence = Wide::zeros(points, 20);
        for (row, &label) in labels.iter().enumerate() {
            evidence.row_mut(row).iter_mut().for_each(|value| *value = random.normal());
            evidence.row_mut(row)[label as usize] += 3.0 + 0.2 * f64::from(label);
        }
        (evidence, labels)
    }

    /// Many points: hard classes lose more, as long as sets of new points do not grow. Few: nothing is known, and nothing taken off.
    #[test]
    fn classes_are_evened_out_where_that_enlarges_no_sets() {
        let random = &mut Random::new(4, 2);
        let (evidence, labels) = drawn(3000, random);
        let off = offsets(&evidence, &labels, 1500, 20);
        assert!(
            off[..6].iter().all(|&off| off > 0.02) && off[14..].iter().all(|&off| off < -0.02),
            "{off:?}"
        );
        let (evidence, labels) = drawn(3000, random);
        let mut fresh = Scored::new(&evidence, &labels, 1500, 20);
        let plain = fresh.sizes(0.0, 0.1).iter().sum::<f64>();
        fresh.found = [off.clone(), off];
        assert!(fresh.sizes(1.0, 0.1).iter().sum::<f64>() < 1.02 * plain);
        let (evidence, labels) = drawn(60, random);
        assert!(offsets(&evidence, &labels, 30, 20).iter().all(|&off| off == 0.0));
    }

    #[test]
    fn one_class_or_one_point_per_class_is_as_hard_as_all() {
        assert_eq!(believed(&[1.0, 2.0], &[1, 1], 2), [0.0, 0.0]);
        assert_eq!(believed(&[1.0, 2.0], &[0, 1], 2), [0.0, 0.0]);
        assert_eq!(believed(&[], &[], 2), [0.0, 0.0]);
    }
}
