//! Reading embeddings, and what comes with them, from files. The extension says which format it is:
//!
//! | Extension | Embeddings | Labels | Also |
//! |---|---|---|---|
//! | `.npz` | array `embeddings`, `(points, dimensions)` | array `labels` | arrays `class_names`, `ids`, `prototypes` |
//! | `.npy` | the array | a second file, [`ReadOptions::labels`] | |
//! | `.safetensors` | tensor `embeddings` | tensor `labels` | tensor `prototypes`; `class_names` and `ids` as JSON arrays of strings in the metadata |
//! | `.csv`, `.tsv` | every column that is not the label or the id, one per dimension | column `label` | column `id` |
//! | `.parquet` | column `embedding` (or `embeddings`), a list of numbers | column `label` | column `id` |
//!
//! Embeddings may be 16-, 32- or 64-bit floats (bfloat16 in safetensors; integers of any width in `NumPy` files and
//! safetensors); they are kept as `f32`, and a number beyond its range is refused as not finite. Labels are integers,
//! booleans or strings. In a text file labels are integers if every one is written the way an integer prints, and
//! strings otherwise: one `007` or `+1` makes them all strings, since it could not be told from `7` or `1` afterwards.
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

pub use csv_cell::csv_safe;
#[cfg(feature = "parquet")]
pub use parquet_fields::ParquetFields;

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use self::scalar::{Endian, Scalar};
use crate::data::Table;
use crate::error::{Error, Result};

mod budget;
mod csv;
mod csv_cell;
mod labels;
mod npy_header;
mod numpy;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_delta;
#[cfg(feature = "parquet")]
mod parquet_fields;
#[cfg(feature = "parquet")]
mod parquet_footer;
#[cfg(feature = "parquet")]
mod parquet_pages;
mod safetensors;
mod scalar;

/// The extensions that [`read`] knows.
pub const EXTENSIONS: [&str; 6] = ["npz", "npy", "safetensors", "csv", "tsv", "parquet"];

/// Where in a file things are, when they are not where they usually are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// A file with the labels, one per row of the embeddings, in place of labels that the embeddings' file may hold: a
    /// 1-d `.npy` array, a `.txt` with one label per line, or a `.csv` or `.tsv`, either with the column `label_column`
    /// or without a header and with one label per line.
    pub labels: Option<PathBuf>,
    /// The column of labels in a CSV, TSV or Parquet file. `label`, the default, may be missing; then there are no
    /// labels. Any other must be there.
    pub label_column: String,
    /// The column of ids in a CSV, TSV or Parquet file, which must be there. `None` takes `id`, if there is one.
    pub id_column: Option<String>,
}

const LABEL_COLUMN: &str = "label";
const ID_COLUMN: &str = "id";

impl Default for ReadOptions {
    fn default() -> Self {
        Self { labels: None, label_column: LABEL_COLUMN.into(), id_column: None }
    }
}

/// Reads and checks a file of embeddings; its extension says what it is.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Table> {
    let path = path.as_ref();
    let file = open(path)?;
    let mut table = match extension(path).as_str() {
        "npz" => numpy::read_npz(path, file)?,
        "npy" => numpy::read_npy(path, &file)?,
        "safetensors" => safetensors::read(path, &file)?,
        "csv" => csv::read(path, file, b',', options)?,
        "tsv" => csv::read(path, file, b'\t', options)?,
        "parquet" => read_parquet(path, file, options)?,
        _ => {
            let known = EXTENSIONS.map(|extension| format!(".{extension}")).join(", ");
            return Err(Error::format(
                path,
                format!("cannot tell its format by its name; {known} can be read"),
            ));
        }
    };
    if let Some(labels) = &options.labels {
        table.labels = Some(labels::read(labels, &options.label_column)?);
    }
    table.checked()
}

/// Reads and checks the contents of an `.npz` file that is already in memory; `origin` names it in messages.
pub fn read_npz_bytes(origin: &str, contents: &[u8]) -> Result<Table> {
    let size = contents.len() as u64;
    numpy::read_archive(Path::new(origin), std::io::Cursor::new(contents), size)?.checked()
}

#[cfg(feature = "parquet")]
use self::parquet::read as read_parquet;

#[cfg(not(feature = "parquet"))]
fn read_parquet(path: &Path, _: File, _: &ReadOptions) -> Result<Table> {
    Err(Error::format(
        path,
        "this build cannot read Parquet; build with the feature `parquet`, or save the embeddings as .npz",
    ))
}

fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// Opens a regular file whose first bytes do not belong to another format.
fn open(path: &Path) -> Result<File> {
    let wrong = |problem: &str| Error::format(path, problem);
    // Before opening, which would wait for the other end of a pipe.
    let metadata = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
    if metadata.is_dir() {
        return Err(wrong("is a directory; name a file in it"));
    }
    if !metadata.is_file() {
        return Err(wrong("is not a regular file; save the data to one"));
    }
    if metadata.len() == 0 {
        return Err(wrong("is empty (0 bytes); whatever wrote it did not finish. Save it again"));
    }
    let mut file = File::open(path).map_err(|error| Error::io(path, error))?;
    let mut head = Vec::new();
    file.by_ref().take(9).read_to_end(&mut head).map_err(|error| Error::io(path, error))?;
    file.rewind().map_err(|error| Error::io(path, error))?;
    let extension = extension(path);
    let begins = sniff(&head);
    if begins.is_some_and(|(_, of)| of == extension) {
        return Ok(file);
    }
    let needed = match extension.as_str() {
        "npy" => Some("does not begin as an .npy file does; save it with np.save(path, arr)"),
        "npz" => Some("does not begin as an .npz file does (a zip archive); save it with np.savez"),
        "parquet" if !head.starts_with(b"PAR1") => {
            Some("does not begin as a Parquet file does (PAR1); save it again")
        }
        _ => None,
    };
    // The first 8 bytes of a safetensors file are a length and may look like anything.
    let free = extension == "safetensors" && head.get(8) == Some(&b'{');
    match (begins, needed) {
        (Some((what, _)), _) if !free && (EXTENSIONS.contains(&extension.as_str()) || extension == "txt") => {
            Err(wrong(&format!(
                "is called .{extension} but begins like {what}; give it the right extension or save it again"
            )))
        }
        (None, Some(problem)) => Err(wrong(problem)),
        _ => Ok(file),
    }
}

/// What a file with these first bytes is, and its extension.
fn sniff(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const KNOWN: [(&[u8], &str, &str); 7] = [
        (npy_header::MAGIC, "a NumPy array (.npy)", "npy"),
        (b"PK\x03\x04", "a zip archive (.npz?)", "npz"),
        (b"PK\x05\x06", "an empty zip archive", "npz"),
        (b"PAR1\x15", "a Parquet file", "parquet"),
        (b"\x89HDF", "an HDF5 file", "h5"),
        (b"\x1f\x8b", "a gzip-compressed file", "gz"),
        (b"\x80\x04\x95", "a Python pickle", "pkl"),
    ];
    KNOWN.iter().find(|(magic, ..)| head.starts_with(magic)).map(|&(_, what, extension)| (what, extension))
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

    /// Reads labels or ids, which must be integers.
    fn integers(self, reader: impl Read, scalar: Scalar, endian: Endian, count: usize) -> Result<Vec<i64>> {
        if scalar.is_float() {
            return Err(self.error(format!(
                "holds {}; integers, booleans or strings are needed. Save arr.astype('int64')",
                scalar.name()
            )));
        }
        let numbers =
            scalar::read_integers(reader, scalar, endian, count).map_err(|error| self.unreadable(&error))?;
        numbers.map_err(|(row, value)| {
            self.error(format!(
                "is {value} at row {row}, beyond the range of 64-bit signed integers; save strings"
            ))
        })
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
