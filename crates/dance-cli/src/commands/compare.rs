//! `dance compare`: what each way to make sets would cost on the user's own points, before one is chosen.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName, Mix};
use dance::data::split;
use dance::{Dance, Dataset, Quiet, Sampling};
use dance_page::table::Table;
use dance_page::terminal;
use dance_page::text::paragraph;
use serde_json::json;

use crate::args::Shared;
use crate::data::{Columns, Truth, check_there, drawn};
use crate::judged::{Answered, Judged};
use crate::parse::{self, Alphas};
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  dance compare model.dance calibration.npz
  dance compare model.dance calibration.npz --alpha 0.05 --json

Half of DATA, drawn at random, calibrates every way; the other half judges them. The kernel stays, and nothing is written: `dance recalibrate`
with the options of a row, on all of DATA, makes the model; it then has twice the calibration points, which matters most for --by-class each.
DATA must not hold points that fitted the kernel.";

#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels that did not fit the kernel
    #[arg(value_name = "DATA")]
    data: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// Error levels
    #[arg(long, value_name = "LEVELS", default_value = "0.1,0.05", value_parser = parse::alphas, allow_hyphen_values = true)]
    alpha: Alphas,
}

/// A way to make sets: the options that ask for it, and the settings they make.
struct Way(&'static str, MethodName, ByClass, bool);

const WAYS: [Way; 8] = [
    Way("--method posterior", MethodName::Posterior, ByClass::All, false),
    Way("--method posterior --by-class balanced", MethodName::Posterior, ByClass::Balanced, false),
    Way("--method posterior --by-class clusters", MethodName::Posterior, ByClass::Clusters, false),
    Way("--method posterior --by-class each", MethodName::Posterior, ByClass::Each, false),
    Way("--method posterior --new-labels", MethodName::Posterior, ByClass::All, true),
    Way("--method fuse", MethodName::Fuse, ByClass::All, false),
    Way("--method fuse --by-class each", MethodName::Fuse, ByClass::Each, false),
    Way("--method fuse --new-labels", MethodName::Fuse, ByClass::All, true),
];

impl Way {
    fn apply(&self, config: ConformalConfig) -> ConformalConfig {
        let Self(_, method, by_class, new_labels) = *self;
        let config = config.calibration(Calibration::Full).mix(Mix::Auto);
        config.method(method).by_class(by_class).new_labels(new_labels)
    }
}

/// What came of a way.
struct Found {
    options: &'static str,
    levels: Vec<Judged>,
    /// Of a thousand points.
    seconds: f64,
}

impl Compare {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        check_there(&self.model)?;
        self.columns.check(&self.data)?;
        let progress = Progress::new(shared);
        progress.begin("comparing");
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let in_data = || self.data.display().to_string();
        let data =
            drawn(self.columns.dataset(&self.data, model.classes(), &progress)?, &self.data, &progress)?;
        let halves = split::uniform(data.len(), &[0.5, 0.5], shared.seed).with_context(in_data)?;
        let [calibration, judging] = [0, 1].map(|half| data.select(&halves[half]));
        let quiet = Quiet(&progress); // what is to be said of the points is said once
        let mut found = Vec::new();
        for (number, way) in WAYS.iter().enumerate() {
            progress.begin(way.0);
            let context = if number == 0 { context.clone() } else { context.with_observer(&quiet) };
            found.push(
                self.tried(way, &model, (&calibration, &judging), shared, &context).with_context(in_data)?,
            );
        }
        progress.finish();
        let rare = |alpha: f64| rare_classes(&calibration, alpha);
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            let way = |found: &Found| {
                json!({
                    "options": found.options,
                    "levels": found.levels,
                    "seconds_per_thousand_points": found.seconds,
                })
            };
            let rare: Vec<usize> = self.alpha.0.iter().map(|&alpha| rare(alpha)).collect();
            let report = json!({
                "model": self.model.display().to_string(),
                "data": self.data.display().to_string(),
                "calibration_points": calibration.len(),
                "judging_points": judging.len(),
                "ways": found.iter().map(way).collect::<Vec<_>>(),
                "classes_too_rare_to_leave_out": rare,
                "warnings": progress.warnings(),
            });
            writeln!(out, "{report}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{} points of {} calibrate, {} others judge",
            calibration.len(),
            self.data.display(),
            judging.len()
        )?;
        self.write(&mut out, &found)?;
        for &alpha in &self.alpha.0 {
            let rare = rare(alpha);
            if rare > 0 {
                let text = format!(
                    "{rare} of {} classes have fewer than {} of these calibration points, so that with --by-class each they are in every set",
                    model.classes().len(),
                    needed(alpha)
                );
                writeln!(out, "{}", paragraph(&format!("  alpha {alpha}: "), &text))?;
            }
        }
        Ok(())
    }

    fn tried(
        &self,
        way: &Way,
        model: &Dance,
        (calibration, judging): (&Dataset, &Dataset),
        shared: &Shared,
        context: &dance::Context<'_>,
    ) -> anyhow::Result<Found> {
        let config = way.apply(model.fitted().config.conformal).seed(shared.seed);
        let model =
            model.recalibrate(shared.device()?, calibration, Sampling::Random, Some(config), context)?;
        let truth = Truth::of(&model, judging);
        let begin = Instant::now();
        let answered = Answered::new(&model, &judging.embeddings, &self.alpha, context)?;
        let seconds = 1000.0 * begin.elapsed().as_secs_f64() / judging.len() as f64;
        let every: Vec<usize> = (0..judging.len()).collect();
        Ok(Found { options: way.0, levels: answered.judge(&truth, &every)?, seconds })
    }

    fn write(&self, out: &mut dyn Write, found: &[Found]) -> std::io::Result<()> {
        let mut header = vec!["options".to_owned()];
        for alpha in &self.alpha.0 {
            header.extend(["Size", "Cov", "dev"].map(|name| format!("{name} at {alpha}")));
        }
        header.push("s per 1000".into());
        let row = |found: &Found| {
            let mut cells = vec![found.options.to_owned()];
            for Judged { metrics, .. } in &found.levels {
                cells.push(format!("{:.2}", metrics.size));
                cells.push(format!("{:.3}", metrics.coverage));
                cells.push(format!("{:.1}", metrics.class_deviation));
            }
            cells.push(format!("{:.2}", found.seconds));
            cells
        };
        write!(out, "{}", Table::from_text(header, found.iter().map(row)).to_text())?;
        writeln!(
            out,
            "\n  Size: labels per set. Cov: share of sets with the true label, to be compared with 1 - alpha. Dev: how far\n  \
             classes stray from it beyond chance, in per cent. Seconds are those of a prediction."
        )
    }
}

/// Points of a class without which its p-value cannot be as small as alpha.
fn needed(alpha: f64) -> usize {
    (1.0 / alpha - 1.0 - 1e-9).ceil() as usize
}

fn rare_classes(calibration: &Dataset, alpha: f64) -> usize {
    let mut points = vec![0; calibration.classes.len()];
    for &label in &calibration.labels {
        points[label as usize] += 1;
    }
    points.iter().filter(|&&points| points < needed(alpha)).count()
}
