//! The method dance, and the two neighbor scores that it shares with the method fuse.
//!
//! The neighbors of a query give every label a rank score and a contrastive score. In the method dance, a label is in
//! the set if each of its two scores is within its own threshold.

use super::calibrate::Reference;
use super::mix::{self, MixSelection, Trial};
use crate::context::Context;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::method::{Mix, NeighborScores};
use crate::neighbors::Neighbors;
use crate::scores::calibration::{CalibrationScores, Threshold};
use crate::scores::contrastive::Contrastive;
use crate::scores::paired::PairedScores;
use crate::scores::rank::{self, Rank};
use crate::scores::sets::{Counts, Cut, LabelCounts, least_count};
use crate::scores::{self, NeighborScore};

/// The rank score and the contrastive score of the methods dance and fuse, with their settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NeighborScorer {
    pub(super) rank: Rank,
    pub(super) contrastive: Contrastive,
    /// The width of the random noise that breaks ties of ranks. With 0, ranks stay tied.
    tie_noise: f64,
    /// The seed of the noise that breaks ties of ranks, and of the random keys that order points at equal distances.
    pub(super) seed: u64,
}

impl NeighborScorer {
    /// Creates the two scores for the method dance. Points at equal distances have consecutive ranks. Random noise of
    /// width `tie_noise` breaks ties of the rank scores.
    pub(super) fn with_noise(scores: &NeighborScores, tie_noise: f64, kernel: Kernel) -> Self {
        let NeighborScores { rank_neighbors, contrast_neighbors, temperature, seed } = *scores;
        Self {
            rank: Rank { neighbors: rank_neighbors, shared_ties: false },
            contrastive: Contrastive { neighbors: contrast_neighbors, temperature, kernel },
            tie_noise,
            seed,
        }
    }

    /// Creates the two scores for the method [`fuse`](crate::method::MethodName::Fuse), where points at equal distances
    /// share a rank.
    pub(super) fn with_shared_ties(scores: &NeighborScores, kernel: Kernel) -> Self {
        let mut scorer = Self::with_noise(scores, 0.0, kernel);
        scorer.rank.shared_ties = true;
        scorer
    }

    /// Returns the number of neighbors of a query that the two scores need.
    pub(super) fn neighbors(&self) -> usize {
        self.rank.neighbors().max(self.contrastive.neighbors())
    }

    /// Scores every label of every query from the query's neighbors. Three things determine the noise that breaks ties
    /// of ranks: the seed, the tag `part` of the data set, and the hash `name(query)`.
    pub(super) fn score(
        &self,
        reference: &Reference,
        neighbors: &Neighbors,
        part: u64,
        name: impl Fn(usize) -> u64,
        context: &Context<'_>,
    ) -> PairedScores {
        let both: [&dyn NeighborScore; 2] = [&self.rank, &self.contrastive];
        let (points, labels) = (reference.index.points(), &reference.labels);
        let [mut rank, contrast] = scores::of_neighbors(both, neighbors, points, labels, reference.classes, context);
        if self.tie_noise > 0.0 {
            rank.add_noise(|query, label| rank::tie_noise(self.seed, self.tie_noise, part, name(query), label));
        }
        PairedScores::join(&rank, &contrast)
    }
}

/// The number of queries in a parallel task.
const TILE: usize = 64;

/// The decision rule of the method dance: the scores of the calibration points' own labels, which give thresholds at
/// any error level.
#[derive(Clone, Debug)]
pub(crate) struct Thresholds {
    pub(crate) scorer: NeighborScorer,
    pub(crate) rank: CalibrationScores,
    pub(crate) contrast: CalibrationScores,
    pub(crate) mix: MixSource,
}

/// The source of the mix, which is the share of the error level α that the contrastive score gets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MixSource {
    /// One mix for every error level α.
    Fixed(f64),
    /// The mix is 0, because there are too few points to select one. It gives the paper's k-NN set.
    TooFewPoints,
    /// A mix that is selected separately for each error level α.
    Selected(MixSelection),
}

impl Thresholds {
    /// Returns two counts for each label of each query, by the rank score and by the contrastive score. A count is 1 +
    /// the number of calibration points whose score is at least that of the label.
    pub(super) fn count(&self, scores: &PairedScores, context: &Context<'_>) -> LabelCounts {
        let n = self.rank.len();
        let counts = |rank: f64, contrast: f64| Counts::Both {
            rank: 1 + self.rank.at_least(rank),
            contrast: 1 + self.contrast.at_least(contrast),
        };
        // Labels without a score share the counts of two infinite scores.
        let rest = counts(f64::INFINITY, f64::INFINITY);
        let tile = |tile: usize| {
            let mut all = LabelCounts::new(n);
            for query in tile * TILE..((tile + 1) * TILE).min(scores.len()) {
                let (labels, ranks, contrasts) = scores.row(query);
                let each = labels.iter().zip(ranks.iter().zip(contrasts));
                all.push(each.map(|(&label, (&rank, &contrast))| (label, counts(rank, contrast))), rest);
            }
            all
        };
        LabelCounts::concat(n, context.map(scores.len().div_ceil(TILE), tile))
    }

    /// Returns the smallest counts with which a label is in the set at error level `alpha`, and the thresholds that
    /// they come from. A mix in [`Mix::Fixed`] replaces the model's mix.
    pub(super) fn decide(&self, alpha: f64, mix: Mix) -> Result<TwoThresholds> {
        let (mix, trials) = match (mix, &self.mix) {
            (Mix::Fixed(mix), _) | (Mix::Auto, &MixSource::Fixed(mix)) => (mix, Vec::new()),
            (Mix::Auto, MixSource::TooFewPoints) => (0.0, Vec::new()),
            (Mix::Auto, MixSource::Selected(selection)) => selection.select(alpha)?,
        };
        let (rank, contrast) = mix::share(alpha, mix);
        let n = self.rank.len();
        let cut = Cut::Both { rank: least_count(rank, n), contrast: least_count(contrast, n) };
        let thresholds = [self.rank.threshold(rank)?, self.contrast.threshold(contrast)?];
        Ok(TwoThresholds { cut, mix, thresholds, trials })
    }
}

/// The thresholds of the rank score and of the contrastive score at one error level α, with the mix that divides α
/// between them.
pub(super) struct TwoThresholds {
    pub(super) cut: Cut,
    pub(super) mix: f64,
    pub(super) thresholds: [Threshold; 2],
    /// The measurements of the sets under all mixes of the grid; empty if the mix was not selected.
    pub(super) trials: Vec<Trial>,
}
