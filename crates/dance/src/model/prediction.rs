//! What a model says about queries.
//!
//! [`Scored`] is everything that does not depend on the error level; [`Prediction`] adds the sets for one. So several
//! levels cost one search.

use serde::{Deserialize, Serialize};

use crate::conformal::{Answers, Decision};
use crate::error::Result;
use crate::machine::Classified;
use crate::scores::PairedScores;
use crate::scores::{EmptySets, LabelCounts, Sets, least_count};
use crate::setters::setters;

/// What to compute beside the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PredictOptions {
    /// The best label and its probability. Costs a kernel product with all training points.
    pub best: bool,
    /// What becomes of an empty set; `Top1` computes best labels whatever `best` says.
    pub empty: EmptySets,
    /// Most neighbors that are named in support of each label in a set.
    pub support: usize,
    /// Whether the probabilities of all the kernel's classes are kept.
    pub probabilities: bool,
}

setters!(PredictOptions { best: bool, empty: EmptySets, support: usize, probabilities: bool });

impl Default for PredictOptions {
    fn default() -> Self {
        Self { best: true, empty: EmptySets::Keep, support: 0, probabilities: false }
    }
}

/// A best label of every query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Class ids.
    pub labels: Vec<u32>,
    /// Their probabilities.
    pub probabilities: Vec<f32>,
}

impl Best {
    fn of(labels: Vec<u32>, classified: &Classified) -> Self {
        let best = labels.iter().enumerate().map(|(row, &label)| classified.probability(row, label));
        Self { probabilities: best.collect(), labels }
    }
}

/// What is known about queries before an error level is chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// Both scores of every label.
    pub scores: PairedScores,
    /// How many calibration points conform no better, for every label: its p-value.
    pub counts: LabelCounts,
    /// Distance to the nearest reference point, in mapped space: large for queries unlike anything seen.
    pub nearest: Vec<f64>,
    /// A p-value of every query for coming from where the calibration points come from, whatever its label; `None` where an older
    /// file does not say how far calibration points are from what is known.
    pub novelty: Option<Vec<f64>>,
    /// How many calibration points conform no better where the label is one that nobody has; `None` where sets do not say so.
    pub unseen: Option<Vec<u32>>,
    /// The classifier's best label of every query and the probabilities of all its classes, one row per query, where either was
    /// asked for.
    pub classified: Option<Classified>,
    /// The neighbors, where support was asked for.
    pub neighbors: Option<Vec<Vec<u32>>>,
    pub(super) options: PredictOptions,
}

impl Scored {
    pub(super) fn new(answers: Answers, classified: Option<Classified>, options: PredictOptions) -> Self {
        let Answers { neighbors, scores, counts, novelty, unseen } = answers;
        let nearest = |query| neighbors.squared(query).first().map_or(f64::INFINITY, |s| s.sqrt());
        let queries = 0..neighbors.len();
        let named = (options.support > 0)
            .then(|| queries.clone().map(|query| neighbors.ids(query).to_vec()).collect());
        let nearest = queries.map(nearest).collect();
        Self { scores, counts, nearest, novelty, unseen, classified, neighbors: named, options }
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.nearest.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.nearest.is_empty()
    }

    /// The same, with another choice of what becomes of empty sets. `Top1` needs best labels, which are there where they were asked
    /// for.
    pub fn with_empty(mut self, empty: EmptySets) -> Self {
        self.options.empty = empty;
        self
    }

    /// What is known about some of the queries.
    pub fn select(&self, queries: &[usize]) -> Self {
        let classified = self.classified.as_ref().map(|all| Classified {
            labels: queries.iter().map(|&query| all.labels[query]).collect(),
            probabilities: all.probabilities.select(queries),
        });
        Self {
            scores: self.scores.select(queries),
            counts: self.counts.select(queries),
            nearest: queries.iter().map(|&query| self.nearest[query]).collect(),
            novelty: self.novelty.as_ref().map(|all| queries.iter().map(|&query| all[query]).collect()),
            unseen: self.unseen.as_ref().map(|all| queries.iter().map(|&query| all[query]).collect()),
            classified,
            neighbors: self
                .neighbors
                .as_ref()
                .map(|all| queries.iter().map(|&query| all[query].clone()).collect()),
            options: self.options,
        }
    }

    /// Appends further queries.
    pub fn extend(&mut self, other: &Self) -> Result<()> {
        self.scores.extend(&other.scores);
        self.counts.extend(&other.counts);
        self.nearest.extend_from_slice(&other.nearest);
        if let Some(novelty) = &other.novelty {
            self.novelty.get_or_insert_default().extend_from_slice(novelty);
        }
        if let Some(unseen) = &other.unseen {
            self.unseen.get_or_insert_default().extend_from_slice(unseen);
        }
        if let Some(neighbors) = &other.neighbors {
            self.neighbors.get_or_insert_default().extend_from_slice(neighbors);
        }
        let Some(Classified { labels, probabilities }) = &other.classified else { return Ok(()) };
        let all = self.classified.get_or_insert_default();
        all.labels.extend_from_slice(labels);
        all.probabilities.append(probabilities)
    }
}

/// Sets at one error level.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The sets.
    pub sets: Sets,
    /// The level, and how labels were let in.
    pub decision: Decision,
    /// The most probable label of every set; of all labels where the set is empty. So it is in every set that is not. Where
    /// asked for.
    pub best: Option<Best>,
    /// Share of sets that came out empty, before any label was put in.
    pub empty: f64,
    /// As in [`Scored::novelty`].
    pub novelty: Option<Vec<f64>>,
    /// Whether a set holds "none of these", beside its labels: a label that nobody has; `None` where sets do not say so.
    pub none_of_these: Option<Vec<bool>>,
    /// For every label of every set, in their order: the rows of the reference points that carry it, nearest first.
    pub support: Option<Vec<Vec<u32>>>,
}

impl Prediction {
    pub(super) fn new(scored: &Scored, decision: Decision, classes: usize, reference_labels: &[u32]) -> Self {
        let mut sets = scored.counts.sets(decision.cut, classes);
        let empty = sets.iter().filter(|set| set.is_empty()).count() as f64 / sets.len().max(1) as f64;
        if let (EmptySets::Top1, Some(classified)) = (scored.options.empty, &scored.classified) {
            sets = sets.fill_empty(&classified.labels);
        }
        let best = scored.classified.as_ref().map(|classified| {
            let labels = (0..sets.len()).map(|row| best_of(sets.get(row), row, classified, &scored.counts));
            Best::of(labels.collect(), classified)
        });
        let support = scored.neighbors.as_ref().map(|neighbors| {
            let pairs =
                sets.iter().zip(neighbors).flat_map(|(set, near)| set.iter().map(move |label| (label, near)));
            let carry = |(label, near): (&u32, &Vec<u32>)| {
                let ids = near.iter().filter(|&&id| reference_labels[id as usize] == *label);
                ids.take(scored.options.support).copied().collect()
            };
            pairs.map(carry).collect()
        });
        let none_of_these = decision.unseen_alpha.zip(scored.unseen.as_ref()).map(|(alpha, counts)| {
            let least = least_count(alpha, decision.calibration_points);
            counts.iter().map(|&count| count >= least).collect()
        });
        Self { sets, decision, best, empty, novelty: scored.novelty.clone(), none_of_these, support }
    }
}

/// The most probable label of a set; among equals the one that conforms best, then the first.
fn best_of(set: &[u32], row: usize, classified: &Classified, counts: &LabelCounts) -> u32 {
    let best = classified.labels[row];
    if set.is_empty() || set.contains(&best) {
        return best;
    }
    let key = |label: u32| (classified.probability(row, label), counts.get(row, label).combined);
    set.iter().copied().fold(set[0], |best, label| {
        let ((p, count), (most, most_count)) = (key(label), key(best));
        if p > most || (p == most && count > most_count) { label } else { best }
    })
}
