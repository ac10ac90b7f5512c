//! Classes for which the guarantee holds: all together, each class, or each cluster of classes ([`ByClass`]).
//!
//! - **Each, clusters** (Mondrian): a point is compared only with points of its own class or cluster. If `n_l`
//!   calibration points are in the cluster of label l, then
//!   `p(l) = (1 + #{i in the cluster of l : S_i ≥ S}) / (1 + n_l)`, with the scores `S_i` of these points and S of the
//!   query. Within a cluster the scores are still one symmetric function, so the guarantee holds there. All p-values
//!   get the denominator n+1, for n calibration points in all, and are rounded up. So they only grow.
//! - **Balanced**: all points are compared, but the offset of its class is subtracted from every score. So difficult
//!   classes get larger p-values and easy classes smaller ones. The difficulty of a point with label y is
//!   `h = -ln p(y)`, with p from experts that are trained on the fit points alone. The offset of a class is the mean of
//!   h over its k points **among the calibration points and the query**, less the mean over all fit points, times
//!   `k/(k+3)`. A query changes the offset of one class only. The scores remain one symmetric function of the
//!   calibration points and the query.
//!
//! Clusters are groups of classes of similar difficulty. Classes are sorted by the mean cross-fitted score of their fit
//! points, and cut into clusters with about as many fit points each.

use serde::{Deserialize, Serialize};

use crate::method::ByClass;

/// The number of prior points by which the mean of a class is shrunk towards the mean of all points.
const PRIOR_POINTS: f64 = 3.0;
/// The smallest number of fit points per cluster, on average.
const CLUSTER_POINTS: usize = 100;
/// The largest number of clusters.
const MAX_CLUSTERS: usize = 8;

/// The strata of the classes. A calibration point is compared only with queries whose label is in the stratum of its
/// class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strata {
    /// The stratum of every class.
    of_class: Vec<u32>,
    /// The number of calibration points in every stratum.
    points: Vec<usize>,
    /// The number of calibration points in all strata.
    all: usize,
}

impl Strata {
    /// Creates the strata of calibration points with these `labels`; `None` if every point is compared with all points.
    /// A class that `clusters` does not hold is in the cluster of average difficulty.
    pub(crate) fn new(by_class: ByClass, clusters: &Clusters, classes: usize, labels: &[u32]) -> Option<Self> {
        let of_class: Vec<u32> = match by_class {
            ByClass::All | ByClass::Balanced => return None,
            ByClass::Each => (0..classes as u32).collect(),
            ByClass::Clusters => (0..classes).map(|class| clusters.of(class)).collect(),
        };
        let mut points = vec![0; of_class.iter().max().map_or(0, |&last| last as usize + 1)];
        for &label in labels {
            points[of_class[label as usize] as usize] += 1;
        }
        Some(Self { of_class, points, all: labels.len() })
    }

    /// Returns whether a calibration point of class `point` is compared with queries that carry `label`.
    pub(crate) fn compares(&self, point: u32, label: usize) -> bool {
        self.of_class[point as usize] == self.of_class[label]
    }

    /// Returns the index of a label's stratum.
    pub(crate) fn of(&self, label: u32) -> u32 {
        self.of_class[label as usize]
    }

    /// Returns the number of strata.
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// Rescales `count`, among the calibration points of the label's stratum and the query, to all calibration points
    /// and the query. The result is rounded up, so that p-values only grow.
    pub(crate) fn scaled(&self, label: usize, count: u32) -> u32 {
        let own = self.points[self.of_class[label] as usize] + 1;
        (count as usize * (self.all + 1)).div_ceil(own) as u32
    }
}

/// Groups of classes of similar difficulty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Clusters {
    /// The cluster of every class that the fit points have.
    of_class: Vec<u32>,
    /// The cluster of average difficulty, for classes without fit points.
    middle: u32,
}

impl Clusters {
    /// Groups the classes by the mean score of their fit points. `scores` holds the cross-fitted score of every fit
    /// point, `labels` its class.
    pub(crate) fn new(scores: &[f64], labels: &[u32], classes: usize) -> Self {
        let average = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        let mut sums = vec![(0.0, 0usize); classes];
        for (&score, &label) in scores.iter().zip(labels) {
            let (sum, count) = &mut sums[label as usize];
            *sum += score;
            *count += 1;
        }
        let difficulty = |&(sum, count): &(f64, usize)| {
            (sum + PRIOR_POINTS * average) / (count as f64 + PRIOR_POINTS) // the mean, shrunk to that of all points
        };
        let mut order: Vec<usize> = (0..classes).collect();
        order.sort_by(|&a, &b| difficulty(&sums[a]).total_cmp(&difficulty(&sums[b])).then(a.cmp(&b)));
        let clusters = (scores.len() / CLUSTER_POINTS).clamp(1, MAX_CLUSTERS);
        let (mut of_class, mut before, mut middle) = (vec![0; classes], 0, 0);
        for &class in &order {
            // A class belongs to the cluster that contains the middle of its points. Positions are doubled, so that the
            // middle is a whole number.
            let place = 2 * before + sums[class].1;
            let cluster = (place * clusters / (2 * scores.len()).max(1)).min(clusters - 1) as u32;
            of_class[class] = cluster;
            before += sums[class].1;
            if difficulty(&sums[class]) <= average {
                middle = cluster;
            }
        }
        Self { of_class, middle }
    }

    /// Returns the index of a class's cluster.
    fn of(&self, class: usize) -> u32 {
        self.of_class.get(class).copied().unwrap_or(self.middle)
    }

    /// Returns whether all cluster indices are in the range that a fit can assign.
    pub(crate) fn is_valid(&self) -> bool {
        let valid = |&cluster: &u32| (cluster as usize) < MAX_CLUSTERS;
        self.of_class.iter().all(valid) && valid(&self.middle)
    }

    /// Returns the number of clusters.
    pub(crate) fn len(&self) -> usize {
        self.of_class.iter().max().map_or(1, |&last| last as usize + 1)
    }
}

/// Class offsets: the shrunken mean difficulty h of each class's calibration points, less the mean over all fit points.
/// The [module](self) defines h.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offsets {
    /// The sum of the difficulties h of each class's calibration points, and the number of these points.
    sums: Vec<(f64, usize)>,
    /// The mean difficulty h of the fit points.
    average: f64,
}

impl Offsets {
    /// Sums up `scores`, the difficulties h of the calibration points. `average` is the mean difficulty of the fit
    /// points; it counts as 0 if it is not finite.
    pub(crate) fn new(scores: &[f64], labels: &[u32], classes: usize, average: f64) -> Self {
        let mut sums = vec![(0.0, 0); classes];
        for (&score, &label) in scores.iter().zip(labels) {
            let (sum, count) = &mut sums[label as usize];
            *sum += score;
            *count += 1;
        }
        Self { sums, average: if average.is_finite() { average } else { 0.0 } }
    }

    /// Returns the offset of a class before a query is added.
    pub(crate) fn of(&self, class: usize) -> f64 {
        self.from(self.sums[class])
    }

    /// Returns the offset of a class after a query with the difficulty `score` is added to it.
    pub(crate) fn joined(&self, class: usize, score: f64) -> f64 {
        let (sum, count) = self.sums[class];
        self.from((sum + score, count + 1))
    }

    fn from(&self, (sum, count): (f64, usize)) -> f64 {
        (sum - count as f64 * self.average) / (count as f64 + PRIOR_POINTS) // k/(k+3) times (mean - average)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_stratum_get_the_denominator_of_all() {
        let strata = Strata::new(ByClass::Each, &Clusters::default(), 3, &[0, 0, 0, 1, 0, 1]).unwrap();
        // 4, 2 and 0 points of 6: p = 2/5, 3/3, 1/1 in sevenths, rounded up.
        assert_eq!([strata.scaled(0, 2), strata.scaled(1, 3), strata.scaled(2, 1)], [3, 7, 7]);
        assert!(strata.compares(1, 1) && !strata.compares(0, 1));
    }

    #[test]
    fn clusters_hold_classes_of_like_difficulty() {
        // 300 points of three classes, scores around 0, 1 and 2; a fourth has none.
        let labels: Vec<u32> = (0..300).map(|at| at % 3).collect();
        let scores: Vec<f64> = labels.iter().map(|&label| f64::from(label) + 0.01).collect();
        let clusters = Clusters::new(&scores, &labels, 4);
        assert_eq!(clusters.len(), 3);
        assert_eq!([0, 1, 2].map(|class| clusters.of(class)), [0, 1, 2]);
        assert_eq!(clusters.of(9), 1); // unknown: like the average
        assert_eq!(Clusters::new(&scores[..20], &labels[..20], 4).len(), 1);
    }

    #[test]
    fn an_offset_is_the_shrunken_mean() {
        let offsets = Offsets::new(&[1.0, 3.0, 0.5], &[0, 0, 1], 3, 1.0);
        assert!((offsets.of(0) - 2.0 / 5.0 * (2.0 - 1.0)).abs() < 1e-15);
        assert!((offsets.joined(1, 1.5) - 2.0 / 5.0 * (1.0 - 1.0)).abs() < 1e-15);
        assert_eq!(offsets.of(2), 0.0);
    }
}
