//! The report of a fit: what was fitted, what new points may expect, and what would help most.

use std::io::Write;
use std::path::Path;

use dance::conformal::MethodName;
use dance::data::split;
use dance::scores::calibration::smallest_alpha;
use dance::{Dance, Dataset};
use dance_page::text::{paragraph, pluralize};
use serde_json::{Value, json};

use super::Parts;
use crate::args::Shared;
use crate::data::Truth;
use crate::evaluation::{self, LevelMetrics};
use crate::parse::Alphas;
use crate::progress::Progress;

/// A model with the facts that a report needs.
pub(super) struct Report<'a> {
    pub(super) model: &'a Dance,
    pub(super) parts: &'a Parts,
    /// Metrics of the test points.
    pub(super) levels: &'a [LevelMetrics],
    /// Metrics of calibration points that a calibration without them left over, where there are no test points.
    pub(super) expected: Option<&'a Expected>,
    pub(super) seconds: f64,
}

/// Metrics that new points may be expected to have: a calibration on most of the calibration points is measured on the
/// others.
pub(super) struct Expected {
    points: usize,
    levels: Vec<LevelMetrics>,
}

/// The share of the calibration points that measures the others.
const MEASURING: f64 = 0.2;
/// The fewest points that can measure.
const FEWEST_MEASURING: usize = 20;
/// The most points that measure; more change little.
const MOST_MEASURING: usize = 1000;

impl Expected {
    /// Measures what new points may be expected to have; `None` where the calibration points are too few, or where some
    /// of them fitted the kernel and so are no new points to it.
    pub(super) fn new(
        model: &Dance,
        parts: &Parts,
        alphas: &Alphas,
        shared: &Shared,
        context: &dance::Context<'_>,
    ) -> dance::Result<Option<Self>> {
        let all = parts.calibration.len();
        let points = ((MEASURING * all as f64) as usize).min(MOST_MEASURING);
        if points < FEWEST_MEASURING || model.calibration_points_in_fit() > 0 {
            return Ok(None);
        }
        let share = points as f64 / all as f64;
        let rows = split::uniform(all, &[1.0 - share, share], shared.seed)?;
        let [calibration, measuring] = [0, 1].map(|part| parts.calibration.select(&rows[part]));
        // The method is the model's own, also where the memory chose it.
        let config = &model.fitted().config;
        let method = config.conformal.with_method(model.method());
        let smaller = model.recalibrate(shared.device()?, &calibration, config.sampling, Some(method), context)?;
        let truth = Truth::of(&smaller, &measuring);
        let levels = evaluation::evaluate(&smaller, &measuring.embeddings, &truth, alphas, context)?;
        Ok(Some(Self { points: measuring.len(), levels }))
    }
}

impl Report<'_> {
    pub(super) fn json(&self, output: &Path, progress: &Progress) -> Value {
        let Report { model, parts, levels, expected, seconds } = *self;
        let fitted = model.fitted();
        json!({
            "model": output.display().to_string(),
            "kernel_points": parts.kernel.len(),
            "calibration_points": parts.calibration.len(),
            "test_points": parts.test.as_ref().map(Dataset::len),
            "dimensions": parts.kernel.embeddings.cols(),
            "classes": model.classes().len(),
            "validation_accuracy": fitted.validation.accuracy,
            "bandwidth": fitted.kernel().bandwidth(),
            "shape": fitted.kernel().shape(),
            "rounds": fitted.rounds(),
            "fidelity": fitted.fidelity,
            "trace": progress.trace(),
            "method": model.method(),
            "calibration": model.calibration(),
            "guarantee": model.guarantee(),
            "new_label_share": model.new_label_share().map(|(share, _)| share),
            "probabilities": fitted.probability_scale(),
            "alphas": fitted.config.alphas,
            "test": levels,
            "expected": expected.map(|expected| json!({ "points": expected.points, "levels": expected.levels })),
            "advice": self.advice(),
            "warnings": progress.warnings(),
            "seconds": seconds,
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write, output: &Path) -> std::io::Result<()> {
        let Report { model, parts, levels, expected, seconds } = *self;
        let fitted = model.fitted();
        let classes = pluralize(model.classes().len(), "class", "classes");
        writeln!(out, "{}: a model of {classes}, fitted in {seconds:.1} s", output.display())?;
        // The model, and how it was calibrated.
        let settings = format!(
            "{}, {} calibration on {} other points",
            word(model.method()),
            word(model.calibration()),
            parts.calibration.len()
        );
        writeln!(out, "{}", paragraph("  method       ", &settings))?;
        writeln!(out, "{}", paragraph("  kernel       ", &fitted.fidelity))?;
        // The numbers that a user acts on, where no test points give better ones.
        if let Some(Expected { points, levels }) = expected {
            if let Some(accuracy) = levels.first().and_then(|level| level.metrics.accuracy) {
                let text = format!("expect the best label to be right for {:.0} of 100 new points", 100.0 * accuracy);
                writeln!(out, "{}", paragraph("  accuracy     ", &text))?;
            }
            for level in levels {
                let text = format!("expect {:.2} labels per set; {}", level.metrics.size, level.verdict());
                writeln!(out, "{}", paragraph(&format!("  {:<13}", format!("alpha {}", level.metrics.alpha)), &text))?;
            }
            let text = format!(
                "{points} calibration points gave these figures, by a calibration without them; --split 0.4,0.4,0.2 \
                 measures on points kept aside"
            );
            writeln!(out, "{}", paragraph("               ", &text))?;
        }
        writeln!(out, "{}", paragraph("  guarantee    ", &model.guarantee()))?;
        if let Some(text) = evaluation::new_label_text(model) {
            writeln!(out, "{}", paragraph("  new labels   ", &text))?;
        }
        if let Some(text) = self.advice() {
            writeln!(out, "{}", paragraph("  advice       ", &text))?;
        }
        // The test points, if there are any.
        if let Some(test) = &parts.test {
            writeln!(out, "\nOn the {} test points, which neither fitted nor calibrated the model:", test.len())?;
            evaluation::write_metrics(out, levels, evaluation::Columns::Few)?;
            writeln!(out, "\n{}", evaluation::LEGEND)?;
        }
        Ok(())
    }

    /// Returns one change that would help most, and why; `None` where nothing stands out.
    fn advice(&self) -> Option<String> {
        let Report { model, parts, levels, expected, .. } = *self;
        let alphas = &model.fitted().config.alphas;
        let least = smallest_alpha(model.calibration_points());
        let smallest = alphas.iter().copied().fold(f64::INFINITY, f64::min);
        if smallest < least {
            let needed = (1.0 / smallest).ceil();
            return Some(format!(
                "alpha {smallest} needs {:.0} calibration points or more, but there are {}: all sets hold all labels. \
                 Add points, or ask for alpha {least:.2}",
                needed - 1.0,
                parts.calibration.len()
            ));
        }
        let share = model.new_label_share().map_or(0.0, |(share, _)| share);
        if share > smallest / 2.0 && !model.allows_new_labels() {
            return Some(format!(
                "--new-labels: {:.1} % of new points carry a label that no point here has, and no set can hold such a \
                 label",
                100.0 * share
            ));
        }
        if model.fitted().config.conformal.method.is_none() && model.method() != MethodName::Posterior {
            return Some(
                "the memory was too small for the method posterior, which has smaller sets: free some, or fit fewer \
                 points with --sample"
                    .into(),
            );
        }
        let measured = levels.first().or_else(|| expected.and_then(|expected| expected.levels.first()))?;
        let classes = model.classes().len();
        let per_class = parts.kernel.len() as f64 / classes as f64;
        let is_large = measured.metrics.size > (classes as f64 / 4.0).max(3.0);
        (is_large && per_class < 10.0).then(|| {
            format!(
                "more labels: there are {per_class:.1} points a class to fit, and sets are large. `dance select` says \
                 which points to label"
            )
        })
    }
}

/// Returns the word for a setting in files.
fn word(setting: impl serde::Serialize) -> String {
    json!(setting).as_str().unwrap_or_default().to_owned()
}
