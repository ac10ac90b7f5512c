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

/// The number of queries in a parallel task.
const TILE: usize = 64;

/// The scores of every label of every query. Listed labels have finite scores; labels that are not listed have the
/// score +∞.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LabelScores {
    /// The listed labels, ascending within a query.
    labels: Ragged<u32>,
    /// The score of every label in `labels`.
    scores: Vec<f64>,
}

impl LabelScores {
    /// Creates the scores from one row per query, which lists labels in ascending order with their scores.
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

    /// Returns the labels (ascending) and the scores of one query.
    pub(crate) fn row(&self, query: usize) -> (&[u32], &[f64]) {
        (self.labels.row(query), &self.scores[self.labels.range(query)])
    }

    /// Returns the score of one label of a query, which is +∞ if the label is not listed.
    pub(crate) fn get(&self, query: usize, label: u32) -> f64 {
        let (labels, scores) = self.row(query);
        labels.binary_search(&label).map_or(f64::INFINITY, |place| scores[place])
    }

    /// Adds `noise(query, label)` to every score.
    pub(crate) fn add_noise(&mut self, noise: impl Fn(usize, u32) -> f64) {
        for query in 0..self.len() {
            let scores = &mut self.scores[self.labels.range(query)];
            for (score, &label) in scores.iter_mut().zip(self.labels.row(query)) {
                *score += noise(query, label);
            }
        }
    }
}

/// The input of a [`NeighborScore`]: the neighbors of one query, nearest first, and the reference points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighborhood<'a> {
    /// The indices of the neighbors among the reference points.
    pub(crate) ids: &'a [u32],
    /// The squared distances of the neighbors to the query.
    pub(crate) squared: &'a [f64],
    /// The labels of all reference points.
    pub(crate) labels: &'a [u32],
    /// All reference points in the space of the learned metric, one row each.
    pub(crate) points: &'a Matrix,
}

/// A score that is computed from the neighbors of a query.
pub(crate) trait NeighborScore: Sync {
    /// Returns the number of neighbors that the score uses. The neighborhood may hold more, or fewer if there are few
    /// reference points.
    fn neighbors(&self) -> usize;

    /// Offers values for labels of one query to `best`. The smallest value that is offered for a label is its score.
    fn score(&self, neighborhood: &Neighborhood<'_>, best: &mut BestPerLabel);
}

/// The smallest value that was offered for every label of one query.
#[derive(Clone, Debug)]
pub(crate) struct BestPerLabel {
    /// The smallest value of every label; +∞ if no value was offered.
    values: Vec<f64>,
    /// The labels for which a value was offered.
    touched: Vec<u32>,
    /// Buffers that a score may use while it computes values.
    scratch: (Vec<f64>, Vec<f64>),
}

impl BestPerLabel {
    fn new(classes: usize) -> Self {
        Self { values: vec![f64::INFINITY; classes], touched: Vec::new(), scratch: Default::default() }
    }

    /// Offers a finite value for a label.
    pub(crate) fn offer(&mut self, label: u32, value: f64) {
        let best = &mut self.values[label as usize];
        if *best == f64::INFINITY {
            self.touched.push(label);
        }
        *best = best.min(value);
    }

    /// Moves the labels for which a value was offered, in ascending order, and their values to the end of `all`, as one
    /// query.
    fn drain_into(&mut self, all: &mut LabelScores) {
        self.touched.sort_unstable();
        let values = &mut self.values;
        let take = |&label: &u32| std::mem::replace(&mut values[label as usize], f64::INFINITY);
        all.scores.extend(self.touched.iter().map(take));
        all.labels.push(self.touched.drain(..));
    }
}

/// Computes several neighbor scores of every query at once. `points` and `labels` are those of the reference points;
/// each label is below `classes`.
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
