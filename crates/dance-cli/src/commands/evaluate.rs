//! `dance evaluate`: do the sets cover what they promise, and how large are they?

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use dance::conformal::Sets;
use dance::conformal::metrics::Metrics;
use dance::{Context as Job, Dance, Matrix, PredictOptions};
use serde::Serialize;
use serde_json::json;

use super::Outcome;
use crate::args::Shared;
use crate::data::{Columns, Truth, check_there};
use crate::parse::{self, Alphas};
use crate::progress::Progress;
use crate::table;

pub(crate) const EXAMPLE: &str = "Example:
  dance evaluate model.dance test.npz --alpha 0.1,0.05
  dance evaluate model.dance test.npz --alpha 0.1 --min-coverage 0.88 || echo 'coverage has dropped'

Cov is the share of sets that hold the true label, Size the mean number of labels. CCV is the mean distance, in per cent,
of a class's coverage from what was promised; with few points per class even perfect coverage has the CCV shown as `floor`, and
`under` is its part from classes covered too little. SSCV is the largest such distance over groups of sets of similar size (few sets
in a group make it jump). `empty` and `single` are the shares of sets with no and with one label, `right` how often that one is true;
Acc is the classifier's by itself.";

#[derive(Args, Debug)]
pub(crate) struct Evaluate {
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels that the model has not seen
    #[arg(value_name = "DATA")]
    data: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// Error levels
    #[arg(long, value_name = "LEVELS", default_value = "0.1,0.05", value_parser = parse::alphas)]
    alpha: Alphas,
    /// Exit with status 1 if coverage is below this at any level
    #[arg(long, value_name = "X", value_parser = parse::share)]
    min_coverage: Option<f64>,
}

/// The sets of one level, judged.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    #[serde(skip_serializing_if = "Option::is_none")]
    mix: Option<f64>,
    #[serde(flatten)]
    pub(super) metrics: Metrics,
}

impl Evaluate {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        check_there(&self.model)?;
        self.columns.check(&self.data)?;
        let progress = Progress::new(shared);
        progress.begin("judging");
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device(), &self.model, &context)?;
        let table = self.columns.table(&self.data)?;
        let truth = Truth::new(&model, &table)?;
        if let Some(warning) = &truth.warning {
            progress.warn(warning);
        }
        for &alpha in &self.alpha.0 {
            for warning in model.decide(alpha)?.warnings() {
                progress.warn(&format!("alpha {alpha}: {warning}"));
            }
        }
        let judged = judge(&model, table.embeddings(), &truth.labels, &self.alpha, &context)
            .with_context(|| self.data.display().to_string())?;
        progress.finish();

        let least = judged.iter().map(|judged| judged.metrics.coverage).fold(1.0, f64::min);
        let passed = self.min_coverage.map(|wanted| least >= wanted);
        let mut out = io::stdout().lock();
        if shared.json {
            let report = json!({
                "model": self.model.display().to_string(),
                "data": self.data.display().to_string(),
                "guarantee": model.guarantee(),
                "levels": judged,
                "min_coverage": self.min_coverage,
                "passed": passed,
                "warnings": progress.warnings(),
            });
            writeln!(out, "{report}")?;
        } else {
            writeln!(out, "{} points of {}", table.embeddings().rows(), self.data.display())?;
            write_metrics(&mut out, &judged)?;
            writeln!(out, "  guarantee: {}", model.guarantee())?;
        }
        match (passed, self.min_coverage) {
            (Some(false), Some(wanted)) => {
                eprintln!("dance: coverage {least:.4} is below the {wanted} that was asked for");
                Ok(Outcome::CheckFailed)
            }
            _ => Ok(Outcome::Fine),
        }
    }
}

/// Judges the model's sets at every level by the true labels, which may lie beyond the model's classes.
pub(super) fn judge(
    model: &Dance,
    points: &Matrix,
    truth: &[u32],
    alphas: &Alphas,
    context: &Job<'_>,
) -> dance::Result<Vec<Judged>> {
    let scored = model.score(points, PredictOptions::default(), context)?;
    let best = scored.best.as_ref().map(|best| best.labels.as_slice());
    let levels = alphas.0.iter().map(|&alpha| {
        let prediction = model.predict(&scored, &model.decide(alpha)?);
        let metrics = of_sets(&prediction.sets, truth, model, alpha, best)?;
        Ok(Judged { mix: prediction.decision.mix, metrics })
    });
    levels.collect()
}

pub(super) fn of_sets(
    sets: &Sets,
    truth: &[u32],
    model: &Dance,
    alpha: f64,
    best: Option<&[u32]>,
) -> dance::Result<Metrics> {
    let beyond = truth.iter().max().map_or(0, |&label| label as usize + 1);
    Metrics::new(sets, truth, beyond.max(model.classes().len()), alpha, best)
}

/// All metrics, one row per level.
pub(super) fn write_metrics(out: &mut dyn Write, judged: &[Judged]) -> io::Result<()> {
    let header =
        ["alpha", "mix", "Acc", "Cov", "Size", "CCV", "floor", "under", "SSCV", "empty", "single", "right"];
    let rows: Vec<Vec<String>> = judged
        .iter()
        .map(|Judged { mix, metrics }| {
            vec![
                metrics.alpha.to_string(),
                mix.map_or("-".into(), |mix| mix.to_string()),
                metrics.accuracy.map_or("-".into(), share),
                share(metrics.coverage),
                format!("{:.2}", metrics.size),
                format!("{:.2}", metrics.class_violation),
                format!("{:.2}", metrics.class_violation_floor),
                format!("{:.2}", metrics.class_undercoverage),
                format!("{:.2}", metrics.size_violation),
                share(metrics.empty),
                share(metrics.singletons),
                metrics.singleton_hits.map_or("-".into(), share),
            ]
        })
        .collect();
    table::write(out, &header, &rows)
}

fn share(value: f64) -> String {
    format!("{value:.3}")
}
