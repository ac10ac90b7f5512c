//! `dance demo`: the whole story on the data set that ships with dance.

mod page;
mod story;
mod words;

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use dance::Dataset;
use dance::data::io::read_npz_bytes;
use dance::whole_file::{self, WholeFile};
use dance_page::terminal;

use crate::args::Shared;
use crate::data::Columns;
use crate::parse;
use crate::places;
use crate::progress::Progress;
use story::Story;

pub(crate) const EXAMPLE: &str = "Example:
  dance demo
  dance demo --seed 1 --report seed1.html
  dance demo mine.npz

The data that ships with dance: 4,800 WordNet definitions of 24 lexical fields, embedded with MiniLM (data/README.md).";

/// The data set is part of the binary, so that an installed one has it as well.
pub(super) static SHIPPED: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/wordnet_minilm.npz"));
pub(super) const SHIPPED_NAME: &str = "wordnet_minilm.npz";
const DEFAULT_REPORT: &str = "dance-demo.html";
/// In bytes; ours are a few hundred thousand.
const LONGEST_REPORT: u64 = 1 << 26;

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Data to use in place of the data set that ships with dance
    #[arg(value_name = "DATA")]
    data: Option<PathBuf>,
    #[command(flatten)]
    columns: Columns,
    /// Settings to try in the search for bandwidth and shape
    #[arg(long, default_value_t = 25, value_name = "N", value_parser = parse::at_least_one)]
    evaluations: usize,
    /// Where the HTML report goes [default: dance-demo.html, unless something else has that name]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        let progress = Progress::new(shared);
        let report = self.report_path(&progress)?;
        places::check(&[self.data.as_deref(), shared.config.as_deref()], &[report.as_deref()])?;
        let (name, data) = self.read(&progress)?;
        let story = Story::new(name, &data, self.evaluations, shared, &progress)?;
        progress.finish();
        if let Some(path) = &report {
            WholeFile::write(path, page::of(&story).as_bytes())?;
        }
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{}", words::json(&story, report.as_deref(), &progress.warnings()))?;
        } else {
            words::tell(&mut out, &story)?;
            if let Some(path) = &report {
                writeln!(out, "\nThe same with charts: {}", path.display())?;
            }
        }
        Ok(())
    }

    /// Where the report may go. A file the user named is the user's choice; under our own name only a report of ours is
    /// replaced, and a folder that cannot be written to costs the report, not the demo.
    fn report_path(&self, progress: &Progress) -> anyhow::Result<Option<PathBuf>> {
        if let Some(path) = &self.report {
            return Ok(Some(path.clone()));
        }
        let path = PathBuf::from(DEFAULT_REPORT);
        match whole_file::read(&path, LONGEST_REPORT) {
            Err(dance::Error::Io { .. }) => {}
            Ok(bytes) if page::is_ours(&bytes) => {}
            _ => {
                bail!(
                    "{DEFAULT_REPORT} exists and is no report of dance; name another place with --report FILE"
                )
            }
        }
        if let Err(error) = WholeFile::check(&path) {
            progress.warn(&format!("no report will be written: {error}"));
            return Ok(None);
        }
        Ok(Some(path))
    }

    fn read(&self, progress: &Progress) -> anyhow::Result<(String, Dataset)> {
        let Some(path) = &self.data else {
            let table = read_npz_bytes(SHIPPED_NAME, SHIPPED)?;
            return Ok((SHIPPED_NAME.into(), table.into_dataset()?));
        };
        self.columns.check(path)?;
        Ok((path.display().to_string(), self.columns.dataset(path, &[], progress)?))
    }
}
