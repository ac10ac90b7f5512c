//! Named columns of equal length: what the table formats write.

use dance::Matrix;
use dance::data::{Kind, Value};

/// Values of one kind.
#[derive(Clone)]
pub(crate) enum Cells {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Booleans(Vec<bool>),
    Texts(Vec<String>),
}

impl Cells {
    /// Labels or ids, all of a kind.
    pub(crate) fn of<'a>(values: impl Iterator<Item = Value<'a>>, kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integers(
                values.map(|value| if let Value::Integer(number) = value { number } else { 0 }).collect(),
            ),
            Kind::Float => Self::Numbers(
                values
                    .map(|value| if let Value::Float(number) = value { number } else { f64::NAN })
                    .collect(),
            ),
            Kind::Boolean => Self::Booleans(values.map(|value| value == Value::Boolean(true)).collect()),
            Kind::Text => Self::Texts(
                values
                    .map(|value| if let Value::Text(text) = value { text.to_owned() } else { String::new() })
                    .collect(),
            ),
        }
    }

    /// Names of a kind, where every one is of it; texts otherwise.
    pub(crate) fn named(names: &[String], kind: Kind) -> Self {
        let kind = kind.of_all(names);
        Self::of(names.iter().map(|name| kind.value(name)), kind)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// One of them, as JSON.
    pub(super) fn json(&self, at: usize) -> serde_json::Value {
        match self {
            Self::Integers(values) => values[at].into(),
            Self::Numbers(values) => values[at].into(),
            Self::Booleans(values) => values[at].into(),
            Self::Texts(values) => values[at].as_str().into(),
        }
    }
}

pub(crate) enum Column {
    Flat(Cells),
    /// One list per row: all values one after the other, and how many each row has.
    Lists(Cells, Vec<usize>),
    /// One vector per row, all of one length.
    Vectors(Matrix),
}

impl Column {
    pub(crate) fn integers(values: Vec<i64>) -> Self {
        Self::Flat(Cells::Integers(values))
    }

    pub(crate) fn numbers(values: Vec<f64>) -> Self {
        Self::Flat(Cells::Numbers(values))
    }

    pub(crate) fn texts(values: Vec<String>) -> Self {
        Self::Flat(Cells::Texts(values))
    }

    pub(crate) fn number_lists(lists: &[Vec<f64>]) -> Self {
        Self::Lists(Cells::Numbers(lists.concat()), lists.iter().map(Vec::len).collect())
    }
}

/// Where each list begins, and where the last ends.
pub(super) fn offsets(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) columns: Vec<(&'static str, Column)>,
    /// What holds for all rows, in words: kept where a format has a place for it.
    pub(crate) notes: Vec<(&'static str, String)>,
}

impl Frame {
    pub(crate) fn push(&mut self, name: &'static str, column: Column) {
        self.columns.push((name, column));
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| match column {
            Column::Flat(cells) => cells.len(),
            Column::Lists(_, lengths) => lengths.len(),
            Column::Vectors(matrix) => matrix.rows(),
        })
    }
}
