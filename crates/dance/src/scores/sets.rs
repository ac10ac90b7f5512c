//! Prediction sets in a compact form: class ids of all sets one after the other, and where each set begins.
//!
//! The DANCE set is `C_knn ∩ C_clr` (the paper, equation 7): labels whose two scores both stay within their thresholds.
//! Sets may come out empty; the paper returns them so, and [`EmptySets::Top1`] puts the classifier's best label in
//! instead, which can only raise coverage.

use serde::{Deserialize, Serialize};

use crate::scores::LabelScores;

/// What becomes of an empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmptySets {
    /// It stays empty, as in the paper.
    #[default]
    Keep,
    /// It gets the classifier's best label.
    Top1,
}

/// One set of classes per query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sets {
    /// Where a set begins; one more than there are sets.
    pub offsets: Vec<usize>,
    /// Class ids, ascending within a set.
    pub labels: Vec<u32>,
}

impl Default for Sets {
    fn default() -> Self {
        Self { offsets: vec![0], labels: Vec::new() }
    }
}

impl Sets {
    /// Labels whose score is at most `threshold`.
    pub fn from_scores(scores: &LabelScores, threshold: f64, classes: usize) -> Self {
        let mut sets = Self::default();
        for query in 0..scores.len() {
            if threshold == f64::INFINITY {
                sets.labels.extend(0..classes as u32);
            } else {
                let (labels, scores) = scores.row(query);
                let within = labels.iter().zip(scores).filter(|(_, score)| **score <= threshold);
                sets.labels.extend(within.map(|(&label, _)| label));
            }
            sets.offsets.push(sets.labels.len());
        }
        sets
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One set, ascending.
    pub fn get(&self, query: usize) -> &[u32] {
        &self.labels[self.offsets[query]..self.offsets[query + 1]]
    }

    /// Whether a label is in a set.
    pub fn contains(&self, query: usize, label: u32) -> bool {
        self.get(query).binary_search(&label).is_ok()
    }

    /// All sets in turn.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|ends| &self.labels[ends[0]..ends[1]])
    }

    /// Some of the sets.
    pub fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self::default();
        for &query in queries {
            selected.labels.extend_from_slice(self.get(query));
            selected.offsets.push(selected.labels.len());
        }
        selected
    }

    /// Appends further sets.
    pub fn extend(&mut self, other: &Self) {
        let before = self.labels.len();
        self.offsets.extend(other.offsets[1..].iter().map(|offset| before + offset));
        self.labels.extend_from_slice(&other.labels);
    }

    /// Puts `best[query]` into every set that is empty.
    pub fn fill_empty(&self, best: &[u32]) -> Self {
        let mut filled = Self::default();
        for (set, &best) in self.iter().zip(best) {
            if set.is_empty() {
                filled.labels.push(best);
            } else {
                filled.labels.extend_from_slice(set);
            }
            filled.offsets.push(filled.labels.len());
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_cut_and_infinite_ones_let_everything_in() {
        let scores = LabelScores::from_rows([&[(0, 1.0), (3, 2.0)][..], &[(1, 1.5)]]);
        let sets = |t| Sets::from_scores(&scores, t, 4).iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(sets(1.0), [vec![0], vec![]]);
        assert_eq!(sets(2.0), [vec![0, 3], vec![1]]);
        assert_eq!(sets(f64::INFINITY), [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(Sets::from_scores(&scores, 1.0, 4).fill_empty(&[2, 3]).get(1), [3]);
    }
}
