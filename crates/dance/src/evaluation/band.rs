//! The distribution of the coverage on test points, which varies with the draw of calibration and test points.
//!
//! Let n calibration points and t test points be exchangeable, with scores without ties. Then the number of covered
//! test points has the distribution `BetaBinomial(t, k, n+1-k)` with `k = ⌈(1-α)(n+1)⌉`. The ratio of the probabilities
//! of j and j+1 covered points has a closed form, which gives all t+1 probabilities exactly at the cost `O(t)`.
//! Example: at α = 0.1 with 1467 calibration and 735 test points, a coverage of 0.888 is within chance, and 0.85 is
//! not.
//!
//! ```
//! use dance::evaluation::{coverage_at_most, coverage_interval};
//! let (low, high) = coverage_interval(1467, 735, 0.1);
//! assert!(low < 0.888 && 0.888 < high && coverage_at_most(0.85, 1467, 735, 0.1) < 0.01);
//! ```

use crate::scores::calibration::order_index;

/// The probability that the coverage lies in the interval of [`coverage_interval`].
const PROBABILITY: f64 = 0.95;

/// Returns the lower and the upper end of the central interval that contains the coverage on `test` points with
/// probability 0.95. The sets have error level `alpha` and were calibrated on `calibration` points.
pub fn coverage_interval(calibration: usize, test: usize, alpha: f64) -> (f64, f64) {
    let cumulative = cumulative(calibration, test, alpha);
    let tail = (1.0 - PROBABILITY) / 2.0;
    let share = |covered: usize| covered as f64 / test.max(1) as f64;
    let low = cumulative.iter().position(|&sum| sum > tail).unwrap_or(0);
    let high = cumulative.iter().position(|&sum| sum >= 1.0 - tail - 1e-12);
    (share(low), share(high.unwrap_or(test)))
}

/// Returns the probability that the coverage on `test` points is at most `coverage`. The sets have error level `alpha`
/// and were calibrated on `calibration` points.
pub fn coverage_at_most(coverage: f64, calibration: usize, test: usize, alpha: f64) -> f64 {
    let covered = (coverage * test as f64).round() as usize;
    cumulative(calibration, test, alpha).get(covered).copied().unwrap_or(1.0).min(1.0)
}

/// Returns, for each number j from 0 to `test`, the probability that at most j of the test points are covered.
fn cumulative(calibration: usize, test: usize, alpha: f64) -> Vec<f64> {
    let k = order_index(alpha, calibration);
    if k > calibration {
        // Every set holds all labels, so every point is covered.
        return (0..=test).map(|covered| f64::from(u8::from(covered == test))).collect();
    }
    let (a, b, t) = (k as f64, (calibration + 1 - k) as f64, test as f64);
    // P(j+1)/P(j). Weights relative to the most probable number cannot overflow.
    let ratio = |j: f64| (t - j) / (j + 1.0) * (j + a) / (t - j - 1.0 + b);
    let mode = ((a / (a + b) * t).round() as usize).min(test);
    let mut weights = vec![0.0; test + 1];
    weights[mode] = 1.0;
    for j in mode..test {
        weights[j + 1] = weights[j] * ratio(j as f64);
    }
    for j in (0..mode).rev() {
        weights[j] = weights[j + 1] / ratio(j as f64);
    }
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let cumulative = weights.iter().map(|weight| {
        sum += weight / total;
        sum
    });
    cumulative.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    #[test]
    fn small_cases_by_hand() {
        // n = 1, α = 0.5: k = 1, so Beta(1, 1): of two test points 0, 1 or 2 are covered with equal probability.
        for (covered, expected) in [(0.0, 1.0 / 3.0), (0.5, 2.0 / 3.0), (1.0, 1.0)] {
            assert!((coverage_at_most(covered, 1, 2, 0.5) - expected).abs() < 1e-12);
        }
        // n = 3, α = 0.25: k = 3, Beta(3, 1); one test point is covered with probability 3/4.
        assert!((coverage_at_most(0.0, 3, 1, 0.25) - 0.25).abs() < 1e-12);
        // Too few calibration points: every set holds all labels.
        assert_eq!(coverage_interval(5, 10, 0.01), (1.0, 1.0));
    }

    /// Tests the distribution against simulations with uniform scores of calibration and test points.
    #[test]
    fn agrees_with_simulation() {
        let (n, t, alpha, draws) = (40, 60, 0.2, 4000);
        let cumulative = cumulative(n, t, alpha);
        let mut random = Random::new(3, 3);
        let mut counts = vec![0usize; t + 1];
        for _ in 0..draws {
            let mut scores: Vec<f64> = (0..n).map(|_| random.uniform()).collect();
            scores.sort_by(f64::total_cmp);
            let threshold = scores[order_index(alpha, n) - 1];
            counts[(0..t).filter(|_| random.uniform() <= threshold).count()] += 1;
        }
        let mut sum = 0.0;
        for (covered, count) in counts.iter().enumerate() {
            sum += *count as f64 / f64::from(draws);
            let expected = cumulative[covered];
            let error = 4.5 * (expected * (1.0 - expected).max(0.0) / f64::from(draws)).sqrt() + 1e-9;
            assert!((sum - expected).abs() < error, "{covered}: {sum} {expected}");
        }
    }
}
