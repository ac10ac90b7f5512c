//! Metrics of class probabilities.
//!
//! - **Log loss**: the mean of `-ln p`, where p is the probability of the true label. A p below 1e-15 counts as 1e-15,
//!   so that a single p of 0 leaves the mean finite.
//! - **Brier score**: the mean over points of `‖p - y‖²`, with the probabilities p and the one-hot label y of a point.
//! - **ECE**, the expected calibration error: the range of probabilities is divided into 15 intervals of equal width,
//!   and points are grouped by the probability of their most probable label. ECE is the mean over groups, weighted by
//!   points, of the distance between the mean probability and the share of right labels. With few points, ECE is on
//!   average too large. So [`merge`](ProbabilityMetrics::merge) first adds up the groups of several runs.
//!
//! ```
//! use dance::{Matrix, evaluation::ProbabilityMetrics};
//! let p = Matrix::new(vec![0.8, 0.2, 0.4, 0.6], 2, 2)?;
//! let found = ProbabilityMetrics::new(&p, &[0, 0])?; // the first is right, the second is not
//! assert!((found.brier() - (2.0 * 0.2f64.powi(2) + 2.0 * 0.6f64.powi(2)) / 2.0).abs() < 1e-6);
//! assert!((found.calibration_error() - (0.2 + 0.6) / 2.0).abs() < 1e-6);
//! # Ok::<(), dance::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::numeric::argmax;
use crate::numeric::matrix::Matrix;

/// The number of groups of points by probability in the expected calibration error.
const GROUPS: usize = 15;
/// The smallest probability in the log loss; smaller probabilities count as this one.
const LEAST: f64 = 1e-15;

/// Log loss, Brier score and expected calibration error of class probabilities. They are kept as sums over points, so
/// that several runs can be merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbabilityMetrics {
    /// The number of points.
    pub points: usize,
    /// The sum over points of `-ln p`, with the probability p of the true label.
    log_loss: f64,
    /// The sum over points of `‖p - y‖²`, with the probabilities p and the one-hot label y of a point.
    squares: f64,
    /// For every group of points: the number of points, the sum of their largest probabilities, and the number of
    /// points whose most probable label is right.
    groups: Vec<(usize, f64, usize)>,
}

impl ProbabilityMetrics {
    /// Compares class probabilities (points × classes) with the true labels. A label that has no column counts as
    /// having probability 0.
    pub fn new(probabilities: &Matrix, labels: &[u32]) -> Result<Self> {
        if probabilities.rows() != labels.len() {
            return Err(Error::Shape {
                what: "labels (one per row of probabilities)".into(),
                expected: probabilities.rows().to_string(),
                found: labels.len().to_string(),
            });
        }
        let mut found = Self { points: labels.len(), groups: vec![(0, 0.0, 0); GROUPS], ..Self::default() };
        for (row, &label) in labels.iter().enumerate() {
            let row = probabilities.row(row);
            let own = row.get(label as usize).map_or(0.0, |&p| f64::from(p));
            found.log_loss -= own.max(LEAST).ln();
            let squares: f64 = row.iter().map(|&p| f64::from(p).powi(2)).sum();
            found.squares += squares - 2.0 * own + 1.0;
            let best = argmax(row);
            let confidence = row.get(best).map_or(0.0, |&p| f64::from(p));
            // A group's interval excludes its lower end and includes its upper end.
            let group = ((confidence * GROUPS as f64).ceil() as usize).clamp(1, GROUPS) - 1;
            let (points, sum, right) = &mut found.groups[group];
            *points += 1;
            *sum += confidence;
            *right += usize::from(best == label as usize);
        }
        Ok(found)
    }

    /// Adds the points of another run to these metrics, as if both runs were one.
    pub fn merge(&mut self, other: &Self) {
        self.points += other.points;
        self.log_loss += other.log_loss;
        self.squares += other.squares;
        self.groups.resize(GROUPS.max(self.groups.len()), (0, 0.0, 0));
        for (group, other) in self.groups.iter_mut().zip(&other.groups) {
            *group = (group.0 + other.0, group.1 + other.1, group.2 + other.2);
        }
    }

    /// Returns the log loss: the mean of `-ln p`, with the probability p of the true label.
    pub fn log_loss(&self) -> f64 {
        self.log_loss / self.points.max(1) as f64
    }

    /// Returns the Brier score: the mean squared distance of the probabilities from the true label, from 0 to 2.
    pub fn brier(&self) -> f64 {
        self.squares / self.points.max(1) as f64
    }

    /// Returns the expected calibration error (ECE): the mean distance of the largest probability from the share of
    /// right labels, over groups of points with similar probabilities.
    pub fn calibration_error(&self) -> f64 {
        let gaps = self.groups.iter().map(|&(_, sum, right)| (sum - right as f64).abs());
        gaps.sum::<f64>() / self.points.max(1) as f64
    }

    /// Returns the share of points whose most probable label is right.
    pub fn accuracy(&self) -> f64 {
        self.groups.iter().map(|group| group.2).sum::<usize>() as f64 / self.points.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Most probable labels: 0 at .5 (wrong, 2 is true), 1 at .7 (right), 0 at .9 (the true label 7 has no column).
        let p = [0.5, 0.3, 0.2, 0.1, 0.7, 0.2, 0.9, 0.05, 0.05];
        let found = ProbabilityMetrics::new(&Matrix::new(p.to_vec(), 3, 3).unwrap(), &[2, 1, 7]).unwrap();
        let log_loss = -(0.2f64.ln() + 0.7f64.ln() + 1e-15f64.ln()) / 3.0;
        assert!((found.log_loss() - log_loss).abs() < 1e-6);
        let brier = (0.25 + 0.09 + 0.64) + (0.01 + 0.09 + 0.04) + (0.81 + 0.0025 + 0.0025 + 1.0);
        assert!((found.brier() - brier / 3.0).abs() < 1e-6);
        assert!((found.calibration_error() - (0.5 + 0.3 + 0.9) / 3.0).abs() < 1e-6);
        assert_eq!(found.accuracy(), 1.0 / 3.0);
    }

    #[test]
    fn runs_add_up() {
        // One run is underconfident, one overconfident, both in the group from .6 to .667. Together they are
        // calibrated.
        let p = Matrix::new([0.65, 0.35].repeat(10), 10, 2).unwrap();
        let (all, none) = ([0u32; 10], [0, 0, 0, 1, 1, 1, 1, 1, 1, 1u32]);
        let mut both = ProbabilityMetrics::new(&p, &all).unwrap();
        assert!((both.calibration_error() - 0.35).abs() < 1e-6);
        let other = ProbabilityMetrics::new(&p, &none).unwrap();
        assert!((other.calibration_error() - 0.35).abs() < 1e-6);
        both.merge(&other);
        assert!(both.calibration_error() < 1e-6 && both.points == 20);
    }
}
