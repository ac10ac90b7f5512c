//! What a model says about queries.
//!
//! [`Scored`] is everything that does not depend on the error level; [`Prediction`] adds the sets for one. So several
//! levels cost one search.

use serde::{Deserialize, Serialize};

use crate::conformal::scores::PairedScores;
use crate::conformal::{Answers, Decision, EmptySets, LabelCounts, Sets};
use crate::error::Result;
use crate::machine::Classified;
use crate::matrix::Matrix;
use crate::setters::setters;

/// What to compute beside the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PredictOptions {
    /// The classifier's best label and its probability. Costs a kernel product with all training points.
    pub best: bool,
    /// What becomes of an empty set; `Top1` computes best labels whatever `best` says.
    pub empty: EmptySets,
    /// Most neighbors that are named in support of each label in a set.
    pub support: usize,
    /// Whether the probabilities of all the kernel's classes are kept.
    pub probabilities: bool,
    /// The number of the first query, for queries that arrive in pieces: with the seed it decides what breaks ties.
    pub first_row: usize,
}

setters!(PredictOptions {
    best: bool,
    empty: EmptySets,
    support: usize,
    probabilities: bool,
    first_row: usize,
});

impl Default for PredictOptions {
    fn default() -> Self {
        Self { best: true, empty: EmptySets::Keep, support: 0, probabilities: false, first_row: 0 }
    }
}

/// The classifier's best label of every query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Class ids.
    pub labels: Vec<u32>,
    /// Their probabilities.
    pub probabilities: Vec<f32>,
}

impl Best {
    pub(super) fn of(Classified { labels, probabilities }: &Classified) -> Self {
        let best = labels.iter().enumerate().map(|(row, &label)| probabilities.row(row)[label as usize]);
        Self { probabilities: best.collect(), labels: labels.clone() }
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
    /// The classifier's answers, where asked for.
    pub best: Option<Best>,
    /// Probabilities of the kernel's classes, one row per query, where asked for.
    pub probabilities: Option<Matrix>,
    /// The neighbors, where support was asked for.
    pub neighbors: Option<Vec<Vec<u32>>>,
    pub(super) options: PredictOptions,
}

impl Scored {
    pub(super) fn new(
        answers: Answers,
        best: Option<Best>,
        probabilities: Option<Matrix>,
        options: PredictOptions,
    ) -> Self {
        let Answers { neighbors, scores, counts } = answers;
        let nearest = |query| neighbors.squared(query).first().map_or(f64::INFINITY, |s| s.sqrt());
        let queries = 0..neighbors.len();
        let named = (options.support > 0)
            .then(|| queries.clone().map(|query| neighbors.ids(query).to_vec()).collect());
        let nearest = queries.map(nearest).collect();
        Self { scores, counts, nearest, best, probabilities, neighbors: named, options }
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.nearest.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.nearest.is_empty()
    }

    /// Appends further queries.
    pub(super) fn extend(&mut self, other: &Self) -> Result<()> {
        self.scores.extend(&other.scores);
        self.counts.extend(&other.counts);
        self.nearest.extend_from_slice(&other.nearest);
        if let Some(best) = &other.best {
            let all = self.best.get_or_insert_default();
            all.labels.extend_from_slice(&best.labels);
            all.probabilities.extend_from_slice(&best.probabilities);
        }
        if let Some(neighbors) = &other.neighbors {
            self.neighbors.get_or_insert_default().extend_from_slice(neighbors);
        }
        match &other.probabilities {
            Some(probabilities) => self.probabilities.get_or_insert_default().append(probabilities),
            None => Ok(()),
        }
    }
}

/// Sets at one error level.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The sets.
    pub sets: Sets,
    /// The level, and how labels were let in.
    pub decision: Decision,
    /// Share of sets that came out empty, before any label was put in.
    pub empty: f64,
    /// For every label of every set, in their order: the rows of the reference points that carry it, nearest first.
    pub support: Option<Vec<Vec<u32>>>,
}

impl Prediction {
    pub(super) fn new(scored: &Scored, decision: Decision, classes: usize, reference_labels: &[u32]) -> Self {
        let mut sets = scored.counts.sets(decision.cut, classes);
        let empty = sets.iter().filter(|set| set.is_empty()).count() as f64 / sets.len().max(1) as f64;
        if let (EmptySets::Top1, Some(best)) = (scored.options.empty, &scored.best) {
            sets = sets.fill_empty(&best.labels);
        }
        let support = scored.neighbors.as_ref().map(|neighbors| {
            let pairs =
                sets.iter().zip(neighbors).flat_map(|(set, near)| set.iter().map(move |label| (label, near)));
            let carry = |(label, near): (&u32, &Vec<u32>)| {
                let ids = near.iter().filter(|&&id| reference_labels[id as usize] == *label);
                ids.take(scored.options.support).copied().collect()
            };
            pairs.map(carry).collect()
        });
        Self { sets, decision, empty, support }
    }
}
