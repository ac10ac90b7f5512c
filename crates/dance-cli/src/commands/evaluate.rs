//! `dance evaluate`: coverage and size of the sets on labelled points.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use dance::Dance;
use dance::evaluation::ProbabilityMetrics;
use dance::model::ModelPart;
use dance_page::terminal;
use dance_page::text::paragraph;
use serde::Serialize;
use serde_json::{Value, json};

use super::Outcome;
use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabeledFile, Truth, check_there};
use crate::evaluation::{
    self as metrics, LEGEND, LEGEND_OF_ALL, LevelMetrics, Predictions, RARE, new_label_text, warn_of_levels,
    write_classes, write_metrics, write_portions,
};
use crate::output::{Format, write_frame};
use crate::parse::{self, Alphas, MinCoverage};
use crate::path_conflicts;
use crate::progress::{Progress, print_line};

pub(crate) const EXAMPLE: &str = "Example:
  dance evaluate model.dance test.npz --alpha 0.1,0.05
  dance evaluate model.dance test.npz --check || echo 'coverage has dropped'
  dance evaluate model.dance test.npz --check=0.1=0.88,0.05=0.93
  dance evaluate model.dance test.npz --classes-out classes.csv

A legend below the table explains its columns, and a sentence says whether chance explains a
difference from 1 - alpha. With --all: even perfect coverage has a CCV above 0 with few points per
class, which is shown as `floor`; SSCV jumps where a group of sets of similar size has few members.
`--json` has every column.";

#[derive(Args, Debug)]
pub(crate) struct Evaluate {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels that neither fitted nor calibrated the model: a file, or a folder or pattern of files
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Error levels [default: those given to `fit`]
    #[arg(long, value_name = "LEVEL,…", value_parser = parse::alphas, allow_hyphen_values = true)]
    alpha: Option<Alphas>,
    /// Exit with status 1 if coverage is too low: lower than chance explains 99 times in 100, or with `=0.9` lower than
    /// 0.9, or with `=0.1=0.88,0.05=0.93` lower than that at each level
    #[arg(
        long, value_name = "COVERAGE", value_parser = parse::min_coverage, num_args = 0..=1, require_equals = true,
        default_missing_value = parse::BY_CHANCE
    )]
    check: Option<MinCoverage>,
    /// Print every column of the table: class coverage, size-stratified coverage and more
    #[arg(long)]
    all: bool,
    /// Write coverage and set size of every class at every level to this file (.csv, .parquet, .npz, .jsonl)
    #[arg(long, value_name = "FILE")]
    classes_out: Option<PathBuf>,
    /// Evaluate N rows, drawn at random in one pass; without it all of DATA are held in memory
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    sample: Option<usize>,
    /// Leave out points that fitted or calibrated the model; otherwise they are reported separately
    #[arg(long)]
    exclude_overlap: bool,
    #[command(flatten)]
    files: LabeledFile,
    #[command(flatten)]
    format: FileFormat,
}

/// The number of points that fitted or calibrated the model.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Overlap {
    fit: usize,
    calibration: usize,
}

impl Overlap {
    fn of(seen: &[Option<ModelPart>]) -> Self {
        let count = |of: ModelPart| seen.iter().filter(|seen| **seen == Some(of)).count();
        Self { fit: count(ModelPart::FitPoint), calibration: count(ModelPart::CalibrationPoint) }
    }

    fn all(self) -> usize {
        self.fit + self.calibration
    }
}

/// Metrics of the points, and what else a report needs.
struct Report {
    points: usize,
    overlap: Overlap,
    levels: Vec<LevelMetrics>,
    /// The points without those of the model, where there are points of both kinds.
    new_points: usize,
    without_overlap: Option<Vec<LevelMetrics>>,
    probabilities: Option<ProbabilityMetrics>,
    /// The classes with the lowest coverage, as text.
    classes: String,
    failures: Vec<String>,
}

impl Evaluate {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&self.format)
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        check_there(&self.model)?;
        self.columns().check(&self.data)?;
        let classes_out = self.checked_output(shared)?;
        let progress = Progress::new(shared);
        progress.begin("evaluating");
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let report = self.evaluate(&model, classes_out.as_ref(), shared, &progress, &context)?;
        progress.finish();

        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{}", self.json(&model, &report, &progress))?;
        } else {
            self.write(&mut out, &model, &report)?;
        }
        for failure in &report.failures {
            print_line(&format!("dance: {failure}"));
        }
        Ok(if report.failures.is_empty() { Outcome::Fine } else { Outcome::CheckFailed })
    }

    fn evaluate(
        &self,
        model: &Dance,
        classes_out: Option<&(PathBuf, Format)>,
        shared: &Shared,
        progress: &Progress,
        context: &dance::Context<'_>,
    ) -> anyhow::Result<Report> {
        let table = self.columns().table_for(&self.data, model, self.sample, shared.seed, progress)?;
        let truth = Truth::new(model, &table)?;
        if let Some(warning) = &truth.warning {
            progress.warn(warning);
        }
        let points = table.embeddings();
        let picked = table.picked.iter().flatten().filter(|&&picked| picked).count();
        if picked > 0 {
            progress.warn(&format!(
                "{picked} of {} points were picked: their coverage differs from that of randomly drawn points",
                points.rows()
            ));
        }
        let alphas = Alphas::or_of(self.alpha.as_ref(), model);
        self.check_levels(&alphas)?;
        warn_of_levels(model, &alphas.0, progress)?;

        // Points of the model itself say nothing about new points.
        let in_data = || self.data.display().to_string();
        let seen = model.seen(points).with_context(in_data)?;
        let overlap = Overlap::of(&seen);
        let new: Vec<usize> = (0..points.rows()).filter(|&row| seen[row].is_none()).collect();
        if overlap.all() > 0 {
            progress.warn(&overlap_warning(overlap, points.rows(), self.exclude_overlap));
        }
        if (self.exclude_overlap || self.is_checked()) && new.is_empty() {
            bail!("{}: every point fitted or calibrated the model; nothing is left to evaluate", in_data());
        }
        let every: Vec<usize> = (0..points.rows()).collect();
        let rows = if self.exclude_overlap { &new } else { &every };
        let both = !self.exclude_overlap && overlap.all() > 0 && !new.is_empty();

        // The points are scored once and evaluated twice: all of them, and those that are new to the model.
        let predictions = Predictions::new(model, points, &alphas, context).with_context(in_data)?;
        let levels = predictions.evaluate(&truth, rows)?;
        let without_overlap = if both { Some(predictions.evaluate(&truth, &new)?) } else { None };
        if let Some((path, format)) = classes_out {
            write_frame(path, *format, &predictions.per_class(&truth, rows))?;
        }
        let probabilities = predictions.evaluate_probabilities(&truth, rows)?;
        let mut classes = Vec::new();
        write_classes(&mut classes, &predictions, &truth, if both { &new } else { rows })?;
        let failures = self.failures(without_overlap.as_ref().unwrap_or(&levels));
        Ok(Report {
            points: rows.len(),
            overlap,
            levels,
            new_points: new.len(),
            without_overlap,
            probabilities,
            classes: String::from_utf8_lossy(&classes).into_owned(),
            failures,
        })
    }

    /// Refuses a check of a level that is not evaluated.
    fn check_levels(&self, alphas: &Alphas) -> anyhow::Result<()> {
        let levels = self.check.iter().flat_map(MinCoverage::levels);
        match levels.into_iter().find(|level| !alphas.0.contains(level)) {
            Some(level) => bail!("--check={level}=…: {level} is not among the levels of --alpha; add it there"),
            None => Ok(()),
        }
    }

    fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    fn json(&self, model: &Dance, report: &Report, progress: &Progress) -> Value {
        json!({
            "model": self.model.display().to_string(),
            "data": self.data.display().to_string(),
            "guarantee": model.guarantee(),
            "overlap": report.overlap,
            "levels": report.levels,
            "levels_without_overlap": report.without_overlap,
            "probabilities": report.probabilities.as_ref().map(|metrics| json!({
                "log_loss": metrics.log_loss(),
                "brier": metrics.brier(),
                "calibration_error": metrics.calibration_error(),
            })),
            "check": self.check.as_ref().map(ToString::to_string),
            "passed": self.is_checked().then_some(report.failures.is_empty()),
            "warnings": progress.warnings(),
        })
    }

    fn write(&self, out: &mut dyn Write, model: &Dance, report: &Report) -> std::io::Result<()> {
        let columns = if self.all { metrics::Columns::All } else { metrics::Columns::Few };
        writeln!(out, "{} points of {}", report.points, self.data.display())?;
        write_metrics(out, &report.levels, columns)?;
        if let Some(levels) = &report.without_overlap {
            writeln!(out, "\nthe {} points that neither fitted nor calibrated the model", report.new_points)?;
            write_metrics(out, levels, columns)?;
        }
        writeln!(out)?;
        write_portions(out, report.without_overlap.as_ref().unwrap_or(&report.levels), columns)?;
        out.write_all(report.classes.as_bytes())?;
        writeln!(out, "\n{LEGEND}")?;
        if self.all {
            writeln!(out, "{LEGEND_OF_ALL}")?;
        }
        if let Some(metrics) = &report.probabilities {
            writeln!(
                out,
                "  Class probabilities: log loss {:.3}, Brier score {:.3}, expected calibration error {:.3} (too large
  with few points).",
                metrics.log_loss(),
                metrics.brier(),
                metrics.calibration_error()
            )?;
        }
        if let Some(text) = new_label_text(model) {
            writeln!(out, "{}", paragraph("  New labels: ", &text))?;
        }
        writeln!(out, "{}", paragraph("  guarantee: ", &model.guarantee()))
    }

    /// Refuses wrong options before anything is read, and returns the file for `--classes-out`.
    fn checked_output(&self, shared: &Shared) -> anyhow::Result<Option<(PathBuf, Format)>> {
        let Some(path) = &self.classes_out else { return Ok(None) };
        let format = Format::of_file(path, "classes")?;
        let inputs = [Some(&*self.model), Some(&self.data), self.files.labels.as_deref(), shared.config.as_deref()];
        path_conflicts::check(&inputs, &[Some(path)])?;
        Ok(Some((path.clone(), format)))
    }

    /// Returns a message for every check that failed.
    fn failures(&self, levels: &[LevelMetrics]) -> Vec<String> {
        let mut failures = Vec::new();
        for LevelMetrics { metrics, as_low, .. } in levels {
            let (alpha, coverage) = (metrics.alpha, metrics.coverage);
            let least = self.check.as_ref().and_then(|least| least.at(alpha));
            if let Some(least) = least.filter(|&least| coverage < least) {
                failures.push(format!("alpha {alpha}: coverage {coverage:.4} is below {least}"));
            }
            if self.check == Some(MinCoverage::ByChance) && *as_low < RARE {
                failures.push(format!(
                    "alpha {alpha}: coverage {coverage:.4} is below what chance explains: by chance it is this \
                     low once in {:.0} times",
                    1.0 / as_low.max(1e-9)
                ));
            }
        }
        failures
    }
}

fn overlap_warning(overlap: Overlap, points: usize, excluded: bool) -> String {
    let Overlap { fit, calibration } = overlap;
    let effect = if excluded {
        "they are left out"
    } else {
        "their coverage says nothing about new points; --exclude-overlap leaves them out"
    };
    format!(
        "{} of the {points} points belong to the model ({fit} fitted it, {calibration} calibrated it): {effect}",
        overlap.all()
    )
}
