//! Clustered conformal prediction (Ding, Angelopoulos, Bates, Jordan and Tibshirani, 2023): classes with similar score
//! distributions share a threshold.
//!
//! 1. A random share γ of the calibration points is for clustering alone. A class with enough of them is represented by
//!    quantiles of its scores, at 0.5, 0.6 … 0.9 and 1-α. Weighted k-means (weights `√n_y`) makes M clusters of the
//!    classes.
//! 2. The other calibration points of a cluster give its threshold: `P(y ∈ C | y in the cluster) ≥ 1-α` in finite
//!    samples.
//! 3. Classes too rare to cluster form the null cluster. Its threshold is that of all remaining points, and gives no
//!    guarantee for these classes.
//!
//! As in the paper, a class is rare with fewer than `n_α = ⌈1/α⌉ - 1` points for clustering, the least with a finite
//! threshold. With `ñ` the larger of `n_α` and the points of the smallest class, and K classes with at least ñ points,
//! `γ = K/(75+K)` and `M = ⌊γ·ñ/2⌋`. With fewer than two clusters, or as many as classes, all classes are in the null
//! cluster. Quantiles are interpolated as in NumPy, a choice that the paper leaves open.

use super::class_wise::{ClassCalibration, Cuts};
use super::k_means;
use dance::Result;
use dance::numeric::random::Random;
use dance::scores::calibration::order_index;

/// The stream of random numbers that draws the points for clustering.
const PURPOSE: u64 = 0xc105;
/// Quantiles that represent a class, beside 1-α.
const QUANTILES: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
/// The constant of the paper in the share of points for clustering.
const CLASSES: usize = 75;

/// The clusters of classes, and the points that are left to calibrate on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// The cluster of every class; `None` is the null cluster.
    pub of_class: Vec<Option<usize>>,
    /// Rows of the calibration points that made the clusters.
    pub clustering: Vec<usize>,
    /// Rows of the other calibration points.
    pub calibrating: Vec<usize>,
}

impl Clusters {
    /// Clusters the classes by the scores of points that `seed` draws.
    pub fn new(calibration: &ClassCalibration, alpha: f64, seed: u64) -> Self {
        let counts: Vec<usize> = calibration.members().iter().map(Vec::len).collect();
        let least = least_points(alpha);
        let smallest = counts.iter().copied().min().unwrap_or(0).max(least);
        let enough = counts.iter().filter(|&&count| count >= smallest).count();
        let share = enough as f64 / (CLASSES + enough) as f64;
        let count = enough * smallest / (2 * (CLASSES + enough));

        // The share γ of the points is drawn for clustering, the rest calibrates.
        let mut rows: Vec<usize> = (0..calibration.labels().len()).collect();
        Random::new(seed, PURPOSE).shuffle(&mut rows);
        let calibrating = rows.split_off((share * rows.len() as f64).round() as usize);
        let mut scores = vec![Vec::new(); calibration.classes()];
        for &row in &rows {
            scores[calibration.labels()[row] as usize].push(calibration.scores()[row]);
        }
        let classes: Vec<usize> = (0..scores.len()).filter(|&class| scores[class].len() >= least).collect();
        let mut of_class = vec![None; calibration.classes()];
        if count > 1 && classes.len() > count {
            let points: Vec<Vec<f64>> = classes.iter().map(|&class| embedding(&mut scores[class], alpha)).collect();
            let weights: Vec<f64> = classes.iter().map(|&class| (scores[class].len() as f64).sqrt()).collect();
            for (class, cluster) in classes.into_iter().zip(k_means::clusters(&points, &weights, count, seed)) {
                of_class[class] = Some(cluster);
            }
        }
        Self { of_class, clustering: rows, calibrating }
    }

    /// Returns the threshold of every class at error level `alpha`.
    pub fn cuts(&self, calibration: &ClassCalibration, alpha: f64) -> Result<Cuts> {
        let threshold = |cluster: Option<usize>| {
            let joins = |row: &usize| self.of_class[calibration.labels()[*row] as usize] == cluster;
            let rows: Vec<usize> = match cluster {
                None => self.calibrating.clone(),
                Some(_) => self.calibrating.iter().copied().filter(joins).collect(),
            };
            calibration.threshold(&rows, alpha)
        };
        let count = self.of_class.iter().flatten().max().map_or(0, |&last| last + 1);
        let own = (0..count).map(|cluster| threshold(Some(cluster))).collect::<Result<Vec<f64>>>()?;
        let null = threshold(None)?;
        let each = self.of_class.iter().map(|cluster| cluster.map_or(null, |cluster| own[cluster]));
        Ok(Cuts::of_scores(each.collect()))
    }
}

/// Clusters the classes, and returns the threshold of every class at error level `alpha`.
pub fn cuts(calibration: &ClassCalibration, alpha: f64, seed: u64) -> Result<Cuts> {
    Clusters::new(calibration, alpha, seed).cuts(calibration, alpha)
}

/// Returns the least number of points with a finite threshold.
fn least_points(alpha: f64) -> usize {
    let near = (1.0 / alpha).floor() as usize;
    (near.saturating_sub(2).max(1)..=near).find(|&n| order_index(alpha, n) <= n).unwrap_or(near)
}

/// Returns the quantiles that represent a class.
fn embedding(scores: &mut [f64], alpha: f64) -> Vec<f64> {
    scores.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| {
        let place = share * (scores.len() - 1) as f64;
        let (below, part) = (place.floor() as usize, place.fract());
        let above = (below + 1).min(scores.len() - 1);
        scores[below] + part * (scores[above] - scores[below])
    };
    QUANTILES.into_iter().chain([1.0 - alpha]).map(quantile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_of_points_is_that_of_the_paper() {
        assert_eq!([0.1, 0.05, 0.2, 0.5, 0.9].map(least_points), [9, 19, 4, 1, 1]);
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        // np.quantile([1, 2, 4, 8], [.5, .6, .7, .8, .9, .95])
        let expected = [3.0, 3.6, 4.4, 5.6, 6.8, 7.4];
        for (found, expected) in embedding(&mut [8.0, 1.0, 4.0, 2.0], 0.05).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
