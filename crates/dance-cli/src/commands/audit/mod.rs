//! `dance audit`: faults of labelled points.

mod page;
mod report;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use dance::model::{self, AuditOptions};
use dance::whole_file::WholeFile;
use dance::{Dance, Dataset};
use dance_page::terminal;

use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabeledFile, check_there};
use crate::output::{Format, write_frame};
use crate::parse;
use crate::path_conflicts;
use crate::progress::Progress;
use report::Report;

pub(crate) const EXAMPLE: &str = "Example:
  dance audit data.npz -o audit
  dance audit new.npz --model model.dance -o audit --fdr 0.05
  dance audit data.csv --parts split -o audit

Writes index.html, audit.json and findings.csv with:
  - labels that are probably wrong, by all other points, with the label that fits
  - groups of near copies; copies across parts (--parts, or the model's own parts) come first
  - outliers, points far from all others
  - pairs of classes that are confused with each other
  - classes of two separate groups, with typical points of each
  - classes too rare for any statement
  - a test of whether rows are in random order

With --model, copies are also looked for in the model's learned metric and among the model's
points. A model with split calibration does not keep its calibration points, so only equal points
are found among them.

--fdr is the false discovery rate: the expected share of right labels in the list of wrong ones,
and of undivided classes in the list of divided ones. Without a model the rate for labels is an
estimate. It assumes that right labels follow the class probabilities, or lie in the nearer half
of the classes, and that errors are uniform over classes. Errors between close classes look like
ambiguous points and are not listed. With a model whose calibration labels are right, the list
comes from the procedure of Benjamini and Hochberg on conformal p-values; its rate is proved for
split calibration.";

/// Probability of reporting a random order as not random.
const FALSE_ALARM: f64 = 0.01;

#[derive(Args, Debug)]
pub(crate) struct Audit {
    /// Embeddings with labels
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Folder for the report
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Model whose calibration labels are right: labels are tested by its p-values, and copies of its points are found
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Column or array with the part of each row (train, test): near copies across parts come first
    #[arg(long, value_name = "NAME")]
    parts: Option<String>,
    /// False discovery rate: the expected share of right labels in the list of wrong ones
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = parse::alpha, allow_hyphen_values = true)]
    fdr: f64,
    #[command(flatten)]
    files: LabeledFile,
}

impl Audit {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&FileFormat::default())
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        self.columns().check(&self.data)?;
        if let Some(model) = &self.model {
            check_there(model)?;
        }
        let is_new = !self.output.exists();
        fs::create_dir_all(&self.output).with_context(|| format!("could not create {}", self.output.display()))?;
        let result = self.audit(shared);
        if result.is_err() && is_new {
            fs::remove_dir(&self.output).ok(); // fails if the folder is not empty
        }
        result
    }

    /// Writes the report into the folder, which exists.
    fn audit(&self, shared: &Shared) -> anyhow::Result<()> {
        let files = ["audit.json", "findings.csv", "index.html"].map(|name| self.output.join(name));
        let inputs = [Some(&*self.data), self.model.as_deref(), self.files.labels.as_deref(), shared.config.as_deref()];
        path_conflicts::check(&inputs, &files.each_ref().map(|file| Some(&**file)))?;
        let progress = Progress::new(shared);
        progress.begin("auditing");
        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let model = self.model.as_ref().map(|path| Dance::load(device, path, &context)).transpose()?;
        let known = model.as_ref().map_or(&[][..], Dance::classes);
        let columns = self.columns().beside(self.parts.as_ref());
        let data: Dataset = columns.dataset(&self.data, known, &progress)?;
        let help = "Name an existing column with --parts";
        let read_parts = |name: &String| columns.words(&self.data, name, help, &data);
        let parts = self.parts.as_ref().map(read_parts).transpose()?;
        let options =
            AuditOptions { fdr: self.fdr, false_alarm: FALSE_ALARM, seed: shared.seed, parts: parts.as_deref() };
        let audit = model::Audit::new(device, &data, model.as_ref(), options, &context)
            .with_context(|| self.data.display().to_string())?;
        progress.finish();

        // The same report as JSON, as a table and as a page.
        let report = Report {
            data: &data,
            name: self.data.display().to_string(),
            model: self.model.as_deref().and_then(Path::file_name).map(|name| name.display().to_string()),
            parts: parts.as_deref(),
            audit: &audit,
            fdr: self.fdr,
        };
        let json = report.json(&progress.warnings());
        WholeFile::write(&files[0], format!("{json}\n").as_bytes())?;
        write_frame(&files[1], Format::Csv, &report.frame())?;
        WholeFile::write(&files[2], page::page(&report).as_bytes())?;
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{json}")?;
            return Ok(());
        }
        writeln!(out, "{} points of {}", data.len(), self.data.display())?;
        for (name, value) in report.summary() {
            writeln!(out, "  {name:<20} {value}")?;
        }
        writeln!(out, "{}: index.html, audit.json, findings.csv", self.output.display())?;
        Ok(())
    }
}
