//! `dance fit`: fits a kernel, calibrates it and writes a model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use dance::data::{Normalize, split};
use dance::{Config, Dataset, Error, Fitted, Sampling};
use dance_page::terminal;

use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabeledFile, Truth, random_points};
use crate::evaluation;
use crate::output::{Cells, Column, Format, Frame, write_frame};
use crate::parse::{self, Alphas, Split};
use crate::path_conflicts;
use crate::progress::Progress;
use crate::settings::{KernelSettings, MethodOptions, ScoreSettings};

mod report;

use self::report::{Expected, Report};

pub(crate) const EXAMPLE: &str = "Example:
  dance fit embeddings.npz -o model.dance
  dance fit all.parquet -o model.dance --split 0.4,0.4,0.2 --test-out test.npz --alpha 0.1,0.05
  dance fit parts/ -o model.dance --sample 20000
  dance fit train.csv --calibration-data more.csv -o model.dance --method fuse
  dance fit embeddings.npz -o model.dance --paper

DATA is .npz (arrays `embeddings`, `labels`), .npy with --labels, .safetensors, .csv, .tsv,
.parquet or .jsonl. A pipe, or `-` for stdin, needs --format.

Rows without a label (an empty cell, NaN, null) are an error, and so is the label -1 beside other
classes; --unlabeled leaves such rows out.

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

#[derive(Args, Debug)]
pub(crate) struct Fit {
    /// Embeddings with labels: a file, or a folder or pattern of files
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    /// Error levels, stored in the model: a set misses the true label in at most this share of cases. Other levels can
    /// still be asked for later
    #[arg(
        long, value_name = "LEVEL,…", default_value = "0.1", value_parser = parse::alphas,
        allow_hyphen_values = true
    )]
    alpha: Alphas,
    /// Shares of DATA for kernel, calibration and, if a third is given, test [default: 0.5,0.5]
    #[arg(long, value_name = "SHARES", value_parser = parse::split)]
    split: Option<Split>,
    /// Calibrate on this file, and fit the kernel on all of DATA
    #[arg(long, value_name = "FILE", conflicts_with = "split")]
    calibration_data: Option<PathBuf>,
    /// Write the test part to this file (.npz, .csv, .parquet, .jsonl), with ids, or rows of DATA where there are no
    /// ids
    #[arg(long, value_name = "FILE")]
    test_out: Option<PathBuf>,
    /// Column or array of group names (videos, patients, augmentations), for points that come in groups. No group is
    /// split between parts, and one random point per group calibrates, so that the guarantee holds for a point of a new
    /// group
    #[arg(long, value_name = "NAME", help_heading = "Guarantee")]
    groups: Option<String>,
    #[command(flatten)]
    method: MethodOptions,
    /// Use the paper's settings: method dance with reuse, no refit on validation points, clamped probabilities. Other
    /// options win
    #[arg(long, help_heading = "Method", hide_short_help = true)]
    paper: bool,
    /// Settings of the scores of fuse and dance, for comparisons with the paper [default:
    /// `rank_neighbors=100,contrast_neighbors=50,temperature=0.01,mix=auto`]. `mix` is the share of alpha for the
    /// contrastive score with the method dance: auto, or 0 (k-NN set) to 1 (CLR set)
    #[arg(
        long, value_name = "NAME=VALUE,…", value_parser = ScoreSettings::parse, help_heading = "Method",
        hide_short_help = true
    )]
    scores: Option<ScoreSettings>,
    #[command(flatten)]
    kernel: Kernel,
    /// Maximum memory of the fit, such as 4GiB; a fit that needs more is refused before it starts
    #[arg(long, value_name = "SIZE", value_parser = parse::memory)]
    memory: Option<u64>,
    /// Use only N rows of DATA, drawn at random in one pass. For data that does not fit into memory
    #[arg(
        long, value_name = "N", value_parser = parse::at_least_one, help_heading = "Input files", hide_short_help = true
    )]
    sample: Option<usize>,
    #[command(flatten)]
    format: FileFormat,
    #[command(flatten)]
    files: LabeledFile,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Kernel")]
struct Kernel {
    /// Settings to try in the search for bandwidth and shape. Fewer are faster, more rarely help
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = parse::at_least_one)]
    evaluations: usize,
    /// Scaling of embeddings before the fit. `l2` suits encoders that compare by cosine
    #[arg(long, value_enum, default_value_t = Normalization::L2, value_name = "HOW", hide_short_help = true)]
    normalize: Normalization,
    /// Settings of the kernel, to fix what the search would find [default:
    /// bandwidth=0.1..20,shape=0.5..2,ridge=0.001,rounds=5]. The bandwidth is in median distances; rounds of metric
    /// learning are a maximum
    #[arg(long = "kernel", value_name = "NAME=VALUE,…", value_parser = KernelSettings::parse, hide_short_help = true)]
    settings: Option<KernelSettings>,
}

/// The parts of the data: kernel and calibration, and test points that neither uses.
struct Parts {
    kernel: Dataset,
    calibration: Dataset,
    test: Option<Dataset>,
}

impl Fit {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&self.format)
    }

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
        let (mut levels, mut expected) = (Vec::new(), None);
        if let Some(test) = &parts.test {
            if let Some(path) = &self.test_out {
                write_data(path, test)?;
            }
            let truth = Truth::of(&model, test);
            if let Some(warning) = &truth.warning {
                progress.warn(warning);
            }
            levels = evaluation::evaluate(&model, &test.embeddings, &truth, &self.alpha, &context)?;
        } else {
            // The warnings of this calibration are those of the first one.
            expected = match Expected::new(&model, &parts, &self.alpha, shared, &context.quiet()) {
                Err(error @ Error::Interrupted) => return Err(error.into()),
                Err(error) => {
                    // The model is written; only its forecast is missing.
                    progress.warn(&format!("there is no estimate of the set size: {error}"));
                    None
                }
                Ok(expected) => expected,
            };
        }
        progress.finish();

        let seconds = begin.elapsed().as_secs_f64();
        let report = Report { model: &model, parts: &parts, levels: &levels, expected: expected.as_ref(), seconds };
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{}", report.json(&self.output, &progress))?;
        } else {
            report.write(&mut out, &self.output)?;
        }
        Ok(())
    }

    /// Refuses wrong options and files before any data is read.
    fn check(&self, shared: &Shared) -> anyhow::Result<()> {
        self.columns().check(&self.data)?;
        if let Some(calibration) = &self.calibration_data {
            self.columns().of_another(calibration).check(calibration)?;
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
            self.files.labels.as_deref(),
            self.calibration_data.as_deref(),
            shared.config.as_deref(),
        ];
        path_conflicts::check(&inputs, &[Some(&self.output), self.test_out.as_deref()])
    }

    /// Reads the data and divides it into parts.
    fn parts(&self, shared: &Shared, progress: &Progress) -> anyhow::Result<Parts> {
        let columns = self.columns().beside(self.groups.as_ref());
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
        let mut config = if self.paper { Config::paper() } else { Config::default() };
        config.alphas.clone_from(&self.alpha.0);
        config.normalize = match self.kernel.normalize {
            Normalization::L2 => Normalize::L2,
            Normalization::Standardize => Normalize::Standardize,
            Normalization::None => Normalize::None,
        };
        config.sampling = if self.groups.is_some() { Sampling::Grouped } else { Sampling::Random };
        config.tune.evaluations = self.kernel.evaluations;
        config.tune.memory = self.memory;
        config = config.seed(shared.seed);
        if let Some(settings) = &self.kernel.settings {
            config = settings.apply(config);
        }
        config.conformal = self.method.apply(config.conformal, shared.seed);
        if let Some(scores) = &self.scores {
            config.conformal = scores.apply(config.conformal);
        }
        config
    }
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
