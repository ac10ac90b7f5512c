//! `dance audit`: what is wrong with a labelled set.

mod page;
mod report;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use dance::model::{Audit as Found, AuditOptions};
use dance::whole_file::WholeFile;
use dance::{Dance, Dataset};
use dance_page::terminal;

use crate::args::Shared;
use crate::data::{Columns, check_there};
use crate::output::{Format, write_frame};
use crate::parse;
use crate::places;
use crate::progress::Progress;
use report::Report;

pub(crate) const EXAMPLE: &str = "Example:
  dance audit data.npz -o audit
  dance audit new.npz --model model.dance -o audit --fdr 0.05
  dance audit data.csv --parts split -o audit

Writes index.html, audit.json and findings.csv: labels that are probably wrong, with the label that fits and the nearest points;
groups of near copies; points far from all others; classes that are taken for each other; classes that are two, with the points
that stand for each; classes too rare to say anything about; and whether rows are in random order. Every label is judged by all other points.
Copies across parts (of --parts, and the fit and the calibration part of a model) come first. With a model they are also looked for in
the metric that it has learned, where what it cannot tell apart is the same, and among its own points; in disjoint mode a model keeps no
calibration points, and only equal ones are found.
--fdr is the share of right labels in the list of wrong ones (and of classes that are one in the list of those that are two, whose
test holds for any number of points). Without a model it is an estimate, which holds if right labels fall as class probabilities
say, or on the nearer half of the classes, and errors on all alike; errors between near classes cannot be told from hard points and
stay out of the list. With a model whose calibration points are labelled right the list is that of Benjamini and Hochberg on
conformal p-values, for which the rate is proved in disjoint mode.";

/// Probability of calling a random order none.
const FALSE_ALARM: f64 = 0.01;

#[derive(Args, Debug)]
pub(crate) struct Audit {
    /// Embeddings with labels
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// The folder for the report
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// A model whose calibration points are labelled right: they judge the labels. Copies of its points are found too
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Column or array that says which part a row is in (train, test): near copies across parts come first
    #[arg(long, value_name = "NAME")]
    parts: Option<String>,
    /// Share of right labels in the list of wrong ones
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = parse::alpha, allow_hyphen_values = true)]
    fdr: f64,
    #[command(flatten)]
    columns: Columns,
}

impl Audit {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        self.columns.check(&self.data)?;
        if let Some(model) = &self.model {
            check_there(model)?;
        }
        let made = !self.output.exists();
        fs::create_dir_all(&self.output)
            .with_context(|| format!("could not create {}", self.output.display()))?;
        let done = self.audit(shared);
        if done.is_err() && made {
            fs::remove_dir(&self.output).ok(); // only if it is empty, and what went wrong is said already
        }
        done
    }

    /// Into a folder that is there.
    fn audit(&self, shared: &Shared) -> anyhow::Result<()> {
        let files = ["audit.json", "findings.csv", "index.html"].map(|name| self.output.join(name));
        let inputs = [
            Some(&*self.data),
            self.model.as_deref(),
            self.columns.labels.as_deref(),
            shared.config.as_deref(),
        ];
        places::check(&inputs, &files.each_ref().map(|file| Some(&**file)))?;
        let progress = Progress::new(shared);
        progress.begin("auditing");
        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let model = self.model.as_ref().map(|path| Dance::load(device, path, &context)).transpose()?;
        let known = model.as_ref().map_or(&[][..], Dance::classes);
        let columns = self.columns.beside(self.parts.as_ref());
        let data: Dataset = columns.dataset(&self.data, known, &progress)?;
        let help = "Name one that is there with --parts";
        let of_parts = |name: &String| columns.words(&self.data, name, help, &data);
        let parts = self.parts.as_ref().map(of_parts).transpose()?;
        let options = AuditOptions {
            fdr: self.fdr,
            false_alarm: FALSE_ALARM,
            seed: shared.seed,
            parts: parts.as_deref(),
        };
        let found = Found::new(device, &data, model.as_ref(), options, &context)
            .with_context(|| self.data.display().to_string())?;
        progress.finish();
        let report = Report {
            data: &data,
            name: self.data.display().to_string(),
            model: self.model.as_deref().and_then(Path::file_name).map(|name| name.display().to_string()),
            parts: parts.as_deref(),
            found: &found,
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
        for (what, value) in report.summary() {
            writeln!(out, "  {what:<20} {value}")?;
        }
        writeln!(out, "{}: index.html, audit.json, findings.csv", self.output.display())?;
        Ok(())
    }
}
