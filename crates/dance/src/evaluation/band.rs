//! The distribution of the coverage on test points, which varies with the draw of calibration and test points.
//!
//! With n calibration points and t test points, all exchangeable, and scores without ties, the number of covered test
//! points has the distribution `BetaBinomial(t, k, n+1-k)`, `k = ⌈(1-α)(n+1)⌉`. Example: at α = 0.1 with the numbers
//! below, a coverage of 0.888 on 735 points is within chance, and 0.85 is not. The distribution is computed exactly
//! from the ratios of neighboring probabilities, at the cost `O(t)`.
//!
//! ```
//! let band = dance::evaluation::CoverageBand::new(1467, 735, 0.1);
//! let (low, high) = band.interval(0.95);
//! assert!(low < 0.888 && 0.888 < high && band.at_most(0.85) < 0.01);
//! ```

use crate::scores::threshold::order_index;

/// The distribution of the coverage on t test points after calibration on n points: `BetaBinomial(t, k, n+1-k)`,
/// divided by t, with k = ⌈(1-α)(n+1)⌉.
#[derive(Clone, Debug, PartialEq)]
pub struct CoverageBand {
    /// `P(covered ≤ j)` for j = 0 … t.
    cumulative: Vec<f64>,
}

impl CoverageBand {
    /// Computes the distribution for the numbers of calibration and test points and the error level `alpha`.
    pub fn new(calibration: usize, test: usize, alpha: f64) -> Self {
        let k = order_index(alpha, calibration);
        if k > calibration {
            // Every set holds all labels, so every point is covered.
            return Self { cumulative: (0..=test).map(|covered| f64::from(u8::from(covered == test))).collect() };
        }
        let (a, b, t) = (k as f64, (calibration + 1 - k) as f64, test as f64);
        // P(j+1)/P(j). Weights relative to the most probable count cannot overflow.
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
        Self { cumulative: cumulative.collect() }
    }

    fn test(&self) -> usize {
        self.cumulative.len() - 1
    }

    /// Returns the ends of the central interval in which the coverage lies with this probability.
    pub fn interval(&self, probability: f64) -> (f64, f64) {
        let tail = (1.0 - probability) / 2.0;
        let share = |covered: usize| covered as f64 / self.test().max(1) as f64;
        let low = self.cumulative.iter().position(|&sum| sum > tail).unwrap_or(0);
        let high = self.cumulative.iter().position(|&sum| sum >= 1.0 - tail - 1e-12);
        (share(low), share(high.unwrap_or(self.test())))
    }

    /// Returns the probability of this coverage or a lower one.
    pub fn at_most(&self, coverage: f64) -> f64 {
        let covered = (coverage * self.test() as f64).round() as usize;
        self.cumulative.get(covered).copied().unwrap_or(1.0).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    #[test]
    fn small_cases_by_hand() {
        // n = 1, α = 0.5: k = 1, so Beta(1, 1): of two test points 0, 1 or 2 are covered with equal probability.
        let band = CoverageBand::new(1, 2, 0.5);
        for (covered, expected) in [(0.0, 1.0 / 3.0), (0.5, 2.0 / 3.0), (1.0, 1.0)] {
            assert!((band.at_most(covered) - expected).abs() < 1e-12);
        }
        // n = 3, α = 0.25: k = 3, Beta(3, 1); one test point is covered with probability 3/4.
        assert!((CoverageBand::new(3, 1, 0.25).at_most(0.0) - 0.25).abs() < 1e-12);
        // Too few calibration points: every set holds all labels.
        assert_eq!(CoverageBand::new(5, 10, 0.01).interval(0.95), (1.0, 1.0));
    }

    /// The distribution agrees with simulated uniform scores, their threshold and test points.
    #[test]
    fn agrees_with_simulation() {
        let (n, t, alpha, draws) = (40, 60, 0.2, 4000);
        let band = CoverageBand::new(n, t, alpha);
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
            let expected = band.at_most(covered as f64 / t as f64);
            let error = 4.5 * (expected * (1.0 - expected) / f64::from(draws)).sqrt() + 1e-9;
            assert!((sum - expected).abs() < error, "{covered}: {sum} {expected}");
        }
    }
}
