//! Named columns of equal length: what the table formats write, and what becomes an Arrow record batch.
//!
//! ```
//! use dance::data::{Column, Frame};
//! let mut frame = Frame::default();
//! frame.push("row", Column::integers(vec![0, 1]));
//! frame.push("set", Column::number_lists(&[vec![0.5], vec![]]));
//! assert_eq!(frame.rows(), 2);
//! ```

use super::kind::{Kind, Value};
use crate::numeric::matrix::Matrix;

/// Values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Numbers.
    Numbers(Vec<f64>),
    /// Truth values.
    Booleans(Vec<bool>),
    /// Texts.
    Texts(Vec<String>),
}

impl Cells {
    /// Labels or ids of a kind; their names where one is of another.
    pub fn of<'a>(values: impl Iterator<Item = Value<'a>> + Clone, kind: Kind) -> Self {
        let integer = |value| if let Value::Integer(number) = value { Some(number) } else { None };
        let float = |value| if let Value::Float(number) = value { Some(number) } else { None };
        let boolean = |value| if let Value::Boolean(value) = value { Some(value) } else { None };
        let cells = match kind {
            Kind::Integer => values.clone().map(integer).collect::<Option<_>>().map(Self::Integers),
            Kind::Float => values.clone().map(float).collect::<Option<_>>().map(Self::Numbers),
            Kind::Boolean => values.clone().map(boolean).collect::<Option<_>>().map(Self::Booleans),
            Kind::Text => None,
        };
        cells.unwrap_or_else(|| Self::Texts(values.map(|value| value.to_string()).collect()))
    }

    /// Names of a kind, where every one is of it; texts otherwise.
    pub fn named(names: &[String], kind: Kind) -> Self {
        let kind = kind.of_all(names);
        Self::of(names.iter().map(|name| kind.value(name)), kind)
    }

    /// How many.
    #[allow(clippy::len_without_is_empty)] // nobody asks
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// One of them, as JSON.
    pub fn json(&self, at: usize) -> serde_json::Value {
        match self {
            Self::Integers(values) => values[at].into(),
            Self::Numbers(values) => values[at].into(),
            Self::Booleans(values) => values[at].into(),
            Self::Texts(values) => values[at].as_str().into(),
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// A value per row.
    Flat(Cells),
    /// One list per row: all values one after the other, and how many each row has.
    Lists(Cells, Vec<usize>),
    /// One vector per row, all of one length.
    Vectors(Matrix),
    /// Whichever of these, of which the rows marked `false` have none; what stands in their place means nothing.
    Partly(Box<Column>, Vec<bool>),
}

impl Column {
    /// A whole number per row.
    pub fn integers(values: Vec<i64>) -> Self {
        Self::Flat(Cells::Integers(values))
    }

    /// A number per row.
    pub fn numbers(values: Vec<f64>) -> Self {
        Self::Flat(Cells::Numbers(values))
    }

    /// A text per row.
    pub fn texts(values: Vec<String>) -> Self {
        Self::Flat(Cells::Texts(values))
    }

    /// A list of numbers per row.
    pub fn number_lists(lists: &[Vec<f64>]) -> Self {
        Self::Lists(Cells::Numbers(lists.concat()), lists.iter().map(Vec::len).collect())
    }

    /// A text per row that has one.
    pub fn texts_or_none(values: Vec<Option<String>>) -> Self {
        let there = values.iter().map(Option::is_some).collect();
        Self::Partly(
            Box::new(Self::texts(values.into_iter().map(Option::unwrap_or_default).collect())),
            there,
        )
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Flat(cells) => cells.len(),
            Self::Lists(_, lengths) => lengths.len(),
            Self::Vectors(matrix) => matrix.rows(),
            Self::Partly(_, there) => there.len(),
        }
    }

    /// The values, and which rows have one where not all do.
    pub fn parts(&self) -> (&Self, Option<&[bool]>) {
        match self {
            Self::Partly(column, there) => (column, Some(there)),
            column => (column, None),
        }
    }
}

/// Columns in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Each with its name.
    pub columns: Vec<(&'static str, Column)>,
    /// What holds for all rows, in words: kept where a format has a place for it.
    pub notes: Vec<(&'static str, String)>,
}

impl Frame {
    /// One column more.
    pub fn push(&mut self, name: &'static str, column: Column) {
        self.columns.push((name, column));
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.rows())
    }
}
