//! A row-major matrix, a borrowed view of rows in memory, and rows of different lengths.

use pulp::{Arch, Simd, WithSimd};
use serde::{Deserialize, Serialize};

use crate::context::Quality;
use crate::error::{Error, Result};

/// A dense row-major matrix, of `f32` unless another number type is given. Its rows are points; its columns are
/// dimensions or classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix<T = f32> {
    rows: usize,
    cols: usize,
    data: Vec<T>,
}

impl<T: Copy + Default> Matrix<T> {
    /// Wraps `data`: `rows` rows of `cols` numbers each, row after row. Fails with [`Error::Shape`] unless `data` has
    /// `rows × cols` numbers.
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

    /// Creates a matrix without rows, to which [`append`](Self::append) adds rows.
    pub fn with_columns(cols: usize) -> Self {
        Self { rows: 0, cols, data: Vec::new() }
    }

    /// Appends the rows of `other`. A matrix without rows takes the number of columns of `other`. Otherwise a different
    /// number of columns is an [`Error::Shape`].
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

    /// Returns the row with the index `row`.
    pub fn row(&self, row: usize) -> &[T] {
        &self.data[row * self.cols..][..self.cols]
    }

    /// Returns the row with the index `row`, mutable.
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

    /// Returns all numbers, row after row, as a vector.
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }

    /// Returns a new matrix of the rows with the indices `rows`, in the order of `rows`.
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut data = Vec::with_capacity(rows.len() * self.cols);
        for &row in rows {
            data.extend_from_slice(self.row(row));
        }
        Self { rows: rows.len(), cols: self.cols, data }
    }

    /// Returns a matrix of this matrix's rows, followed by the rows of `below`. A matrix without columns takes the
    /// number of columns of `below`.
    pub(crate) fn concat(mut self, below: &Self) -> Self {
        self.data.extend_from_slice(&below.data);
        self.rows += below.rows;
        self.cols = self.cols.max(below.cols);
        self
    }
}

/// A borrowed view of points in memory, one row of `f32` numbers after the other.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    values: &'a [f32],
    cols: usize,
}

impl<'a> Rows<'a> {
    /// Wraps `values`, which holds rows of `cols` numbers each. An incomplete last row is refused later, when the rows
    /// are scored as queries.
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

    /// Returns the rows whose indices are in the range `rows`.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        Self { values: &self.values[rows.start * self.cols..rows.end * self.cols], cols: self.cols }
    }

    /// Copies the rows into a matrix. Fails with [`Error::Shape`] if the last row is incomplete.
    pub fn to_matrix(&self) -> Result<Matrix> {
        Matrix::new(self.values.to_vec(), self.len(), self.cols)
    }
}

impl<'a> From<&'a Matrix> for Rows<'a> {
    fn from(matrix: &'a Matrix) -> Self {
        Self { values: matrix.as_slice(), cols: matrix.cols() }
    }
}

/// Returns [`Error::NotFinite`] if a number of the matrix is not finite. `origin` names the matrix in the error.
pub(crate) fn check_finite(origin: &str, matrix: &Matrix) -> Result<()> {
    check_finite_rows(origin, matrix.as_slice(), matrix.cols())
}

/// Returns [`Error::NotFinite`] if a number in `values` is not finite. `values` holds rows of `cols` numbers each, and
/// `origin` names them in the error.
pub(crate) fn check_finite_rows(origin: &str, values: &[f32], cols: usize) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            Err(Error::NotFinite { origin: origin.to_owned(), row: at / cols, column: at % cols, value: values[at] })
        }
    }
}

/// A list of rows of different lengths. One vector holds the values of all rows, and another holds the index at which
/// each row starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ragged<T> {
    /// The index in `values` at which every row starts, and after these the number of all values. There is one entry
    /// more than there are rows.
    offsets: Vec<usize>,
    values: Vec<T>,
}

impl<T> Default for Ragged<T> {
    fn default() -> Self {
        Self { offsets: vec![0], values: Vec::new() }
    }
}

impl<T> Ragged<T> {
    /// Wraps `values`, whose rows start at the indices `offsets`; the last offset is the end of the last row. Returns
    /// `None` unless the offsets ascend from 0 to the number of values.
    pub(crate) fn new(offsets: Vec<usize>, values: Vec<T>) -> Option<Self> {
        let valid = offsets.first() == Some(&0) && offsets.last() == Some(&values.len()) && offsets.is_sorted();
        valid.then_some(Self { offsets, values })
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = T>) {
        self.values.extend(row);
        self.offsets.push(self.values.len());
    }

    /// Appends the rows of `other`.
    pub(crate) fn append(&mut self, mut other: Self) {
        let before = self.values.len();
        self.offsets.extend(other.offsets[1..].iter().map(|offset| before + offset));
        self.values.append(&mut other.values);
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range of indices in [`values`](Self::values) that belong to the row with the index `row`.
    pub(crate) fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    /// Returns the row with the index `row`.
    pub(crate) fn row(&self, row: usize) -> &[T] {
        &self.values[self.range(row)]
    }

    /// Returns an iterator over the rows.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[T]> {
        self.offsets.windows(2).map(|ends| &self.values[ends[0]..ends[1]])
    }

    /// Returns all values, row after row.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns the index in [`values`](Self::values) at which every row starts, and after these the number of all
    /// values.
    pub(crate) fn offsets(&self) -> &[usize] {
        &self.offsets
    }
}

impl<T: Clone> Ragged<T> {
    /// Returns a list of the rows with the indices `rows`, in the order of `rows`.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        let mut selected = Self::default();
        for &row in rows {
            selected.push(self.row(row).iter().cloned());
        }
        selected
    }
}

impl<T, Row: IntoIterator<Item = T>> FromIterator<Row> for Ragged<T> {
    fn from_iter<Rows: IntoIterator<Item = Row>>(rows: Rows) -> Self {
        let mut all = Self::default();
        rows.into_iter().for_each(|row| all.push(row));
        all
    }
}

impl Quality {
    /// Returns the quality of a classifier on labelled points. `outputs` has one row per point and one column per
    /// class; `labels` has the true class index of every point.
    pub fn of(outputs: &Matrix, labels: &[u32]) -> Self {
        let mut hits = 0usize;
        let mut loss = 0.0;
        for (row, &label) in labels.iter().enumerate() {
            let outputs = outputs.row(row);
            hits += usize::from(argmax(outputs) == label as usize);
            let squares: f64 = outputs.iter().map(|&value| f64::from(value).powi(2)).sum();
            loss += squares - 2.0 * f64::from(outputs[label as usize]) + 1.0;
        }
        let n = labels.len().max(1) as f64;
        Self { accuracy: hits as f64 / n, loss: loss / n }
    }
}

/// Returns the number of points in each class. `labels` holds the class index of every point, which must be below
/// `classes`.
pub(crate) fn counts_of(labels: &[u32], classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    for &label in labels {
        counts[label as usize] += 1;
    }
    counts
}

/// Returns the index of the largest value, or the first such index on a tie.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
        }
    }
    best
}

/// Returns the squared distance `‖a-b‖²` of two points in f64. The squares are summed in the same order on every
/// machine.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    Arch::new().dispatch(SquaredDifference { a, b })
}

/// The arguments of [`squared_distance`], with the computation as its implementation of [`WithSimd`]. A closure would
/// be compiled without vector instructions.
struct SquaredDifference<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl WithSimd for SquaredDifference<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        const LANES: usize = 32;
        let mut sums = [0.0f64; LANES];
        let (a, b) = (self.a.chunks_exact(LANES), self.b.chunks_exact(LANES));
        let rest = a.remainder().iter().zip(b.remainder());
        let rest = rest.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>();
        for (a, b) in a.zip(b) {
            for lane in 0..LANES {
                let difference = f64::from(a[lane]) - f64::from(b[lane]);
                sums[lane] += difference * difference;
            }
        }
        // Sum by halves, so that additions do not depend on each other.
        for half in [16, 8, 4, 2, 1] {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
        }
        sums[0] + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_a_list_of_lists() {
        let lists = vec![vec![3, 1], vec![], vec![7, 8, 9]];
        let mut ragged: Ragged<u32> = lists.iter().cloned().collect();
        let written = |ragged: &Ragged<u32>| ragged.iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(written(&ragged), lists);
        assert_eq!(written(&ragged.select(&[2, 0, 2])), [&lists[2], &lists[0], &lists[2]].map(Vec::clone));
        ragged.append(ragged.select(&[1, 0]));
        assert_eq!((ragged.len(), ragged.row(3), ragged.row(4)), (5, &[][..], &[3, 1][..]));
        assert!(Ragged::<u32>::default().is_empty());
    }

    #[test]
    fn offsets_that_do_not_ascend_to_the_end_are_refused() {
        assert_eq!(Ragged::new(vec![0, 2, 2, 3], vec![1, 2, 3]).unwrap().row(0), [1, 2]);
        for bad in [vec![], vec![0], vec![1, 3], vec![0, 4], vec![0, 2, 1, 3]] {
            assert_eq!(Ragged::new(bad, vec![1, 2, 3]), None);
        }
    }
}
