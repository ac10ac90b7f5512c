//! Answers as the columns of a table, for files and network streams.

use serde::Serialize;

use super::answer::{Answer, Include, Refusal};
use super::dance::Dance;
use crate::conformal::MethodName;
use crate::data::{Cells, Column, Frame, Kind, Value};

impl Dance {
    /// Returns answers and refusals as columns, in the order of their rows. Except for `id`, the columns do not depend
    /// on the answers, so frames without answers have them too. The column `novel` exists if `flagged`. The column
    /// `error` exists if `refused` is a list, even an empty one; refused rows have nulls in the other columns.
    pub fn frame<Id: Serialize>(
        &self,
        answers: &[Answer<'_, Id>],
        refused: Option<&[Refusal<Id>]>,
        include: Include,
        flagged: bool,
    ) -> Frame {
        let rows = Rows { rows: merged(answers, refused.unwrap_or_default()), partly: refused.is_some() };
        let kind = self.label_kind();
        let mut frame = Frame { notes: vec![("guarantee", self.guarantee())], ..Frame::default() };
        frame.push("row", Column::integers(rows.all(|answer| answer.row as i64, |refusal| refusal.row as i64)));
        let ids: Vec<Option<&Id>> = rows.all(|answer| answer.id.as_ref(), |refusal| refusal.id.as_ref());
        if ids.iter().any(Option::is_some) {
            frame.push("id", id_column(&ids));
        }
        frame.push("prediction", rows.labels(kind));
        frame.push("probability", rows.numbers(|answer| shortest(answer.probability)));
        frame.push("set", rows.sets(kind));
        frame.push("alpha", rows.numbers(|answer| answer.alpha));
        if self.allows_new_labels() {
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
        if include.p_values && self.method() == MethodName::Dance {
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
