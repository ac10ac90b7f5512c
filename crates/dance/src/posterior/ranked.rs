//! Scores of a posterior that look at ranks: RAPS and SAPS, for sets whose size follows how hard a point is.
//!
//! The random number of either is a function of the point's own numbers, so that a score is one of the point, its label and the others.
//!
//! A query that joins with label l changes the weight `exp e(l)` of a point and no other beyond what it changes whatever l is. So the
//! ranks and masses of a point are summed up once per query, and every label is a correction of them.
//!
//! Cost of a query: `n·c` exponentials; there are no bounds here that would settle most of them.

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::numeric::random;
use crate::posterior::count::{Joining, Query, reaching};
use crate::posterior::wide::Wide;
use crate::scores::ranked::RankedLabel;
use crate::scores::{RankedScore, Raps, Saps};

/// The stream of random numbers of scores.
const DRAW_PURPOSE: u64 = 0x5c0e;
/// Probabilities this close, relatively, rank alike, whatever their arithmetic rounds to.
const ALIKE: f64 = 1e-9;
/// Penalties of RAPS and weights of SAPS that are tried.
const PENALTIES: [f64; 6] = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5];
/// The error level for which they are.
const TRIED_AT: f64 = 0.1;

/// Which score of a posterior is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PosteriorScore {
    /// `-ln p(y)`, which orders as LAC's `1 - p(y)`: the smallest sets.
    #[default]
    Lac,
    /// The mass of all labels that are as probable, with a penalty on late ranks: sets that are larger where a point is hard.
    Raps,
    /// The largest probability and the rank alone.
    Saps,
}

/// A score with what the fit part set of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "score", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ScoreSettings {
    /// See [`PosteriorScore::Lac`].
    #[default]
    Lac,
    /// See [`PosteriorScore::Raps`].
    Raps {
        /// What a rank costs beyond the free ones.
        penalty: f64,
        /// Ranks that cost nothing.
        free_ranks: usize,
    },
    /// See [`PosteriorScore::Saps`].
    Saps {
        /// What a rank costs.
        weight: f64,
    },
}

impl ScoreSettings {
    /// What of them has no settings.
    pub fn kind(self) -> PosteriorScore {
        match self {
            Self::Lac => PosteriorScore::Lac,
            Self::Raps { .. } => PosteriorScore::Raps,
            Self::Saps { .. } => PosteriorScore::Saps,
        }
    }

    /// Whether a fit can have made it.
    pub(crate) fn is_sound(self) -> bool {
        match self {
            Self::Lac => true,
            Self::Raps { penalty: cost, .. } | Self::Saps { weight: cost } => cost.is_finite() && cost >= 0.0,
        }
    }

    /// The score, where ranks matter to it.
    pub(super) fn ranked(self) -> Option<Box<dyn RankedScore>> {
        match self {
            Self::Lac => None,
            Self::Raps { penalty, free_ranks } => Some(Box::new(Raps { penalty, free_ranks })),
            Self::Saps { weight } => Some(Box::new(Saps { weight })),
        }
    }

    /// The settings with the smallest sets on points that the experts had not seen, `evidence` about them and their labels.
    pub(super) fn choose(kind: PosteriorScore, evidence: &Wide, labels: &[u32], draws: &[f64]) -> Self {
        if kind == PosteriorScore::Lac {
            return Self::Lac;
        }
        let ranked: Vec<Vec<RankedLabel>> = (0..labels.len())
            .map(|row| {
                let weights = Weights::of(evidence.row(row));
                (0..evidence.cols()).map(|label| weights.place(label, draws[row])).collect()
            })
            .collect();
        let own = |row: usize| &ranked[row][labels[row] as usize];
        let mut ranks: Vec<usize> = (0..labels.len()).map(|row| own(row).rank).collect();
        ranks.sort_unstable();
        let last =
            (((1.0 - TRIED_AT) * labels.len() as f64).ceil() as usize).clamp(1, labels.len().max(1)) - 1;
        let free_ranks = ranks.get(last).copied().unwrap_or(1);
        let candidates = PENALTIES.map(|cost| match kind {
            PosteriorScore::Saps => Self::Saps { weight: cost },
            _ => Self::Raps { penalty: cost, free_ranks },
        });
        let size = |settings: &Self| {
            let Some(score) = settings.ranked() else { return 0 };
            let mut scores: Vec<f64> = (0..labels.len()).map(|row| score.score(own(row))).collect();
            scores.sort_unstable_by(f64::total_cmp);
            let Some(&threshold) = scores.get(last) else { return 0 };
            ranked.iter().flatten().filter(|label| score.score(label) <= threshold).count()
        };
        candidates.into_iter().min_by_key(size).unwrap_or_default()
    }
}

/// The random number of a point.
pub(super) fn draw(point: &[f32], seed: u64) -> f64 {
    let bits = point.iter().map(|value| u64::from((value + 0.0).to_bits()));
    (random::bits_of([seed, DRAW_PURPOSE].into_iter().chain(bits)) >> 11) as f64 / (1u64 << 53) as f64
}

/// `exp e` of every label, up to a factor.
struct Weights {
    all: Vec<f64>,
    total: f64,
}

impl Weights {
    fn of(evidence: &[f64]) -> Self {
        let most = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let all: Vec<f64> = evidence.iter().map(|value| (value - most).exp()).collect();
        Self { total: all.iter().sum(), all }
    }

    /// What stands before `label`.
    fn before(&self, label: usize) -> Before {
        let own = self.all[label] * (1.0 + ALIKE);
        let mut before = Before { rank: 1, mass: 0.0, largest: [(0.0, usize::MAX); 2] };
        for (at, &weight) in self.all.iter().enumerate() {
            if weight > own {
                before.rank += 1;
                before.mass += weight;
            }
            if weight > before.largest[0].0 {
                before.largest = [(weight, at), before.largest[0]];
            } else if weight > before.largest[1].0 {
                before.largest[1] = (weight, at);
            }
        }
        before
    }

    /// Where a label stands.
    fn place(&self, label: usize, draw: f64) -> RankedLabel {
        let before = self.before(label);
        placed(self.all[label], before.rank, before.mass, before.largest[0].0, self.total, draw)
    }

    /// Where `own` stands when the weight of another label becomes `joined`.
    fn place_with(
        &self,
        own: usize,
        before: &Before,
        (label, joined): (usize, f64),
        draw: f64,
    ) -> RankedLabel {
        let (weight, was) = (self.all[own], self.all[label]);
        let above = weight * (1.0 + ALIKE);
        let (mut rank, mut mass) = (before.rank, before.mass);
        if was > above {
            rank -= 1;
            mass -= was;
        }
        if joined > above {
            rank += 1;
            mass += joined;
        }
        let [first, second] = before.largest;
        let largest = if first.1 == label { second.0 } else { first.0 }.max(joined);
        placed(weight, rank, mass.max(0.0), largest, self.total - was + joined, draw)
    }
}

/// What stands before a label: its rank, the mass of those before it, and the two largest weights of all with their labels.
struct Before {
    rank: usize,
    mass: f64,
    largest: [(f64, usize); 2],
}

fn placed(own: f64, rank: usize, before: f64, largest: f64, total: f64, draw: f64) -> RankedLabel {
    RankedLabel {
        rank,
        probability: own / total,
        largest: largest / total,
        mass: (before + own) / total,
        draw,
    }
}

/// The score of one label of a posterior.
pub(super) fn score(score: &dyn RankedScore, evidence: &[f64], label: usize, draw: f64) -> f64 {
    score.score(&Weights::of(evidence).place(label, draw))
}

/// The scores of all labels.
pub(super) fn scores(score: &dyn RankedScore, evidence: &[f64], draw: f64) -> Vec<f64> {
    let weights = Weights::of(evidence);
    let mut order: Vec<usize> = (0..evidence.len()).collect();
    order.sort_unstable_by(|&a, &b| weights.all[b].total_cmp(&weights.all[a]));
    let largest = order.first().map_or(0.0, |&label| weights.all[label]);
    let mut scores = vec![0.0; evidence.len()];
    // `passed` labels, of `mass`, are larger than the one at hand.
    let (mut passed, mut mass) = (0, 0.0);
    for &label in &order {
        let own = weights.all[label];
        while weights.all[order[passed]] > own * (1.0 + ALIKE) {
            mass += weights.all[order[passed]];
            passed += 1;
        }
        scores[label] = score.score(&placed(own, passed + 1, mass, largest, weights.total, draw));
    }
    scores
}

impl Joining<'_> {
    /// For every query and label, 1 + the number of points of the bag whose score with the query among them is at least the query's;
    /// `draws` are the random numbers of the bag.
    pub(super) fn count_ranked(
        &self,
        score: &dyn RankedScore,
        draws: &[f64],
        queries: &[Query],
        context: &Context<'_>,
    ) -> Vec<Vec<u32>> {
        context.map(queries.len(), |query| {
            let thresholds: Vec<f64> = queries[query].scores.iter().map(|&score| reaching(score)).collect();
            let mut counts = vec![1u32; thresholds.len()];
            let mut joins = vec![0.0; thresholds.len()];
            for (point, (&class, &draw)) in self.bag.labels.iter().zip(draws).enumerate() {
                let own = class as usize;
                let mut row = self.bag.evidence.row(point).to_vec();
                joins.fill(0.0);
                for (weight, expert) in self.experts {
                    expert.shift(query, point, *weight, &mut row);
                    expert.joins(query, point, *weight, &mut joins);
                }
                let weights = Weights::of(&row);
                let before = weights.before(own);
                for (label, count) in counts.iter_mut().enumerate() {
                    if !self.compares(class, label) {
                        continue;
                    }
                    let reached = if label == own {
                        row[own] += joins[own];
                        let reached = self::score(score, &row, own, draw);
                        row[own] -= joins[own];
                        reached
                    } else {
                        let joined = weights.all[label] * joins[label].exp();
                        score.score(&weights.place_with(own, &before, (label, joined), draw))
                    };
                    *count += u32::from(reached >= thresholds[label]);
                }
            }
            self.scaled(counts)
        })
    }
}
