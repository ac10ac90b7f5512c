//! Reading of embeddings and their labels from files. The extension or [`ReadOptions::format`] gives the format:
//!
//! | Extension | Embeddings | Labels | Also |
//! |---|---|---|---|
//! | `.npz` | array `embeddings`, `(points, dimensions)` | array `labels` | arrays `class_names`, `ids`, `prototypes` |
//! | `.npy` | the array | a second file, [`ReadOptions::labels`] | |
//! | `.safetensors` | tensor `embeddings` | tensor `labels` | tensor `prototypes`; metadata `class_names`, `ids` |
//! | `.csv`, `.tsv` | all columns but label and id, one per dimension | column `label` | column `id` |
//! | `.parquet` | column `embedding` (or `embeddings`), a list of numbers | column `label` | column `id` |
//! | `.jsonl` | `"embedding": [numbers]` of each line, or the line itself | `"label"` | `"id"` |
//!
//! [`ReadOptions`] sets other names of embeddings, labels and ids. A pipe is first copied to a temporary file.
//!
//! Embeddings may be 16-, 32- or 64-bit floats (bfloat16 in safetensors; integers of any width in `NumPy` files and
//! safetensors). They are converted to `f32`. A number beyond the range of `f32` is refused as not finite. Labels are
//! integers, booleans, whole numbers stored as floats, or strings. They have one type in the file and in every answer
//! ([`Kind`]). In a text file labels (and likewise ids) are integers if every one is written as an integer is printed,
//! and strings otherwise. So one `007` or `+1` makes all of them strings, since as integers they would equal `7` and
//! `1`.
//!
//! A file is untrusted. The reader checks sizes that the file claims against the true size of the file before it
//! allocates anything. It refuses pickled arrays. An [`Error`] names the file, row and column of a problem. Rows count
//! from 0; lines of a text file count from 1, as in editors.
//!
//! Reading takes one pass over the file, and no more memory than the result.
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

pub use blocks::{Block, Blocks};
pub use csv_cell::csv_safe;
pub use format::{EXTENSIONS, Format};
pub use jsonl::JsonPoint;
#[cfg(feature = "parquet")]
pub use parquet::ParquetFields;
#[cfg(feature = "parquet")]
pub use parquet::silence_caught_panics;

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use self::scalar::{Endian, Scalar};
use crate::data::dataset::is_picked;
use crate::data::sample::Sample;
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
mod table_source;

/// The names of embeddings, labels and ids in a file, and the treatment of rows without a label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The file's format; `None` derives it from the extension.
    pub format: Option<Format>,
    /// A file with one label per row of the embeddings, in place of labels in the file of embeddings. It is a 1-d
    /// `.npy` array, a `.txt` with one label per line, or a `.csv` or `.tsv`. The last two have the column
    /// `label_column`, or one label per line and no header.
    pub labels: Option<PathBuf>,
    /// The column, array or tensor of labels, which must exist. With `None`, labels are read from the column `label`
    /// (or the array or tensor `labels`) if it exists.
    pub label_column: Option<String>,
    /// The column, array or tensor of ids, which must exist. With `None`, ids are read from the column `id` (or the
    /// array or tensor `ids`) if it exists.
    pub id_column: Option<String>,
    /// The array, tensor or column of embeddings. With `None`, it is the array or tensor `embeddings`, or the column
    /// `embedding`.
    pub embedding_column: Option<String>,
    /// Columns of a CSV file to ignore. All other columns but label and id are dimensions.
    pub other_columns: Vec<String>,
    /// The label that marks rows to leave out. Rows without a label are then left out too, and every other label is a
    /// class. With `None`, a row without a label is an error.
    pub unlabeled: Option<String>,
    /// If true, labels are ignored, so that problems with labels are not errors.
    pub without_labels: bool,
}

/// The number of rows that [`read_sample`] reads at once.
const SAMPLED_ROWS: usize = 4096;

const LABEL_COLUMN: &str = "label";
const ID_COLUMN: &str = "id";

const LABEL_HELP: &str = "Name one of these by the setting `label_column`";
const ID_HELP: &str = "Name one of these by the setting `id_column`";

impl ReadOptions {
    /// Returns the name of the labels in the file of embeddings, and true if labels must exist under this name. The
    /// name is `usual` unless the user has set another. Returns `None` if labels are ignored or have their own file.
    fn label_in_file<'a>(&'a self, usual: &'a str) -> Option<(&'a str, bool)> {
        let given = self.label_column.as_deref();
        (!self.without_labels && self.labels.is_none()).then_some((given.unwrap_or(usual), given.is_some()))
    }

    /// Returns the name of the ids in the file, and true if ids must exist under this name. The name is `usual` unless
    /// the user has set another.
    fn id<'a>(&'a self, usual: &'a str) -> (&'a str, bool) {
        (self.id_column.as_deref().unwrap_or(usual), self.id_column.is_some())
    }
}

/// Reads and checks a file of embeddings or a pipe; `-` is stdin. Returns the table without the rows that
/// [`ReadOptions::unlabeled`] leaves out, and the number of rows left out.
pub fn read_labelled(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(Table, usize)> {
    let table = read(path, options)?;
    match &options.unlabeled {
        Some(label) if !options.without_labels => table.leave_out_unlabeled(label),
        _ => Ok((table, 0)),
    }
}

/// Draws a uniform sample of `size` rows from files that need not fit into memory; without a `size`, takes all rows.
/// Returns the sample in the order of the rows, and two numbers of rows: those that it was drawn from, and those that
/// [`ReadOptions::unlabeled`] left out.
///
/// Row numbers run through all files. `origin` names the files together in messages.
pub fn read_sample(
    origin: &Path,
    files: &[PathBuf],
    options: &ReadOptions,
    size: Option<usize>,
    seed: u64,
) -> Result<(Table, u64, usize)> {
    let (mut drawn, mut left_out) = (Sample::new(size.unwrap_or(usize::MAX), seed), 0);
    for file in files {
        let mut blocks = Blocks::open(file, options)?;
        while let Some(table) = blocks.next(SAMPLED_ROWS)? {
            drawn.take(&table)?;
        }
        left_out += blocks.left_out();
    }
    let rows = drawn.seen();
    let none = || Error::Data(format!("{}: there are no rows to draw from", origin.display()));
    Ok((drawn.finish().ok_or_else(none)?, rows, left_out))
}

/// Reads and checks a file of embeddings, including rows without a label.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Table> {
    let path = path.as_ref();
    let format = options.format.map_or_else(|| Format::known(path), Ok)?;
    let file = open::open(path, format.extension())?;
    let path = open::display_path(path);
    if let (Format::Csv | Format::Tsv | Format::Npy, Some(name)) = (format, &options.embedding_column) {
        let help = "every other column is a dimension, and a .npy file has one array";
        return Err(Error::format(path, format!("has no single part that could be called `{name}`: {help}")));
    }
    // The file of embeddings.
    let mut table = match format {
        Format::Npz => numpy::read_npz(path, file, options)?,
        Format::Npy => numpy::read_npy(path, &file)?,
        Format::Safetensors => safetensors::read(path, &file, options)?,
        Format::Csv => csv::read(path, file, b',', options)?,
        Format::Tsv => csv::read(path, file, b'\t', options)?,
        Format::Parquet => read_parquet(path, file, options)?,
        Format::Jsonl => jsonl::read(path, file, options)?,
    };
    // The file of labels.
    if let Some(labels) = options.labels.as_ref().filter(|_| !options.without_labels) {
        let column = options.label_column.as_deref().unwrap_or(LABEL_COLUMN);
        let found = labels::read(labels, column)?;
        table.labels = Some(found.values);
        table.details.missing = found.missing;
        table.details.lines = found.lines;
        table.details.labels_file = Some(labels.display().to_string());
    }
    table.checked()
}

/// Reads one number per row from a 1-d `.npy` array, a `.txt` with one number per line, or the column `column` of a
/// `.csv` or `.tsv`.
pub fn read_numbers(path: impl AsRef<Path>, column: &str) -> Result<Vec<f64>> {
    let path = path.as_ref();
    let wrong = |row: usize, text: &str| {
        Error::format(path, format!("`{column}` of row {row} is `{text}`, which is no number"))
    };
    match labels::read(path, column)?.values {
        RawLabels::Integers(values) => Ok(values.into_iter().map(|value| value as f64).collect()),
        RawLabels::Floats(values) => Ok(values),
        RawLabels::Booleans(values) => Ok(values.into_iter().map(|value| f64::from(u8::from(value))).collect()),
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

/// The path of a file and the name of one of its arrays, tensors or columns, for errors.
#[derive(Clone, Copy)]
struct FilePart<'a> {
    path: &'a Path,
    name: &'a str,
}

impl FilePart<'_> {
    fn error(self, problem: impl fmt::Display) -> Error {
        Error::format(self.path, format!("`{}` {problem}", self.name))
    }

    fn unreadable(self, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::UnexpectedEof => self.error("ends too early; the file is truncated"),
            _ => self.error(format!("cannot be read: {error}. The file may be damaged; save it again")),
        }
    }

    /// Returns the numbers of rows and columns of a two-dimensional `shape`, or an error for any other shape.
    fn two_dimensional(self, shape: &[u64]) -> Result<(usize, usize)> {
        let wrong = |help| self.error(format!("has the shape {}; it must be (rows, columns). {help}", Shape(shape)));
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

    /// Reads `count` labels of the type `scalar`: integers, booleans or floats.
    fn labels(self, reader: impl Read, scalar: Scalar, endian: Endian, count: usize) -> Result<RawLabels> {
        if scalar.is_float() {
            let floats = scalar::read_doubles(reader, scalar, endian, count);
            return floats.map(RawLabels::Floats).map_err(|error| self.unreadable(&error));
        }
        let numbers = scalar::read_integers(reader, scalar, endian, count).map_err(|error| self.unreadable(&error))?;
        let numbers = numbers.map_err(|(row, value)| {
            self.error(format!("is {value} at row {row}, beyond the range of 64-bit signed integers; save strings"))
        })?;
        Ok(if scalar == Scalar::Bool {
            RawLabels::Booleans(numbers.iter().map(|&number| number != 0).collect())
        } else {
            RawLabels::Integers(numbers)
        })
    }

    /// Converts the provenance of points to flags: true for `picked`, false for `random`. The first word belongs to row
    /// `first` of the file, for messages.
    fn picked(self, words: Option<&[String]>, first: usize) -> Result<Option<Vec<bool>>> {
        let of = |(row, word): (usize, &String)| {
            is_picked(word).map_err(|problem| self.error(format!("at row {}: {problem}", first + row)))
        };
        words.map(|words| words.iter().enumerate().map(of).collect()).transpose()
    }

    /// Converts values to class names or ids, and returns them with their type. Strings stay strings, and an integer
    /// becomes its decimal digits. Floats and booleans are an error.
    fn names(self, labels: RawLabels) -> Result<(Vec<String>, Kind)> {
        match labels {
            RawLabels::Names(names) => Ok((names, Kind::Text)),
            RawLabels::Integers(numbers) => Ok((numbers.iter().map(ToString::to_string).collect(), Kind::Integer)),
            RawLabels::Booleans(_) | RawLabels::Floats(_) => {
                Err(self.error(format!("holds {}; names must be integers or strings", labels.kind().plural())))
            }
        }
    }
}

/// The shape of an array, which is displayed as Python prints it, for example `(3, 2)`.
struct Shape<'a>(&'a [u64]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "({sizes}{})", if self.0.len() == 1 { "," } else { "" })
    }
}
