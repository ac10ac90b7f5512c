//! Which format a file is in: its name says, or the user does.

use std::path::Path;

use crate::error::{Error, Result};

/// The formats of files of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An archive of `NumPy` arrays.
    Npz,
    /// One `NumPy` array.
    Npy,
    /// Tensors, and metadata as JSON.
    Safetensors,
    /// A table with commas.
    Csv,
    /// A table with tabs.
    Tsv,
    /// Columns of a Parquet file.
    Parquet,
    /// One JSON value per line.
    Jsonl,
}

/// The extensions that [`read`](super::read) knows.
pub const EXTENSIONS: [&str; 7] = ["npz", "npy", "safetensors", "csv", "tsv", "parquet", "jsonl"];

impl Format {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Npz, Self::Npy, Self::Safetensors, Self::Csv, Self::Tsv, Self::Parquet, Self::Jsonl];

    /// By the extension of a file's name; `None` where that says nothing.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_string_lossy().to_lowercase();
        let extension = if extension == "ndjson" { "jsonl" } else { &extension };
        Self::ALL.into_iter().find(|format| format.extension() == extension)
    }

    /// As [`of`](Self::of), with an error that says what can be read.
    pub fn known(path: &Path) -> Result<Self> {
        Self::of(path).ok_or_else(|| {
            let known = EXTENSIONS.map(|extension| format!(".{extension}")).join(", ");
            Error::format(
                path,
                format!("cannot tell its format by its name; {known} can be read, or say it with --format"),
            )
        })
    }

    /// The extension, which is its name too.
    pub fn extension(self) -> &'static str {
        EXTENSIONS[self as usize]
    }
}
