//! Answers: the results for single points, with class names, as `dance predict` writes and the server sends them.

use dance::conformal::{Decision, MethodName};
use dance::data::{Kind, Value};
use dance::model::ModelPoint;
use dance::scores::{Counts, LabelCounts};
use dance::{Dance, Scored};
use serde::Serialize;

use crate::frame::{Cells, Column, Frame};

/// The optional lists of an answer, beside the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// Includes the probability of each label in the set if true.
    pub probabilities: bool,
    /// Includes the p-value of each label in the set if true.
    pub p_values: bool,
    /// Includes the nearest reference points that carry each label in the set if true. They exist only if
    /// [`PredictOptions::support`](field@dance::PredictOptions::support) was above 0 when the point was scored.
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

/// Returns the answers of a model for scored points at one error level, with rows from 0 on and without ids. The points
/// were scored with [`PredictOptions::best`](field@dance::PredictOptions::best).
pub fn answers<'m, Id>(
    model: &'m Dance,
    scored: &Scored,
    decision: &Decision,
    include: Include,
) -> Vec<Answer<'m, Id>> {
    let prediction = model.predict(scored, decision);
    let classified = scored.classified.as_ref().filter(|_| include.probabilities);
    let counts = include.p_values.then_some(&scored.counts);
    let support = prediction.support.as_ref().filter(|_| include.neighbors);
    let best = scored.classified.as_ref();
    // A label is written as its class name, as text, number or truth value like the labels that were given.
    let name = |label: u32| {
        let name = model.classes().get(label as usize).map_or("", String::as_str);
        model.label_kind().value(name)
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
                let named = |ids: &[u32]| ids.iter().map(|&id| model.reference_point(id)).collect();
                order.iter().map(|&place| named(&support[begin + place])).collect()
            }),
        }
    };
    (0..scored.len()).map(answer).collect()
}

/// Returns answers and refusals as columns, in the order of their rows. Except for `id`, the columns do not depend
/// on the answers, so frames without answers have them too. The column `novel` exists if `flagged`. The column
/// `error` exists if `refused` is a list, even an empty one; refused rows have nulls in the other columns.
pub fn columns<Id: Serialize>(
    model: &Dance,
    answers: &[Answer<'_, Id>],
    refused: Option<&[Refusal<Id>]>,
    include: Include,
    flagged: bool,
) -> Frame {
    let rows = Rows { rows: merged(answers, refused.unwrap_or_default()), partly: refused.is_some() };
    let kind = model.label_kind();
    let mut frame = Frame { notes: vec![("guarantee", model.guarantee())], ..Frame::default() };
    frame.push("row", Column::integers(rows.all(|answer| answer.row as i64, |refusal| refusal.row as i64)));
    let ids: Vec<Option<&Id>> = rows.all(|answer| answer.id.as_ref(), |refusal| refusal.id.as_ref());
    if ids.iter().any(Option::is_some) {
        frame.push("id", id_column(&ids));
    }
    frame.push("prediction", rows.labels(kind));
    frame.push("probability", rows.numbers(|answer| shortest(answer.probability)));
    frame.push("set", rows.sets(kind));
    frame.push("alpha", rows.numbers(|answer| answer.alpha));
    if model.allows_new_labels() {
        frame.push("new_label", rows.flags(|answer| answer.new_label));
    }
    frame.push("novelty", rows.numbers(|answer| answer.novelty));
    if flagged {
        frame.push("novel", rows.flags(|answer| answer.novel));
    }
    // Lists with one entry per label of the set.
    if include.probabilities {
        let lists =
            |answer: &Answer<'_, Id>| answer.probabilities.iter().flatten().map(|&value| shortest(value)).collect();
        frame.push("probabilities", rows.lists(lists));
    }
    if include.p_values {
        frame.push("p_values", rows.lists(|answer| answer.p_values.clone().unwrap_or_default()));
    }
    if include.p_values && model.method() == MethodName::Dance {
        frame.push("rank_p_values", rows.lists(|answer| answer.rank_p_values.clone().unwrap_or_default()));
        let contrast = |answer: &Answer<'_, Id>| answer.contrast_p_values.clone().unwrap_or_default();
        frame.push("contrast_p_values", rows.lists(contrast));
    }
    if include.neighbors {
        // Lists of lists are written as JSON text, which every format can hold.
        let text = |answer: &Answer<'_, Id>| serde_json::json!(answer.neighbors).to_string();
        frame.push("neighbors", rows.column(Column::texts(rows.answers(text, String::new))));
    }
    if refused.is_some() {
        let errors = rows.all(|_| None, |refusal| Some(refusal.error.clone()));
        frame.push("error", Column::texts_or_none(errors));
    }
    frame
}

/// An answer or a refusal, by reference.
type Row<'r, 'a, Id> = Result<&'r Answer<'a, Id>, &'r Refusal<Id>>;

/// Merges answers and refusals in the order of their rows.
fn merged<'r, 'a, Id>(answers: &'r [Answer<'a, Id>], refused: &'r [Refusal<Id>]) -> Vec<Row<'r, 'a, Id>> {
    let mut rows: Vec<_> = answers.iter().map(Ok).chain(refused.iter().map(Err)).collect();
    if refused.is_empty() {
        return rows; // answers come in the order of the request
    }
    rows.sort_by_key(|row| match row {
        Ok(answer) => answer.row,
        Err(refusal) => refusal.row,
    });
    rows
}

/// Answers and refusals in the order of their rows.
struct Rows<'r, 'a, Id> {
    rows: Vec<Row<'r, 'a, Id>>,
    /// True if the list may hold refused rows.
    partly: bool,
}

impl<'r, 'a, Id> Rows<'r, 'a, Id> {
    fn all<T, V: FromIterator<T>>(
        &self,
        answer: impl Fn(&'r Answer<'a, Id>) -> T,
        refusal: impl Fn(&'r Refusal<Id>) -> T,
    ) -> V {
        let each = |row: &Row<'r, 'a, Id>| match *row {
            Ok(found) => answer(found),
            Err(refused) => refusal(refused),
        };
        self.rows.iter().map(each).collect()
    }

    /// Returns one value per row: `answer` of the row, or `filler` in a refused row.
    fn answers<T>(&self, answer: impl Fn(&'r Answer<'a, Id>) -> T, filler: impl Fn() -> T) -> Vec<T> {
        self.all(answer, |_| filler())
    }

    /// Returns `column` with nulls in refused rows.
    fn column(&self, column: Column) -> Column {
        if self.partly {
            Column::Partly(Box::new(column), self.rows.iter().map(Result::is_ok).collect())
        } else {
            column
        }
    }

    fn numbers(&self, number: impl Fn(&'r Answer<'a, Id>) -> f64) -> Column {
        self.column(Column::numbers(self.answers(number, || f64::NAN)))
    }

    fn flags(&self, flag: impl Fn(&'r Answer<'a, Id>) -> Option<bool>) -> Column {
        self.column(Column::integers(self.answers(|answer| i64::from(flag(answer) == Some(true)), || 0)))
    }

    fn lists(&self, list: impl Fn(&'r Answer<'a, Id>) -> Vec<f64>) -> Column {
        self.column(Column::number_lists(&self.answers(list, Vec::new)))
    }

    fn labels(&self, kind: Kind) -> Column {
        let filler = match kind {
            Kind::Text => Value::Text(""),
            Kind::Integer => Value::Integer(0),
            Kind::Float => Value::Float(f64::NAN),
            Kind::Boolean => Value::Boolean(false),
        };
        let labels = self.answers(|answer| answer.prediction, || filler);
        self.column(Column::Flat(Cells::of(labels.into_iter(), kind)))
    }

    fn sets(&self, kind: Kind) -> Column {
        let labels = self.rows.iter().flatten().flat_map(|answer| answer.set.iter().copied());
        let sizes = self.answers(|answer| answer.set.len(), || 0);
        self.column(Column::Lists(Cells::of(labels, kind), sizes))
    }
}

/// Returns ids as a column: of integers if every row has an integer id, otherwise of text.
fn id_column<Id: Serialize>(ids: &[Option<&Id>]) -> Column {
    let mut integers = true;
    let text = |id: Option<&Id>| {
        let written = id.and_then(|id| serde_json::to_string(id).ok()).unwrap_or_default();
        integers &= !written.is_empty() && !written.starts_with('"');
        serde_json::from_str::<String>(&written).unwrap_or(written)
    };
    let texts: Vec<String> = ids.iter().copied().map(text).collect();
    Column::Flat(Cells::named(&texts, if integers { Kind::Integer } else { Kind::Text }))
}

/// Returns the f64 that prints like the f32: 0.9, not 0.8999999761581421.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use dance::data::{RawLabels, Table};
    use dance::device::Cpu;
    use dance::{Config, Context, Fitted, Matrix, PredictOptions};

    /// Points of three classes, which one coordinate tells apart up to noise.
    fn points(first: usize) -> dance::Dataset {
        let value = |row: usize| [0.1 + (row % 3) as f32 + (row * 7 % 11) as f32 / 8.0, (row * 5 % 13) as f32 / 9.0];
        let values: Vec<f32> = (first..first + 60).flat_map(value).collect();
        let mut table = Table::new("points", Matrix::new(values, 60, 2).unwrap()).unwrap();
        table.labels = Some(RawLabels::Integers((first..first + 60).map(|row| (row % 3) as i64).collect()));
        table.into_dataset().unwrap()
    }

    /// The answer names the most probable label by the probabilities that it shows.
    #[test]
    fn the_prediction_is_the_most_probable_label() {
        let context = Context::new(1).unwrap();
        let mut config = Config::default();
        config.tune.evaluations = 2;
        let fitted = Fitted::fit(&Cpu, &points(0), &config, &context).unwrap();
        let model = fitted.calibrate(&Cpu, &points(60), &context).unwrap();
        let options = PredictOptions::default().probabilities(true);
        let scored = model.score(&points(120).embeddings, options, &context).unwrap();
        let decision = model.decide(0.1).unwrap();
        let include = Include { probabilities: true, p_values: true, neighbors: false };
        let classified = scored.classified.as_ref().unwrap();
        for (row, answer) in answers::<()>(&model, &scored, &decision, include).iter().enumerate() {
            let most = classified.probabilities.row(row).iter().copied().fold(0.0, f32::max);
            assert_eq!((answer.row, answer.probability), (row, most));
            assert_eq!(answer.prediction, Value::Integer(i64::from(classified.labels[row])));
            assert_eq!(answer.p_values.as_ref().unwrap().len(), answer.set.len());
        }
    }
}
