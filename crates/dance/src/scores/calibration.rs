//! Comparison of a query with the calibration points by their scores: thresholds, strata of classes, and novelty.
//!
//! ## Thresholds
//!
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
//!
//! ## Strata of classes
//!
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
//!
//! ## Novelty
//!
//! Novelty p-values: conformal anomaly detection, without labels.
//!
//! The novelty score S of a point is its distance to its [m-th nearest](NOVELTY_NEIGHBORS) reference point. The p-value
//! of a query with score S is `p = (1 + #{i : S_i ≥ S}) / (n+1)`, where `S_i` is the score of calibration point i of n.
//! A query that is exchangeable with the calibration points has `P(p ≤ ε) ≤ ε` in finite samples. The calibration
//! decides which points are reference points:
//!
//! - **full**: the calibration points and the fit points. The query is added to them. If it is among the m nearest
//!   neighbors of a calibration point, that point's score falls.
//! - **split**: the fit points, so a query changes no score.
//! - **reuse**: the calibration points without the query. Scores of calibration points, and hence the p-value, can only
//!   be larger than with the query, so the bound of full calibration still holds.
//!
//! Cost: no search of its own; a visit to each calibration point that has the query among its nearest neighbors, and a
//! bisection.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::method::ByClass;
use crate::neighbors::{Neighbors, ReverseNeighbors};

/// The scores of the calibration points' true labels, in ascending order. Thresholds and p-values follow from them.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationScores {
    sorted: Vec<f64>,
}

impl CalibrationScores {
    /// Sorts the scores of the calibration points. The score +∞ is valid: it says that no neighbor carries the label.
    /// An empty list and NaN are errors.
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

    /// Returns the scores of the calibration points in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Returns the number of calibration points, n.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns `false`, because [`new`](Self::new) refuses an empty list.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns the threshold for sets at error level `alpha`, which is at least 0 and below 1. At level 0 the threshold
    /// is +∞, so every label passes.
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

    /// Returns the p-value of a score, `(1 + #{calibration scores ≥ score}) / (n+1)`, for n calibration points.
    pub fn p_value(&self, score: f64) -> f64 {
        f64::from(1 + self.at_least(score)) / (self.len() + 1) as f64
    }
}

/// Returns the 1-based index `⌈(1-α)(n+1)⌉` of the threshold among n sorted scores, at error level α. A product within
/// 1e-9 of a whole number counts as this whole number, because f64 rounds products.
pub fn order_index(alpha: f64, n: usize) -> usize {
    let exact = (1.0 - alpha) * (n as f64 + 1.0);
    let nearest = exact.round();
    let guard = 1e-9f64.max(1e-13 * exact);
    if (exact - nearest).abs() <= guard { nearest as usize } else { exact.ceil() as usize }
}

/// Returns `1/(n+1)`, the smallest error level α at which sets from `n` calibration points can leave a label out.
pub fn smallest_alpha(n: usize) -> f64 {
    1.0 / (n as f64 + 1.0)
}

/// Returns the text of a warning: every label passes, because `n` calibration points do not support the error level
/// `alpha`.
pub(crate) fn too_few(n: usize, alpha: f64) -> String {
    format!(
        "{n} calibration points support no alpha below {:.3e}, and alpha is {alpha:.3e}: every label passes. \
         Calibrate on more points or choose a larger alpha",
        smallest_alpha(n)
    )
}

/// A threshold for scores, with its error level and its index among the sorted calibration scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// The threshold: labels whose score is at most this number are in the set.
    pub value: f64,
    /// The error level α that the threshold is for.
    pub alpha: f64,
    /// The 1-based index of the threshold among the sorted calibration scores. If it exceeds `calibration_points`, no
    /// score has this index, and the threshold is +∞.
    pub index: usize,
    /// The number of calibration points, n.
    pub calibration_points: usize,
}

impl Threshold {
    /// Returns a warning if the threshold is +∞, so that every label passes. With `alpha` 0 there is no warning,
    /// because every label is meant to pass.
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

/// The strength with which the mean of a class is shrunk. The class counts as if it had this many further points at the
/// mean of all points.
const PRIOR_POINTS: f64 = 3.0;
/// The smallest number of fit points in a cluster of classes, averaged over clusters.
const CLUSTER_POINTS: usize = 100;
/// The largest number of clusters of classes.
const MAX_CLUSTERS: usize = 8;

/// The strata: groups of classes within which points are compared. A calibration point is compared only with queries
/// whose candidate label is in the stratum of its class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strata {
    /// The index of the stratum of every class.
    of_class: Vec<u32>,
    /// The number of calibration points in every stratum.
    points: Vec<usize>,
    /// The number of calibration points in all strata.
    all: usize,
}

impl Strata {
    /// Creates the strata of the classes for calibration points with these `labels`. Returns `None` if `by_class`
    /// compares every point with all points. A class that `clusters` does not hold is in the cluster of average
    /// difficulty.
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

    /// Returns whether calibration points of the class `point` are compared with queries that carry `label`.
    pub(crate) fn compares(&self, point: u32, label: usize) -> bool {
        self.of_class[point as usize] == self.of_class[label]
    }

    /// Returns the index of the stratum that holds `label`.
    pub(crate) fn of(&self, label: u32) -> u32 {
        self.of_class[label as usize]
    }

    /// Returns the number of strata.
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// Rescales a count from the stratum of `label` to all points. `count` is a number of points among the stratum's
    /// calibration points and the query. The result is rounded up, so that p-values only grow.
    pub(crate) fn scaled(&self, label: usize, count: u32) -> u32 {
        let own = self.points[self.of_class[label] as usize] + 1;
        (count as usize * (self.all + 1)).div_ceil(own) as u32
    }
}

/// Groups of classes of similar difficulty. A class is difficult if its fit points have large scores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Clusters {
    /// The index of the cluster of every class that has fit points.
    of_class: Vec<u32>,
    /// The index of the cluster of average difficulty, which takes classes without fit points.
    middle: u32,
}

impl Clusters {
    /// Groups the classes by the mean score of their fit points. `scores` holds the score of every fit point, predicted
    /// by experts trained without it. `labels` holds the class of every fit point.
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

    /// Returns the index of the cluster that holds `class`.
    fn of(&self, class: usize) -> u32 {
        self.of_class.get(class).copied().unwrap_or(self.middle)
    }

    /// Returns whether every index of a cluster is in the range that a fit can assign.
    pub(crate) fn is_valid(&self) -> bool {
        let valid = |&cluster: &u32| (cluster as usize) < MAX_CLUSTERS;
        self.of_class.iter().all(valid) && valid(&self.middle)
    }

    /// Returns the number of clusters.
    pub(crate) fn len(&self) -> usize {
        self.of_class.iter().max().map_or(1, |&last| last as usize + 1)
    }
}

/// Class offsets, which bring the coverage of classes closer to each other. The offset of a class is its mean
/// difficulty less the mean of all fit points, shrunk towards 0. The [module](self) defines the difficulty h of a
/// point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offsets {
    /// For every class, the sum of the difficulties h of its calibration points, and the number of these points.
    sums: Vec<(f64, usize)>,
    /// The mean difficulty h of all fit points.
    average: f64,
}

impl Offsets {
    /// Sums up the difficulties h of the calibration points by class. `scores` holds these difficulties. `average` is
    /// the mean difficulty of the fit points; it counts as 0 if it is not finite.
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

    /// Returns the offset of a class after a query with the difficulty `score` joins the calibration points of the
    /// class.
    pub(crate) fn joined(&self, class: usize, score: f64) -> f64 {
        let (sum, count) = self.sums[class];
        self.from((sum + score, count + 1))
    }

    fn from(&self, (sum, count): (f64, usize)) -> f64 {
        (sum - count as f64 * self.average) / (count as f64 + PRIOR_POINTS) // k/(k+3) times (mean - average)
    }
}

/// The number m: the novelty score of a point is its distance to its m-th nearest reference point. Since m exceeds 1, a
/// single near copy does not make a point look familiar.
pub const NOVELTY_NEIGHBORS: usize = 5;

/// The novelty scores of the calibration points, with which the novelty score of a query is compared. A novelty score
/// is the distance to the m-th nearest reference point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Novelty {
    /// The number m: a novelty score is the distance to the m-th nearest reference point. It is below
    /// [`NOVELTY_NEIGHBORS`] if fewer neighbors are found.
    neighbors: usize,
    /// The squared distance of each calibration point to its m-th neighbor; +∞ for a point with fewer neighbors.
    squared: CalibrationScores,
}

impl Novelty {
    /// Returns the number m: a novelty score is the distance to the m-th neighbor. A search finds `searched` neighbors
    /// of each point among `reference` points, so m is limited to these two numbers.
    pub(crate) fn neighbors(searched: usize, reference: usize) -> usize {
        NOVELTY_NEIGHBORS.min(searched).min(reference).max(1)
    }

    /// Computes the novelty scores of the calibration points. `found` holds their neighbors: `searched` per point, out
    /// of `reference` points.
    pub(crate) fn new(found: &Neighbors, searched: usize, reference: usize) -> Result<Self> {
        let neighbors = Self::neighbors(searched, reference);
        let of = |row: usize| found.squared(row).get(neighbors - 1).copied().unwrap_or(f64::INFINITY);
        Self::from_distances((0..found.len()).map(of).collect(), neighbors)
    }

    /// Creates the novelty scores from the squared distance of each calibration point to its m-th neighbor. `neighbors`
    /// is the number m.
    pub(crate) fn from_distances(squared: Vec<f64>, neighbors: usize) -> Result<Self> {
        Ok(Self { neighbors, squared: CalibrationScores::new(squared)? })
    }

    /// Returns the number m: a novelty score is the distance to the m-th neighbor.
    pub(crate) fn nth(&self) -> usize {
        self.neighbors
    }

    /// Returns the squared distances of the calibration points to their m-th neighbors, in ascending order.
    pub(crate) fn squared(&self) -> &[f64] {
        self.squared.sorted()
    }

    /// Returns the m-th smallest squared distance from a point to its neighbors, or +∞ if there are fewer than m.
    /// `squared` holds these distances in ascending order.
    fn distance(&self, squared: &[f64]) -> f64 {
        squared.get(self.neighbors - 1).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the novelty p-value of every query in split calibration or with reuse. `found` holds the neighbors of
    /// the queries.
    pub(crate) fn p_values(&self, found: &Neighbors) -> Vec<f64> {
        (0..found.len()).map(|query| self.squared.p_value(self.distance(found.squared(query)))).collect()
    }

    /// Returns the novelty p-value of every query in full calibration. `found` holds the neighbors of the queries, and
    /// `bag` those of the calibration points. `reverse` holds the calibration points that have a query among their
    /// neighbors.
    pub(crate) fn p_values_in_bag(&self, found: &Neighbors, reverse: &ReverseNeighbors, bag: &Neighbors) -> Vec<f64> {
        let of = |query: usize| {
            let distance = self.distance(found.squared(query));
            // Find the calibration points whose score falls below the query's when the query is added.
            let falls_below = |&&(id, squared): &&(u32, f64)| {
                let (before, after) = self.with_query(bag.squared(id as usize), squared);
                before >= distance && after < distance
            };
            let fallen = reverse[query].iter().filter(falls_below).count();
            let count = 1 + self.squared.at_least(distance) as usize - fallen;
            count as f64 / (self.squared.len() + 1) as f64
        };
        (0..found.len()).map(of).collect()
    }

    /// Returns the squared novelty score of a calibration point before and after a query is added. The query is at the
    /// squared distance `squared` from the point. `own` holds the ascending squared distances of the point's neighbors.
    fn with_query(&self, own: &[f64], squared: f64) -> (f64, f64) {
        let before = self.distance(own);
        // Neighbors farther than the query move back by one index, so the (m-1)-th may become the m-th.
        let last = self.neighbors.checked_sub(2).map_or(0.0, |place| own.get(place).copied().unwrap_or(f64::INFINITY));
        (before, squared.max(last).min(before))
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

#[cfg(test)]
mod strata_tests {
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

#[cfg(test)]
mod novelty_tests {
    use super::*;

    /// A query moves the farther neighbors of a point back by one place. The neighbors are at squared distances 1, 2
    /// and 4, and m is 2.
    #[test]
    fn a_query_moves_farther_neighbors_back() {
        let novelty = Novelty::from_distances(vec![1.0], 2).unwrap();
        for (squared, after) in [(0.5, 1.0), (1.5, 1.5), (2.0, 2.0), (3.0, 2.0)] {
            assert_eq!(novelty.with_query(&[1.0, 2.0, 4.0], squared), (2.0, after));
        }
        let nearest = Novelty::from_distances(vec![1.0], 1).unwrap();
        assert_eq!(nearest.with_query(&[1.0, 2.0], 0.5), (1.0, 0.5));
        assert_eq!(nearest.with_query(&[], 7.0), (f64::INFINITY, 7.0));
    }
}
