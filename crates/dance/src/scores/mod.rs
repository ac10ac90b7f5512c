//! Nonconformity scores: one number for every label of a query, small if the label conforms.
//!
//! - Neighbor scores read the labels of a query's nearest reference points. The rank score (`rank.rs`) and the
//!   contrastive score (`contrastive.rs`) are those of the paper. Each is +∞ for a label that no neighbor carries.
//! - Scores of class probabilities are in [`ranked`]: LAC, APS, RAPS and SAPS. [`SplitConformal`] makes sets of them.
//! - [`CalibrationScores`] makes thresholds and p-values of any scores, [`LabelCounts`] makes sets of p-values.

pub mod calibration;
pub(crate) mod contrastive;
pub(crate) mod paired;
pub(crate) mod rank;
pub mod ranked;
pub(crate) mod sets;
mod split_conformal;

pub use calibration::CalibrationScores;
pub use ranked::{Draws, RankedLabel, RankedScore};
pub use sets::{Counts, Cut, EmptySets, LabelCounts, Sets, least_count};
pub use split_conformal::SplitConformal;

use crate::context::Context;
use crate::neighbors::Neighbors;
use crate::numeric::matrix::Matrix;
use crate::numeric::matrix::Ragged;

/// The number of queries that one parallel task scores.
const TILE: usize = 64;

/// The scores of every label of every query. Listed labels have finite scores, and all other labels of a query have the
/// score +∞.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LabelScores {
    /// The listed labels, ascending within a query.
    labels: Ragged<u32>,
    /// The score of every label in `labels`.
    scores: Vec<f64>,
}

impl LabelScores {
    /// Creates the scores from one row per query. A row lists labels in ascending order, each with its score.
    #[cfg(test)]
    pub(crate) fn from_rows<'a>(rows: impl IntoIterator<Item = &'a [(u32, f64)]>) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.scores.extend(row.iter().map(|&(_, score)| score));
            all.labels.push(row.iter().map(|&(label, _)| label));
        }
        all
    }

    /// Returns the number of queries.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns the listed labels of one query in ascending order, and their scores.
    pub(crate) fn row(&self, query: usize) -> (&[u32], &[f64]) {
        (self.labels.row(query), &self.scores[self.labels.range(query)])
    }

    /// Returns the score of one label of a query, which is +∞ if the label is not listed.
    pub(crate) fn get(&self, query: usize, label: u32) -> f64 {
        let (labels, scores) = self.row(query);
        labels.binary_search(&label).map_or(f64::INFINITY, |place| scores[place])
    }

    /// Adds `noise(query, label)` to the score of every listed label. The other scores are +∞ and remain so.
    pub(crate) fn add_noise(&mut self, noise: impl Fn(usize, u32) -> f64) {
        for query in 0..self.len() {
            let scores = &mut self.scores[self.labels.range(query)];
            for (score, &label) in scores.iter_mut().zip(self.labels.row(query)) {
                *score += noise(query, label);
            }
        }
    }
}

/// The input of a [`NeighborScore`]: the neighbors of one query, nearest first, and the reference points. Reference
/// points are the labelled points among which neighbors are searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighborhood<'a> {
    /// The indices of the neighbors among the reference points.
    pub(crate) ids: &'a [u32],
    /// The squared distances from the query to its neighbors, in the order of `ids`.
    pub(crate) squared: &'a [f64],
    /// The labels of all reference points.
    pub(crate) labels: &'a [u32],
    /// All reference points in the space of the learned metric, one row each.
    pub(crate) points: &'a Matrix,
}

/// A nonconformity score that is computed from the neighbors of a query.
pub(crate) trait NeighborScore: Sync {
    /// Returns the number of nearest neighbors that the score uses. A neighborhood may hold more, which the score
    /// ignores, or fewer if there are few reference points.
    fn neighbors(&self) -> usize;

    /// Offers values for labels of one query to `best`. The smallest value that is offered for a label becomes the
    /// label's score.
    fn score(&self, neighborhood: &Neighborhood<'_>, best: &mut BestPerLabel);
}

/// A collector of one query's scores. It keeps the smallest value that a [`NeighborScore`] offers for every label.
#[derive(Clone, Debug)]
pub(crate) struct BestPerLabel {
    /// The smallest value of every label; +∞ if no value was offered.
    values: Vec<f64>,
    /// The labels for which a value was offered, so that their entries in `values` are finite.
    touched: Vec<u32>,
    /// Two buffers that a [`NeighborScore`] may use while it computes values. They are kept to save allocations.
    scratch: (Vec<f64>, Vec<f64>),
}

impl BestPerLabel {
    fn new(classes: usize) -> Self {
        Self { values: vec![f64::INFINITY; classes], touched: Vec::new(), scratch: Default::default() }
    }

    /// Offers a finite value for a label. The smallest value that is offered becomes the label's score.
    pub(crate) fn offer(&mut self, label: u32, value: f64) {
        let best = &mut self.values[label as usize];
        if *best == f64::INFINITY {
            self.touched.push(label);
        }
        *best = best.min(value);
    }

    /// Appends the collected scores to `all` as those of one query, with labels ascending. The collector is empty
    /// afterwards.
    fn drain_into(&mut self, all: &mut LabelScores) {
        self.touched.sort_unstable();
        let values = &mut self.values;
        let take = |&label: &u32| std::mem::replace(&mut values[label as usize], f64::INFINITY);
        all.scores.extend(self.touched.iter().map(take));
        all.labels.push(self.touched.drain(..));
    }
}

/// Computes N neighbor scores for every label of every query. `neighbors` holds the neighbors of each query among the
/// reference points. `points` and `labels` describe these reference points, and each label is below `classes`.
pub(crate) fn of_neighbors<const N: usize>(
    scores: [&dyn NeighborScore; N],
    neighbors: &Neighbors,
    points: &Matrix,
    labels: &[u32],
    classes: usize,
    context: &Context<'_>,
) -> [LabelScores; N] {
    let tile = |tile: usize| {
        let best = &mut BestPerLabel::new(classes);
        let mut found: [LabelScores; N] = std::array::from_fn(|_| LabelScores::default());
        for query in tile * TILE..((tile + 1) * TILE).min(neighbors.len()) {
            let (ids, squared) = (neighbors.ids(query), neighbors.squared(query));
            let neighborhood = Neighborhood { ids, squared, labels, points };
            for (found, score) in found.iter_mut().zip(scores) {
                score.score(&neighborhood, best);
                best.drain_into(found);
            }
        }
        found
    };
    let mut all: [LabelScores; N] = std::array::from_fn(|_| LabelScores::default());
    for tile in context.map(neighbors.len().div_ceil(TILE), tile) {
        for (all, tile) in all.iter_mut().zip(tile) {
            all.labels.append(tile.labels);
            all.scores.extend(tile.scores);
        }
    }
    all
}
