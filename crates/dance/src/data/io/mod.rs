//! Reading embeddings, and what comes with them, from files. The extension, or [`ReadOptions::format`], says which format it is:
//!
//! | Extension | Embeddings | Labels | Also |
//! |---|---|---|---|
//! | `.npz` | array `embeddings`, `(points, dimensions)` | array `labels` | arrays `class_names`, `ids`, `prototypes` |
//! | `.npy` | the array | a second file, [`ReadOptions::labels`] | |
//! | `.safetensors` | tensor `embeddings` | tensor `labels` | tensor `prototypes`; `class_names` and `ids` as JSON arrays of strings in the metadata |
//! | `.csv`, `.tsv` | every column that is not the label or the id, one per dimension | column `label` | column `id` |
//! | `.parquet` | column `embedding` (or `embeddings`), a list of numbers | column `label` | column `id` |
//! | `.jsonl` | `"embedding": [numbers]` of each line, or the line itself | `"label"` | `"id"` |
//!
//! Other names of embeddings, labels and ids are given in [`ReadOptions`]. A pipe is read like a file, by way of a temporary one.
//!
//! Embeddings may be 16-, 32- or 64-bit floats (bfloat16 in safetensors; integers of any width in `NumPy` files and
//! safetensors); they are kept as `f32`, and a number beyond its range is refused as not finite. Labels are integers,
//! booleans, whole floats or strings, and stay that in every answer ([`Kind`]). In a text file labels and ids are
//! integers if every one is written the way an integer prints, and strings otherwise: one `007` or `+1` makes them all strings,
//! since it could not be told from `7` or `1` afterwards.
//!
//! A file is untrusted. Sizes that it claims are checked against its true size before anything is allocated, pickled
//! arrays are refused, and whatever is wrong comes back as an [`Error`] that names the file, row and column. Rows count
//! from 0; lines of a text file count from 1, as editors show them.
//!
//! Reading takes one pass over the file and the memory of the result.
//!
//! ```
//! use dance::data::io::{self, ReadOptions};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("animals.csv");
//! std::fs::write(&path, "label,x0,x1\ncat,0.1,0.9\ndog,0.8,0.3\n")?;
//!
//! let table = io::read(&path, &ReadOptions::default())?;
//! assert_eq!(table.embeddings().row(1), [0.8, 0.3]);
//!
//! let dataset = table.into_dataset()?;
//! assert_eq!(dataset.classes, ["cat", "dog"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use blocks::{Blocks, RefusedRow, Rows};
pub use csv_cell::csv_safe;
pub use format::{EXTENSIONS, Format};
pub use jsonl::{JsonKeys, JsonPoint};
#[cfg(feature = "parquet")]
pub use parquet::ParquetFields;
#[cfg(feature = "parquet")]
pub use parquet::silence_caught_panics;

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use self::scalar::{Endian, Scalar};
use crate::data::provenance::is_picked;
use crate::data::{Kind, RawLabels, Table};
use crate::error::{Error, Result};

mod blocks;
mod budget;
mod csv;
mod csv_cell;
mod format;
mod jsonl;
mod labels;
mod npy_header;
mod numpy;
mod open;
#[cfg(feature = "parquet")]
mod parquet;
mod safetensors;
mod scalar;

/// Where in a file things are, when they are not where they usually are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// What the file is; `None` goes by its extension.
    pub format: Option<Format>,
    /// A file with the labels, one per row of the embeddings, in place of labels that the embeddings' file may hold: a
    /// 1-d `.npy` array, a `.txt` with one label per line, or a `.csv` or `.tsv`, either with the column `label_column`
    /// or without a header and with one label per line.
    pub labels: Option<PathBuf>,
    /// The column, array or tensor of labels, which must be there. `None` takes `label` (arrays and tensors: `labels`), if there
    /// is one.
    pub label_column: Option<String>,
    /// The column or array of ids, which must be there. `None` takes `id` (arrays: `ids`), if there is one.
    pub id_column: Option<String>,
    /// The array, tensor or column of embeddings; `None` takes `embeddings` (columns: `embedding`).
    pub embeddings_column: Option<String>,
    /// Columns of a CSV file that are no dimension, where they are there: all that is neither label nor id is one otherwise.
    pub other_columns: Vec<String>,
    /// Rows with this label, or with none, are left out, and every other label is a class. `None` refuses rows without a label.
    pub unlabelled: Option<String>,
    /// Whether labels are left alone, because nobody needs them: whatever is wrong with them is no error then.
    pub without_labels: bool,
}

const LABEL_COLUMN: &str = "label";
const ID_COLUMN: &str = "id";

impl ReadOptions {
    /// The name of the labels in the file of the embeddings, and whether they must be there; `None` where nobody wants them, or
    /// they come from a file of their own.
    fn label_in_file<'a>(&'a self, usual: &'a str) -> Option<(&'a str, bool)> {
        let given = self.label_column.as_deref();
        (!self.without_labels && self.labels.is_none()).then_some((given.unwrap_or(usual), given.is_some()))
    }

    /// The name of the ids, and whether they must be there.
    fn id<'a>(&'a self, usual: &'a str) -> (&'a str, bool) {
        (self.id_column.as_deref().unwrap_or(usual), self.id_column.is_some())
    }
}

/// Reads and checks a file of embeddings, or a pipe; `-` is stdin. Says how many rows were left out as unlabelled.
pub fn read_labelled(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(Table, usize)> {
    let table = read(path, options)?;
    match &options.unlabelled {
        Some(label) if !options.without_labels => table.leave_out_unlabelled(label),
        _ => Ok((table, 0)),
    }
}

/// Reads and checks a file of embeddings as it is, with rows that have no label.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Table> {
    let path = path.as_ref();
    let format = options.format.map_or_else(|| Format::known(path), Ok)?;
    let file = open::open(path, format.extension())?;
    let path = open::shown(path);
    if let (Format::Csv | Format::Tsv | Format::Npy, Some(name)) = (format, &options.embeddings_column) {
        let help = "every other column is a dimension, and a .npy file has one array";
        return Err(Error::format(path, format!("has no single part that could be called `{name}`: {help}")));
    }
    let mut table = match format {
        Format::Npz => numpy::read_npz(path, file, options)?,
        Format::Npy => numpy::read_npy(path, &file)?,
        Format::Safetensors => safetensors::read(path, &file, options)?,
        Format::Csv => csv::read(path, file, b',', options)?,
        Format::Tsv => csv::read(path, file, b'\t', options)?,
        Format::Parquet => read_parquet(path, file, options)?,
        Format::Jsonl => jsonl::read(path, file, options)?,
    };
    if let Some(labels) = options.labels.as_ref().filter(|_| !options.without_labels) {
        let column = options.label_column.as_deref().unwrap_or(LABEL_COLUMN);
        let found = labels::read(labels, column)?;
        table.labels = Some(found.values);
        table.places.missing = found.missing;
        table.places.lines = found.lines;
        table.places.labels_in = Some(labels.display().to_string());
    }
    table.checked()
}

/// Reads one number per row: a 1-d `.npy` array, a `.txt` with one per line, or a `.csv` or `.tsv` with the column `column`.
pub fn read_numbers(path: impl AsRef<Path>, column: &str) -> Result<Vec<f64>> {
    let path = path.as_ref();
    let wrong = |row: usize, text: &str| {
        Error::format(path, format!("`{column}` of row {row} is `{text}`, which is no number"))
    };
    match labels::read(path, column)?.values {
        RawLabels::Integers(values) => Ok(values.into_iter().map(|value| value as f64).collect()),
        RawLabels::Floats(values) => Ok(values),
        RawLabels::Booleans(values) => {
            Ok(values.into_iter().map(|value| f64::from(u8::from(value))).collect())
        }
        RawLabels::Names(texts) => {
            let number = |(row, text): (usize, &String)| text.parse().map_err(|_| wrong(row, text));
            texts.iter().enumerate().map(number).collect()
        }
    }
}

/// Reads and checks the contents of an `.npz` file that is already in memory; `origin` names it in messages.
pub fn read_npz_bytes(origin: &str, contents: &[u8]) -> Result<Table> {
    let size = contents.len() as u64;
    let contents = std::io::Cursor::new(contents);
    numpy::read_archive(Path::new(origin), contents, size, &ReadOptions::default())?.checked()
}

#[cfg(feature = "parquet")]
use self::parquet::read as read_parquet;

#[cfg(not(feature = "parquet"))]
fn read_parquet(path: &Path, _: std::fs::File, _: &ReadOptions) -> Result<Table> {
    Err(Error::format(
        path,
        "this build cannot read Parquet; build with the feature `parquet`, or save the embeddings as .npz",
    ))
}

/// An array, tensor or column of a file, for messages about it.
#[derive(Clone, Copy)]
struct Part<'a> {
    path: &'a Path,
    name: &'a str,
}

impl Part<'_> {
    fn error(self, problem: impl fmt::Display) -> Error {
        Error::format(self.path, format!("`{}` {problem}", self.name))
    }

    fn unreadable(self, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::UnexpectedEof => self.error("ends too early; the file is truncated"),
            _ => self.error(format!("cannot be read: {error}. The file may be damaged; save it again")),
        }
    }

    /// The rows and columns of a shape that must have just these.
    fn two_dimensional(self, shape: &[u64]) -> Result<(usize, usize)> {
        let wrong =
            |help| self.error(format!("has the shape {}; it must be (rows, columns). {help}", Shape(shape)));
        match shape {
            &[rows, cols] => match (usize::try_from(rows), usize::try_from(cols)) {
                (Ok(rows), Ok(cols)) => Ok((rows, cols)),
                _ => Err(wrong("The file is damaged")),
            },
            [_] => Err(wrong("Save a single embedding as arr.reshape(1, -1)")),
            [] => Err(wrong("It is a single number")),
            _ => Err(wrong("Save arr.reshape(len(arr), -1), or the mean over tokens or patches")),
        }
    }

    /// Reads labels: integers, booleans, or floats that may be whole.
    fn labels(self, reader: impl Read, scalar: Scalar, endian: Endian, count: usize) -> Result<RawLabels> {
        if scalar.is_float() {
            let floats = scalar::read_doubles(reader, scalar, endian, count);
            return floats.map(RawLabels::Floats).map_err(|error| self.unreadable(&error));
        }
        let numbers =
            scalar::read_integers(reader, scalar, endian, count).map_err(|error| self.unreadable(&error))?;
        let numbers = numbers.map_err(|(row, value)| {
            self.error(format!(
                "is {value} at row {row}, beyond the range of 64-bit signed integers; save strings"
            ))
        })?;
        Ok(if scalar == Scalar::Bool {
            RawLabels::Booleans(numbers.iter().map(|&number| number != 0).collect())
        } else {
            RawLabels::Integers(numbers)
        })
    }

    /// Whether each point was picked, where a file says how its points came to be there; the first is row `first`.
    fn picked(self, words: Option<&[String]>, first: usize) -> Result<Option<Vec<bool>>> {
        let of = |(row, word): (usize, &String)| {
            is_picked(word).map_err(|problem| self.error(format!("at row {}: {problem}", first + row)))
        };
        words.map(|words| words.iter().enumerate().map(of).collect()).transpose()
    }

    /// Names of classes or points: strings, or integers as they print.
    fn names(self, labels: RawLabels) -> Result<(Vec<String>, Kind)> {
        match labels {
            RawLabels::Names(names) => Ok((names, Kind::Text)),
            RawLabels::Integers(numbers) => {
                Ok((numbers.iter().map(ToString::to_string).collect(), Kind::Integer))
            }
            RawLabels::Booleans(_) | RawLabels::Floats(_) => Err(self.error(format!(
                "holds {}; integers or strings are needed to name things",
                labels.kind().plural()
            ))),
        }
    }
}

/// A shape as Python prints it.
struct Shape<'a>(&'a [u64]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "({sizes}{})", if self.0.len() == 1 { "," } else { "" })
    }
}
