//! `dance fit`: fits a kernel, calibrates it and writes a model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use dance::data::{Normalize, split};
use dance::machine;
use dance::{Config, Dance, Dataset, Fitted, Sampling};
use dance_page::terminal;
use dance_page::text::{paragraph, pluralize};
use serde_json::{Value, json};

use crate::args::Shared;
use crate::data::{Columns, Truth, random_points};
use crate::evaluation::{self, LevelMetrics};
use crate::output::{Cells, Column, Format, Frame, write_frame};
use crate::parse::{self, Alphas, Range, Split};
use crate::path_conflicts;
use crate::progress::Progress;
use crate::settings::MethodOptions;

pub(crate) const EXAMPLE: &str = "Example:
  dance fit embeddings.npz -o model.dance
  dance fit all.parquet -o model.dance --split 0.4,0.4,0.2 --test-out test.npz --alpha 0.1,0.05
  dance fit parts/ -o model.dance --sample 20000
  dance fit train.csv --calibration-data more.csv -o model.dance --method fuse
  dance fit embeddings.npz -o model.dance --paper

DATA is .npz (arrays `embeddings`, `labels`), .npy with --labels, .safetensors, .csv, .tsv,
.parquet or .jsonl. A pipe, or `-` for stdin, needs --format.

Rows without a label (an empty cell, NaN, null) are an error, and so is the label -1 beside other
classes; --unlabelled leaves such rows out.

Points that `dance select` picked (column or array `provenance`) only fit the kernel; they do not
calibrate.";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Normalization {
    /// Scale every row to length 1
    L2,
    /// Scale every column to mean 0 and variance 1
    Standardize,
    /// Leave embeddings unchanged
    None,
}

/// The values of `--probabilities`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Probabilities {
    /// Calibrated on held-out points, so that 0.8 means right about 80 % of the time
    Calibrated,
    /// Clamped and divided by their sum, as in the paper
    Clamp,
}

impl From<Probabilities> for machine::Probabilities {
    fn from(choice: Probabilities) -> Self {
        match choice {
            Probabilities::Calibrated => Self::Calibrated,
            Probabilities::Clamp => Self::Clamp,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Fit {
    /// Embeddings with labels: a file, or a folder or pattern of files
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Use only N rows of DATA, drawn at random in one pass
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    sample: Option<usize>,
    /// Model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    /// Shares of DATA for kernel, calibration and, if a third is given, test [default: 0.5,0.5]
    #[arg(long, value_name = "SHARES", value_parser = parse::split)]
    split: Option<Split>,
    /// Split every class in the given shares instead of drawing rows at random, so that rare classes are in all parts.
    /// Calibration and test points are then easier than new points, which are covered less than promised
    #[arg(long)]
    stratify: bool,
    /// Column or array of group names (videos, patients, augmentations). No group is split between parts, and one
    /// random point per group calibrates, so that the guarantee holds for a point of a new group
    #[arg(long, value_name = "NAME", conflicts_with = "stratify")]
    groups: Option<String>,
    /// Calibrate on this file, and fit the kernel on all of DATA
    #[arg(long, value_name = "FILE", conflicts_with_all = ["split", "stratify"])]
    calibration_data: Option<PathBuf>,
    /// Write the test part to this file (.npz, .csv, .parquet, .jsonl), with ids, or rows of DATA where there are no
    /// ids
    #[arg(long, value_name = "FILE")]
    test_out: Option<PathBuf>,
    /// Error levels to report on. The model predicts at any other level too
    #[arg(
        long, value_name = "LEVELS", default_value = "0.1,0.05", value_parser = parse::alphas,
        allow_hyphen_values = true
    )]
    alpha: Alphas,
    /// Normalisation of embeddings
    #[arg(long, value_enum, default_value_t = Normalization::L2, value_name = "HOW")]
    normalize: Normalization,
    #[command(flatten)]
    columns: Columns,
    #[command(flatten)]
    kernel: Kernel,
    #[command(flatten)]
    method: MethodOptions,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Kernel")]
struct Kernel {
    /// Settings to try in the search for bandwidth and shape
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = parse::at_least_one)]
    evaluations: usize,
    /// Bandwidth in median distances, or a range to search [default: 0.1,20]
    #[arg(long, value_name = "X|A,B", value_parser = parse::bandwidth)]
    bandwidth: Option<Range>,
    /// Shape of the kernel, or a range to search [default: 0.5,2]
    #[arg(long, value_name = "X|A,B", value_parser = parse::shape)]
    shape: Option<Range>,
    /// Ridge of the regression
    #[arg(
        long, value_name = "X", default_value_t = 1e-3, value_parser = parse::not_negative, allow_hyphen_values = true
    )]
    ridge: f64,
    /// Source of the kernel's class probabilities [default: calibrated]
    #[arg(long, value_enum, value_name = "HOW")]
    probabilities: Option<Probabilities>,
    /// Maximum number of rounds of metric learning
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Maximum memory of the fit; a fit that needs more is refused before it starts
    #[arg(long, value_name = "SIZE", value_parser = parse::memory)]
    memory: Option<u64>,
}

/// The parts of the data: kernel and calibration, and test points that neither uses.
struct Parts {
    kernel: Dataset,
    calibration: Dataset,
    test: Option<Dataset>,
}

/// A model with the facts that a report needs.
struct Report<'a> {
    model: &'a Dance,
    parts: &'a Parts,
    levels: &'a [LevelMetrics],
    seconds: f64,
}

impl Fit {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        // Wrong options and files are refused before anything is read.
        let config = self.config(shared);
        config.check()?;
        self.check(shared)?;
        let begin = Instant::now();
        let progress = Progress::new(shared);
        progress.begin("reading");
        let parts = self.parts(shared, &progress)?;
        progress.detail(&format!(
            "{} points for the kernel, {} for calibration, {} for the test, {} dimensions, {} classes",
            parts.kernel.len(),
            parts.calibration.len(),
            parts.test.as_ref().map_or(0, Dataset::len),
            parts.kernel.embeddings.cols(),
            parts.kernel.classes.len()
        ));

        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let fitted = Fitted::fit(device, &parts.kernel, &config, &context)
            .with_context(|| format!("fitting {}", self.data.display()))?;
        progress.begin("calibrating");
        let model = fitted.calibrate(device, &parts.calibration, &context).context("calibrating")?;
        evaluation::warn_of_levels(&model, &self.alpha.0, &progress)?;
        model.save(&self.output)?;

        // The test part is written as it is, and evaluated.
        let mut levels = Vec::new();
        if let Some(test) = &parts.test {
            if let Some(path) = &self.test_out {
                write_data(path, test)?;
            }
            let truth = Truth::of(&model, test);
            if let Some(warning) = &truth.warning {
                progress.warn(warning);
            }
            levels = evaluation::evaluate(&model, &test.embeddings, &truth, &self.alpha, &context)?;
        }
        progress.finish();

        let seconds = begin.elapsed().as_secs_f64();
        let report = Report { model: &model, parts: &parts, levels: &levels, seconds };
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{}", self.json(&report, &progress))?;
        } else {
            self.write(&mut out, &report)?;
        }
        Ok(())
    }

    fn json(&self, report: &Report<'_>, progress: &Progress) -> Value {
        let Report { model, parts, levels, seconds } = *report;
        let fitted = model.fitted();
        json!({
            "model": self.output.display().to_string(),
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
            "test": levels,
            "warnings": progress.warnings(),
            "seconds": seconds,
        })
    }

    fn write(&self, out: &mut dyn Write, report: &Report<'_>) -> std::io::Result<()> {
        let Report { model, parts, levels, seconds } = *report;
        let fitted = model.fitted();
        let classes = pluralize(model.classes().len(), "class", "classes");
        writeln!(out, "{}: a model of {classes}, fitted in {seconds:.1} s", self.output.display())?;
        writeln!(out, "{}", paragraph("  kernel       ", &fitted.fidelity))?;
        let accuracy = format!(
            "the single best label is right on {:.1} % of the validation points (shape {:.2}, {} of metric learning)",
            100.0 * fitted.validation.accuracy,
            fitted.kernel().shape(),
            pluralize(fitted.rounds(), "round", "rounds")
        );
        writeln!(out, "{}", paragraph("  accuracy     ", &accuracy))?;
        let settings = format!(
            "{}, {} calibration on {} other points",
            word(model.method()),
            word(model.calibration()),
            parts.calibration.len()
        );
        writeln!(out, "{}", paragraph("  method       ", &settings))?;
        writeln!(out, "{}", paragraph("  guarantee    ", &model.guarantee()))?;
        if let Some(text) = evaluation::new_label_text(model) {
            writeln!(out, "{}", paragraph("  new labels   ", &text))?;
        }
        if let Some(test) = &parts.test {
            writeln!(out, "\nOn the {} test points, which neither fitted nor calibrated the model:", test.len())?;
            evaluation::write_metrics(out, levels)?;
            writeln!(out, "\n{}", evaluation::LEGEND)?;
        }
        Ok(())
    }

    /// Refuses wrong options and files before any data is read.
    fn check(&self, shared: &Shared) -> anyhow::Result<()> {
        self.columns.check(&self.data)?;
        if let Some(calibration) = &self.calibration_data {
            self.columns.of_another(calibration).check(calibration)?;
            if [calibration, &self.data].iter().all(|path| path.as_path() == Path::new("-")) {
                bail!("stdin can be read once; give the calibration points in a file");
            }
        }
        let has_test = self.split.as_ref().is_some_and(|split| split.0.len() == 3);
        if let Some(path) = &self.test_out {
            if !has_test {
                bail!("--test-out needs a test share: --split 0.4,0.4,0.2");
            }
            Format::of_file(path, "test points")?;
        }
        let inputs = [
            Some(&*self.data),
            self.columns.labels.as_deref(),
            self.calibration_data.as_deref(),
            shared.config.as_deref(),
        ];
        path_conflicts::check(&inputs, &[Some(&self.output), self.test_out.as_deref()])
    }

    /// Reads the data and divides it into parts.
    fn parts(&self, shared: &Shared, progress: &Progress) -> anyhow::Result<Parts> {
        let columns = self.columns.beside(self.groups.as_ref());
        let data = columns.sampled(&self.data, &[], self.sample, shared.seed, progress)?;
        if let Some(path) = &self.calibration_data {
            let columns = columns.of_another(path);
            let calibration = columns.dataset(path, &data.classes, progress)?;
            let mut calibration = random_points(calibration, path, progress)?;
            if let Some(name) = &self.groups {
                let groups = columns.groups(path, name, &calibration)?;
                calibration = calibration.select(&split::one_of_each(&groups, shared.seed));
            }
            return Ok(Parts { calibration, kernel: data, test: None });
        }
        let shares = self.split.as_ref().map_or(&[0.5, 0.5][..], |split| &split.0);
        let (picked, random) = data.by_provenance();
        if !picked.is_empty() && self.groups.is_some() {
            bail!(
                "{}: {} points were picked, so --groups could not keep their groups whole; give randomly drawn points \
                 with --calibration-data",
                self.data.display(),
                picked.len()
            );
        }
        let groups = self.groups.as_ref().map(|name| columns.groups(&self.data, name, &data)).transpose()?;
        let parts = if let Some(groups) = &groups {
            split::grouped_for_calibration(groups, shares, shared.seed)
        } else if self.stratify {
            let labels: Vec<u32> = random.iter().map(|&row| data.labels[row]).collect();
            split::stratified(&labels, shares, shared.seed)
        } else {
            split::uniform(random.len(), shares, shared.seed)
        };
        let mut parts = parts.with_context(|| self.data.display().to_string())?;
        // The split numbers the random points; picked points join the kernel part.
        if !picked.is_empty() {
            parts.iter_mut().flatten().for_each(|place| *place = random[*place]);
            parts[0].extend(&picked);
            progress.warn(&format!(
                "{} picked points only fit the kernel; randomly drawn points calibrate and test",
                picked.len()
            ));
        }
        Ok(Parts {
            kernel: data.select(&parts[0]),
            calibration: data.select(&parts[1]),
            test: parts.get(2).map(|rows| data.select(rows)),
        })
    }

    fn config(&self, shared: &Shared) -> Config {
        let mut config = if self.method.paper { Config::paper() } else { Config::default() };
        config.normalize = match self.normalize {
            Normalization::L2 => Normalize::L2,
            Normalization::Standardize => Normalize::Standardize,
            Normalization::None => Normalize::None,
        };
        config.sampling = match self.groups {
            Some(_) => Sampling::Grouped,
            None if self.stratify => Sampling::Stratified,
            None => Sampling::Random,
        };
        if let Some(probabilities) = self.kernel.probabilities {
            config.probabilities = probabilities.into();
        }
        config.tune.evaluations = self.kernel.evaluations;
        config.tune.memory = self.kernel.memory;
        if let Some(Range(low, high)) = self.kernel.bandwidth {
            config.tune.bandwidth = (low, high);
        }
        if let Some(Range(low, high)) = self.kernel.shape {
            config.tune.shape = (low, high);
        }
        config.conformal = self.method.apply(config.conformal, shared.seed);
        config.ridge(self.kernel.ridge).rounds(self.kernel.rounds).seed(shared.seed)
    }
}

/// Returns the word for a setting in files.
fn word(setting: impl serde::Serialize) -> String {
    json!(setting).as_str().unwrap_or_default().to_owned()
}

fn write_data(path: &Path, data: &Dataset) -> anyhow::Result<()> {
    let format = Format::of_file(path, "test points")?;
    let labels: Vec<String> = data.labels.iter().map(|&label| data.classes[label as usize].clone()).collect();
    let npz = format == Format::Npz;
    let mut frame = Frame::default();
    let ids = match &data.ids {
        Some(ids) => Cells::named(ids, data.id_kind),
        None => Cells::Integers(data.rows.iter().map(|&row| i64::from(row)).collect()),
    };
    frame.push(if npz { "ids" } else { "id" }, Column::Flat(ids));
    frame.push(if npz { "labels" } else { "label" }, Column::Flat(Cells::named(&labels, data.label_kind)));
    frame.push(if npz { "embeddings" } else { "embedding" }, Column::Vectors(data.embeddings.clone()));
    frame.notes.extend(data.source.encoder.as_ref().map(|encoder| ("encoder", encoder.to_json())));
    write_frame(path, format, &frame)
}
