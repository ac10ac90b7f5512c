//! Answers: the results for single points, with class names, as `dance predict` writes and the server sends them.

use serde::Serialize;

use super::dance::Dance;
use super::model_point::ModelPoint;
use crate::conformal::{Decision, Scored};
use crate::data::Value;
use crate::scores::{Counts, LabelCounts};

/// The optional lists of an answer, beside the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// Includes the probability of each label in the set if true.
    pub probabilities: bool,
    /// Includes the p-value of each label in the set if true.
    pub p_values: bool,
    /// Includes the nearest reference points that carry each label in the set if true. They exist only if
    /// [`PredictOptions::support`](field@super::PredictOptions::support) was above 0 when the point was scored.
    pub neighbors: bool,
}

/// The answer for one point at one error level. Lists have one entry per label of the set, the label that conforms best
/// first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer<'a, Id = serde_json::Value> {
    /// The row of the point in its request or file, from 0 on.
    pub row: usize,
    /// The id of the point, as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// The most probable label.
    pub prediction: Value<'a>,
    /// The probability of the prediction.
    pub probability: f32,
    /// The labels of the set, as they were given.
    pub set: Vec<Value<'a>>,
    /// True if the set also allows for a new label, one that no point of the model has; `None` if the method makes no
    /// such sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_label: Option<bool>,
    /// The error level.
    pub alpha: f64,
    /// The novelty p-value: small if the point is unlike all calibration points, whatever its label.
    pub novelty: f64,
    /// True if the novelty p-value is at most the false-alarm level; `None` without such a level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novel: Option<bool>,
    /// The probability of each label in the set, if [`Include::probabilities`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probabilities: Option<Vec<f32>>,
    /// The p-value of each label in the set, if [`Include::p_values`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_values: Option<Vec<f64>>,
    /// The p-value of each label in the set by the rank score alone, if [`Include::p_values`] and the method is dance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_p_values: Option<Vec<f64>>,
    /// The p-value of each label in the set by the contrastive score alone, if [`Include::p_values`] and the method is
    /// dance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contrast_p_values: Option<Vec<f64>>,
    /// The nearest reference points that carry each label in the set, if [`Include::neighbors`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<Vec<Vec<ModelPoint<Value<'a>>>>>,
}

/// The answer for a row that is not a valid point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal<Id = serde_json::Value> {
    /// The row of the point in its request or file, from 0 on.
    pub row: usize,
    /// The line in a text file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem.
    pub error: String,
    /// The id of the row, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
}

impl Dance {
    /// Returns the answers for scored points at one error level, with rows from 0 on and without ids.
    pub fn answers<Id>(&self, scored: &Scored, decision: &Decision, include: Include) -> Vec<Answer<'_, Id>> {
        let prediction = self.predict(scored, decision);
        let classified = scored.classified.as_ref().filter(|_| include.probabilities);
        let counts = include.p_values.then_some(&scored.counts);
        let support = prediction.support.as_ref().filter(|_| include.neighbors);
        let best = scored.classified.as_ref().filter(|_| scored.options.best);
        // A label is written as its class name, as text, number or truth value like the labels that were given.
        let name = |label: u32| {
            let name = self.classes().get(label as usize).map_or("", String::as_str);
            self.label_kind().value(name)
        };
        let answer = |row: usize| {
            let set = prediction.sets.get(row);
            let order = scored.conforming(row, set);
            let labels: Vec<u32> = order.iter().map(|&place| set[place]).collect();
            let p_values = |p_value: &dyn Fn(&LabelCounts, Counts) -> f64| -> Option<Vec<f64>> {
                let counts = counts?;
                Some(labels.iter().map(|&label| p_value(counts, counts.get(row, label))).collect())
            };
            let by_score =
                |pick: fn(Counts) -> u32| decision.mix.and_then(|_| p_values(&|all, counts| all.p_value(pick(counts))));
            // Support is listed by set, so the lists of this row begin at the offset of its set.
            let begin = prediction.sets.offsets()[row];
            Answer {
                row,
                id: None,
                prediction: best.map_or(Value::Text(""), |best| name(best.labels[row])),
                probability: best.map_or(f32::NAN, |best| best.probability(row, best.labels[row])),
                set: labels.iter().map(|&label| name(label)).collect(),
                new_label: prediction.new_label.as_ref().map(|all| all[row]),
                alpha: decision.alpha,
                novelty: scored.novelty[row],
                novel: None,
                probabilities: classified.map(|all| labels.iter().map(|&label| all.probability(row, label)).collect()),
                p_values: p_values(&|all, counts| decision.p_value(all, counts)),
                rank_p_values: by_score(Counts::rank),
                contrast_p_values: by_score(Counts::contrast),
                neighbors: support.map(|support| {
                    let named = |ids: &[u32]| ids.iter().map(|&id| self.reference_point(id)).collect();
                    order.iter().map(|&place| named(support.row(begin + place))).collect()
                }),
            }
        };
        (0..scored.len()).map(answer).collect()
    }
}
