//! Class offsets from the fit points. They are subtracted from scores, so that the coverage of classes becomes more
//! equal.
//!
//! The offset of a class is a share of its shrunken effect. The effect is the mean score of the k points of the class,
//! less the overall mean. It is partly chance, so it shrinks by the factor `k/(k + v/u)`, where v is the variance of
//! scores within classes and u the variance of the class means. Both come from the analysis of variance.
//!
//! The share is at most one half, because the smallest sets and balanced classes are different goals. Sets are smallest
//! without offsets. A small offset enlarges sets in second order only, and balances classes in first order. The share
//! depends on the data, so it is chosen by cross-fitting: each half of the points uses the effects of the other half.
//! The largest share is taken that does not enlarge sets, up to chance.

use std::ops::Range;

use crate::numeric::matrix::Matrix;
use crate::posterior::settings::MOST_OFFSET;
use crate::posterior::weights::log_sum;

/// Shares of the class effects that are compared, largest first.
const SHARES: [f64; 4] = [0.5, 0.375, 0.25, 0.125];
/// Error levels at which set sizes are compared.
const LEVELS: [f64; 2] = [0.1, 0.05];
/// The largest relative growth of the mean set size at each level, with two standard errors added to the growth.
const GROWTH: f64 = 0.01;

/// Returns the offset of every class. `log_posterior` holds cross-fitted points: experts trained on the other points
/// predicted the first `half` points, and vice versa.
pub(super) fn offsets(log_posterior: &Matrix<f64>, labels: &[u32], half: usize, classes: usize) -> Vec<f64> {
    let scored = FitScores::new(log_posterior, labels, half, classes);
    let plain = LEVELS.map(|alpha| scored.sizes(0.0, alpha));
    let keeps_sizes = |share: &f64| {
        let grown = |(&alpha, plain): (&f64, &Vec<f64>)| growth(&scored.sizes(*share, alpha), plain);
        LEVELS.iter().zip(&plain).all(|level| grown(level) <= GROWTH)
    };
    let share = SHARES.into_iter().find(keeps_sizes).unwrap_or(0.0);
    let off = |off: f64| (share * off).clamp(-MOST_OFFSET, MOST_OFFSET);
    class_effects(&scored.own, labels, classes).into_iter().map(off).collect()
}

/// Returns the relative growth of the mean set size from `before` to `after`, plus two standard errors.
fn growth(after: &[f64], before: &[f64]) -> f64 {
    let n = before.len() as f64;
    let mean = after.iter().zip(before).map(|(a, b)| a - b).sum::<f64>() / n;
    let squares: f64 = after.iter().zip(before).map(|(a, b)| (a - b - mean).powi(2)).sum();
    (mean * n + 2.0 * squares.sqrt()) / before.iter().sum::<f64>().max(1.0)
}

/// The cross-fitted scores of the fit points, and the class effects of each half.
struct FitScores<'a> {
    labels: &'a [u32],
    /// The score of every label of every point, one point after the other.
    scores: Vec<f64>,
    /// The score of every point's own label.
    own: Vec<f64>,
    /// The number of points in the first half.
    half: usize,
    /// The class effects, computed from the first half and from the second half.
    effects: [Vec<f64>; 2],
    classes: usize,
}

impl<'a> FitScores<'a> {
    fn new(log_posterior: &Matrix<f64>, labels: &'a [u32], half: usize, classes: usize) -> Self {
        let mut scores = Vec::with_capacity(labels.len() * classes);
        let mut own = Vec::with_capacity(labels.len());
        for (row, &label) in labels.iter().enumerate() {
            let row = log_posterior.row(row);
            let total = log_sum(row);
            scores.extend(row.iter().map(|value| total - value));
            own.push(total - row[label as usize]);
        }
        let [first, second] = [0..half, half..labels.len()];
        let of = |points: Range<usize>| class_effects(&own[points.clone()], &labels[points], classes);
        let effects = [of(first), of(second)];
        Self { labels, scores, own, half, effects, classes }
    }

    /// Returns the class effects for a point, computed from the half that does not contain the point.
    fn effects(&self, point: usize) -> &[f64] {
        &self.effects[usize::from(point < self.half)]
    }

    /// Returns the size of every point's set at error level `alpha`, with `share` times the class effects as offsets.
    fn sizes(&self, share: f64, alpha: f64) -> Vec<f64> {
        let own = self.own.iter().zip(self.labels).enumerate();
        let mut sorted: Vec<f64> =
            own.map(|(at, (score, &label))| score - share * self.effects(at)[label as usize]).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = ((1.0 - alpha) * (sorted.len() + 1) as f64).ceil() as usize;
        let threshold = sorted.get(place.max(1) - 1).copied().unwrap_or(f64::INFINITY);
        let rows = self.scores.chunks_exact(self.classes).enumerate();
        rows.map(|(at, row)| {
            let each = row.iter().zip(self.effects(at));
            each.filter(|&(score, off)| score - share * off <= threshold).count() as f64
        })
        .collect()
    }
}

/// Returns the shrunken effect of every class: its mean score less the overall mean, shrunk towards 0.
fn class_effects(scores: &[f64], labels: &[u32], classes: usize) -> Vec<f64> {
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
    let classes_present = present().count() as f64;
    let v = within / (n - classes_present);
    let squares = present().map(|(_, count)| count * count).sum::<f64>();
    let u = (between - (classes_present - 1.0) * v) / (n - squares / n);
    if !(u > 0.0 && v.is_finite()) {
        return vec![0.0; classes];
    }
    sums.iter().map(|(sum, count)| (sum - count * average) / (count + v / u)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// The expected effects are computed by hand: scores 1, 3 and 5, 7 have within 4/(4-2) = 2 and between (16 - 2)/(4
    /// - 8/4) = 7, which gives 2/(2 + 2/7) of ±2.
    #[test]
    fn effects_of_classes_shrink() {
        let found = class_effects(&[1.0, 3.0, 5.0, 7.0], &[0, 0, 2, 2], 3);
        for (found, expected) in found.iter().zip([-1.75, 0.0, 1.75]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    /// Equal classes have effects near 0. Different classes have effects near the differences of their means.
    #[test]
    fn chance_is_not_taken_for_difficulty() {
        let random = &mut Random::new(1, 2);
        let labels: Vec<u32> = (0..600).map(|at| at % 60).collect();
        for spread in [0.0, 3.0] {
            let own: Vec<f64> = (0..60).map(|_| spread * random.normal()).collect();
            let scores: Vec<f64> = labels.iter().map(|&label| own[label as usize] + random.normal()).collect();
            let found = class_effects(&scores, &labels, 60);
            let center = own.iter().sum::<f64>() / 60.0;
            for (found, own) in found.iter().zip(own) {
                // The standard error of a mean of ten is 0.32.
                assert!((found - (own - center)).abs() < 0.32 * if spread > 0.0 { 4.0 } else { 1.0 });
            }
        }
    }

    /// Draws log posteriors of points in 20 classes. The advantage of the own label grows with the class from 3 to 6.8.
    fn drawn(points: usize, random: &mut Random) -> (Matrix<f64>, Vec<u32>) {
        let labels: Vec<u32> = (0..points).map(|_| random.below(20) as u32).collect();
        let mut log_posterior = Matrix::<f64>::zeros(points, 20);
        for (row, &label) in labels.iter().enumerate() {
            log_posterior.row_mut(row).iter_mut().for_each(|value| *value = random.normal());
            log_posterior.row_mut(row)[label as usize] += 3.0 + 0.2 * f64::from(label);
        }
        (log_posterior, labels)
    }

    /// With many points, difficult classes get larger offsets, and sets of new points do not grow. With few points, all
    /// offsets are 0.
    #[test]
    fn offsets_balance_classes_without_larger_sets() {
        let random = &mut Random::new(4, 2);
        let (log_posterior, labels) = drawn(3000, random);
        let off = offsets(&log_posterior, &labels, 1500, 20);
        assert!(off[..6].iter().all(|&off| off > 0.02) && off[14..].iter().all(|&off| off < -0.02), "{off:?}");
        let (log_posterior, labels) = drawn(3000, random);
        let mut fresh = FitScores::new(&log_posterior, &labels, 1500, 20);
        let plain = fresh.sizes(0.0, 0.1).iter().sum::<f64>();
        fresh.effects = [off.clone(), off];
        assert!(fresh.sizes(1.0, 0.1).iter().sum::<f64>() < 1.02 * plain);
        let (log_posterior, labels) = drawn(60, random);
        assert!(offsets(&log_posterior, &labels, 30, 20).iter().all(|&off| off == 0.0));
    }

    #[test]
    fn one_class_or_one_point_per_class_has_no_effect() {
        assert_eq!(class_effects(&[1.0, 2.0], &[1, 1], 2), [0.0, 0.0]);
        assert_eq!(class_effects(&[1.0, 2.0], &[0, 1], 2), [0.0, 0.0]);
        assert_eq!(class_effects(&[], &[], 2), [0.0, 0.0]);
    }
}
