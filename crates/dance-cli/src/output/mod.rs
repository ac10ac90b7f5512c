//! Outputs: stdout, or a file that is written completely or not at all, in one of four formats.

mod csv;
mod frames;
mod jsonl;
mod npz;
mod output_file;
#[cfg(feature = "parquet")]
mod parquet;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dance::whole_file::WholeFile;

pub(crate) use dance_page::frame::{Cells, Column, Frame};
pub(crate) use frames::Frames;
pub(crate) use output_file::OutputFile;

/// The format of an output file.
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
    /// Returns the destination by the name of a file.
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match Format::of(path)? {
            Some(format) => Ok(Self::File(path.to_owned(), format)),
            None => {
                bail!("{}: has no known extension; use {EXTENSIONS}, or `-` for JSON lines on stdout", path.display())
            }
        }
    }
}

/// The extensions of output files.
const EXTENSIONS: &str = ".jsonl, .csv, .parquet or .npz";

impl Format {
    /// Returns the format by the name of a file; `None` for an unknown extension.
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

    /// Returns whether a name has a known extension.
    pub(crate) fn is_known(path: &Path) -> bool {
        !matches!(Self::of(path), Ok(None))
    }

    /// Returns the format of a file that cannot be stdout; messages call its contents `contents`.
    pub(crate) fn of_file(path: &Path, contents: &str) -> anyhow::Result<Self> {
        match Self::of(path)? {
            Some(format) => Ok(format),
            None => bail!("{}: {contents} are written to a file that ends in {EXTENSIONS}", path.display()),
        }
    }
}

/// Returns the start of each list, then the end of the last.
fn offsets(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Writes a frame to a file. The bytes are made in memory first, so that an error of the disk is reported as such and
/// not as one of a format library.
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
