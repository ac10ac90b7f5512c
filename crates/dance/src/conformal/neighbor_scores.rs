//! The rank and the contrastive score of every label, from the neighbors of a query.

use super::reference::Reference;
use crate::context::Context;
use crate::kernel::Kernel;
use crate::method::NeighborScores;
use crate::neighbors::Neighbors;
use crate::scores::contrastive::Contrastive;
use crate::scores::paired::PairedScores;
use crate::scores::rank::{self, Rank};
use crate::scores::{self, NeighborScore};

/// The two neighbor scores with their settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NeighborScorer {
    pub(super) rank: Rank,
    pub(super) contrastive: Contrastive,
    /// The width of the noise that breaks ties of ranks; with 0, ranks tie.
    tie_noise: f64,
    /// The seed of the noise, and of the random keys that order points at the same distance.
    pub(super) seed: u64,
}

impl NeighborScorer {
    /// Creates the scorer of the method dance: points at the same distance have consecutive ranks, and noise of the
    /// width `tie_noise` breaks ties of ranks.
    pub(crate) fn with_noise(scores: &NeighborScores, tie_noise: f64, kernel: Kernel) -> Self {
        let NeighborScores { rank_neighbors, contrast_neighbors, temperature, seed } = *scores;
        Self {
            rank: Rank { neighbors: rank_neighbors, shared_ties: false },
            contrastive: Contrastive { neighbors: contrast_neighbors, temperature, kernel },
            tie_noise,
            seed,
        }
    }

    /// Creates the scorer of the method fuse: points at the same distance share a rank.
    pub(crate) fn with_shared_ties(scores: &NeighborScores, kernel: Kernel) -> Self {
        let mut scorer = Self::with_noise(scores, 0.0, kernel);
        scorer.rank.shared_ties = true;
        scorer
    }

    /// Returns the number of neighbors that the scores use.
    pub(crate) fn neighbors(&self) -> usize {
        self.rank.neighbors().max(self.contrastive.neighbors())
    }

    /// Scores every label of every query. The seed, the tag `part` of the data set and `name(query)` determine the
    /// noise that breaks ties of ranks.
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
