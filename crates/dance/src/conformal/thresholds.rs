//! The method dance: a label is in the set if its rank and its contrastive score are both within their thresholds.

use super::mix::{self, MixSelection};
use super::neighbor_scores::NeighborScorer;
use super::prediction::Shares;
use crate::context::Context;
use crate::error::Result;
use crate::method::Mix;
use crate::scores::paired::PairedScores;
use crate::scores::sets::{Counts, Cut, LabelCounts, least_count};
use crate::scores::threshold::CalibrationScores;

/// The number of queries in a parallel task.
const TILE: usize = 64;

/// The scores of the calibration points' own labels, which give the two thresholds at any α.
#[derive(Clone, Debug)]
pub(crate) struct Thresholds {
    pub(crate) scorer: NeighborScorer,
    pub(crate) rank: CalibrationScores,
    pub(crate) contrast: CalibrationScores,
    pub(crate) mix: MixSource,
}

/// The source of the mix, the contrastive score's share of α.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MixSource {
    /// One mix for every α.
    Fixed(f64),
    /// Too few points to select a mix; it is 0, which gives the k-NN set.
    TooFewPoints,
    /// The mix is selected separately for each α.
    Selected(MixSelection),
}

impl Thresholds {
    /// Counts, for each label of each query, the calibration points whose score is at least that of the label,
    /// separately for the rank and the contrastive score.
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

    /// Returns the smallest counts with which a label is in the set at error level `alpha`, and the shares of α behind
    /// them. A fixed `mix` replaces the model's mix.
    pub(super) fn decide(&self, alpha: f64, mix: Mix) -> Result<(Cut, Shares)> {
        let (mix, trials) = match (mix, &self.mix) {
            (Mix::Fixed(mix), _) | (Mix::Auto, &MixSource::Fixed(mix)) => (mix, Vec::new()),
            (Mix::Auto, MixSource::TooFewPoints) => (0.0, Vec::new()),
            (Mix::Auto, MixSource::Selected(selection)) => selection.select(alpha)?,
        };
        let (rank, contrast) = mix::share(alpha, mix);
        let n = self.rank.len();
        let cut = Cut::Both { rank: least_count(rank, n), contrast: least_count(contrast, n) };
        let thresholds = [self.rank.threshold(rank)?, self.contrast.threshold(contrast)?];
        Ok((cut, Shares { mix, thresholds, trials }))
    }
}
