//! Prediction sets: the class ids of every query, one set after the other.
//!
//! The DANCE set is `C_knn ∩ C_clr` (the paper, equation 7): labels whose two scores are both within their thresholds.
//! Sets may be empty, and the paper returns them so. [`EmptySets::Top1`] puts the classifier's best label into an empty
//! set, which can only raise coverage.

use serde::{Deserialize, Serialize};

use crate::numeric::ragged::Ragged;
use crate::scores::LabelScores;

/// The treatment of empty sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmptySets {
    /// An empty set stays empty, as in the paper.
    #[default]
    Keep,
    /// An empty set gets the classifier's best label.
    Top1,
}

/// One set of classes per query, ascending within a set.
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
    /// Returns the labels whose score is at most `threshold`.
    pub fn from_scores(scores: &LabelScores, threshold: f64, classes: usize) -> Self {
        let mut sets = Self::default();
        for query in 0..scores.len() {
            if threshold == f64::INFINITY {
                sets.push(0..classes as u32);
            } else {
                let (labels, scores) = scores.row(query);
                let within = labels.iter().zip(scores).filter(|(_, score)| **score <= threshold);
                sets.push(within.map(|(&label, _)| label));
            }
        }
        sets
    }

    /// Appends a set: class ids, ascending.
    pub fn push(&mut self, set: impl IntoIterator<Item = u32>) {
        self.labels.push(set);
    }

    /// Returns the number of sets.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns one set, ascending.
    pub fn get(&self, query: usize) -> &[u32] {
        self.labels.row(query)
    }

    /// Returns the class ids of all sets, one set after the other.
    pub fn labels(&self) -> &[u32] {
        self.labels.values()
    }

    /// Returns the start of every set among [`labels`](Self::labels), then the end of the last.
    pub fn offsets(&self) -> &[usize] {
        self.labels.offsets()
    }

    /// Returns whether a label is in a set.
    pub fn contains(&self, query: usize, label: u32) -> bool {
        self.get(query).binary_search(&label).is_ok()
    }

    /// Returns all sets in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.labels.iter()
    }

    /// Returns some of the sets.
    pub fn select(&self, queries: &[usize]) -> Self {
        Self { labels: self.labels.select(queries) }
    }

    /// Appends further sets.
    pub fn append(&mut self, other: Self) {
        self.labels.append(other.labels);
    }

    /// Puts `best[query]` into every set that is empty.
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
    fn a_finite_threshold_cuts_and_an_infinite_one_lets_every_label_in() {
        let scores = LabelScores::from_rows([&[(0, 1.0), (3, 2.0)][..], &[(1, 1.5)]]);
        let sets = |t| Sets::from_scores(&scores, t, 4).iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(sets(1.0), [vec![0], vec![]]);
        assert_eq!(sets(2.0), [vec![0, 3], vec![1]]);
        assert_eq!(sets(f64::INFINITY), [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(Sets::from_scores(&scores, 1.0, 4).fill_empty(&[2, 3]).get(1), [3]);
    }
}
