//! What a model says about queries.
//!
//! [`Scored`] is everything that does not depend on the error level; [`Prediction`] adds the sets for one. So several
//! levels cost one search.

use serde::{Deserialize, Serialize};

use crate::classify::Classified;
use crate::methods::dance::{Answers, Decision};
use crate::p_values::PValues;
use crate::scores::paired::PairedScores;
use crate::sets::{EmptySets, Sets};

/// What to compute beside the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictOptions {
    /// The classifier's best label and its probability. Costs a kernel product with all training points.
    pub best: bool,
    /// What becomes of an empty set; `Top1` computes best labels whatever `best` says.
    pub empty: EmptySets,
    /// Most neighbors that are named in support of each label in a set.
    pub support: usize,
}

impl Default for PredictOptions {
    fn default() -> Self {
        Self { best: true, empty: EmptySets::Keep, support: 0 }
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
    pub(crate) fn of(Classified { labels, probabilities }: Classified) -> Self {
        let best = labels.iter().enumerate().map(|(row, &label)| probabilities.row(row)[label as usize]);
        Self { probabilities: best.collect(), labels }
    }
}

/// What is known about queries before an error level is chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// Both scores of every label.
    pub scores: PairedScores,
    /// p-values of every label.
    pub p_values: PValues,
    /// Distance to the nearest reference point, in mapped space: large for queries unlike anything seen.
    pub nearest: Vec<f64>,
    /// The classifier's answers, where asked for.
    pub best: Option<Best>,
    /// The neighbors, where support was asked for.
    pub neighbors: Option<Vec<Vec<u32>>>,
    pub(crate) options: PredictOptions,
}

impl Scored {
    pub(crate) fn extend(&mut self, answers: &Answers, best: Option<Best>) {
        let neighbors = &answers.neighbors;
        self.scores.extend(&answers.scores);
        self.p_values.extend(&answers.p_values);
        let nearest = (0..neighbors.len())
            .map(|query| neighbors.squared(query).first().map_or(f64::INFINITY, |s| s.sqrt()));
        self.nearest.extend(nearest);
        if let Some(best) = best {
            let all = self.best.get_or_insert_default();
            all.labels.extend(best.labels);
            all.probabilities.extend(best.probabilities);
        }
        if self.options.support > 0 {
            let all = self.neighbors.get_or_insert_default();
            all.extend((0..neighbors.len()).map(|query| neighbors.ids(query).to_vec()));
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
    pub(crate) fn new(scored: &Scored, decision: Decision, classes: usize, reference_labels: &[u32]) -> Self {
        let mut sets = scored.p_values.sets(decision.cut, classes);
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
