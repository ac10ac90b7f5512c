//! Conformal p-values of labels, as whole counts: how many of the n calibration points and the query itself conform no better.
//!
//! `p = count/(n+1)`, a label is in the set iff `p > α`, and with whole numbers that is `count ≥ n + 2 - ⌈(1-α)(n+1)⌉`: one rule
//! for every way of calibrating and combining, exact whatever α rounds to. Labels whose counts are those of every label
//! that nothing speaks for are not listed; they share the query's `rest`.

use crate::scores::sets::Sets;
use crate::scores::threshold::order_index;

/// What is counted for one label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By the rank score.
    pub rank: u32,
    /// By the contrastive score.
    pub contrast: u32,
    /// By both together, or with the class probability; 0 where scores are not combined into one.
    pub combined: u32,
}

/// For every label of every query, how many of the n calibration points and the query itself conform no better: `p = count/(n+1)`.
/// Labels that nothing speaks for are not listed; they share the query's `rest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelCounts {
    /// n.
    calibration_points: usize,
    /// Where the labels of a query end.
    ends: Vec<usize>,
    /// Ascending within a query.
    labels: Vec<u32>,
    counts: Vec<Counts>,
    rest: Vec<Counts>,
}

/// The least counts that let a label into a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Two scores, each with its own share of α.
    Both {
        /// Of the rank score.
        rank: u32,
        /// Of the contrastive score.
        contrast: u32,
    },
    /// One combined score.
    One(u32),
}

impl Cut {
    fn passes(self, counts: Counts) -> bool {
        match self {
            Self::Both { rank, contrast } => counts.rank >= rank && counts.contrast >= contrast,
            Self::One(least) => counts.combined >= least,
        }
    }
}

/// The least count whose p-value exceeds `alpha`.
pub fn least_count(alpha: f64, points: usize) -> u32 {
    (points + 2).saturating_sub(order_index(alpha, points)) as u32
}

impl LabelCounts {
    /// For so many calibration points, and no query yet.
    pub fn new(calibration_points: usize) -> Self {
        Self { calibration_points, ..Self::default() }
    }

    /// Appends a query: its labels in ascending order, and what holds for all that are not listed.
    pub fn push(&mut self, labels: impl IntoIterator<Item = (u32, Counts)>, rest: Counts) {
        for (label, counts) in labels {
            if counts != rest {
                self.labels.push(label);
                self.counts.push(counts);
            }
        }
        self.ends.push(self.labels.len());
        self.rest.push(rest);
    }

    /// The same counts of single scores, with the combined counts of `other`.
    pub(crate) fn with_combined(&self, other: &Self, classes: usize) -> Self {
        let mut all = Self::new(self.calibration_points);
        for query in 0..self.len() {
            let of = |counts: Counts, other: Counts| Counts { combined: other.combined, ..counts };
            let labels = 0..classes as u32;
            let each = labels.map(|label| (label, of(self.get(query, label), other.get(query, label))));
            all.push(each, of(self.rest[query], other.rest[query]));
        }
        all
    }

    /// Of several groups of queries, one after the other.
    pub(crate) fn concat(calibration_points: usize, groups: &[Self]) -> Self {
        let mut all = Self::new(calibration_points);
        for group in groups {
            all.extend(group);
        }
        all
    }

    /// Appends further queries.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.calibration_points = other.calibration_points;
        let before = self.labels.len();
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.labels.extend_from_slice(&other.labels);
        self.counts.extend_from_slice(&other.counts);
        self.rest.extend_from_slice(&other.rest);
    }

    /// The counts of some of the queries.
    pub fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self::new(self.calibration_points);
        for &query in queries {
            let (labels, counts, rest) = self.row(query);
            selected.labels.extend_from_slice(labels);
            selected.counts.extend_from_slice(counts);
            selected.ends.push(selected.labels.len());
            selected.rest.push(rest);
        }
        selected
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of calibration points, n.
    pub fn calibration_points(&self) -> usize {
        self.calibration_points
    }

    /// The p-value that a count stands for.
    pub fn p_value(&self, count: u32) -> f64 {
        f64::from(count) / (self.calibration_points as f64 + 1.0)
    }

    /// Labels with counts of their own (ascending), their counts, and the counts of all others.
    pub fn row(&self, query: usize) -> (&[u32], &[Counts], Counts) {
        let start = if query == 0 { 0 } else { self.ends[query - 1] };
        let range = start..self.ends[query];
        (&self.labels[range.clone()], &self.counts[range], self.rest[query])
    }

    /// The counts of one label of a query.
    pub fn get(&self, query: usize, label: u32) -> Counts {
        let (labels, counts, rest) = self.row(query);
        labels.binary_search(&label).map_or(rest, |place| counts[place])
    }

    /// The sets of labels that pass.
    pub fn sets(&self, cut: Cut, classes: usize) -> Sets {
        let mut sets = Sets::default();
        for query in 0..self.len() {
            let (labels, counts, rest) = self.row(query);
            if cut.passes(rest) {
                let listed = labels.iter().zip(counts);
                let mut out =
                    listed.filter(|(_, counts)| !cut.passes(**counts)).map(|(&label, _)| label).peekable();
                sets.labels.extend((0..classes as u32).filter(|&label| out.next_if_eq(&label).is_none()));
            } else {
                let within = labels.iter().zip(counts).filter(|(_, counts)| cut.passes(**counts));
                sets.labels.extend(within.map(|(&label, _)| label));
            }
            sets.offsets.push(sets.labels.len());
        }
        sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rank: u32, contrast: u32, combined: u32) -> Counts {
        Counts { rank, contrast, combined }
    }

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
    fn sets_hold_what_passes() {
        let mut all = LabelCounts::new(9);
        all.push([(1, counts(5, 2, 7)), (3, counts(2, 9, 1))], counts(1, 1, 1));
        all.push([(0, counts(1, 1, 1)), (2, counts(9, 9, 9))], counts(4, 4, 4));
        let sets = |cut| all.sets(cut, 4).iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(sets(Cut::Both { rank: 2, contrast: 2 }), [vec![1, 3], vec![1, 2, 3]]);
        assert_eq!(sets(Cut::Both { rank: 3, contrast: 1 }), [vec![1], vec![1, 2, 3]]);
        assert_eq!(sets(Cut::One(5)), [vec![1], vec![2]]);
        assert_eq!(sets(Cut::One(1)), [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(all.get(0, 0), counts(1, 1, 1));
        assert_eq!(all.p_value(5), 0.5);
    }
}
