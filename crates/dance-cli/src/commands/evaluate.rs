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
use crate::data::{Columns, Truth, check_there};
use crate::evaluation::{
    LEGEND, LevelMetrics, Predictions, new_label_text, warn_of_levels, write_metrics, write_portions,
};
use crate::output::{Format, write_frame};
use crate::parse::{self, Alphas, MinCoverage};
use crate::path_conflicts;
use crate::progress::{Progress, print_line};

pub(crate) const EXAMPLE: &str = "Example:
  dance evaluate model.dance test.npz --alpha 0.1,0.05
  dance evaluate model.dance test.npz --check || echo 'coverage has dropped'
  dance evaluate model.dance test.npz --min-coverage 0.1=0.88,0.05=0.93
  dance evaluate model.dance test.npz --per-class classes.csv

A legend below the table explains its columns. With few points per class even perfect coverage has
a CCV above 0, which is shown as `floor`. SSCV jumps where a group of sets of similar size has few
members. `mix` (method dance) is the share of alpha for the contrastive score. `--json` also has
the mean coverage of the classes.";

#[derive(Args, Debug)]
pub(crate) struct Evaluate {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels that neither fitted nor calibrated the model: a file, or a folder or pattern of files
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Error levels
    #[arg(
        long, value_name = "LEVELS", default_value = "0.1,0.05", value_parser = parse::alphas,
        allow_hyphen_values = true
    )]
    alpha: Alphas,
    /// Exit with status 1 if coverage is below this share: one for all levels, or one for each
    #[arg(long, value_name = "X|LEVEL=X,…", value_parser = parse::min_coverage)]
    min_coverage: Option<MinCoverage>,
    /// Write coverage and set size of every class at every level to this file (.csv, .parquet, .npz, .jsonl)
    #[arg(long, value_name = "FILE")]
    per_class: Option<PathBuf>,
    /// Exit with status 1 if, at any level, coverage is so low that chance explains it less than once in a hundred
    /// times
    #[arg(long)]
    check: bool,
    /// Evaluate N rows, drawn at random in one pass; without it all of DATA are held in memory
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    sample: Option<usize>,
    /// Leave out points that fitted or calibrated the model
    #[arg(long)]
    exclude_seen: bool,
    #[command(flatten)]
    columns: Columns,
}

/// The largest probability at which `--check` fails.
const RARE: f64 = 0.01;

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
    failures: Vec<String>,
}

impl Evaluate {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        check_there(&self.model)?;
        self.columns.check(&self.data)?;
        let per_class = self.check(shared)?;
        let progress = Progress::new(shared);
        progress.begin("evaluating");
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let report = self.evaluate(&model, per_class.as_ref(), shared, &progress, &context)?;
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
        per_class: Option<&(PathBuf, Format)>,
        shared: &Shared,
        progress: &Progress,
        context: &dance::Context<'_>,
    ) -> anyhow::Result<Report> {
        let table = self.columns.table_for(&self.data, model, self.sample, shared.seed, progress)?;
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
        warn_of_levels(model, &self.alpha.0, progress)?;

        // Points of the model itself say nothing about new points.
        let in_data = || self.data.display().to_string();
        let seen = model.seen(points).with_context(in_data)?;
        let overlap = Overlap::of(&seen);
        let new: Vec<usize> = (0..points.rows()).filter(|&row| seen[row].is_none()).collect();
        if overlap.all() > 0 {
            progress.warn(&overlap_warning(overlap, points.rows(), self.exclude_seen));
        }
        if (self.exclude_seen || self.is_checked()) && new.is_empty() {
            bail!("{}: every point fitted or calibrated the model; nothing is left to evaluate", in_data());
        }
        let every: Vec<usize> = (0..points.rows()).collect();
        let rows = if self.exclude_seen { &new } else { &every };
        let both = !self.exclude_seen && overlap.all() > 0 && !new.is_empty();

        // The points are scored once and evaluated twice: all of them, and those that are new to the model.
        let predictions = Predictions::new(model, points, &self.alpha, context).with_context(in_data)?;
        let levels = predictions.evaluate(&truth, rows)?;
        let without_overlap = if both { Some(predictions.evaluate(&truth, &new)?) } else { None };
        if let Some((path, format)) = per_class {
            write_frame(path, *format, &predictions.per_class(&truth, rows))?;
        }
        let probabilities = predictions.evaluate_probabilities(&truth, rows)?;
        let failures = self.failures(without_overlap.as_ref().unwrap_or(&levels));
        Ok(Report {
            points: rows.len(),
            overlap,
            levels,
            new_points: new.len(),
            without_overlap,
            probabilities,
            failures,
        })
    }

    fn is_checked(&self) -> bool {
        self.check || self.min_coverage.is_some()
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
            "min_coverage": self.min_coverage.as_ref().map(ToString::to_string),
            "passed": self.is_checked().then_some(report.failures.is_empty()),
            "warnings": progress.warnings(),
        })
    }

    fn write(&self, out: &mut dyn Write, model: &Dance, report: &Report) -> std::io::Result<()> {
        writeln!(out, "{} points of {}", report.points, self.data.display())?;
        write_metrics(out, &report.levels)?;
        if let Some(levels) = &report.without_overlap {
            writeln!(out, "\nthe {} points that neither fitted nor calibrated the model", report.new_points)?;
            write_metrics(out, levels)?;
        }
        writeln!(out)?;
        write_portions(out, report.without_overlap.as_ref().unwrap_or(&report.levels))?;
        writeln!(out, "\n{LEGEND}")?;
        if report.levels.iter().any(|level| level.mix.is_some()) {
            writeln!(out, "  Mix: share of alpha for the contrastive score; the rank score has the rest.")?;
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

    /// Refuses wrong options before anything is read, and returns the file for `--per-class`.
    fn check(&self, shared: &Shared) -> anyhow::Result<Option<(PathBuf, Format)>> {
        if let Some(level) =
            self.min_coverage.iter().flat_map(MinCoverage::levels).find(|level| !self.alpha.0.contains(level))
        {
            bail!("--min-coverage {level}=…: {level} is not among the levels of --alpha; add it there");
        }
        let Some(path) = &self.per_class else { return Ok(None) };
        let format = Format::of_file(path, "classes")?;
        let inputs = [Some(&*self.model), Some(&self.data), self.columns.labels.as_deref(), shared.config.as_deref()];
        path_conflicts::check(&inputs, &[Some(path)])?;
        Ok(Some((path.clone(), format)))
    }

    /// Returns a message for every check that failed.
    fn failures(&self, levels: &[LevelMetrics]) -> Vec<String> {
        let mut failures = Vec::new();
        for LevelMetrics { metrics, as_low, .. } in levels {
            let (alpha, coverage) = (metrics.alpha, metrics.coverage);
            let least = self.min_coverage.as_ref().and_then(|least| least.at(alpha));
            if let Some(least) = least.filter(|&least| coverage < least) {
                failures.push(format!("alpha {alpha}: coverage {coverage:.4} is below --min-coverage {least}"));
            }
            if self.check && *as_low < RARE {
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
        "their coverage says nothing about new points; --exclude-seen leaves them out"
    };
    format!(
        "{} of the {points} points belong to the model ({fit} fitted it, {calibration} calibrated it): {effect}",
        overlap.all()
    )
}
