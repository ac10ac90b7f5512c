//! `dance evaluate`: do the sets cover what they promise, and how large are they?

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use dance::Dance;
use dance::model::SeenAs;
use dance_page::terminal;
use dance_page::text::paragraph;
use serde::Serialize;
use serde_json::json;

use super::Outcome;
use crate::args::Shared;
use crate::data::{Columns, Truth, check_there};
use crate::judged::{Answered, Judged, LEGEND, unseen_words, warn_of_levels, write_metrics, write_portions};
use crate::output::{Format, write_frame};
use crate::parse::{self, Alphas, MinCoverage};
use crate::places;
use crate::progress::{Progress, tell};

pub(crate) const EXAMPLE: &str = "Example:
  dance evaluate model.dance test.npz --alpha 0.1,0.05
  dance evaluate model.dance test.npz --check || echo 'coverage has dropped'
  dance evaluate model.dance test.npz --min-coverage 0.1=0.88,0.05=0.93
  dance evaluate model.dance test.npz --per-class classes.csv

Cov is the share of sets that hold the true label, Size the mean number of labels. CCV is the mean distance, in per cent,
of a class's coverage from what was promised; with few points per class even perfect coverage has the CCV shown as `floor`, and
`under` is its part from classes covered too little. `dev` is how far classes stray beyond chance; `--json` has the mean of their coverages too. SSCV is the largest such distance over groups of sets of similar size (few sets
in a group make it jump). `mix` (union and joint) is the share of alpha that the contrastive score has. `empty` and `single` are the shares of sets with no and with one label, `right` how often that one is true;
Acc is the classifier's by itself.";

#[derive(Args, Debug)]
pub(crate) struct Evaluate {
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels that the model has not seen: a file, or a folder or pattern of files
    #[arg(value_name = "DATA")]
    data: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// Error levels
    #[arg(long, value_name = "LEVELS", default_value = "0.1,0.05", value_parser = parse::alphas, allow_hyphen_values = true)]
    alpha: Alphas,
    /// Exit with status 1 if coverage is below this: one share for all levels, or one for each
    #[arg(long, value_name = "X|LEVEL=X,…", value_parser = parse::min_coverage)]
    min_coverage: Option<MinCoverage>,
    /// Write coverage and set size of every class at every level to this file (.csv, .parquet, .npz, .jsonl)
    #[arg(long, value_name = "FILE")]
    per_class: Option<PathBuf>,
    /// Exit with status 1 if coverage is lower, at any level, than chance explains (less than one time in a hundred)
    #[arg(long)]
    check: bool,
    /// Judge by so many rows, drawn at random in one pass; without it all of DATA are held in memory
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    sample: Option<usize>,
    /// Leave out points that the model was fitted or calibrated on
    #[arg(long)]
    exclude_seen: bool,
}

/// Rarer than this, and chance does not explain it.
const RARE: f64 = 0.01;

/// Points that the model has seen before.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Overlap {
    fit: usize,
    calibration: usize,
}

impl Overlap {
    fn of(seen: &[Option<SeenAs>]) -> Self {
        let count = |of: SeenAs| seen.iter().filter(|seen| **seen == Some(of)).count();
        Self { fit: count(SeenAs::FitPoint), calibration: count(SeenAs::CalibrationPoint) }
    }

    fn all(self) -> usize {
        self.fit + self.calibration
    }
}

impl Evaluate {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        check_there(&self.model)?;
        self.columns.check(&self.data)?;
        let per_class = self.check(shared)?;
        let progress = Progress::new(shared);
        progress.begin("judging");
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let table = self.columns.table_for(&self.data, &model, self.sample, shared.seed, &progress)?;
        let truth = Truth::new(&model, &table)?;
        if let Some(warning) = &truth.warning {
            progress.warn(warning);
        }
        let picked = table.picked.iter().flatten().filter(|&&picked| picked).count();
        if picked > 0 {
            progress.warn(&format!(
                "{picked} of {} points were picked for what they are: coverage of those says nothing about new ones",
                table.embeddings().rows()
            ));
        }
        warn_of_levels(&model, &self.alpha.0, &progress)?;
        let in_data = || self.data.display().to_string();
        let points = table.embeddings();
        let seen = model.seen(points).with_context(in_data)?;
        let overlap = Overlap::of(&seen);
        let new: Vec<usize> = (0..points.rows()).filter(|&row| seen[row].is_none()).collect();
        if overlap.all() > 0 {
            progress.warn(&seen_before(overlap, points.rows(), self.exclude_seen));
        }
        let checked = self.check || self.min_coverage.is_some();
        if (self.exclude_seen || checked) && new.is_empty() {
            bail!("{}: the model has seen every point of it; nothing is left to judge by", in_data());
        }
        let every: Vec<usize> = (0..points.rows()).collect();
        let rows = if self.exclude_seen { &new } else { &every };
        let both = !self.exclude_seen && overlap.all() > 0 && !new.is_empty();
        // Scored once, judged by all and by some.
        let answered = Answered::new(&model, points, &self.alpha, &context).with_context(in_data)?;
        let judged = answered.judge(&truth, rows)?;
        let without_seen = if both { Some(answered.judge(&truth, &new)?) } else { None };
        if let Some((path, format)) = &per_class {
            write_frame(path, *format, &answered.per_class(&truth, rows))?;
        }
        let probabilities = answered.judge_probabilities(&truth, rows)?;
        progress.finish();

        // Points that the model has seen pass any check.
        let failures = self.failures(without_seen.as_ref().unwrap_or(&judged));
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            let report = json!({
                "model": self.model.display().to_string(),
                "data": self.data.display().to_string(),
                "guarantee": model.guarantee(),
                "overlap": overlap,
                "levels": judged,
                "levels_without_seen": without_seen,
                "probabilities": probabilities.as_ref().map(|found| json!({
                    "log_loss": found.log_loss(),
                    "brier": found.brier(),
                    "calibration_error": found.calibration_error(),
                })),
                "min_coverage": self.min_coverage.as_ref().map(ToString::to_string),
                "passed": checked.then_some(failures.is_empty()),
                "warnings": progress.warnings(),
            });
            writeln!(out, "{report}")?;
        } else {
            writeln!(out, "{} points of {}", rows.len(), self.data.display())?;
            write_metrics(&mut out, &judged)?;
            if let Some(judged) = &without_seen {
                writeln!(out, "\nthe {} points that the model has not seen before", new.len())?;
                write_metrics(&mut out, judged)?;
            }
            writeln!(out)?;
            write_portions(&mut out, without_seen.as_ref().unwrap_or(&judged))?;
            writeln!(out, "\n{LEGEND}")?;
            if judged.iter().any(|judged| judged.mix.is_some()) {
                writeln!(
                    out,
                    "  Mix: share of alpha that the contrastive score has; the rank has the rest."
                )?;
            }
            if let Some(found) = &probabilities {
                writeln!(
                    out,
                    "  Class probabilities: log loss {:.3}, Brier score {:.3}; on average {:.3} away from the share that is\n  right (ECE; few points make it look worse than it is).",
                    found.log_loss(),
                    found.brier(),
                    found.calibration_error()
                )?;
            }
            if let Some(text) = unseen_words(&model) {
                writeln!(out, "{}", paragraph("  Unseen labels: ", &text))?;
            }
            writeln!(out, "{}", paragraph("  guarantee: ", &model.guarantee()))?;
        }
        for failure in &failures {
            tell(&format!("dance: {failure}"));
        }
        Ok(if failures.is_empty() { Outcome::Fine } else { Outcome::CheckFailed })
    }

    /// Refuses what makes no sense before anything is read; where the classes go.
    fn check(&self, shared: &Shared) -> anyhow::Result<Option<(PathBuf, Format)>> {
        if let Some(level) =
            self.min_coverage.iter().flat_map(MinCoverage::levels).find(|level| !self.alpha.0.contains(level))
        {
            bail!("--min-coverage {level}=…: {level} is not among the levels judged; add it to --alpha");
        }
        let Some(path) = &self.per_class else { return Ok(None) };
        let format = Format::of_file(path, "classes")?;
        let inputs =
            [Some(&*self.model), Some(&self.data), self.columns.labels.as_deref(), shared.config.as_deref()];
        places::check(&inputs, &[Some(path)])?;
        Ok(Some((path.clone(), format)))
    }

    /// What the checks that the user asked for have found.
    fn failures(&self, judged: &[Judged]) -> Vec<String> {
        let mut failures = Vec::new();
        for Judged { metrics, as_low, .. } in judged {
            let (alpha, coverage) = (metrics.alpha, metrics.coverage);
            let wanted = self.min_coverage.as_ref().and_then(|wanted| wanted.at(alpha));
            if let Some(wanted) = wanted.filter(|&wanted| coverage < wanted) {
                failures.push(format!(
                    "alpha {alpha}: coverage {coverage:.4} is below the {wanted} that was asked for"
                ));
            }
            if self.check && *as_low < RARE {
                failures.push(format!(
                    "alpha {alpha}: coverage {coverage:.4} is below what chance explains: as low once in {:.0} times",
                    1.0 / as_low.max(1e-9)
                ));
            }
        }
        failures
    }
}

fn seen_before(overlap: Overlap, points: usize, excluded: bool) -> String {
    let Overlap { fit, calibration } = overlap;
    let what = format!(
        "{} of the {points} points have been seen by the model before ({fit} fitted the kernel, {calibration} calibrated it)",
        overlap.all()
    );
    let effect = if excluded {
        "they are left out"
    } else {
        "they say nothing about new points; --exclude-seen leaves them out"
    };
    format!("{what}: {effect}")
}
