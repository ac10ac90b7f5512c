//! The rank and the contrastive score of every label side by side.

use crate::numeric::matrix::Ragged;
use crate::scores::LabelScores;

/// The rank score and the contrastive score of every label of every query. For a listed label, at least one of the two
/// is finite. For all other labels, both are +∞.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PairedScores {
    /// The listed labels, ascending within a query.
    pub(crate) labels: Ragged<u32>,
    /// The rank score of every label in `labels`; +∞ if none of the neighbors of the rank score carries the label.
    pub(crate) rank: Vec<f64>,
    /// The contrastive score of every label in `labels`; +∞ if none of the neighbors of the contrastive score carries
    /// the label.
    pub(crate) contrast: Vec<f64>,
}

impl PairedScores {
    /// Joins the rank scores and the contrastive scores of the same queries.
    pub(crate) fn join(rank: &LabelScores, contrast: &LabelScores) -> Self {
        let mut joined = Self::default();
        for query in 0..rank.len() {
            let mut labels = [rank.row(query).0, contrast.row(query).0].concat();
            labels.sort_unstable();
            labels.dedup();
            joined.rank.extend(labels.iter().map(|&label| rank.get(query, label)));
            joined.contrast.extend(labels.iter().map(|&label| contrast.get(query, label)));
            joined.labels.push(labels);
        }
        joined
    }

    /// Returns the number of queries.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns the listed labels of one query in ascending order, their rank scores and their contrastive scores.
    pub(crate) fn row(&self, query: usize) -> (&[u32], &[f64], &[f64]) {
        let range = self.labels.range(query);
        (self.labels.row(query), &self.rank[range.clone()], &self.contrast[range])
    }

    /// Returns the rank score and the contrastive score of one label of a query. Both are +∞ if the label is not
    /// listed.
    pub(crate) fn get(&self, query: usize, label: u32) -> (f64, f64) {
        let (labels, rank, contrast) = self.row(query);
        match labels.binary_search(&label) {
            Ok(place) => (rank[place], contrast[place]),
            Err(_) => (f64::INFINITY, f64::INFINITY),
        }
    }

    /// Returns the rank score and the contrastive score of one label per query. `labels[query]` is this label.
    pub(crate) fn of_labels(&self, labels: &[u32]) -> (Vec<f64>, Vec<f64>) {
        labels.iter().enumerate().map(|(query, &label)| self.get(query, label)).unzip()
    }

    /// Returns the scores of the queries with the given indices.
    pub(crate) fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self::default();
        for &query in queries {
            let (labels, rank, contrast) = self.row(query);
            selected.labels.push(labels.iter().copied());
            selected.rank.extend_from_slice(rank);
            selected.contrast.extend_from_slice(contrast);
        }
        selected
    }

    /// Appends the scores of the queries in `other`.
    pub(crate) fn append(&mut self, other: Self) {
        self.labels.append(other.labels);
        self.rank.extend(other.rank);
        self.contrast.extend(other.contrast);
    }
}
