//! What the model says about each row, ready to be written.

use clap::ValueEnum;
use dance::conformal::Counts;
use dance::conformal::{Combine, Decision, EmptySets};
use dance::model::ReferencePoint;
use dance::{Context, Dance, Matrix, PredictOptions};
use serde::Serialize;
use serde_json::Value;

use crate::output::{Column, Frame};

/// Neighbors named for each label.
const SUPPORT: usize = 5;

/// What can be asked for beside the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Include {
    /// Of each label in the set, by the kernel machine
    Probabilities,
    /// Of each label in the set: by each score, and by the combined one where there is one
    PValues,
    /// The points that speak for each label in the set: id, row and part of the data
    Neighbors,
}

/// One row. Lists beside `set` have one entry per label of the set, in its order: most conforming first.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<'a> {
    pub(crate) row: usize,
    /// As it came: a text from a file, whatever a line has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Value>,
    /// The most probable label of the set; of all labels where it is empty.
    pub(crate) prediction: &'a str,
    pub(crate) probability: f32,
    pub(crate) set: Vec<&'a str>,
    pub(crate) alpha: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) probabilities: Option<Vec<f32>>,
    /// By what decides: the combined score. `None` too where two scores decide separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p_values: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rank_p_values: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contrast_p_values: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) neighbors: Option<Vec<Vec<ReferencePoint<'a>>>>,
}

/// Asks a model.
pub(crate) struct Answers<'a> {
    pub(crate) model: &'a Dance,
    pub(crate) context: &'a Context<'a>,
    decision: Decision,
    include: Vec<Include>,
    options: PredictOptions,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(
        model: &'a Dance,
        alpha: f64,
        include: Vec<Include>,
        empty: EmptySets,
        context: &'a Context<'a>,
    ) -> dance::Result<Self> {
        let wants = |what| include.contains(&what);
        let options = PredictOptions::default()
            .empty(empty)
            .support(if wants(Include::Neighbors) { SUPPORT } else { 0 })
            .probabilities(wants(Include::Probabilities));
        Ok(Self { model, context, decision: model.decide(alpha)?, include, options })
    }

    /// Answers for `queries`, whose first row is number `first`.
    pub(crate) fn of(
        &self,
        queries: &Matrix,
        first: usize,
        mut ids: Vec<Option<Value>>,
    ) -> dance::Result<Vec<Answer<'a>>> {
        let scored = self.model.score(queries, self.options.first_row(first), self.context)?;
        let prediction = self.model.predict(&scored, &self.decision);
        let wanted = self.options.probabilities;
        let classified = scored.classified.as_ref().filter(|_| wanted);
        let counts = self.include.contains(&Include::PValues).then_some(&scored.counts);
        let combined = self.model.predictor().combine() != Combine::Union;
        let best = prediction.best.as_ref();
        let classes = self.model.classes();
        let name = |label: u32| classes.get(label as usize).map_or("", String::as_str);
        let mut answers = Vec::with_capacity(queries.rows());
        for row in 0..queries.rows() {
            let set = prediction.sets.get(row);
            let mut order: Vec<usize> = (0..set.len()).collect();
            let key = |place: usize| {
                let (rank, contrast) = scored.scores.get(row, set[place]);
                (scored.counts.get(row, set[place]).combined, rank, contrast)
            };
            order.sort_by(|&a, &b| {
                let (a, b) = (key(a), key(b));
                b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
            });
            let labels: Vec<u32> = order.iter().map(|&place| set[place]).collect();
            let p = |pick: fn(Counts) -> u32| {
                let counts = counts?;
                let of = |&label: &u32| counts.p_value(pick(counts.get(row, label)));
                Some(labels.iter().map(of).collect())
            };
            let begin = prediction.sets.offsets[row];
            answers.push(Answer {
                row: first + row,
                id: ids.get_mut(row).and_then(Option::take),
                prediction: best.map_or("", |best| name(best.labels[row])),
                probability: best.map_or(f32::NAN, |best| best.probabilities[row]),
                set: labels.iter().map(|&label| name(label)).collect(),
                alpha: self.decision.alpha,
                probabilities: classified
                    .map(|all| labels.iter().map(|&label| all.probability(row, label)).collect()),
                p_values: p(|counts| counts.combined).filter(|_| combined),
                rank_p_values: p(|counts| counts.rank),
                contrast_p_values: p(|counts| counts.contrast),
                neighbors: prediction.support.as_ref().map(|support| {
                    let named =
                        |ids: &Vec<u32>| ids.iter().map(|&id| self.model.reference_point(id)).collect();
                    order.iter().map(|&place| named(&support[begin + place])).collect()
                }),
            });
        }
        Ok(answers)
    }

    /// What should be known about every set.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.decision.warnings()
    }
}

/// Answers as columns.
pub(crate) fn frame(answers: &[Answer<'_>], notes: Vec<(&'static str, String)>) -> Frame {
    let mut frame = Frame { notes, ..Frame::default() };
    let first = answers.first();
    let (ids, probabilities, p_values, neighbors) = (
        first.is_some_and(|answer| answer.id.is_some()),
        first.is_some_and(|answer| answer.probabilities.is_some()),
        first.is_some_and(|answer| answer.rank_p_values.is_some()),
        first.is_some_and(|answer| answer.neighbors.is_some()),
    );
    let owned = |set: &[&str]| set.iter().map(|&label| label.to_owned()).collect();
    let each = answers.iter();
    frame.push("row", Column::Integers(each.clone().map(|answer| answer.row as i64).collect()));
    if ids {
        let text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let ids = each.clone().map(|answer| answer.id.as_ref().map(text).unwrap_or_default());
        frame.push("id", Column::Texts(ids.collect()));
    }
    frame.push("prediction", Column::Texts(each.clone().map(|a| a.prediction.to_owned()).collect()));
    frame.push("probability", Column::Numbers(each.clone().map(|a| shortest(a.probability)).collect()));
    frame.push("set", Column::TextLists(each.clone().map(|answer| owned(&answer.set)).collect()));
    frame.push("alpha", Column::Numbers(each.clone().map(|answer| answer.alpha).collect()));
    if probabilities {
        let lists = each
            .clone()
            .map(|answer| answer.probabilities.iter().flatten().map(|&value| shortest(value)).collect());
        frame.push("probabilities", Column::NumberLists(lists.collect()));
    }
    if first.is_some_and(|answer| answer.p_values.is_some()) {
        let combined = each.clone().map(|answer| answer.p_values.clone().unwrap_or_default());
        frame.push("p_values", Column::NumberLists(combined.collect()));
    }
    if p_values {
        let rank = each.clone().map(|answer| answer.rank_p_values.clone().unwrap_or_default());
        frame.push("rank_p_values", Column::NumberLists(rank.collect()));
        let contrast = each.clone().map(|answer| answer.contrast_p_values.clone().unwrap_or_default());
        frame.push("contrast_p_values", Column::NumberLists(contrast.collect()));
    }
    if neighbors {
        // Lists of lists: as JSON text, which every format can hold.
        let lists = each.map(|answer| serde_json::json!(answer.neighbors).to_string());
        frame.push("neighbors", Column::Texts(lists.collect()));
    }
    frame
}

/// The f64 that prints like the f32: 0.9, not 0.8999999761581421.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
