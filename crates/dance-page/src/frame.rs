//! Tables of results: named columns of equal length, for all output formats and for Arrow record batches.
//!
//! ```
//! use dance_page::frame::{Column, Frame};
//! let mut frame = Frame::default();
//! frame.push("row", Column::integers(vec![0, 1]));
//! frame.push("set", Column::number_lists(&[vec![0.5], vec![]]));
//! assert_eq!(frame.rows(), 2);
//! ```

use dance::Matrix;
use dance::data::{Kind, Value};

/// A list of values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Integers.
    Integers(Vec<i64>),
    /// Floats.
    Numbers(Vec<f64>),
    /// Booleans.
    Booleans(Vec<bool>),
    /// Strings.
    Texts(Vec<String>),
}

impl Cells {
    /// Collects labels or ids as values of `kind`, or all as text if one of them is of another kind.
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

    /// Converts names to values of `kind`, or keeps all as text if one of them does not denote a value of this kind.
    pub fn named(names: &[String], kind: Kind) -> Self {
        let kind = kind.of_all(names);
        Self::of(names.iter().map(|name| kind.value(name)), kind)
    }

    /// Returns the number of values.
    #[allow(clippy::len_without_is_empty)] // no caller needs it
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Returns one value as JSON.
    pub fn json(&self, at: usize) -> serde_json::Value {
        match self {
            Self::Integers(values) => values[at].into(),
            Self::Numbers(values) => values[at].into(),
            Self::Booleans(values) => values[at].into(),
            Self::Texts(values) => values[at].as_str().into(),
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// One value per row.
    Flat(Cells),
    /// One list per row: all values one after the other, and the length of every list.
    Lists(Cells, Vec<usize>),
    /// One vector per row, all of the same length.
    Vectors(Matrix),
    /// A column in which some values are missing. A row marked `false` has no value; its entry in the inner column has
    /// no meaning.
    Partly(Box<Column>, Vec<bool>),
}

impl Column {
    /// Creates a column of integers.
    pub fn integers(values: Vec<i64>) -> Self {
        Self::Flat(Cells::Integers(values))
    }

    /// Creates a column of floats.
    pub fn numbers(values: Vec<f64>) -> Self {
        Self::Flat(Cells::Numbers(values))
    }

    /// Creates a column of strings.
    pub fn texts(values: Vec<String>) -> Self {
        Self::Flat(Cells::Texts(values))
    }

    /// Creates a column of lists of floats.
    pub fn number_lists(lists: &[Vec<f64>]) -> Self {
        Self::Lists(Cells::Numbers(lists.concat()), lists.iter().map(Vec::len).collect())
    }

    /// Creates a column of strings, some of which may be missing.
    pub fn texts_or_none(values: Vec<Option<String>>) -> Self {
        let present = values.iter().map(Option::is_some).collect();
        Self::Partly(Box::new(Self::texts(values.into_iter().map(Option::unwrap_or_default).collect())), present)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Flat(cells) => cells.len(),
            Self::Lists(_, lengths) => lengths.len(),
            Self::Vectors(matrix) => matrix.rows(),
            Self::Partly(_, present) => present.len(),
        }
    }

    /// Returns the column without [`Partly`](Self::Partly), and for a column with missing values a flag per row that is
    /// true if the row has a value.
    pub fn parts(&self) -> (&Self, Option<&[bool]>) {
        match self {
            Self::Partly(column, present) => (column, Some(present)),
            column => (column, None),
        }
    }
}

/// A table: columns in order, and notes on all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// The columns with their names.
    pub columns: Vec<(&'static str, Column)>,
    /// Notes on all rows, as pairs of key and text. A format without metadata drops them.
    pub notes: Vec<(&'static str, String)>,
}

impl Frame {
    /// Appends a column.
    pub fn push(&mut self, name: &'static str, column: Column) {
        self.columns.push((name, column));
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.rows())
    }
}
