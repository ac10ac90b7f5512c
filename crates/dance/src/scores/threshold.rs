//! Thresholds: quantiles of the scores of n calibration points' true labels (the paper, §2.1).
//!
//! The threshold `q` at error level α is the `⌈(1-α)(n+1)⌉`-th smallest score, and a label is in the set iff its score
//! is at most `q`. If that index exceeds n, then q = +∞ and every label is in: n points support no α below `1/(n+1)`.
//! Nothing is clamped or interpolated. P-values express the same rule: `p(s) = (1 + #{scores ≥ s}) / (n+1)`, and
//! `s ≤ q ⟺ p(s) > α`.
//!
//! Cost: one sort; then a look-up per α, and a binary search per p-value.
//!
//! ```
//! let scores = dance::scores::CalibrationScores::new((1..=9).map(f64::from).collect())?;
//! assert_eq!(scores.threshold(0.1)?.value, 9.0); // (1 - 0.1)·(9 + 1) is 9, whatever the rounding
//! assert_eq!(scores.threshold(0.05)?.value, f64::INFINITY);
//! # Ok::<(), dance::Error>(())
//! ```

use serde::Serialize;

use crate::error::{Error, Result};

/// The scores of the calibration points' true labels, sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationScores {
    sorted: Vec<f64>,
}

impl CalibrationScores {
    /// Sorts the scores of the calibration points. +∞ is a valid score (no neighbor carries the label). No score at all
    /// and NaN are errors.
    pub fn new(mut scores: Vec<f64>) -> Result<Self> {
        if scores.is_empty() {
            return Err(Error::Data("there are no calibration points; at least one is needed".into()));
        }
        if let Some(row) = scores.iter().position(|score| score.is_nan()) {
            return Err(Error::Data(format!("the score of calibration point {row} is not a number")));
        }
        scores.sort_unstable_by(f64::total_cmp);
        Ok(Self { sorted: scores })
    }

    /// Returns the scores, ascending.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Returns the number of calibration points, n.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns `false`: there is at least one score.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns the threshold at error level `alpha`. At 0 every label passes: a mix of 0 or 1 gives one of the two
    /// scores no share of α.
    pub fn threshold(&self, alpha: f64) -> Result<Threshold> {
        if !(0.0..1.0).contains(&alpha) {
            return Err(Error::config("alpha", alpha, "between 0 and 1, such as 0.1"));
        }
        let index = order_index(alpha, self.len());
        let value =
            if index == 0 { f64::NEG_INFINITY } else { self.sorted.get(index - 1).copied().unwrap_or(f64::INFINITY) };
        Ok(Threshold { value, alpha, index, calibration_points: self.len() })
    }

    /// Returns the number of calibration scores that are at least `score`.
    pub fn at_least(&self, score: f64) -> u32 {
        let below = self.sorted.partition_point(|&calibration| calibration < score);
        (self.len() - below) as u32
    }

    /// Returns the p-value of a score, `(1 + #{scores ≥ score}) / (n+1)`.
    pub fn p_value(&self, score: f64) -> f64 {
        f64::from(1 + self.at_least(score)) / (self.len() + 1) as f64
    }
}

/// Returns the 1-based index of the threshold among n sorted scores at error level α, `⌈(1-α)(n+1)⌉`. A product within
/// 1e-9 of a whole number counts as that number, because f64 rounds it.
pub fn order_index(alpha: f64, n: usize) -> usize {
    let exact = (1.0 - alpha) * (n as f64 + 1.0);
    let nearest = exact.round();
    let guard = 1e-9f64.max(1e-13 * exact);
    if (exact - nearest).abs() <= guard { nearest as usize } else { exact.ceil() as usize }
}

/// Returns the smallest error level α that `n` calibration points support, `1/(n+1)`.
pub fn smallest_alpha(n: usize) -> f64 {
    1.0 / (n as f64 + 1.0)
}

/// Returns the warning that every label passes because `n` points do not support `alpha`.
pub(crate) fn too_few(n: usize, alpha: f64) -> String {
    format!(
        "{n} calibration points support no alpha below {:.3e}, and alpha is {alpha:.3e}: every label passes. \
         Calibrate on more points or choose a larger alpha",
        smallest_alpha(n)
    )
}

/// A threshold with its error level and its index among the sorted scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// Labels whose score is at most this are in the set.
    pub value: f64,
    /// The error level.
    pub alpha: f64,
    /// The 1-based index of the threshold among the sorted scores. If it exceeds `calibration_points`, there is no such
    /// score and the threshold is +∞.
    pub index: usize,
    /// The number of calibration points, n.
    pub calibration_points: usize,
}

impl Threshold {
    /// Returns a warning if every label passes. It is `None` if the threshold is finite, or if `alpha` is 0, as a mix
    /// of 0 or 1 makes it.
    pub fn warning(&self) -> Option<String> {
        if self.value < f64::INFINITY || self.alpha == 0.0 {
            return None;
        }
        Some(if self.index > self.calibration_points {
            too_few(self.calibration_points, self.alpha)
        } else {
            format!(
                "a share above {:.3e} of the calibration points has no neighbor of its own label: every label passes. \
                 Search more neighbors or choose a larger alpha",
                self.alpha
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_the_exact_ceiling() {
        // The expected index comes from whole-number arithmetic, for α = a/1000.
        for n in (1..2000usize).chain([9_999, 99_999, 1_000_000]) {
            for thousandths in [1usize, 5, 10, 30, 50, 70, 100, 200, 333, 500, 999] {
                let exact = ((1000 - thousandths) * (n + 1)).div_ceil(1000);
                assert_eq!(order_index(thousandths as f64 / 1000.0, n), exact, "{n} {thousandths}");
            }
        }
        // f64 rounds these products up: α = 0.1 with a mix of 0.3, and with a mix of 0.9.
        assert_eq!(order_index(0.3 * 0.1, 99), 97);
        assert_eq!(order_index((1.0 - 0.9) * 0.1, 99), 99);
    }

    #[test]
    fn a_label_is_in_exactly_when_its_p_value_exceeds_alpha() {
        let scores =
            CalibrationScores::new(vec![1.0, 1.0, 2.0, 5.0, 5.0, 5.0, 9.0, f64::INFINITY, f64::INFINITY]).unwrap();
        for hundredths in 1..100 {
            let alpha = f64::from(hundredths) / 100.0;
            let threshold = scores.threshold(alpha).unwrap();
            for score in [0.5, 1.0, 1.5, 2.0, 5.0, 6.0, 9.0, 10.0, f64::INFINITY] {
                assert_eq!(score <= threshold.value, scores.p_value(score) > alpha + 1e-12, "{alpha} {score}");
            }
        }
    }

    #[test]
    fn warnings_name_the_smallest_alpha() {
        let few = CalibrationScores::new(vec![1.0; 9]).unwrap();
        assert!(few.threshold(0.1).unwrap().warning().is_none());
        assert!(few.threshold(0.0).unwrap().warning().is_none());
        assert!(few.threshold(0.05).unwrap().warning().unwrap().contains("no alpha below 1.000e-1"));
        let absent = CalibrationScores::new(vec![f64::INFINITY; 50]).unwrap();
        assert!(absent.threshold(0.1).unwrap().warning().unwrap().contains("more neighbors"));
    }

    #[test]
    fn refuses_what_is_no_level_or_score() {
        let scores = CalibrationScores::new(vec![1.0]).unwrap();
        for alpha in [-0.1, 1.0, 2.0, f64::NAN] {
            assert!(matches!(scores.threshold(alpha), Err(Error::Config { .. })));
        }
        assert!(matches!(CalibrationScores::new(vec![]), Err(Error::Data(_))));
        assert!(matches!(CalibrationScores::new(vec![f64::NAN]), Err(Error::Data(_))));
    }
}
