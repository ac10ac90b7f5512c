//! A row-major matrix, and a borrowed view of rows in memory.

use crate::error::{Error, Result};

/// A dense row-major matrix, of `f32` unless another number type is given. A row is a point, a column a dimension or a
/// class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix<T = f32> {
    rows: usize,
    cols: usize,
    data: Vec<T>,
}

impl<T: Copy + Default> Matrix<T> {
    /// Wraps `data`: `rows` rows of `cols` numbers each, row after row.
    pub fn new(data: Vec<T>, rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::Shape {
                what: "matrix".into(),
                expected: format!("{rows} rows × {cols} columns"),
                found: format!("{} numbers", data.len()),
            });
        }
        Ok(Self { rows, cols, data })
    }

    /// Creates a matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, data: vec![T::default(); rows * cols] }
    }

    /// Creates a matrix without rows, for [`append`](Self::append).
    pub fn with_columns(cols: usize) -> Self {
        Self { rows: 0, cols, data: Vec::new() }
    }

    /// Appends the rows of another matrix. A matrix without rows takes the other's number of columns.
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

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns one row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.data[row * self.cols..][..self.cols]
    }

    /// Returns one row, mutable.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.cols..][..self.cols]
    }

    /// Returns all numbers, row after row.
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }

    /// Returns all numbers, row after row, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// Returns the vector of all numbers, row after row.
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }

    /// Returns a new matrix of the given rows, in the given order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut data = Vec::with_capacity(rows.len() * self.cols);
        for &row in rows {
            data.extend_from_slice(self.row(row));
        }
        Self { rows: rows.len(), cols: self.cols, data }
    }

    /// Returns these rows, followed by those of `below`. A matrix without columns takes the other's.
    pub(crate) fn concat(mut self, below: &Self) -> Self {
        self.data.extend_from_slice(&below.data);
        self.rows += below.rows;
        self.cols = self.cols.max(below.cols);
        self
    }
}

/// A borrowed view of rows that lie in memory one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    values: &'a [f32],
    cols: usize,
}

impl<'a> Rows<'a> {
    /// Wraps `values`, which holds rows of `cols` numbers each.
    pub fn new(values: &'a [f32], cols: usize) -> Self {
        Self { values, cols }
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.cols.max(1)
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all numbers, row after row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Returns a range of the rows.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        Self { values: &self.values[rows.start * self.cols..rows.end * self.cols], cols: self.cols }
    }

    /// Copies the rows into a matrix.
    pub fn to_matrix(&self) -> Result<Matrix> {
        Matrix::new(self.values.to_vec(), self.len(), self.cols)
    }
}

impl<'a> From<&'a Matrix> for Rows<'a> {
    fn from(matrix: &'a Matrix) -> Self {
        Self { values: matrix.as_slice(), cols: matrix.cols() }
    }
}

/// Refuses a matrix with a number that is not finite; `origin` names the matrix in the error.
pub(crate) fn check_finite(origin: &str, matrix: &Matrix) -> Result<()> {
    check_finite_rows(origin, matrix.as_slice(), matrix.cols())
}

/// Refuses rows with a number that is not finite; `values` holds rows of `cols` numbers each.
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
