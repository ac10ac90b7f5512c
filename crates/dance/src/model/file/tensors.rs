//! Tensors of a model file. Reading a tensor checks its type, its shape and every value.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use crate::error::{Error, Result};
use crate::numeric::matrix::{Matrix, check_finite};

/// The content of a tensor to write. The variants differ in the type and the meaning of the numbers.
pub(super) enum Values<'a> {
    Matrix(&'a Matrix),
    Floats(&'a [f32]),
    Labels(&'a [u32]),
    /// A table of point indices, row by row, and its number of columns.
    Ids(Vec<u32>, usize),
    Scores(&'a [f64]),
    Offsets(&'a [usize]),
    Hashes(&'a [u64]),
    /// A JSON array of strings.
    Texts(Vec<u8>),
}

impl Values<'_> {
    /// Returns the content of a tensor that holds these texts as a JSON array.
    pub(super) fn texts(texts: &[String]) -> Self {
        Self::Texts(serde_json::json!(texts).to_string().into_bytes())
    }

    /// Returns the number of bytes that each number of the tensor takes.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Matrix(_) | Self::Floats(_) | Self::Labels(_) | Self::Ids(..) => 4,
            Self::Scores(_) | Self::Offsets(_) | Self::Hashes(_) => 8,
            Self::Texts(_) => 1,
        }
    }

    /// Returns the name of the number type in safetensors files, such as `F32`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Matrix(_) | Self::Floats(_) => "F32",
            Self::Labels(_) | Self::Ids(..) => "U32",
            Self::Scores(_) => "F64",
            Self::Offsets(_) | Self::Hashes(_) => "U64",
            Self::Texts(_) => "U8",
        }
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Matrix(matrix) => vec![matrix.rows(), matrix.cols()],
            Self::Floats(values) => vec![values.len()],
            Self::Labels(values) => vec![values.len()],
            Self::Ids(values, columns) => vec![values.len() / columns.max(&1), *columns],
            Self::Scores(values) => vec![values.len()],
            Self::Offsets(values) => vec![values.len()],
            Self::Hashes(values) => vec![values.len()],
            Self::Texts(bytes) => vec![bytes.len()],
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.width() * self.shape().iter().product::<usize>()
    }

    /// Appends the numbers of the tensor to the bytes of a file, in little-endian order.
    pub(super) fn append_to(&self, file: &mut Vec<u8>) {
        fn append<T: Copy, const N: usize>(file: &mut Vec<u8>, values: &[T], encode: impl Fn(T) -> [u8; N]) {
            for &value in values {
                file.extend(encode(value));
            }
        }
        match self {
            Self::Matrix(matrix) => append(file, matrix.as_slice(), f32::to_le_bytes),
            Self::Floats(values) => append(file, values, f32::to_le_bytes),
            Self::Labels(values) => append(file, values, u32::to_le_bytes),
            Self::Ids(values, _) => append(file, values, u32::to_le_bytes),
            Self::Scores(values) => append(file, values, f64::to_le_bytes),
            Self::Offsets(values) => append(file, values, |value| (value as u64).to_le_bytes()),
            Self::Hashes(values) => append(file, values, u64::to_le_bytes),
            Self::Texts(bytes) => file.extend_from_slice(bytes),
        }
    }
}

/// The tensors of a model file that is read, with its path for errors.
pub(super) struct Reader<'a> {
    tensors: SafeTensors<'a>,
    path: &'a Path,
}

impl<'a> Reader<'a> {
    pub(super) fn new(tensors: SafeTensors<'a>, path: &'a Path) -> Self {
        Self { tensors, path }
    }

    /// Returns whether the file has a tensor of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// Returns an error about this `problem` that names the file.
    pub(super) fn problem(&self, problem: impl Into<String>) -> Error {
        Error::format(self.path, problem)
    }

    /// Reads the tensor `name` as a matrix of finite numbers with at least one row and column. If a `shape` is given,
    /// any other shape is an error.
    pub(super) fn matrix(&self, name: &str, shape: Option<(usize, usize)>) -> Result<Matrix> {
        let (found, data) = self.tensor(name, Dtype::F32)?;
        let &[rows, cols] = &found[..] else {
            return Err(self.problem(format!("`{name}` has {} dimensions; a matrix has 2", found.len())));
        };
        if rows == 0 || cols == 0 || shape.is_some_and(|shape| shape != (rows, cols)) {
            let expected = shape.map_or("at least 1 × 1".into(), |(rows, cols)| format!("{rows} × {cols}"));
            return Err(self.problem(format!("`{name}` is {rows} × {cols}; expected {expected}")));
        }
        let matrix = Matrix::new(numbers(data, f32::from_le_bytes), rows, cols)?;
        check_finite(&format!("{}: `{name}`", self.path.display()), &matrix)?;
        Ok(matrix)
    }

    /// Reads the tensor `name` as a list of `length` finite numbers.
    pub(super) fn floats(&self, name: &str, length: usize) -> Result<Vec<f32>> {
        let values = self.vector(name, Dtype::F32, Some(length), f32::from_le_bytes)?;
        if values.iter().all(|value| value.is_finite()) {
            return Ok(values);
        }
        Err(self.problem(format!("`{name}` holds a number that is not finite")))
    }

    /// Reads the tensor `name` as a list of `length` probabilities, each from 0 to 1.
    pub(super) fn probabilities(&self, name: &str, length: usize) -> Result<Vec<f32>> {
        let values = self.floats(name, length)?;
        if values.iter().all(|value| (0.0..=1.0).contains(value)) {
            return Ok(values);
        }
        Err(self.problem(format!("`{name}` holds a number that is no probability")))
    }

    /// Reads the tensor `name` as a list of `length` numbers above 0.
    pub(super) fn positive(&self, name: &str, length: usize) -> Result<Vec<f32>> {
        let values = self.floats(name, length)?;
        if values.iter().all(|value| *value > 0.0) {
            return Ok(values);
        }
        Err(self.problem(format!("`{name}` holds a number that is not positive")))
    }

    /// Reads the tensor `name` as a list of class ids, each below `classes`. If a `length` is given, any other length
    /// is an error.
    pub(super) fn labels(&self, name: &str, length: Option<usize>, classes: usize) -> Result<Vec<u32>> {
        let labels = self.vector(name, Dtype::U32, length, u32::from_le_bytes)?;
        match labels.iter().find(|label| **label as usize >= classes) {
            None => Ok(labels),
            Some(label) => Err(self.problem(format!("`{name}` holds {label}, and there are {classes} classes"))),
        }
    }

    /// Reads the tensor `name` as a table of `rows` rows that holds point indices below `bound`.
    pub(super) fn ids(&self, name: &str, rows: usize, bound: usize) -> Result<Vec<u32>> {
        let (shape, data) = self.tensor(name, Dtype::U32)?;
        let &[found, columns] = &shape[..] else {
            return Err(self.problem(format!("`{name}` has {} dimensions; a table has 2", shape.len())));
        };
        let ids = numbers(data, u32::from_le_bytes);
        if found != rows || columns > bound || ids.iter().any(|&id| id as usize >= bound) {
            return Err(
                self.problem(format!("`{name}` is {found} × {columns}; expected {rows} rows of numbers below {bound}"))
            );
        }
        Ok(ids)
    }

    /// Reads the tensor `name` as a list of scores, which may be ±∞ but not NaN. If a `length` is given, any other
    /// length is an error.
    pub(super) fn scores(&self, name: &str, length: Option<usize>) -> Result<Vec<f64>> {
        let scores = self.vector(name, Dtype::F64, length, f64::from_le_bytes)?;
        if scores.iter().any(|score| score.is_nan()) {
            return Err(self.problem(format!("`{name}` holds a score that is not a number")));
        }
        Ok(scores)
    }

    /// Reads the tensor `name` as a list of `length` row numbers; `None` if the file has no tensor of this name.
    pub(super) fn rows(&self, name: &str, length: usize) -> Result<Option<Vec<u32>>> {
        self.has(name).then(|| self.vector(name, Dtype::U32, Some(length), u32::from_le_bytes)).transpose()
    }

    /// Reads the tensor `name` as a JSON array of `length` texts; `None` if the file has no tensor of this name.
    pub(super) fn texts(&self, name: &str, length: usize) -> Result<Option<Vec<String>>> {
        if !self.has(name) {
            return Ok(None);
        }
        let (_, data) = self.tensor(name, Dtype::U8)?;
        match serde_json::from_slice::<Vec<String>>(data) {
            Ok(texts) if texts.len() == length => Ok(Some(texts)),
            Ok(texts) => Err(self.problem(format!("`{name}` has {} texts; expected {length}", texts.len()))),
            Err(error) => Err(self.problem(format!("`{name}` is not a JSON array of texts: {error}"))),
        }
    }

    /// Reads the tensor `name` as a list of hashes, each of which may be any 64-bit number.
    pub(super) fn hashes(&self, name: &str) -> Result<Vec<u64>> {
        self.vector(name, Dtype::U64, None, u64::from_le_bytes)
    }

    /// Reads the tensor `name` as a list of offsets, which ascend from 0 to `end`.
    pub(super) fn offsets(&self, name: &str, end: usize) -> Result<Vec<usize>> {
        let offsets = self.vector(name, Dtype::U64, None, u64::from_le_bytes)?;
        let offsets: Vec<usize> =
            offsets.into_iter().map(|offset| usize::try_from(offset).unwrap_or(usize::MAX)).collect();
        if offsets.len() > 1 && offsets[0] == 0 && offsets.last() == Some(&end) && offsets.is_sorted() {
            return Ok(offsets);
        }
        Err(self.problem(format!("`{name}` does not ascend from 0 to {end}")))
    }

    /// Reads the tensor `name` as a list of numbers of the type `kind`. If a `length` is given, any other length is an
    /// error.
    fn vector<T, const N: usize>(
        &self,
        name: &str,
        kind: Dtype,
        length: Option<usize>,
        decode: fn([u8; N]) -> T,
    ) -> Result<Vec<T>> {
        let (shape, data) = self.tensor(name, kind)?;
        let found = match &shape[..] {
            &[found] => found,
            other => {
                return Err(self.problem(format!("`{name}` has {} dimensions; a list has 1", other.len())));
            }
        };
        if let Some(length) = length.filter(|&length| length != found) {
            return Err(self.problem(format!("`{name}` has {found} numbers; expected {length}")));
        }
        Ok(numbers(data, decode))
    }

    /// Returns the shape and the bytes of the tensor `name`, which must have the type `kind`.
    fn tensor(&self, name: &str, kind: Dtype) -> Result<(Vec<usize>, &'a [u8])> {
        let tensor = self.tensors.tensor(name).map_err(|_| Error::MissingKey {
            path: self.path.to_owned(),
            key: name.into(),
            found: self.tensors.names().into_iter().map(ToOwned::to_owned).collect(),
            help: "The file is damaged or not a model",
        })?;
        if tensor.dtype() != kind {
            return Err(self.problem(format!("`{name}` is of type {:?}; expected {kind:?}", tensor.dtype())));
        }
        Ok((tensor.shape().to_vec(), tensor.data()))
    }
}

/// Decodes numbers of N bytes each by the function `decode`.
fn numbers<T, const N: usize>(data: &[u8], decode: fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, _) = data.as_chunks::<N>();
    chunks.iter().map(|&bytes| decode(bytes)).collect()
}
