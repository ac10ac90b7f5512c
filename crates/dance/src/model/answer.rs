//! What the model says about a point, by the names of its classes: the record that `dance predict` writes for every row and
//! that the server answers with.

use serde::Serialize;

use super::dance::{Dance, ReferencePoint};
use super::prediction::Scored;
use crate::conformal::{Decision, MethodName};
use crate::data::Value;
use crate::scores::Counts;

/// What to say beside the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// The probability of each label in the set: by the kernel machine, or by the posterior of combined evidence.
    pub probabilities: bool,
    /// The p-values of each label in the set: by each score, and by the combined one where there is one.
    pub p_values: bool,
    /// The points that speak for each label in the set, where support was asked for when the point was scored.
    pub neighbors: bool,
}

/// One point at one level. Lists beside `set` have one entry per label of the set, in its order: most conforming first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer<'a, Id = serde_json::Value> {
    /// Its place among what was asked together.
    pub row: usize,
    /// As it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// The most probable label of the set; of all labels where it is empty.
    pub prediction: Value<'a>,
    /// Its probability.
    pub probability: f32,
    /// The labels, as they were written.
    pub set: Vec<Value<'a>>,
    /// Whether the set holds "none of these" too, a label that nobody has; `None` where sets do not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_of_these: Option<bool>,
    /// The level.
    pub alpha: f64,
    /// A p-value for coming from where the calibration points come from, whatever the label: small where the point is unlike anything
    /// seen. `None` where an older model file does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novelty: Option<f64>,
    /// Whether that is at most the level of false alarms that was asked for; `None` where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novel: Option<bool>,
    /// See [`Include`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probabilities: Option<Vec<f32>>,
    /// By what decides: the combined score. `None` too where two scores decide separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_values: Option<Vec<f64>>,
    /// By the rank score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_p_values: Option<Vec<f64>>,
    /// By the contrastive score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contrast_p_values: Option<Vec<f64>>,
    /// See [`Include`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<Vec<Vec<ReferencePoint<'a>>>>,
}

/// What a row gets that is no point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal<Id = serde_json::Value> {
    /// Its place among what was asked together.
    pub row: usize,
    /// Its line in a text file, as editors count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong with it.
    pub error: String,
    /// As it came, where it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
}

impl Scored {
    /// The places of the labels of a query's set, most conforming first.
    pub fn conforming(&self, query: usize, set: &[u32]) -> Vec<usize> {
        let key = |place: usize| {
            let (rank, contrast) = self.scores.get(query, set[place]);
            (self.counts.get(query, set[place]).combined, rank, contrast)
        };
        let mut order: Vec<usize> = (0..set.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (key(a), key(b));
            b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
        });
        order
    }
}

impl Dance {
    /// What there is to say about scored points at one level, with rows from 0 on and without ids.
    pub fn answers<Id>(&self, scored: &Scored, decision: &Decision, include: Include) -> Vec<Answer<'_, Id>> {
        let prediction = self.predict(scored, decision);
        let classified = scored.classified.as_ref().filter(|_| include.probabilities);
        let counts = include.p_values.then_some(&scored.counts);
        let support = prediction.support.as_ref().filter(|_| include.neighbors);
        let combined = self.predictor().method() != MethodName::Dance;
        let best = prediction.best.as_ref();
        let name = |label: u32| {
            let name = self.classes().get(label as usize).map_or("", String::as_str);
            self.label_kind().value(name)
        };
        let answer = |row: usize| {
            let set = prediction.sets.get(row);
            let order = scored.conforming(row, set);
            let labels: Vec<u32> = order.iter().map(|&place| set[place]).collect();
            let p = |pick: fn(Counts) -> u32| {
                let counts = counts?;
                let of = |&label: &u32| counts.p_value(pick(counts.get(row, label)));
                Some(labels.iter().map(of).collect())
            };
            let begin = prediction.sets.offsets[row];
            Answer {
                row,
                id: None,
                prediction: best.map_or(Value::Text(""), |best| name(best.labels[row])),
                probability: best.map_or(f32::NAN, |best| best.probabilities[row]),
                set: labels.iter().map(|&label| name(label)).collect(),
                none_of_these: prediction.none_of_these.as_ref().map(|all| all[row]),
                alpha: decision.alpha,
                novelty: scored.novelty.as_ref().map(|all| all[row]),
                novel: None,
                probabilities: classified
                    .map(|all| labels.iter().map(|&label| all.probability(row, label)).collect()),
                p_values: p(|counts| counts.combined).filter(|_| combined),
                rank_p_values: p(|counts| counts.rank),
                contrast_p_values: p(|counts| counts.contrast),
                neighbors: support.map(|support| {
                    let named = |ids: &Vec<u32>| ids.iter().map(|&id| self.reference_point(id)).collect();
                    order.iter().map(|&place| named(&support[begin + place])).collect()
                }),
            }
        };
        (0..scored.len()).map(answer).collect()
    }
}
