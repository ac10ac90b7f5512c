//! What the model says about each row, ready to be written.

use clap::ValueEnum;
use dance::conformal::{Decision, EmptySets};
use dance::model::{self, Answer};
use dance::{Context, Dance, Matrix, PredictOptions};
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

/// Asks a model.
pub(crate) struct Answers<'a> {
    pub(crate) model: &'a Dance,
    context: &'a Context<'a>,
    decision: Decision,
    include: model::Include,
    options: PredictOptions,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(
        model: &'a Dance,
        alpha: f64,
        include: &[Include],
        empty: EmptySets,
        context: &'a Context<'a>,
    ) -> dance::Result<Self> {
        let wants = |what| include.contains(&what);
        let include = model::Include {
            probabilities: wants(Include::Probabilities),
            p_values: wants(Include::PValues),
            neighbors: wants(Include::Neighbors),
        };
        let options = PredictOptions::default()
            .empty(empty)
            .support(if include.neighbors { SUPPORT } else { 0 })
            .probabilities(include.probabilities);
        Ok(Self { model, context, decision: model.decide(alpha)?, include, options })
    }

    /// Answers for `queries`, whose first row is number `first`.
    pub(crate) fn of(
        &self,
        queries: &Matrix,
        first: usize,
        ids: Vec<Option<Value>>,
    ) -> dance::Result<Vec<Answer<'a>>> {
        let scored = self.model.score(queries, self.options, self.context)?;
        let mut answers = self.model.answers(&scored, &self.decision, self.include);
        for answer in &mut answers {
            answer.row += first;
        }
        for (answer, id) in answers.iter_mut().zip(ids) {
            answer.id = id;
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
