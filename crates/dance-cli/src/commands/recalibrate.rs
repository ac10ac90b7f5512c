//! `dance recalibrate`: the kernel of a model with other calibration points or another method.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use dance::data::{io, split};
use dance::model::rejection_sample;
use dance::{Config, Dance, Dataset, Sampling};
use dance_page::terminal;
use serde_json::json;

use crate::args::Shared;
#[cfg(feature = "serve")]
use crate::data::in_order_of_names;
use crate::data::{Columns, FileFormat, LabeledFile, check_there, random_points};
use crate::evaluation;
use crate::parse;
use crate::path_conflicts;
use crate::progress::Progress;
use crate::settings::MethodOptions;

pub(crate) const EXAMPLE: &str = "Example:
  dance recalibrate model.dance last-week.npz -o model2.dance
  dance recalibrate model.dance model.dance.journal.jsonl -o model2.dance    # of `dance serve`
  dance recalibrate model.dance new.npz -o model2.dance --by-class each
  dance recalibrate model.dance all.npz -o model2.dance --window 2000
  dance recalibrate model.dance all.npz -o model2.dance --label-shift today.npz

Takes seconds: the kernel is not fitted again. DATA must not contain points that fitted the
kernel. Options that are not given keep the model's values; --method and --calibration reset those
that depend on them.

Points that `dance select` picked are left out, because new points are not picked. --window,
--weights and --label-shift calibrate on a part of the points that resembles current points; the
guarantee says for which points it then holds.";

/// The usual levels. A warning says if the points are too few for one of them.
const USUAL: [f64; 2] = [0.1, 0.05];

#[derive(Args, Debug)]
pub(crate) struct Recalibrate {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels to calibrate on
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Model file to write
    #[arg(short, long, value_name = "MODEL2")]
    output: PathBuf,
    /// Column or array of group names: one random point per group calibrates
    #[arg(long, value_name = "NAME")]
    groups: Option<String>,
    /// Calibrate on the last N rows; the guarantee holds for points like those
    #[arg(
        long, value_name = "N", value_parser = parse::at_least_one,
        conflicts_with_all = ["weights", "label_shift", "groups"]
    )]
    window: Option<usize>,
    /// Importance weights, one number per row (.npy, .txt, or .csv with a column `weight`), up to a common factor: how
    /// much more frequent points like the row are now. Rows are kept in proportion, so that the guarantee holds for
    /// current points
    #[arg(long, value_name = "FILE", conflicts_with_all = ["label_shift", "groups"])]
    weights: Option<PathBuf>,
    /// Current points without labels, for label shift: class frequencies have changed, points within each class have
    /// not. Rows are kept in proportion to the estimated class frequencies
    #[arg(long, value_name = "FILE", conflicts_with = "groups")]
    label_shift: Option<PathBuf>,
    #[command(flatten)]
    files: LabeledFile,
    #[command(flatten)]
    format: FileFormat,
    #[command(flatten)]
    method: MethodOptions,
}

impl Recalibrate {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&self.format)
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        self.check(shared)?;
        let progress = Progress::new(shared);
        progress.begin("calibrating");
        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let model = Dance::load(device, &self.model, &context)?;
        // The options and the model's own settings must agree, before the data is read.
        let config = self.method.apply(model.fitted().config.conformal, shared.seed);
        config.check()?;
        let mut data = random_points(self.dataset(&model, &progress)?, &self.data, &progress)?;
        let sampling = self.sample(&model, &mut data, shared, &context)?;
        let model = model
            .recalibrate(device, &data, sampling, Some(config), &context)
            .with_context(|| self.data.display().to_string())?;
        evaluation::warn_of_levels(&model, &USUAL, &progress)?;
        model.save(&self.output)?;
        progress.finish();
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            let report = json!({
                "model": self.output.display().to_string(),
                "calibration_points": data.len(),
                "classes": model.classes().len(),
                "method": model.method(),
                "calibration": model.calibration(),
                "guarantee": model.guarantee(),
                "warnings": progress.warnings(),
            });
            writeln!(out, "{report}")?;
        } else {
            writeln!(
                out,
                "{}: calibrated on {} points of {}; guarantee: {}",
                self.output.display(),
                data.len(),
                self.data.display(),
                model.guarantee()
            )?;
        }
        Ok(())
    }

    /// Refuses wrong options and files before anything is read.
    fn check(&self, shared: &Shared) -> anyhow::Result<()> {
        // Options alone contradict each other only where they name the method; the model's settings are checked with
        // it.
        if self.method.method.is_some() {
            let config = Config::default().conformal;
            self.method.apply(config, shared.seed).check()?;
        }
        check_there(&self.model)?;
        self.columns().check(&self.data)?;
        for path in [&self.weights, &self.label_shift].into_iter().flatten() {
            check_there(path)?;
        }
        let inputs = [
            Some(&*self.model),
            Some(&*self.data),
            self.files.labels.as_deref(),
            self.weights.as_deref(),
            self.label_shift.as_deref(),
            shared.config.as_deref(),
        ];
        path_conflicts::check(&inputs, &[Some(&self.output)])
    }

    /// Reduces `data` to the points that calibrate, and returns how they were drawn.
    fn sample(
        &self,
        model: &Dance,
        data: &mut Dataset,
        shared: &Shared,
        context: &dance::Context<'_>,
    ) -> anyhow::Result<Sampling> {
        let of = data.len();
        let (rows, sampling) = if let Some(name) = &self.groups {
            let groups = self.columns().groups(&self.data, name, data)?;
            (split::one_of_each(&groups, shared.seed), Sampling::Grouped)
        } else if let Some(points) = self.window {
            if points > of {
                bail!("{}: has {of} points, and --window needs the last {points}", self.data.display());
            }
            ((of - points..of).collect(), Sampling::Window { points })
        } else if let Some(path) = &self.weights {
            // One weight per row of the file: `data` knows the row that each point came from.
            let all = io::read_numbers(path, "weight")?;
            let weight = |&row: &u32| {
                let found = all.get(row as usize).copied();
                found.with_context(|| format!("{}: has {} weights, and none for row {row}", path.display(), all.len()))
            };
            let weights = data.rows.iter().map(weight).collect::<anyhow::Result<Vec<_>>>()?;
            let rows = rejection_sample(&weights, shared.seed).with_context(|| path.display().to_string())?;
            (rows, Sampling::Weighted { of })
        } else if let Some(path) = &self.label_shift {
            let table = self.columns().of_another(path).points_for(path, model)?;
            let unlabeled = table.embeddings().rows();
            let rows = model
                .label_shift(data, table.embeddings(), shared.seed, context)
                .with_context(|| path.display().to_string())?;
            (rows, Sampling::LabelShift { of, unlabeled })
        } else {
            return Ok(Sampling::Random);
        };
        if rows.is_empty() {
            bail!("{}: no point is left to calibrate on; more points are needed", self.data.display());
        }
        *data = data.select(&rows);
        Ok(sampling)
    }

    /// Reads the points to calibrate on. In a journal of `dance serve`, only randomly drawn points count.
    fn dataset(&self, model: &Dance, progress: &Progress) -> anyhow::Result<Dataset> {
        #[cfg(feature = "serve")]
        if dance_serve::journal::is_journal(&self.data) {
            let (table, picked) = dance_serve::journal::read_drawn(&self.data)?;
            if picked > 0 {
                progress.warn(&format!(
                    "{picked} labels of picked points are left out: only randomly drawn points can calibrate"
                ));
            }
            return Ok(in_order_of_names(table.into_dataset()?));
        }
        self.columns().beside(self.groups.as_ref()).dataset(&self.data, model.classes(), progress)
    }
}
