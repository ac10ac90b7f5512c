//! `dance compare`: coverage, size and time of every method on the user's own points, before one is chosen.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName, Mix};
use dance::data::split;
use dance::{Dance, Dataset, Error, Sampling};
use dance_page::table::Table;
use dance_page::terminal;
use dance_page::text::paragraph;
use serde_json::{Value, json};

use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabelColumns, Truth, check_there, random_points};
use crate::evaluation::{LevelMetrics, Predictions, RARE};
use crate::parse::{self, Alphas};
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  dance compare model.dance calibration.npz
  dance compare model.dance calibration.npz --alpha 0.05 --json

A random half of DATA calibrates every method, the other half measures coverage and size. The
kernel is not fitted again, and nothing is written. `dance recalibrate` with the options of a row,
on all of DATA, makes that model; it has twice the calibration points, which matters most for
--by-class each. DATA must not contain points that fitted the kernel.";

#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels that did not fit the kernel
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Error levels [default: those given to `fit`]
    #[arg(long, value_name = "LEVEL,…", value_parser = parse::alphas, allow_hyphen_values = true)]
    alpha: Option<Alphas>,
    #[command(flatten)]
    files: LabelColumns,
}

/// A method with its settings, and the options of `recalibrate` that select them.
struct Candidate {
    options: &'static str,
    method: MethodName,
    calibration: Calibration,
    by_class: ByClass,
    new_labels: bool,
}

const fn candidate(options: &'static str, method: MethodName, calibration: Calibration) -> Candidate {
    Candidate { options, method, calibration, by_class: ByClass::All, new_labels: false }
}

const POSTERIOR: Candidate = candidate("--method posterior", MethodName::Posterior, Calibration::Full);
const FUSE: Candidate = candidate("--method fuse", MethodName::Fuse, Calibration::Full);

const CANDIDATES: [Candidate; 11] = [
    POSTERIOR,
    Candidate { options: "--method posterior --by-class balanced", by_class: ByClass::Balanced, ..POSTERIOR },
    Candidate { options: "--method posterior --by-class clusters", by_class: ByClass::Clusters, ..POSTERIOR },
    Candidate { options: "--method posterior --by-class each", by_class: ByClass::Each, ..POSTERIOR },
    Candidate { options: "--method posterior --new-labels", new_labels: true, ..POSTERIOR },
    candidate("--method posterior --calibration split", MethodName::Posterior, Calibration::Split),
    FUSE,
    Candidate { options: "--method fuse --by-class each", by_class: ByClass::Each, ..FUSE },
    Candidate { options: "--method fuse --new-labels", new_labels: true, ..FUSE },
    candidate("--method dance", MethodName::Dance, Calibration::Reuse),
    candidate("--method dance --calibration split", MethodName::Dance, Calibration::Split),
];

impl Candidate {
    fn apply(&self, config: ConformalConfig) -> ConformalConfig {
        let config = config.with_method(self.method).with_calibration(self.calibration);
        config.by_class(self.by_class).new_labels(self.new_labels).mix(Mix::Auto).tie_noise(0.0)
    }
}

/// The measurements of a candidate.
struct Measured {
    options: &'static str,
    /// If true, the guarantee holds for all points together and for labels that the model knows.
    promises_for_all: bool,
    levels: Vec<LevelMetrics>,
    /// Seconds to predict a thousand points.
    seconds: f64,
}

/// Returns the row with the smallest sets at the first level, among the rows that promise coverage for all points
/// together and keep it on these points.
fn recommended(measured: &[Measured]) -> Option<&Measured> {
    let promises = |row: &&Measured| row.promises_for_all;
    let keeps = |row: &&Measured| row.levels.iter().all(|level| level.as_low >= RARE);
    let size = |row: &Measured| row.levels[0].metrics.size;
    measured.iter().filter(promises).filter(keeps).min_by(|a, b| size(a).total_cmp(&size(b)))
}

impl Compare {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&FileFormat::default())
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        check_there(&self.model)?;
        self.columns().check(&self.data)?;
        let progress = Progress::new(shared);
        progress.begin("comparing");
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let alphas = Alphas::or_of(self.alpha.as_ref(), &model);
        let in_data = || self.data.display().to_string();
        let data = self.columns().dataset(&self.data, model.classes(), &progress)?;
        let data = random_points(data, &self.data, &progress)?;
        let halves = split::uniform(data.len(), &[0.5, 0.5], shared.seed).with_context(in_data)?;
        let [calibration, evaluation] = [0, 1].map(|half| data.select(&halves[half]));
        // Warnings about the points would be the same for every candidate, so only the first one prints them.
        let mut measured = Vec::new();
        for (number, candidate) in CANDIDATES.iter().enumerate() {
            progress.begin(candidate.options);
            let context = if number == 0 { context.clone() } else { context.quiet() };
            match Self::measure(candidate, &model, (&calibration, &evaluation), &alphas, shared, &context) {
                Ok(found) => measured.push(found),
                Err(error @ Error::Memory { .. }) => {
                    progress.warn(&format!("{}: left out: {error}", candidate.options));
                }
                Err(error) => return Err(error).with_context(in_data),
            }
        }
        progress.finish();
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            let report = self.json(&measured, &alphas, (&calibration, &evaluation), &progress);
            writeln!(out, "{report}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{} points of {} calibrate, the other {} evaluate",
            calibration.len(),
            self.data.display(),
            evaluation.len()
        )?;
        Self::write(&mut out, &measured, &alphas)?;
        for &alpha in &alphas.0 {
            let rare = rare_classes(&calibration, alpha);
            if rare > 0 {
                let text = format!(
                    "{rare} of {} classes have fewer than {} of these calibration points. With --by-class each they \
                     are in every set",
                    model.classes().len(),
                    needed(alpha)
                );
                writeln!(out, "{}", paragraph(&format!("  alpha {alpha}: "), &text))?;
            }
        }
        writeln!(out, "{}", paragraph("  recommendation: ", &self.recommendation(&measured)))?;
        Ok(())
    }

    /// Says which row has the smallest sets, and how to get a model of it.
    fn recommendation(&self, measured: &[Measured]) -> String {
        let Some(best) = recommended(measured) else {
            return "none: no row with a guarantee for all points together keeps its coverage on these points".into();
        };
        format!(
            "{} has the smallest sets at alpha {} among the rows with a guarantee for all points together: \
             {:.2} labels on average. Rows whose size differs by less than 5 % are alike; then prefer the faster one. \
             For a model of it: dance recalibrate {} {} -o NEW.dance {}. The choice used the labels of these points, \
             so calibrate on others where the guarantee must be exact",
            best.options,
            best.levels[0].metrics.alpha,
            best.levels[0].metrics.size,
            self.model.display(),
            self.data.display(),
            best.options
        )
    }

    /// Calibrates a candidate on one half of the points and evaluates it on the other.
    fn measure(
        candidate: &Candidate,
        model: &Dance,
        (calibration, evaluation): (&Dataset, &Dataset),
        alphas: &Alphas,
        shared: &Shared,
        context: &dance::Context<'_>,
    ) -> dance::Result<Measured> {
        let config = candidate.apply(model.fitted().config.conformal).seed(shared.seed);
        let model = model.recalibrate(shared.device()?, calibration, Sampling::Random, Some(config), context)?;
        let truth = Truth::of(&model, evaluation);
        let begin = Instant::now();
        let predictions = Predictions::new(&model, &evaluation.embeddings, alphas, context)?;
        let seconds = 1000.0 * begin.elapsed().as_secs_f64() / evaluation.len() as f64;
        let every: Vec<usize> = (0..evaluation.len()).collect();
        let promises_for_all = candidate.by_class == ByClass::All
            && !candidate.new_labels
            && candidate.calibration != Calibration::Reuse
            && model.calibration_points_in_fit() == 0;
        let levels = predictions.evaluate(&truth, &every)?;
        Ok(Measured { options: candidate.options, promises_for_all, levels, seconds })
    }

    fn json(
        &self,
        measured: &[Measured],
        alphas: &Alphas,
        (calibration, evaluation): (&Dataset, &Dataset),
        progress: &Progress,
    ) -> Value {
        let method = |measured: &Measured| {
            json!({
                "options": measured.options,
                "levels": measured.levels,
                "seconds_per_thousand_points": measured.seconds,
            })
        };
        let rare: Vec<usize> = alphas.0.iter().map(|&alpha| rare_classes(calibration, alpha)).collect();
        json!({
            "model": self.model.display().to_string(),
            "data": self.data.display().to_string(),
            "calibration_points": calibration.len(),
            "evaluation_points": evaluation.len(),
            "methods": measured.iter().map(method).collect::<Vec<_>>(),
            "classes_too_rare_to_leave_out": rare,
            "recommended": recommended(measured).map(|best| best.options),
            "warnings": progress.warnings(),
        })
    }

    fn write(out: &mut dyn Write, measured: &[Measured], alphas: &Alphas) -> std::io::Result<()> {
        let mut header = vec!["options".to_owned()];
        for alpha in &alphas.0 {
            header.extend(["Size", "Cov", "dev"].map(|name| format!("{name} at {alpha}")));
        }
        header.push("s per 1000".into());
        let row = |measured: &Measured| {
            let mut cells = vec![measured.options.to_owned()];
            for LevelMetrics { metrics, .. } in &measured.levels {
                cells.push(format!("{:.2}", metrics.size));
                cells.push(format!("{:.3}", metrics.coverage));
                cells.push(format!("{:.1}", metrics.class_deviation));
            }
            cells.push(format!("{:.2}", measured.seconds));
            cells
        };
        write!(out, "{}", Table::from_text(header, measured.iter().map(row)).to_text())?;
        writeln!(
            out,
            "
  Size: mean number of labels per set. Cov: share of sets with the true label; compare it with 1 - alpha.
  Dev: root mean square deviation of class coverage from 1 - alpha, without the part due to chance, in
  per cent. s per 1000: seconds to predict a thousand points. Only `--method dance` has no guarantee; it
  has one with `--calibration split`."
        )
    }
}

/// Returns the fewest points of a class with which its p-value can be as small as alpha.
fn needed(alpha: f64) -> usize {
    (1.0 / alpha - 1.0 - 1e-9).ceil() as usize
}

/// Returns the number of classes that have too few points for a guarantee of their own at alpha.
fn rare_classes(calibration: &Dataset, alpha: f64) -> usize {
    let mut points = vec![0; calibration.classes.len()];
    for &label in &calibration.labels {
        points[label as usize] += 1;
    }
    points.iter().filter(|&&points| points < needed(alpha)).count()
}
