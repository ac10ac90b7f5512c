//! `dance recalibrate`: the same kernel, other calibration points.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use dance::data::split;
use dance::{Dance, Dataset};
use serde_json::json;

use crate::args::Shared;
#[cfg(feature = "serve")]
use crate::data::in_order_of_names;
use crate::data::{Columns, check_there};
use crate::judged;
use crate::places;
use crate::progress::Progress;
use crate::screen;
use crate::settings::Method;

pub(crate) const EXAMPLE: &str = "Example:
  dance recalibrate model.dance last-week.npz -o model2.dance
  dance recalibrate model.dance model.dance.journal.jsonl -o model2.dance    # labels that dance serve was told
  dance recalibrate model.dance last-week.npz -o model2.dance --calibration-mode disjoint --combine union --mix 0.2

Takes seconds: nothing is fitted. DATA must not hold points that fitted the kernel. What is not given stays as it was.";

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
    #[command(flatten)]
    method: Method,
}

impl Recalibrate {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        check_there(&self.model)?;
        self.columns.check(&self.data)?;
        let inputs =
            [Some(&*self.model), Some(&self.data), self.columns.labels.as_deref(), shared.config.as_deref()];
        places::check(&inputs, &[Some(&self.output)])?;
        let progress = Progress::new(shared);
        progress.begin("calibrating");
        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let model = Dance::load(device, &self.model, &context)?;
        let mut data = self.dataset(&model, &progress)?;
        if let Some(name) = &self.groups {
            let groups = self.columns.groups(&self.data, name, &data)?;
            data = data.select(&split::one_of_each(&groups, shared.seed));
        }
        let config = self.method.apply(model.fitted().config.dance, shared.seed);
        self.method.check(&config)?;
        let model = model
            .recalibrate(device, &data, Some(config), &context)
            .with_context(|| self.data.display().to_string())?;
        let model = if self.groups.is_some() { model.of_groups() } else { model };
        judged::warn_of_levels(&model, &USUAL, &progress)?;
        model.save(&self.output)?;
        progress.finish();
        let mut out = screen::out(shared.json);
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
