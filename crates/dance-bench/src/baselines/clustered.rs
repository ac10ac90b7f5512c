//! Clustered conformal prediction (Ding, Angelopoulos, Bates, Jordan and Tibshirani, 2023): classes whose scores are distributed alike
//! share a threshold.
//!
//! 1. A random share γ of the calibration points is for clustering alone. Each class with enough of them is a point: the quantiles of its
//!    scores at 0.5, 0.6 … 0.9 and 1-α. Weighted k-means (weights `√n_y`) makes M clusters of them.
//! 2. The other calibration points of a cluster give its threshold: `P(y ∈ C | y in the cluster) ≥ 1-α` in finite samples.
//! 3. Classes too rare to cluster are in the null cluster, whose threshold is that of all the other points: no promise of their own.
//!
//! As in the paper: a class is rare with fewer than `n_α = ⌈1/α⌉ - 1` points for clustering, the least that has a finite threshold;
//! with `ñ` the larger of `n_α` and the points of the smallest class, and K classes with at least ñ, `γ = K/(75+K)` and `M = ⌊γ·ñ/2⌋`.
//! With one cluster or none, or as many as classes, all classes are in the null cluster. Quantiles are interpolated
//! (NumPy's), a choice that the paper leaves open.

use super::class_wise::{ClassCalibration, Cuts};
use super::k_means;
use dance::Result;
use dance::numeric::random::Random;
use dance::scores::threshold::order_index;

const PURPOSE: u64 = 0xc105;
/// Quantiles by which classes are compared, beside 1-α.
const QUANTILES: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
/// In the share of points for clustering.
const CLASSES: usize = 75;

/// Which classes go together, and what is left to calibrate on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// The cluster of every class; `None` is the null cluster.
    pub of_class: Vec<Option<usize>>,
    /// Calibration points that took part in the clustering.
    pub clustering: Vec<usize>,
    /// The others.
    pub calibrating: Vec<usize>,
}

impl Clusters {
    /// Seeded by `seed`.
    pub fn new(calibration: &ClassCalibration, alpha: f64, seed: u64) -> Self {
        let counts: Vec<usize> = calibration.members().iter().map(Vec::len).collect();
        let least = least_points(alpha);
        let smallest = counts.iter().copied().min().unwrap_or(0).max(least);
        let enough = counts.iter().filter(|&&count| count >= smallest).count();
        let share = enough as f64 / (CLASSES + enough) as f64;
        let count = enough * smallest / (2 * (CLASSES + enough));

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
            let points: Vec<Vec<f64>> =
                classes.iter().map(|&class| embedding(&mut scores[class], alpha)).collect();
            let weights: Vec<f64> =
                classes.iter().map(|&class| (scores[class].len() as f64).sqrt()).collect();
            for (class, cluster) in classes.into_iter().zip(k_means::clusters(&points, &weights, count, seed))
            {
                of_class[class] = Some(cluster);
            }
        }
        Self { of_class, clustering: rows, calibrating }
    }

    /// What lets every class in at error level `alpha`.
    pub fn cuts(&self, calibration: &ClassCalibration, alpha: f64) -> Result<Cuts> {
        let of = |cluster: Option<usize>| {
            let joins = |row: &usize| self.of_class[calibration.labels()[*row] as usize] == cluster;
            let rows: Vec<usize> = match cluster {
                None => self.calibrating.clone(),
                Some(_) => self.calibrating.iter().copied().filter(joins).collect(),
            };
            calibration.threshold(&rows, alpha)
        };
        let count = self.of_class.iter().flatten().max().map_or(0, |&last| last + 1);
        let own = (0..count).map(|cluster| of(Some(cluster))).collect::<Result<Vec<f64>>>()?;
        let null = of(None)?;
        let each = self.of_class.iter().map(|cluster| cluster.map_or(null, |cluster| own[cluster]));
        Ok(Cuts::of_scores(each.collect()))
    }
}

/// Clusters of classes and what lets each in at error level `alpha`.
pub fn cuts(calibration: &ClassCalibration, alpha: f64, seed: u64) -> Result<Cuts> {
    Clusters::new(calibration, alpha, seed).cuts(calibration, alpha)
}

/// The least number of points with a finite threshold.
fn least_points(alpha: f64) -> usize {
    let near = (1.0 / alpha).floor() as usize;
    (near.saturating_sub(2).max(1)..=near).find(|&n| order_index(alpha, n) <= n).unwrap_or(near)
}

/// The quantiles of a class's scores.
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
