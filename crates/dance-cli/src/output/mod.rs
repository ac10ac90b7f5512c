//! Where results go: stdout or a file that appears whole or not at all, in one of four formats.

mod csv;
mod frames;
mod jsonl;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
mod watched;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dance::whole_file::WholeFile;

pub(crate) use dance::data::{Cells, Column, Frame};
pub(crate) use frames::Frames;
pub(crate) use watched::Watched;

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
        match Format::of(path)? {
            Some(format) => Ok(Self::File(path.to_owned(), format)),
            None => bail!(
                "{}: cannot tell the format to write by its name; use {WRITTEN}, or `-` for JSON lines on stdout",
                path.display()
            ),
        }
    }
}

/// What can be written.
const WRITTEN: &str = ".jsonl, .csv, .parquet or .npz";

impl Format {
    /// By the name of a file; `None` where that says nothing.
    fn of(path: &Path) -> anyhow::Result<Option<Self>> {
        Ok(match path.extension().unwrap_or_default().to_string_lossy().to_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "parquet" if cfg!(feature = "parquet") => Some(Self::Parquet),
            "parquet" => bail!("{}: this build cannot write Parquet", path.display()),
            "npz" => Some(Self::Npz),
            _ => None,
        })
    }

    /// Whether a name is one of a file that could be written.
    pub(crate) fn is_known(path: &Path) -> bool {
        !matches!(Self::of(path), Ok(None))
    }

    /// Of a file that cannot be stdout; `what` goes there.
    pub(crate) fn of_file(path: &Path, what: &str) -> anyhow::Result<Self> {
        match Self::of(path)? {
            Some(format) => Ok(format),
            None => bail!("{}: {what} are written to a file that ends in {WRITTEN}", path.display()),
        }
    }
}

/// Where each list begins, and where the last ends.
fn offsets(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Writes a frame to a file. It is made in memory, where nothing fails: what a disk says then reaches the user as the disk's
/// words, not as a library's.
pub(crate) fn write_frame(path: &Path, format: Format, frame: &Frame) -> anyhow::Result<()> {
    let mut out = Cursor::new(Vec::new());
    match format {
        Format::Jsonl => jsonl::write(&mut out, frame),
        Format::Csv => csv::write(&mut out, frame, true),
        Format::Npz => npz::write(&mut out, frame),
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::write(&mut out, frame),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err(anyhow::anyhow!("this build cannot write Parquet")),
    }
    .with_context(|| path.display().to_string())?;
    Ok(WholeFile::write(path, out.get_ref())?)
}
