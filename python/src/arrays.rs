//! Arrays in and out.

use std::borrow::Cow;

use dance::Matrix;
use dance::scores::Sets;
use numpy::ndarray::Array2;
use numpy::{Element, IntoPyArray, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Mapped;

/// The numbers of an array row after row: where they are when the array lies so, copied otherwise. (`as_slice` alone would
/// take a Fortran-ordered array for one of rows.)
pub(crate) fn rows<'a, T: Element + Copy>(array: &'a PyReadonlyArray2<'_, T>) -> Cow<'a, [T]> {
    match array.as_slice() {
        Ok(slice) if array.is_c_contiguous() => Cow::Borrowed(slice),
        _ => Cow::Owned(array.as_array().iter().copied().collect()),
    }
}

/// A copy as a matrix of the library.
pub(crate) fn matrix(array: &PyReadonlyArray2<'_, f32>) -> PyResult<Matrix> {
    let [rows, cols] = [array.shape()[0], array.shape()[1]];
    Matrix::new(self::rows(array).into_owned(), rows, cols).mapped()
}

/// The numbers of a matrix as a new array, not copied again.
pub(crate) fn to_array(py: Python<'_>, matrix: Matrix) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    dense(py, rows, cols, matrix.into_vec())
}

/// A new array of the given shape around `values`.
pub(crate) fn dense<T: Element>(
    py: Python<'_>,
    rows: usize,
    cols: usize,
    values: Vec<T>,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let array =
        Array2::from_shape_vec((rows, cols), values).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(array.into_pyarray(py))
}

/// Sets as booleans, one row per query.
pub(crate) fn mask(sets: &Sets, classes: usize) -> Vec<bool> {
    let mut mask = vec![false; sets.len() * classes];
    for (row, set) in sets.iter().enumerate() {
        for &label in set {
            mask[row * classes + label as usize] = true;
        }
    }
    mask
}

/// Sets from booleans.
pub(crate) fn sets(mask: &PyReadonlyArray2<'_, bool>) -> Sets {
    let mut sets = Sets::default();
    for row in mask.as_array().rows() {
        let members = row.iter().zip(0u32..).filter(|(inside, _)| **inside).map(|(_, label)| label);
        sets.labels.extend(members);
        sets.offsets.push(sets.labels.len());
    }
    sets
}
