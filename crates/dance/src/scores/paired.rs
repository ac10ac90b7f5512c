//! The rank and the contrastive score of every label side by side.

use crate::scores::LabelScores;

/// Two scores of every label of every query: a label listed has at least one finite score, all others have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairedScores {
    /// Where the labels of a query begin; one more than there are queries.
    pub offsets: Vec<usize>,
    /// Labels, ascending within a query.
    pub labels: Vec<u32>,
    /// Rank scores; +∞ beyond the rank neighbors.
    pub rank: Vec<f64>,
    /// Contrastive scores; +∞ beyond the contrast neighbors.
    pub contrast: Vec<f64>,
}

impl PairedScores {
    /// Joins the two scores of the same queries.
    pub fn join(rank: &LabelScores, contrast: &LabelScores) -> Self {
        let room = rank.labels.len().max(contrast.labels.len());
        let mut joined = Self {
            offsets: Vec::with_capacity(rank.len() + 1),
            labels: Vec::with_capacity(room),
            rank: Vec::with_capacity(room),
            contrast: Vec::with_capacity(room),
        };
        joined.offsets.push(0);
        for query in 0..rank.len() {
            let (rank_labels, rank_scores) = rank.row(query);
            let (contrast_labels, contrast_scores) = contrast.row(query);
            let (mut one, mut two) = (0, 0);
            while one < rank_labels.len() || two < contrast_labels.len() {
                let rank_label = rank_labels.get(one).copied().unwrap_or(u32::MAX);
                let contrast_label = contrast_labels.get(two).copied().unwrap_or(u32::MAX);
                let label = rank_label.min(contrast_label);
                let (in_rank, in_contrast) = (
                    one < rank_labels.len() && rank_label == label,
                    two < contrast_labels.len() && contrast_label == label,
                );
                joined.labels.push(label);
                joined.rank.push(if in_rank { rank_scores[one] } else { f64::INFINITY });
                joined.contrast.push(if in_contrast { contrast_scores[two] } else { f64::INFINITY });
                one += usize::from(in_rank);
                two += usize::from(in_contrast);
            }
            joined.offsets.push(joined.labels.len());
        }
        joined
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Labels (ascending), rank scores and contrastive scores of one query.
    pub fn row(&self, query: usize) -> (&[u32], &[f64], &[f64]) {
        let range = self.offsets[query]..self.offsets[query + 1];
        (&self.labels[range.clone()], &self.rank[range.clone()], &self.contrast[range])
    }

    /// Both scores of one label of a query.
    pub fn get(&self, query: usize, label: u32) -> (f64, f64) {
        let (labels, rank, contrast) = self.row(query);
        match labels.binary_search(&label) {
            Ok(place) => (rank[place], contrast[place]),
            Err(_) => (f64::INFINITY, f64::INFINITY),
        }
    }

    /// Both scores of the given label of every query.
    pub fn of_labels(&self, labels: &[u32]) -> (Vec<f64>, Vec<f64>) {
        labels.iter().enumerate().map(|(query, &label)| self.get(query, label)).unzip()
    }

    /// The scores of some of the queries.
    pub fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self { offsets: vec![0], ..Self::default() };
        for &query in queries {
            let (labels, rank, contrast) = self.row(query);
            selected.labels.extend_from_slice(labels);
            selected.rank.extend_from_slice(rank);
            selected.contrast.extend_from_slice(contrast);
            selected.offsets.push(selected.labels.len());
        }
        selected
    }

    /// Appends the scores of further queries.
    pub fn extend(&mut self, other: &Self) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let before = self.labels.len();
        self.offsets.extend(other.offsets.iter().skip(1).map(|offset| before + offset));
        self.labels.extend_from_slice(&other.labels);
        self.rank.extend_from_slice(&other.rank);
        self.contrast.extend_from_slice(&other.contrast);
    }
}
