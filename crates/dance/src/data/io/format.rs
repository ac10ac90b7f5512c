//! File formats of embeddings, which the extension of a file determines.

use std::path::Path;

use crate::error::{Error, Result};

/// The formats of files of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An archive of `NumPy` arrays.
    Npz,
    /// One `NumPy` array.
    Npy,
    /// Tensors with metadata as JSON.
    Safetensors,
    /// A text table with commas.
    Csv,
    /// A text table with tabs.
    Tsv,
    /// A Parquet file.
    Parquet,
    /// One JSON value per line.
    Jsonl,
}

/// The extensions of the formats that [`read`](super::read) supports.
pub const EXTENSIONS: [&str; 7] = ["npz", "npy", "safetensors", "csv", "tsv", "parquet", "jsonl"];

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Npz, Self::Npy, Self::Safetensors, Self::Csv, Self::Tsv, Self::Parquet, Self::Jsonl];

    /// Returns the format for the extension of a path; `None` for an unknown extension.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_string_lossy().to_lowercase();
        let extension = if extension == "ndjson" { "jsonl" } else { &extension };
        Self::ALL.into_iter().find(|format| format.extension() == extension)
    }

    /// Returns the format for the extension of a path, or an error that lists the supported extensions.
    pub fn known(path: &Path) -> Result<Self> {
        Self::of(path).ok_or_else(|| {
            let known = EXTENSIONS.map(|extension| format!(".{extension}")).join(", ");
            Error::format(
                path,
                format!("has no known extension; {known} can be read, or choose the format by the setting `format`"),
            )
        })
    }

    /// Returns the extension of files in this format, which is also the format's name.
    pub fn extension(self) -> &'static str {
        EXTENSIONS[self as usize]
    }
}
