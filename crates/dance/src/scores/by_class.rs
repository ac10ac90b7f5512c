//! Whom the guarantee is for: all points together, or every class, or every cluster of classes ([`ByClass`]).
//!
//! - **Each class, clusters** (Mondrian): a point is compared with those of its own class, or cluster, alone: `p(l) = (1 + #{i of l's
//!   cluster : S_i ≥ S}) / (1 + n_l)`. Within a cluster the scores are still one symmetric function, so the guarantee holds there.
//!   All p-values get the denominator n+1, rounding up: they can only grow.
//! - **Fair**: all points together, but every score less an offset of its class, so that classes that are hard to tell apart do not pay
//!   for the others. The offset is the mean over the class's points **in the bag, the query among them**, of how hard a point is by
//!   the fit points alone (h: `-ln p(y)` of combined evidence, elsewhere [`Difficulty`](crate::conformal::Difficulty)), less that of all fit
//!   points, shrunk by `k/(k+3)` for k points. Since h is fixed by the fit part, a query changes the offset of one class; since the
//!   bag decides it, the scores stay one symmetric function of the bag.
//!
//! Clusters are classes of like difficulty: by the fit points' scores out of fold, in order, cut where each has as many fit points.

use serde::{Deserialize, Serialize};

use crate::method::ByClass;

/// How many points' worth of doubt is in the offset of a class.
const DOUBT: f64 = 3.0;
/// Fit points of a cluster, at least.
const CLUSTER: usize = 100;
/// Clusters, at most.
const CLUSTERS: usize = 8;

/// For every class, which others it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strata {
    of_class: Vec<u32>,
    /// Points of the bag in every one.
    points: Vec<usize>,
    all: usize,
}

impl Strata {
    /// `clusters` may be of fewer classes than there are: the others are like the average, `middle`.
    pub(crate) fn new(
        by_class: ByClass,
        clusters: &Clusters,
        classes: usize,
        labels: &[u32],
    ) -> Option<Self> {
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

    /// Whether a point of class `point` is compared with queries that carry `label`.
    pub(crate) fn compares(&self, point: u32, label: usize) -> bool {
        self.of_class[point as usize] == self.of_class[label]
    }

    /// The stratum of a label.
    pub(crate) fn of(&self, label: u32) -> u32 {
        self.of_class[label as usize]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// A count among the points of the label's stratum and the query, on the scale of all points and the query.
    pub(crate) fn scaled(&self, label: usize, count: u32) -> u32 {
        let own = self.points[self.of_class[label] as usize] + 1;
        (count as usize * (self.all + 1)).div_ceil(own) as u32
    }
}

/// Classes of like difficulty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clusters {
    /// The cluster of every class of the fit.
    of_class: Vec<u32>,
    /// That of classes which the fit part has no points of.
    middle: u32,
}

impl Clusters {
    /// From scores of fit points that the experts had not seen.
    pub(crate) fn new(scores: &[f64], labels: &[u32], classes: usize) -> Self {
        let average = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        let mut sums = vec![(0.0, 0usize); classes];
        for (&score, &label) in scores.iter().zip(labels) {
            let (sum, count) = &mut sums[label as usize];
            *sum += score;
            *count += 1;
        }
        let difficulty = |&(sum, count): &(f64, usize)| {
            (sum + DOUBT * average) / (count as f64 + DOUBT) // the mean, shrunk to that of all
        };
        let mut order: Vec<usize> = (0..classes).collect();
        order.sort_by(|&a, &b| difficulty(&sums[a]).total_cmp(&difficulty(&sums[b])).then(a.cmp(&b)));
        let clusters = (scores.len() / CLUSTER).clamp(1, CLUSTERS);
        let (mut of_class, mut before, mut middle) = (vec![0; classes], 0, 0);
        for &class in &order {
            // By the place of the middle of its points among all.
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

    fn of(&self, class: usize) -> u32 {
        self.of_class.get(class).copied().unwrap_or(self.middle)
    }

    /// Whether a fit can have made them.
    pub(crate) fn is_sound(&self) -> bool {
        let fine = |&cluster: &u32| (cluster as usize) < CLUSTERS;
        self.of_class.iter().all(fine) && fine(&self.middle)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.of_class.iter().max().map_or(1, |&last| last as usize + 1)
    }

    /// Whether there is only one.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }
}

/// Offsets of classes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offsets {
    /// Of h of the bag's points, and how many they are.
    sums: Vec<(f64, usize)>,
    /// Of h of the fit points.
    average: f64,
}

impl Offsets {
    /// `scores` are h of the bag's points.
    pub(crate) fn new(scores: &[f64], labels: &[u32], classes: usize, average: f64) -> Self {
        let mut sums = vec![(0.0, 0); classes];
        for (&score, &label) in scores.iter().zip(labels) {
            let (sum, count) = &mut sums[label as usize];
            *sum += score;
            *count += 1;
        }
        Self { sums, average: if average.is_finite() { average } else { 0.0 } }
    }

    /// Of a class as it is.
    pub(crate) fn of(&self, class: usize) -> f64 {
        self.from(self.sums[class])
    }

    /// Of a class that a query joins, whose h is `score`.
    pub(crate) fn joined(&self, class: usize, score: f64) -> f64 {
        let (sum, count) = self.sums[class];
        self.from((sum + score, count + 1))
    }

    fn from(&self, (sum, count): (f64, usize)) -> f64 {
        (sum - count as f64 * self.average) / (count as f64 + DOUBT) // k/(k+3) of the mean less the average
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
        assert!(Clusters::new(&scores[..20], &labels[..20], 4).is_empty());
    }

    #[test]
    fn an_offset_is_the_shrunken_mean() {
        let offsets = Offsets::new(&[1.0, 3.0, 0.5], &[0, 0, 1], 3, 1.0);
        assert!((offsets.of(0) - 2.0 / 5.0 * (2.0 - 1.0)).abs() < 1e-15);
        assert!((offsets.joined(1, 1.5) - 2.0 / 5.0 * (1.0 - 1.0)).abs() < 1e-15);
        assert_eq!(offsets.of(2), 0.0);
    }
}
