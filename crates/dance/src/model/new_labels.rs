//! Labels that a model has never seen: what share of new points carries one.
//!
//! No set can hold such a label, so the share is lost to coverage whatever is promised. Good and Turing's estimate: leave each
//! calibration point out and see whether its label is known to the others or to the points that fitted the kernel. A new point
//! is to the calibration points what each of them is to the others, so the share of those whose label is not known is the
//! share of new points.

use serde::{Deserialize, Serialize};

/// What the calibration points say about labels nobody has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Calibration points.
    pub points: usize,
    /// Those whose label no other point has, neither of calibration nor of the fit.
    pub single: usize,
    /// Those whose label exactly one other calibration point has, and no point of the fit.
    pub paired: usize,
}

impl Unseen {
    /// Of points with these labels, each below `classes`; `fitted` are labels that are known whatever these points say.
    pub fn new(labels: &[u32], fitted: &[u32], classes: usize) -> Self {
        let mut counts = vec![0usize; classes];
        for &label in labels {
            counts[label as usize] += 1;
        }
        for &label in fitted {
            counts[label as usize] = usize::MAX; // known, however few of calibration have it
        }
        let with = |count: usize| labels.iter().filter(|&&label| counts[label as usize] == count).count();
        Self { points: labels.len(), single: with(1), paired: with(2) }
    }

    /// Whether the counts can be of that many points.
    pub(super) fn is_sound(&self) -> bool {
        self.single.checked_add(self.paired).is_some_and(|counted| counted <= self.points)
    }

    /// The estimated share of new points that carry a label nobody has seen.
    pub fn share(&self) -> f64 {
        self.single as f64 / self.points.max(1) as f64
    }

    /// Its standard error: of a sum over points that depend on each other in pairs.
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
        // 0 is known to the fit; 1 once, 2 twice, 3 three times, 4 once but in the fit too.
        let found = Unseen::new(&[0, 1, 2, 2, 3, 3, 3, 4], &[0, 4, 4, 5], 6);
        assert_eq!(found, Unseen { points: 8, single: 1, paired: 2 });
        assert_eq!(found.share(), 0.125);
        // (N1 + 2·N2)/n² - N1²/n³ with N1 = 1 and N2 = 1 label.
        assert!((found.standard_error() - (3.0f64 - 1.0 / 8.0).sqrt() / 8.0).abs() < 1e-12);
        assert_eq!(Unseen::new(&[], &[1], 2).share(), 0.0);
    }

    /// New draws from the same law carry an unseen label as often as the estimate says.
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
            let found = Unseen::new(&calibration, &fit, 200);
            let unseen: f64 = (0..200u32)
                .filter(|label| !fit.contains(label) && !calibration.contains(label))
                .map(|label| weights[label as usize] / total)
                .sum();
            errors += found.share() - unseen;
            scaled += ((found.share() - unseen) / found.standard_error().max(1e-3)).powi(2);
        }
        // Unbiased (but for one point in 60), and the standard error is one.
        assert!((errors / f64::from(rounds)).abs() < 0.01, "{}", errors / f64::from(rounds));
        let spread = (scaled / f64::from(rounds)).sqrt();
        assert!((0.7..1.3).contains(&spread), "{spread}");
    }
}
