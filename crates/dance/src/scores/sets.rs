//! Conformal p-values of labels as whole counts, and the sets of labels that follow.
//!
//! The count of a label is a number of points: those whose score is at least that of the query with the label. The n
//! calibration points and the query itself are counted. The p-value is `p = count/(n+1)`, and a label is in the set at
//! error level α if and only if `p > α`. In whole numbers that is `count ≥ n + 2 - ⌈(1-α)(n+1)⌉`. This rule serves
//! every method and is exact however α is rounded. Many labels of a query have the same counts. These counts are stored
//! once per query, as `rest`, and the labels are not listed.

use crate::numeric::matrix::Ragged;
use crate::scores::calibration::order_index;
use serde::{Deserialize, Serialize};

/// The counts of one label of a query, from which its p-values follow. A count is 1 + the number of calibration points
/// whose score is at least that of the query with this label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// The count if the method compares one score.
    One(u32),
    /// The counts if the method compares two scores, each with its own share of the error level α.
    Both {
        /// The count by the rank score.
        rank: u32,
        /// The count by the contrastive score.
        contrast: u32,
    },
}

impl Counts {
    /// Returns the count by the rank score if there are two counts, otherwise the only count.
    pub fn rank(self) -> u32 {
        match self {
            Self::One(count) | Self::Both { rank: count, .. } => count,
        }
    }

    /// Returns the count by the contrastive score if there are two counts, otherwise the only count.
    pub fn contrast(self) -> u32 {
        match self {
            Self::One(count) | Self::Both { contrast: count, .. } => count,
        }
    }
}

/// The [`Counts`] of every label of every query, from which p-values and sets follow. Only labels with counts of their
/// own are listed. All other labels of a query share their counts, which are stored once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelCounts {
    /// The number of calibration points, n.
    calibration_points: usize,
    /// The listed labels of every query, in ascending order. All other labels of a query have the counts in `rest`.
    labels: Ragged<u32>,
    /// The counts of every label in `labels`.
    counts: Vec<Counts>,
    /// For every query, the counts that all unlisted labels share.
    rest: Vec<Counts>,
}

/// The smallest [`Counts`] with which a label is in a set, at one error level α.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The smallest count if the method compares one score.
    One(u32),
    /// The smallest counts if the method compares two scores, each with its own share of α. A label needs both counts.
    Both {
        /// The smallest count by the rank score.
        rank: u32,
        /// The smallest count by the contrastive score.
        contrast: u32,
    },
}

impl Cut {
    /// Returns whether a label with these counts is in the set. The result is false if the cut is for one score and the
    /// counts are for two, or the reverse.
    fn passes(self, counts: Counts) -> bool {
        match (self, counts) {
            (Self::One(least), Counts::One(count)) => count >= least,
            (Self::Both { rank, contrast }, Counts::Both { rank: by_rank, contrast: by_contrast }) => {
                by_rank >= rank && by_contrast >= contrast
            }
            (Self::One(_), Counts::Both { .. }) | (Self::Both { .. }, Counts::One(_)) => false,
        }
    }
}

/// Returns the smallest count with a p-value `count/(n+1)` above the error level `alpha`. `points` is the number n of
/// calibration points.
pub fn least_count(alpha: f64, points: usize) -> u32 {
    (points + 2).saturating_sub(order_index(alpha, points)) as u32
}

impl LabelCounts {
    /// Creates a list without queries. `calibration_points` is the number n of calibration points behind the counts. A
    /// count then has the p-value `count/(n+1)`.
    pub fn new(calibration_points: usize) -> Self {
        Self { calibration_points, ..Self::default() }
    }

    /// Appends one query. `labels` lists labels in ascending order with their counts, and all other labels have the
    /// counts `rest`.
    pub fn push(&mut self, labels: impl IntoIterator<Item = (u32, Counts)>, rest: Counts) {
        let counts = &mut self.counts;
        self.labels.push(labels.into_iter().filter(|&(_, own)| own != rest).map(|(label, own)| {
            counts.push(own);
            label
        }));
        self.rest.push(rest);
    }

    /// Concatenates the counts of several groups of queries, which share the number of calibration points.
    pub(crate) fn concat(calibration_points: usize, groups: Vec<Self>) -> Self {
        let mut all = Self::new(calibration_points);
        for group in groups {
            all.append(group);
        }
        all
    }

    /// Appends the counts of the queries in `other`.
    pub(crate) fn append(&mut self, other: Self) {
        self.calibration_points = other.calibration_points;
        self.labels.append(other.labels);
        self.counts.extend(other.counts);
        self.rest.extend(other.rest);
    }

    /// Returns the counts of the queries with the given indices.
    pub fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self::new(self.calibration_points);
        for &query in queries {
            let (labels, counts, rest) = self.row(query);
            selected.push(labels.iter().copied().zip(counts.iter().copied()), rest);
        }
        selected
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Returns whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of calibration points, n.
    pub fn calibration_points(&self) -> usize {
        self.calibration_points
    }

    /// Returns the p-value `count/(n+1)` of a count, where n is the number of calibration points.
    pub fn p_value(&self, count: u32) -> f64 {
        f64::from(count) / (self.calibration_points as f64 + 1.0)
    }

    /// Returns the listed labels of a query in ascending order, their counts, and the counts that all other labels
    /// share.
    pub fn row(&self, query: usize) -> (&[u32], &[Counts], Counts) {
        (self.labels.row(query), &self.counts[self.labels.range(query)], self.rest[query])
    }

    /// Returns the counts of one label of a query, whether the label is listed or not.
    pub fn get(&self, query: usize, label: u32) -> Counts {
        let (labels, counts, rest) = self.row(query);
        labels.binary_search(&label).map_or(rest, |place| counts[place])
    }

    /// Returns one set per query: the labels below `classes` whose counts pass the cut.
    pub fn sets(&self, cut: Cut, classes: usize) -> Sets {
        let mut sets = Sets::default();
        for query in 0..self.len() {
            let (labels, counts, rest) = self.row(query);
            let listed = labels.iter().zip(counts);
            if cut.passes(rest) {
                let mut out = listed.filter(|(_, counts)| !cut.passes(**counts)).map(|(&label, _)| label).peekable();
                sets.push((0..classes as u32).filter(|&label| out.next_if_eq(&label).is_none()));
            } else {
                sets.push(listed.filter(|(_, counts)| cut.passes(**counts)).map(|(&label, _)| label));
            }
        }
        sets
    }
}

/// The treatment of a query whose set is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmptySets {
    /// An empty set stays empty, as in the paper.
    #[default]
    Keep,
    /// An empty set gets the label that the classifier finds most probable.
    Top1,
}

/// One set of labels per query, in ascending order within a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sets {
    labels: Ragged<u32>,
}

impl<Set: IntoIterator<Item = u32>> FromIterator<Set> for Sets {
    fn from_iter<Rows: IntoIterator<Item = Set>>(sets: Rows) -> Self {
        Self { labels: sets.into_iter().collect() }
    }
}

impl Sets {
    /// Appends the set of a further query: its labels in ascending order.
    pub fn push(&mut self, set: impl IntoIterator<Item = u32>) {
        self.labels.push(set);
    }

    /// Returns the number of sets, one per query.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no sets at all.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the labels in the set of one query, in ascending order.
    pub fn get(&self, query: usize) -> &[u32] {
        self.labels.row(query)
    }

    /// Returns the labels of all sets, one set after the other.
    pub fn labels(&self) -> &[u32] {
        self.labels.values()
    }

    /// Returns the index in [`labels`](Self::labels) at which each set starts, followed by the length of that list.
    pub fn offsets(&self) -> &[usize] {
        self.labels.offsets()
    }

    /// Returns whether the set of `query` contains `label`.
    pub fn contains(&self, query: usize, label: u32) -> bool {
        self.get(query).binary_search(&label).is_ok()
    }

    /// Returns an iterator over the sets of all queries.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.labels.iter()
    }

    /// Returns the sets of the queries with the given indices.
    pub fn select(&self, queries: &[usize]) -> Self {
        Self { labels: self.labels.select(queries) }
    }

    /// Appends the sets in `other`.
    pub fn append(&mut self, other: Self) {
        self.labels.append(other.labels);
    }

    /// Returns a copy of the sets in which the empty set of a query is replaced by the single label `best[query]`.
    #[must_use]
    pub fn fill_empty(&self, best: &[u32]) -> Self {
        let filled = |(set, best)| if <[u32]>::is_empty(set) { std::slice::from_ref(best) } else { set };
        self.iter().zip(best).map(filled).map(|set| set.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_passes_exactly_when_its_p_value_exceeds_alpha() {
        // In whole numbers, α = a/1000: count/(n+1) > a/1000.
        for n in [1usize, 9, 19, 99, 100, 999, 20_000] {
            for thousandths in [1usize, 5, 10, 50, 100, 200, 333, 500, 999] {
                let least = least_count(thousandths as f64 / 1000.0, n) as usize;
                assert!(1000 * least > thousandths * (n + 1), "{n} {thousandths}");
                assert!(least == 0 || 1000 * (least - 1) <= thousandths * (n + 1), "{n} {thousandths}");
            }
        }
        assert_eq!(least_count(0.0, 50), 1);
    }

    #[test]
    fn sets_hold_the_labels_that_pass() {
        let both = |rank, contrast| Counts::Both { rank, contrast };
        let mut all = LabelCounts::new(9);
        all.push([(1, both(5, 2)), (3, both(2, 9))], both(1, 1));
        all.push([(0, both(1, 1)), (2, both(9, 9))], both(4, 4));
        let sets = |all: &LabelCounts, cut| all.sets(cut, 4).iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(sets(&all, Cut::Both { rank: 2, contrast: 2 }), [vec![1, 3], vec![1, 2, 3]]);
        assert_eq!(sets(&all, Cut::Both { rank: 3, contrast: 1 }), [vec![1], vec![1, 2, 3]]);
        assert_eq!(all.get(0, 0), both(1, 1));
        let mut one = LabelCounts::new(9);
        one.push([(1, Counts::One(7)), (3, Counts::One(1))], Counts::One(1));
        one.push([(2, Counts::One(9))], Counts::One(4));
        assert_eq!(sets(&one, Cut::One(5)), [vec![1], vec![2]]);
        assert_eq!(sets(&one, Cut::One(1)), [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(one.p_value(5), 0.5);
    }

    proptest::proptest! {
        /// Prediction sets are nested: a larger α never adds a label, with one score or with two.
        #[test]
        fn sets_shrink_as_alpha_grows(
            counts in proptest::collection::vec((1u32..=51, 1u32..=51), 8),
            low in 0.001f64..0.999,
            high in 0.001f64..0.999,
        ) {
            let (low, high) = (low.min(high), low.max(high));
            let mut one = LabelCounts::new(50);
            let mut both = LabelCounts::new(50);
            one.push((0..).zip(counts.iter().map(|pair| Counts::One(pair.0))), Counts::One(1));
            let pairs = counts.iter().map(|&(rank, contrast)| Counts::Both { rank, contrast });
            both.push((0..).zip(pairs), Counts::Both { rank: 1, contrast: 1 });
            let cut = |alpha| Cut::One(least_count(alpha, 50));
            let least = |alpha: f64| least_count(alpha / 2.0, 50);
            let halves = |alpha: f64| Cut::Both { rank: least(alpha), contrast: least(alpha) };
            for (small, large) in [
                (one.sets(cut(high), 8), one.sets(cut(low), 8)),
                (both.sets(halves(high), 8), both.sets(halves(low), 8)),
            ] {
                proptest::prop_assert!(small.get(0).iter().all(|&label| large.contains(0, label)));
            }
        }
    }

    #[test]
    fn the_best_label_fills_an_empty_set() {
        let filled = Sets::from_iter([vec![0, 1], vec![]]).fill_empty(&[2, 3]);
        assert_eq!((filled.get(0), filled.get(1)), (&[0, 1][..], &[3][..]));
    }
}
