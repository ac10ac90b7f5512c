//! Conversion between values of Python and those of the library: arrays of NumPy, sets and ids.

use std::borrow::Cow;

use dance::Matrix;
use dance::data::Value;
use dance::scores::Sets;
use numpy::ndarray::{Array2, ArrayView1};
use numpy::{Element, IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Mapped;

/// Returns the numbers of an array row after row, copied unless they lie in that order already. (`as_slice` alone would
/// take a Fortran-ordered array for one of rows.)
pub(crate) fn rows<'a, T: Element + Copy>(array: &'a PyReadonlyArray2<'_, T>) -> Cow<'a, [T]> {
    match array.as_slice() {
        Ok(slice) if array.is_c_contiguous() => Cow::Borrowed(slice),
        _ => Cow::Owned(array.as_array().iter().copied().collect()),
    }
}

/// Returns a copy as a matrix of the library.
pub(crate) fn matrix(array: &PyReadonlyArray2<'_, f32>) -> PyResult<Matrix> {
    let [rows, cols] = [array.shape()[0], array.shape()[1]];
    Matrix::new(self::rows(array).into_owned(), rows, cols).mapped()
}

/// Returns the numbers of a matrix as a new array, without another copy.
pub(crate) fn to_array(py: Python<'_>, matrix: Matrix) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    dense(py, rows, cols, matrix.into_vec())
}

/// Returns a new array of the given shape around `values`.
pub(crate) fn dense<T: Element>(
    py: Python<'_>,
    rows: usize,
    cols: usize,
    values: Vec<T>,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let array = Array2::from_shape_vec((rows, cols), values).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(array.into_pyarray(py))
}

/// Returns row numbers as a new array.
pub(crate) fn places<'py>(py: Python<'py>, rows: &[usize]) -> Bound<'py, PyArray1<i64>> {
    PyArray1::from_iter(py, rows.iter().map(|&row| row as i64))
}

/// Returns sets as booleans, one row per query.
pub(crate) fn mask(sets: &Sets, classes: usize) -> Vec<bool> {
    let mut mask = vec![false; sets.len() * classes];
    for (row, set) in sets.iter().enumerate() {
        for &label in set {
            mask[row * classes + label as usize] = true;
        }
    }
    mask
}

/// Returns the sets that booleans describe, one row per query.
pub(crate) fn sets(mask: &PyReadonlyArray2<'_, bool>) -> Sets {
    let members = |row: ArrayView1<'_, bool>| {
        let inside = row.iter().zip(0u32..).filter(|(inside, _)| **inside);
        inside.map(|(_, label)| label).collect::<Vec<_>>()
    };
    mask.as_array().rows().into_iter().map(members).collect()
}

/// An id, in the type that it was written in.
#[derive(IntoPyObject)]
pub(crate) enum Id {
    Text(String),
    Integer(i64),
}

impl From<Value<'_>> for Id {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Integer(number) => Self::Integer(number),
            Value::Float(number) => Self::Text(number.to_string()),
            Value::Boolean(value) => Self::Text(value.to_string()),
        }
    }
}
