//! A row-major f32 matrix, one row per point, and rows that lie in memory elsewhere.

use crate::error::{Error, Result};

/// A dense row-major matrix of `f32`. A row is a point, a column a dimension or a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

impl Matrix {
    /// Wraps `data`, which holds `rows` rows of `cols` numbers one after the other.
    pub fn new(data: Vec<f32>, rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::Shape {
                what: "matrix".into(),
                expected: format!("{rows} rows × {cols} columns"),
                found: format!("{} numbers", data.len()),
            });
        }
        Ok(Self { rows, cols, data })
    }

    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// A matrix without rows, to be appended to.
    pub fn with_columns(cols: usize) -> Self {
        Self { rows: 0, cols, data: Vec::new() }
    }

    /// Appends the rows of another matrix. A matrix without rows takes its number of columns.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        if self.rows == 0 {
            self.cols = other.cols;
        }
        if self.cols != other.cols {
            return Err(Error::Shape {
                what: "columns of an appended matrix".into(),
                expected: self.cols.to_string(),
                found: other.cols.to_string(),
            });
        }
        self.data.extend_from_slice(&other.data);
        self.rows += other.rows;
        Ok(())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.cols..][..self.cols]
    }

    /// One row, mutable.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.cols..][..self.cols]
    }

    /// All numbers, row after row.
    pub fn as_slice(&self) -> &[f32] {
        &self.data
    }

    /// All numbers, row after row, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// The numbers themselves.
    pub fn into_vec(self) -> Vec<f32> {
        self.data
    }

    /// A new matrix of the given rows, in the given order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut data = Vec::with_capacity(rows.len() * self.cols);
        for &row in rows {
            data.extend_from_slice(self.row(row));
        }
        Self { rows: rows.len(), cols: self.cols, data }
    }
}

/// Rows of numbers that lie in memory one after the other, read where they are.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    values: &'a [f32],
    cols: usize,
}

impl<'a> Rows<'a> {
    /// `values` holds rows of `cols` numbers.
    pub fn new(values: &'a [f32], cols: usize) -> Self {
        Self { values, cols }
    }

    /// Numbers per row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.cols.max(1)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All numbers, row after row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Some of the rows.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        Self { values: &self.values[rows.start * self.cols..rows.end * self.cols], cols: self.cols }
    }

    /// A copy as a matrix.
    pub fn to_matrix(&self) -> Result<Matrix> {
        Matrix::new(self.values.to_vec(), self.len(), self.cols)
    }
}

impl<'a> From<&'a Matrix> for Rows<'a> {
    fn from(matrix: &'a Matrix) -> Self {
        Self { values: matrix.as_slice(), cols: matrix.cols() }
    }
}

/// Refuses a matrix with a number that is not finite; `origin` names it.
pub(crate) fn check_finite(origin: &str, matrix: &Matrix) -> Result<()> {
    check_finite_rows(origin, matrix.as_slice(), matrix.cols())
}

/// The same for rows that lie in memory one after the other.
pub(crate) fn check_finite_rows(origin: &str, values: &[f32], cols: usize) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::NotFinite {
            origin: origin.to_owned(),
            row: at / cols,
            column: at % cols,
            value: values[at],
        }),
    }
}
