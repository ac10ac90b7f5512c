//! Named columns of equal length: what the table formats write.

use dance::Matrix;

pub(crate) enum Column {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Texts(Vec<String>),
    /// One list per row.
    TextLists(Vec<Vec<String>>),
    NumberLists(Vec<Vec<f64>>),
    /// One vector per row, all of one length.
    Vectors(Matrix),
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
            Column::Integers(values) => values.len(),
            Column::Numbers(values) => values.len(),
            Column::Texts(values) => values.len(),
            Column::TextLists(values) => values.len(),
            Column::NumberLists(values) => values.len(),
            Column::Vectors(matrix) => matrix.rows(),
        })
    }
}
