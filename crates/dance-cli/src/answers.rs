//! What the model says about each row, ready to be written.

use clap::ValueEnum;
use dance::conformal::Counts;
use dance::conformal::{Combine, Decision, EmptySets};
use dance::data::{Kind, Value};
use dance::model::ReferencePoint;
use dance::{Context, Dance, Matrix, PredictOptions, Scored, Table};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::judged::level_warnings;
use crate::output::{Cells, Column, Frame};

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

/// An id as JSON has it.
pub(crate) type Id = Box<RawValue>;

/// One row at one level. Lists beside `set` have one entry per label of the set, in its order: most conforming first.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<'a> {
    pub(crate) row: usize,
    /// As it came, digit by digit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Id>,
    /// The most probable label of the set; of all labels where it is empty.
    pub(crate) prediction: Value<'a>,
    pub(crate) probability: f32,
    pub(crate) set: Vec<Value<'a>>,
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
    /// One per level.
    decisions: Vec<Decision>,
    include: Vec<Include>,
    options: PredictOptions,
    /// What every class is called, as it was written.
    names: Vec<Value<'a>>,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(
        model: &'a Dance,
        alphas: &[f64],
        include: Vec<Include>,
        empty: EmptySets,
        context: &'a Context<'a>,
    ) -> dance::Result<Self> {
        let wants = |what| include.contains(&what);
        let options = PredictOptions::default()
            .empty(empty)
            .support(if wants(Include::Neighbors) { SUPPORT } else { 0 })
            .probabilities(wants(Include::Probabilities));
        let decisions = alphas.iter().map(|&alpha| model.decide(alpha)).collect::<dance::Result<_>>()?;
        let names = model.classes().iter().map(|name| model.label_kind().value(name)).collect();
        Ok(Self { model, context, decisions, include, options, names })
    }

    /// Answers for `queries`, whose first row is number `first`: of each row one per level, side by side.
    pub(crate) fn of(
        &self,
        queries: &Matrix,
        first: usize,
        ids: &[Option<Id>],
    ) -> dance::Result<Vec<Answer<'a>>> {
        let scored = self.model.score(queries, self.options.first_row(first), self.context)?;
        let of_level = |decision| self.of_level(&scored, decision, first, ids);
        let mut levels: Vec<_> =
            self.decisions.iter().map(|decision| of_level(decision).into_iter()).collect();
        let mut answers = Vec::with_capacity(queries.rows() * levels.len());
        for _ in 0..queries.rows() {
            answers.extend(levels.iter_mut().filter_map(Iterator::next));
        }
        Ok(answers)
    }

    fn of_level(
        &self,
        scored: &Scored,
        decision: &Decision,
        first: usize,
        ids: &[Option<Id>],
    ) -> Vec<Answer<'a>> {
        let prediction = self.model.predict(scored, decision);
        let wanted = self.options.probabilities;
        let classified = scored.classified.as_ref().filter(|_| wanted);
        let counts = self.include.contains(&Include::PValues).then_some(&scored.counts);
        let combined = self.model.predictor().combine() != Combine::Union;
        let best = prediction.best.as_ref();
        let name = |label: u32| self.names.get(label as usize).copied().unwrap_or(Value::Text(""));
        let mut answers = Vec::with_capacity(scored.len());
        for row in 0..scored.len() {
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
                id: ids.get(row).cloned().flatten(),
                prediction: best.map_or(Value::Text(""), |best| name(best.labels[row])),
                probability: best.map_or(f32::NAN, |best| best.probabilities[row]),
                set: labels.iter().map(|&label| name(label)).collect(),
                alpha: decision.alpha,
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
        answers
    }

    /// What should be known about every set.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let each = self.decisions.iter().map(|decision| level_warnings(self.model, decision));
        if self.decisions.len() == 1 { each.flatten().collect() } else { with_levels(&self.decisions, each) }
    }
}

fn with_levels(decisions: &[Decision], warnings: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let name = |(decision, all): (&Decision, Vec<String>)| {
        let alpha = decision.alpha;
        all.into_iter().map(move |warning| format!("alpha {alpha}: {warning}")).collect::<Vec<_>>()
    };
    decisions.iter().zip(warnings).flat_map(name).collect()
}

/// The ids of a table as JSON has them: integers stay integers.
pub(crate) fn ids_of(table: &Table) -> Vec<Option<Id>> {
    let id = |id: &String| to_raw_value(&table.id_kind.value(id)).ok();
    table.ids.iter().flatten().map(id).collect()
}

/// Ids as a column: integers where all are.
fn id_column<'b>(ids: impl Iterator<Item = Option<&'b RawValue>>) -> Column {
    let text = |id: Option<&RawValue>| {
        let written = id.map_or("", RawValue::get);
        serde_json::from_str::<String>(written).unwrap_or_else(|_| written.to_owned())
    };
    let mut integers = true;
    let texts: Vec<String> = ids
        .map(|id| {
            integers &= id.is_some_and(|id| !id.get().starts_with('"'));
            text(id)
        })
        .collect();
    Column::Flat(Cells::named(&texts, if integers { Kind::Integer } else { Kind::Text }))
}

/// Answers as columns; `kind` is what labels are.
pub(crate) fn frame(answers: &[Answer<'_>], kind: Kind, notes: Vec<(&'static str, String)>) -> Frame {
    let mut frame = Frame { notes, ..Frame::default() };
    let first = answers.first();
    let (probabilities, p_values, neighbors) = (
        first.is_some_and(|answer| answer.probabilities.is_some()),
        first.is_some_and(|answer| answer.rank_p_values.is_some()),
        first.is_some_and(|answer| answer.neighbors.is_some()),
    );
    let each = answers.iter();
    frame.push("row", Column::integers(each.clone().map(|answer| answer.row as i64).collect()));
    if each.clone().any(|answer| answer.id.is_some()) {
        frame.push("id", id_column(each.clone().map(|answer| answer.id.as_deref())));
    }
    frame.push("prediction", Column::Flat(Cells::of(each.clone().map(|answer| answer.prediction), kind)));
    frame.push("probability", Column::numbers(each.clone().map(|a| shortest(a.probability)).collect()));
    let labels = each.clone().flat_map(|answer| answer.set.iter().copied());
    let sizes = each.clone().map(|answer| answer.set.len()).collect();
    frame.push("set", Column::Lists(Cells::of(labels, kind), sizes));
    frame.push("alpha", Column::numbers(each.clone().map(|answer| answer.alpha).collect()));
    if probabilities {
        let lists = each
            .clone()
            .map(|answer| answer.probabilities.iter().flatten().map(|&value| shortest(value)).collect());
        frame.push("probabilities", Column::number_lists(&lists.collect::<Vec<_>>()));
    }
    if first.is_some_and(|answer| answer.p_values.is_some()) {
        let combined = each.clone().map(|answer| answer.p_values.clone().unwrap_or_default());
        frame.push("p_values", Column::number_lists(&combined.collect::<Vec<_>>()));
    }
    if p_values {
        let rank = each.clone().map(|answer| answer.rank_p_values.clone().unwrap_or_default());
        frame.push("rank_p_values", Column::number_lists(&rank.collect::<Vec<_>>()));
        let contrast = each.clone().map(|answer| answer.contrast_p_values.clone().unwrap_or_default());
        frame.push("contrast_p_values", Column::number_lists(&contrast.collect::<Vec<_>>()));
    }
    if neighbors {
        // Lists of lists: as JSON text, which every format can hold.
        let lists = each.map(|answer| serde_json::json!(answer.neighbors).to_string());
        frame.push("neighbors", Column::texts(lists.collect()));
    }
    frame
}

/// The f64 that prints like the f32: 0.9, not 0.8999999761581421.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
