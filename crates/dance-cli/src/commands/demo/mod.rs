//! `dance demo`: fit, calibration and evaluation on the data set that ships with dance, explained.

mod page;
mod story;
mod words;

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use dance::data::io::read_npz_bytes;
use dance::whole_file::{self, WholeFile};
use dance_page::terminal;

use crate::args::Shared;
use crate::data::Columns;
use crate::parse;
use crate::path_conflicts;
use crate::progress::Progress;
use story::Story;

pub(crate) const EXAMPLE: &str = "Example:
  dance demo
  dance demo --seed 1 --report seed1.html
  dance demo mine.npz

The data set that ships with dance: 4,800 WordNet definitions of 24 lexical fields, embedded with
MiniLM.";

/// The data set, which is part of the binary.
pub(super) static SHIPPED: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/wordnet_minilm.npz"));
pub(super) const SHIPPED_NAME: &str = "wordnet_minilm.npz";
const DEFAULT_REPORT: &str = "dance-demo.html";
/// The longest report in bytes that is read to look for the mark; reports have a few hundred thousand.
const LONGEST_REPORT: u64 = 1 << 26;

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// File of embeddings with labels, instead of the data set that ships with dance
    #[arg(value_name = "DATA")]
    data: Option<PathBuf>,
    /// Settings to try in the search for bandwidth and shape
    #[arg(long, default_value_t = 25, value_name = "N", value_parser = parse::at_least_one)]
    evaluations: usize,
    /// HTML report to write [default: dance-demo.html, unless another file has that name]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        let progress = Progress::new(shared);
        let report = self.report_path(&progress)?;
        path_conflicts::check(&[self.data.as_deref(), shared.config.as_deref()], &[report.as_deref()])?;
        let (name, data) = match &self.data {
            None => (SHIPPED_NAME.into(), read_npz_bytes(SHIPPED_NAME, SHIPPED)?.into_dataset()?),
            Some(path) => {
                let columns = Columns::default();
                columns.check(path)?;
                (path.display().to_string(), columns.dataset(path, &[], &progress)?)
            }
        };
        let story = Story::new(name, &data, self.evaluations, shared, &progress)?;
        progress.finish();
        if let Some(path) = &report {
            WholeFile::write(path, page::of(&story).as_bytes())?;
        }
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{}", words::json(&story, report.as_deref(), &progress.warnings()))?;
        } else {
            words::write(&mut out, &story)?;
            if let Some(path) = &report {
                writeln!(out, "\nReport with charts: {}", path.display())?;
            }
        }
        Ok(())
    }

    /// Returns the file for the report. A file that the user named is overwritten. Under the default name, only a
    /// report of the demo is; `None` where the folder cannot be written to.
    fn report_path(&self, progress: &Progress) -> anyhow::Result<Option<PathBuf>> {
        if let Some(path) = &self.report {
            return Ok(Some(path.clone()));
        }
        let path = PathBuf::from(DEFAULT_REPORT);
        match whole_file::read(&path, LONGEST_REPORT) {
            Err(dance::Error::Io { .. }) => {}
            Ok(bytes) if page::is_ours(&bytes) => {}
            _ => {
                bail!("{DEFAULT_REPORT} exists and is not a report of dance demo; name another file with --report FILE")
            }
        }
        if let Err(error) = WholeFile::check(&path) {
            progress.warn(&format!("no report will be written: {error}"));
            return Ok(None);
        }
        Ok(Some(path))
    }
}
