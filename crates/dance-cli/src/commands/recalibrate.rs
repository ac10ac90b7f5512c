//! `dance recalibrate`: the same kernel, other calibration points.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use dance::data::{io, split};
use dance::model::rejection_sample;
use dance::{Dance, Dataset, Sampling};
use dance_page::terminal;
use serde_json::json;

use crate::args::Shared;
#[cfg(feature = "serve")]
use crate::data::in_order_of_names;
use crate::data::{Columns, check_there, drawn};
use crate::judged;
use crate::parse;
use crate::places;
use crate::progress::Progress;
use crate::settings::Method;

pub(crate) const EXAMPLE: &str = "Example:
  dance recalibrate model.dance last-week.npz -o model2.dance
  dance recalibrate model.dance model.dance.journal.jsonl -o model2.dance    # labels that dance serve was told
  dance recalibrate model.dance last-week.npz -o model2.dance --method dance --calibration split --mix 0.2
  dance recalibrate model.dance all.npz -o model2.dance --window 2000
  dance recalibrate model.dance all.npz -o model2.dance --label-shift today.npz

Takes seconds: nothing is fitted. DATA must not hold points that fitted the kernel. What is not given stays as it was.
Points that `dance select` picked are left out: they are not like new ones. --window, --weights and --label-shift calibrate on some of
the points, chosen to be like what comes now; the guarantee says for which points it then holds.";

/// Levels that most people ask for: where the points are too few for one of them, it is said.
const USUAL: [f64; 2] = [0.1, 0.05];

#[derive(Args, Debug)]
pub(crate) struct Recalibrate {
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings with labels to calibrate on
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// The model file to write
    #[arg(short, long, value_name = "MODEL2")]
    output: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// Points come in groups, which this column or array names: one point of each, drawn at random, calibrates
    #[arg(long, value_name = "NAME")]
    groups: Option<String>,
    /// Calibrate on the last N rows: it holds for points like those
    #[arg(long, value_name = "N", value_parser = parse::at_least_one, conflicts_with_all = ["weights", "label_shift", "groups"])]
    window: Option<usize>,
    /// How much more often points like each row come now than they came then, up to a factor: one number per row (.npy, .txt, or .csv with
    /// a column `weight`). Rows stay in proportion to it, so that the guarantee holds for what comes now; few stay where weights differ much
    #[arg(long, value_name = "FILE", conflicts_with_all = ["label_shift", "groups"])]
    weights: Option<PathBuf>,
    /// Points without labels from where points come now: classes get their proportions, rows stay in proportion. For points of each
    /// class that are what they were
    #[arg(long, value_name = "FILE", conflicts_with = "groups")]
    label_shift: Option<PathBuf>,
    #[command(flatten)]
    method: Method,
}

impl Recalibrate {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        check_there(&self.model)?;
        self.columns.check(&self.data)?;
        for path in [&self.weights, &self.label_shift].into_iter().flatten() {
            check_there(path)?;
        }
        let inputs = [
            Some(&*self.model),
            Some(&*self.data),
            self.columns.labels.as_deref(),
            self.weights.as_deref(),
            self.label_shift.as_deref(),
            shared.config.as_deref(),
        ];
        places::check(&inputs, &[Some(&self.output)])?;
        let progress = Progress::new(shared);
        progress.begin("calibrating");
        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let model = Dance::load(device, &self.model, &context)?;
        let mut data = drawn(self.dataset(&model, &progress)?, &self.data, &progress)?;
        let sampling = self.sample(&model, &mut data, shared, &context)?;
        let config = self.method.apply(model.fitted().config.conformal, shared.seed);
        let model = model
            .recalibrate(device, &data, sampling, Some(config), &context)
            .with_context(|| self.data.display().to_string())?;
        judged::warn_of_levels(&model, &USUAL, &progress)?;
        model.save(&self.output)?;
        progress.finish();
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            let report = json!({
                "model": self.output.display().to_string(),
                "calibration_points": data.len(),
                "classes": model.classes().len(),
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

    /// Keeps the points to calibrate on, and says how they were drawn from `data`.
    fn sample(
        &self,
        model: &Dance,
        data: &mut Dataset,
        shared: &Shared,
        context: &dance::Context<'_>,
    ) -> anyhow::Result<Sampling> {
        let of = data.len();
        let (rows, sampling) = if let Some(name) = &self.groups {
            let groups = self.columns.groups(&self.data, name, data)?;
            (split::one_of_each(&groups, shared.seed), Sampling::Grouped)
        } else if let Some(points) = self.window {
            if points > of {
                bail!("{}: has {of} points, and --window asks for the last {points}", self.data.display());
            }
            ((of - points..of).collect(), Sampling::Window { points })
        } else if let Some(path) = &self.weights {
            let all = io::read_numbers(path, "weight")?;
            let weight = |&row: &u32| {
                let found = all.get(row as usize).copied();
                found.with_context(|| {
                    format!("{}: has {} weights, and none for row {row}", path.display(), all.len())
                })
            };
            let weights = data.rows.iter().map(weight).collect::<anyhow::Result<Vec<_>>>()?;
            let rows = rejection_sample(&weights, shared.seed).with_context(|| path.display().to_string())?;
            (rows, Sampling::Weighted { of })
        } else if let Some(path) = &self.label_shift {
            let table = self.columns.of_another(path).points_for(path, model)?;
            let unlabelled = table.embeddings().rows();
            let rows = model
                .label_shift(data, table.embeddings(), shared.seed, context)
                .with_context(|| path.display().to_string())?;
            (rows, Sampling::LabelShift { of, unlabelled })
        } else {
            return Ok(Sampling::Random);
        };
        if rows.is_empty() {
            bail!("{}: no point is like what comes now; more points are needed", self.data.display());
        }
        *data = data.select(&rows);
        Ok(sampling)
    }

    /// Points to calibrate on; of a journal of `dance serve`, those that came by chance.
    fn dataset(&self, model: &Dance, progress: &Progress) -> anyhow::Result<Dataset> {
        #[cfg(feature = "serve")]
        if dance_serve::journal::is_journal(&self.data) {
            let (table, picked) = dance_serve::journal::read_drawn(&self.data)?;
            if picked > 0 {
                progress.warn(&format!(
                    "{picked} labels of points that were picked are left out: only points that came by chance are like new ones"
                ));
            }
            return Ok(in_order_of_names(table.into_dataset()?));
        }
        self.columns.beside(self.groups.as_ref()).dataset(&self.data, model.classes(), progress)
    }
}
