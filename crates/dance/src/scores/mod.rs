//! Nonconformity scores: how little a label conforms to a query, for every label at once.
//!
//! A score that looks at neighbors gives a finite value only to labels that occur among them; every other label is at
//! +∞. [`LabelScores`] is that sparse form. One score per file; a further one is a new file with a [`NeighborScore`].
//!
//! - [`Rank`]: the rank of the nearest neighbor with the label.
//! - [`Contrastive`]: the smallest contrastive loss of the neighbors with the label.
//! - [`PairedScores`]: two scores side by side, for methods that intersect their sets.
//!
//! ```
//! use dance::scores::LabelScores;
//! let scores = LabelScores::from_rows([&[(2, 1.0), (7, 3.0)][..]]); // one query, two labels near by
//! assert_eq!((scores.get(0, 7), scores.get(0, 1)), (3.0, f64::INFINITY));
//! ```
//!
//! Other scores look at class probabilities ([`ranked`]): [`Lac`], [`Aps`], [`Raps`], [`Saps`].

mod aps;
pub(crate) mod by_class;
pub(crate) mod contrastive;
pub(crate) mod counts;
mod lac;
pub(crate) mod paired;
pub(crate) mod rank;
pub mod ranked;
mod raps;
mod saps;
pub(crate) mod sets;
mod split_conformal;
pub mod threshold;

pub use aps::Aps;
pub use by_class::Clusters;
pub use contrastive::Contrastive;
pub use counts::{Counts, Cut, LabelCounts, least_count};
pub use lac::Lac;
pub use paired::PairedScores;
pub use rank::Rank;
pub use ranked::{Draws, RankedScore};
pub use raps::Raps;
pub use saps::Saps;
pub use sets::{EmptySets, Sets};
pub use split_conformal::SplitConformal;
pub use threshold::CalibrationScores;

use crate::context::Context;
use crate::neighbors::Neighbors;
use crate::numeric::matrix::Matrix;

/// Queries of a parallel task.
const TILE: usize = 64;

/// Scores of every label of every query: those listed are finite, all others +∞.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelScores {
    /// Where the labels of a query begin; one more than there are queries.
    offsets: Vec<usize>,
    /// Labels, ascending within a query.
    labels: Vec<u32>,
    scores: Vec<f64>,
}

impl LabelScores {
    /// Of one query after the other: `(label, score)`, labels ascending.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = &'a [(u32, f64)]>) -> Self {
        let mut all = Self { offsets: vec![0], ..Self::default() };
        for row in rows {
            all.labels.extend(row.iter().map(|&(label, _)| label));
            all.scores.extend(row.iter().map(|&(_, score)| score));
            all.offsets.push(all.labels.len());
        }
        all
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Labels (ascending) and scores of one query.
    pub fn row(&self, query: usize) -> (&[u32], &[f64]) {
        let range = self.offsets[query]..self.offsets[query + 1];
        (&self.labels[range.clone()], &self.scores[range])
    }

    /// The score of one label of a query.
    pub fn get(&self, query: usize, label: u32) -> f64 {
        let (labels, scores) = self.row(query);
        labels.binary_search(&label).map_or(f64::INFINITY, |place| scores[place])
    }

    /// Adds to every score what `noise(query, label)` says.
    pub fn add_noise(&mut self, noise: impl Fn(usize, u32) -> f64) {
        for query in 0..self.len() {
            let range = self.offsets[query]..self.offsets[query + 1];
            for (score, &label) in self.scores[range.clone()].iter_mut().zip(&self.labels[range]) {
                *score += noise(query, label);
            }
        }
    }
}

/// What a score may look at: the neighbors of one query, nearest first, and the reference they come from.
#[derive(Clone, Copy, Debug)]
pub struct Neighborhood<'a> {
    /// Reference indices.
    pub ids: &'a [u32],
    /// Squared distances to the query.
    pub squared: &'a [f64],
    /// Labels of all reference points.
    pub labels: &'a [u32],
    /// All reference points, mapped.
    pub points: &'a Matrix,
}

/// A score made of neighbors.
pub trait NeighborScore: Sync {
    /// How many neighbors it looks at; the neighborhood may hold more, or fewer when the reference is small.
    fn neighbors(&self) -> usize;

    /// Scores the labels of one query. Of several values for a label the smallest counts.
    fn score(&self, neighborhood: &Neighborhood<'_>, best: &mut BestPerLabel);
}

/// The smallest value offered for every label.
#[derive(Clone, Debug)]
pub struct BestPerLabel {
    /// By label; +∞ where nothing was offered.
    values: Vec<f64>,
    touched: Vec<u32>,
    /// Room for a score's own numbers.
    scratch: (Vec<f64>, Vec<f64>),
}

impl BestPerLabel {
    fn new(classes: usize) -> Self {
        Self { values: vec![f64::INFINITY; classes], touched: Vec::new(), scratch: Default::default() }
    }

    /// Offers a finite value for a label.
    pub fn offer(&mut self, label: u32, value: f64) {
        let best = &mut self.values[label as usize];
        if *best == f64::INFINITY {
            self.touched.push(label);
        }
        *best = best.min(value);
    }

    /// Moves the labels, ascending, and their values out.
    fn drain(&mut self, labels: &mut Vec<u32>, scores: &mut Vec<f64>) {
        self.touched.sort_unstable();
        for label in self.touched.drain(..) {
            labels.push(label);
            scores.push(std::mem::replace(&mut self.values[label as usize], f64::INFINITY));
        }
    }
}

/// Every score of every query. `points` and `labels` are those of the reference, each label below `classes`.
pub fn of_neighbors<const N: usize>(
    scores: [&dyn NeighborScore; N],
    neighbors: &Neighbors,
    points: &Matrix,
    labels: &[u32],
    classes: usize,
    context: &Context<'_>,
) -> [LabelScores; N] {
    let tile = |tile: usize| {
        let best = &mut BestPerLabel::new(classes);
        let mut tiles: [Tile; N] = std::array::from_fn(|_| Tile::default());
        for query in tile * TILE..((tile + 1) * TILE).min(neighbors.len()) {
            let (ids, squared) = (neighbors.ids(query), neighbors.squared(query));
            let neighborhood = Neighborhood { ids, squared, labels, points };
            for (tile, score) in tiles.iter_mut().zip(scores) {
                score.score(&neighborhood, best);
                best.drain(&mut tile.labels, &mut tile.scores);
                tile.ends.push(tile.labels.len());
            }
        }
        tiles
    };
    let tiles: Vec<[Tile; N]> = context.map(neighbors.len().div_ceil(TILE), tile);
    std::array::from_fn(|which| {
        let mut all = LabelScores { offsets: vec![0], ..LabelScores::default() };
        for tile in tiles.iter().map(|tiles| &tiles[which]) {
            let before = all.labels.len();
            all.offsets.extend(tile.ends.iter().map(|end| before + end));
            all.labels.extend_from_slice(&tile.labels);
            all.scores.extend_from_slice(&tile.scores);
        }
        all
    })
}

#[derive(Default)]
struct Tile {
    ends: Vec<usize>,
    labels: Vec<u32>,
    scores: Vec<f64>,
}
