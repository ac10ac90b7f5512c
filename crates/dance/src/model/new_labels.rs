//! The share of new points that carry a new label, a label that no point of the model has (Good and Turing).
//!
//! A set of known labels cannot hold a new label, so coverage loses this share. The estimate leaves each calibration
//! point out in turn, and counts the points whose label neither the other calibration points nor the fit points have. A
//! new point relates to the calibration points as a left-out point does to the others. So the share among left-out
//! points estimates the share among new points.

use serde::{Deserialize, Serialize};

/// Counts of the calibration points that estimate the share of new labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLabelShare {
    /// The number of calibration points.
    pub points: usize,
    /// The number of points whose label no other calibration point and no fit point has.
    pub single: usize,
    /// The number of points whose label exactly one other calibration point and no fit point has.
    pub paired: usize,
}

impl NewLabelShare {
    /// Counts calibration points by their `labels`, which are class ids below `classes`. The labels `fitted` of the fit
    /// points are not new.
    pub fn new(labels: &[u32], fitted: &[u32], classes: usize) -> Self {
        let mut counts = vec![0usize; classes];
        for &label in labels {
            counts[label as usize] += 1;
        }
        for &label in fitted {
            counts[label as usize] = usize::MAX; // not new, however few calibration points have it
        }
        let with = |count: usize| labels.iter().filter(|&&label| counts[label as usize] == count).count();
        Self { points: labels.len(), single: with(1), paired: with(2) }
    }

    /// Returns whether the counts are possible for that many points.
    pub(super) fn is_valid(&self) -> bool {
        self.single.checked_add(self.paired).is_some_and(|counted| counted <= self.points)
    }

    /// Returns the estimated share of new points that carry a new label.
    pub fn share(&self) -> f64 {
        self.single as f64 / self.points.max(1) as f64
    }

    /// Returns the standard error of the share. It counts pairs too, since two points with the same label are not
    /// independent.
    pub fn standard_error(&self) -> f64 {
        let n = self.points.max(1) as f64;
        let variance = (self.single + self.paired) as f64 - (self.single as f64).powi(2) / n;
        variance.max(0.0).sqrt() / n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_labels_that_one_point_has() {
        // The fit has 0 and 4. Calibration has 1 once, 2 twice, 3 three times, 4 once.
        let found = NewLabelShare::new(&[0, 1, 2, 2, 3, 3, 3, 4], &[0, 4, 4, 5], 6);
        assert_eq!(found, NewLabelShare { points: 8, single: 1, paired: 2 });
        assert_eq!(found.share(), 0.125);
        // (N1 + 2·N2)/n² - N1²/n³ with N1 = 1 and N2 = 1 label.
        assert!((found.standard_error() - (3.0f64 - 1.0 / 8.0).sqrt() / 8.0).abs() < 1e-12);
        assert_eq!(NewLabelShare::new(&[], &[1], 2).share(), 0.0);
    }

    /// New draws from the same law carry a new label as often as estimated.
    #[test]
    fn estimates_the_share_of_new_labels() {
        let mut random = crate::numeric::random::Random::new(5, 1);
        let weights: Vec<f64> = (1..=200).map(|rank| 1.0 / f64::from(rank)).collect();
        let total: f64 = weights.iter().sum();
        let mut draw = || {
            let mut left = random.uniform() * total;
            weights
                .iter()
                .position(|weight| {
                    left -= weight;
                    left < 0.0
                })
                .unwrap_or(199) as u32
        };
        let (mut errors, mut scaled) = (0.0, 0.0);
        let rounds = 400;
        for _ in 0..rounds {
            let fit: Vec<u32> = (0..60).map(|_| draw()).collect();
            let calibration: Vec<u32> = (0..60).map(|_| draw()).collect();
            let found = NewLabelShare::new(&calibration, &fit, 200);
            let new: f64 = (0..200u32)
                .filter(|label| !fit.contains(label) && !calibration.contains(label))
                .map(|label| weights[label as usize] / total)
                .sum();
            errors += found.share() - new;
            scaled += ((found.share() - new) / found.standard_error().max(1e-3)).powi(2);
        }
        // The estimate is unbiased (but for one point in 60), and scaled errors have a standard deviation near 1.
        assert!((errors / f64::from(rounds)).abs() < 0.01, "{}", errors / f64::from(rounds));
        let spread = (scaled / f64::from(rounds)).sqrt();
        assert!((0.7..1.3).contains(&spread), "{spread}");
    }
}
