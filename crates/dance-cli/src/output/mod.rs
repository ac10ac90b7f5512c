//! Where results go: stdout or a file that appears whole or not at all, in one of four formats.

mod csv;
mod frame;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::bail;
use dance::whole_file::WholeFile;

pub(crate) use frame::{Column, Frame};

/// What rows are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Jsonl,
    Csv,
    Parquet,
    Npz,
}

/// Stdout (`-`) or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf, Format),
}

impl Destination {
    /// Decides by the name alone.
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let format = match path.extension().unwrap_or_default().to_string_lossy().to_lowercase().as_str() {
            "jsonl" | "ndjson" => Format::Jsonl,
            "csv" => Format::Csv,
            "parquet" if cfg!(feature = "parquet") => Format::Parquet,
            "parquet" => bail!("{}: this build cannot write Parquet", path.display()),
            "npz" => Format::Npz,
            _ => bail!(
                "{}: cannot tell the format to write by its name; use .jsonl, .csv, .parquet or .npz, or `-` for \
                 JSON lines on stdout",
                path.display()
            ),
        };
        Ok(Self::File(path.to_owned(), format))
    }
}

/// Writes a frame to a file. It is made in memory, where nothing fails: what a disk says then reaches the user as the disk's
/// words, not as a library's.
pub(crate) fn write_frame(path: &Path, format: Format, frame: &Frame) -> anyhow::Result<()> {
    let mut out = Cursor::new(Vec::new());
    match format {
        Format::Csv => csv::write(&mut out, frame),
        Format::Npz => npz::write(&mut out, frame),
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::write(&mut out, frame),
        _ => Err(anyhow::anyhow!("cannot be written in this format")),
    }
    .map_err(|error| error.context(path.display().to_string()))?;
    Ok(WholeFile::write(path, out.get_ref())?)
}
