//! `dance select`: what to label next.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use dance::data::{EncoderIdentity, PICKED, RANDOM};
use dance::model::{SelectOptions, Selection};
use dance::scores::EmptySets;
use dance::{Dance, Table};
use dance_page::terminal;
use serde_json::json;

use crate::answers::{Answers, ids_of};
use crate::args::Shared;
use crate::data::{Columns, check_there};
use crate::output::{Cells, Column, Format, Frame, write_frame};
use crate::parse;
use crate::places;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  dance select pool.npz model.dance -n 200 -o list.csv
  dance select pool.npz model.dance -n 200 --audit 300 -o list.csv --points-out chosen.npz

Picked points are those that together stand for most of what the model is unsure of: large sets, many points near by, unlike each other.
--audit draws points at random, before any is picked: a fair sample of the pool. Only these may calibrate or judge. Every file says which
is which (`provenance`: picked or random), and fit and recalibrate keep to it.
People fill the column `label` of the list; then `dance fit chosen.npz --labels list.csv`, or a folder of the files fit so far and this one.
Draw the audit from a pool that nobody has picked from: what is left of one is easier than what comes.";

#[derive(Args, Debug)]
pub(crate) struct Select {
    /// Embeddings to choose from; labels are not looked at, and kept where every row has one
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Points to pick
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    number: usize,
    /// Points to draw at random, for calibration or to judge by
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit: usize,
    /// The list to write, with what the model says of each point: .csv, .jsonl, .parquet or .npz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the points themselves too, in the order of the list: what fit and recalibrate read
    #[arg(long, value_name = "FILE")]
    points_out: Option<PathBuf>,
    /// Error level of the sets in the list; what is chosen does not depend on it
    #[arg(long, value_name = "LEVEL", default_value = "0.1", value_parser = parse::alpha, allow_hyphen_values = true)]
    alpha: f64,
    #[command(flatten)]
    columns: Columns,
}

impl Select {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        check_there(&self.model)?;
        self.columns.check(&self.pool)?;
        let format = Format::of_file(&self.output, "lists")?;
        if let Some(path) = &self.points_out {
            Format::of_file(path, "points")?;
        }
        if self.number == 0 && self.audit == 0 {
            bail!("nothing is asked for: -n 200 picks points, --audit 100 draws some at random");
        }
        let inputs =
            [Some(&*self.model), Some(&self.pool), self.columns.labels.as_deref(), shared.config.as_deref()];
        places::check(&inputs, &[Some(&self.output), self.points_out.as_deref()])?;
        let progress = Progress::new(shared);
        progress.begin("selecting");
        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let model = Dance::load(device, &self.model, &context)?;
        let pool = self.columns.everything(&self.pool)?;
        EncoderIdentity::check(model.encoder(), pool.encoder.as_ref(), pool.origin())?;
        let options = SelectOptions { picked: self.number, random: self.audit, seed: shared.seed };
        let chosen = model
            .select(device, pool.embeddings(), options, &context)
            .with_context(|| self.pool.display().to_string())?;
        if chosen.seen > 0 {
            let unfair = if self.audit == 0 {
                ""
            } else {
                "; if they were picked from this pool, what is left of it is easier than what comes, and so is the audit"
            };
            progress.warn(&format!(
                "{} points of the pool fitted or calibrated the model and are not chosen{unfair}",
                chosen.seen
            ));
        }
        let picks = Picks::new(&pool, &model, &chosen);
        let answers = Answers::new(&model, &[self.alpha], &[], EmptySets::default(), &context)?;
        write_frame(&self.output, format, &picks.list(&answers)?)?;
        if let Some(path) = &self.points_out {
            picks.write_points(path)?;
        }
        progress.finish();
        let mut out = terminal::stdout(shared.json);
        let rows = |places: &[usize]| places.iter().map(|&place| pool.row(place)).collect::<Vec<_>>();
        if shared.json {
            let report = json!({
                "list": self.output.display().to_string(),
                "pool": pool.embeddings().rows(),
                "picked": rows(&chosen.picked),
                "random": rows(&chosen.random),
                "seen": chosen.seen,
                "warnings": progress.warnings(),
            });
            writeln!(out, "{report}")?;
        } else {
            writeln!(
                out,
                "{}: {} picked and {} drawn at random of {} points",
                self.output.display(),
                chosen.picked.len(),
                chosen.random.len(),
                pool.embeddings().rows()
            )?;
        }
        Ok(())
    }
}

/// Points that were chosen: picked ones first.
struct Picks<'a> {
    pool: &'a Table,
    rows: Vec<usize>,
    picked: usize,
    /// Labels that the pool has already, as the model names them.
    labels: Option<Cells>,
}

impl<'a> Picks<'a> {
    fn new(pool: &'a Table, model: &Dance, chosen: &Selection) -> Self {
        let rows: Vec<usize> = chosen.picked.iter().chain(&chosen.random).copied().collect();
        let labels = pool.label_names(model.classes()).ok().map(|names| {
            let names: Vec<String> = rows.iter().map(|&row| names[row].clone()).collect();
            Cells::named(&names, pool.label_kind())
        });
        Self { pool, rows, picked: chosen.picked.len(), labels }
    }

    fn provenance(&self) -> Column {
        let word = |place: usize| if place < self.picked { PICKED } else { RANDOM }.to_owned();
        Column::texts((0..self.rows.len()).map(word).collect())
    }

    /// What people see: what the model says of each point, and a column for its label.
    fn list(&self, answers: &Answers<'_>) -> anyhow::Result<Frame> {
        let all = ids_of(self.pool);
        let ids: Vec<_> = self.rows.iter().map(|&row| all.get(row).cloned().flatten()).collect();
        let mut found = answers.of(&self.pool.embeddings().select(&self.rows), 0, &ids)?;
        for (answer, &row) in found.iter_mut().zip(&self.rows) {
            answer.row = self.pool.row(row) as usize;
        }
        let mut frame = answers.frame(&found, None);
        frame.push("provenance", self.provenance());
        let labels = self.labels.clone();
        frame.push(
            "label",
            Column::Flat(labels.unwrap_or(Cells::Texts(vec![String::new(); self.rows.len()]))),
        );
        Ok(frame)
    }

    /// What `dance fit` reads.
    fn write_points(&self, path: &Path) -> anyhow::Result<()> {
        let format = Format::of_file(path, "points")?;
        let npz = format == Format::Npz;
        let mut frame = Frame::default();
        if let Some(ids) = &self.pool.ids {
            let ids: Vec<String> = self.rows.iter().map(|&row| ids[row].clone()).collect();
            frame.push(if npz { "ids" } else { "id" }, Column::Flat(Cells::named(&ids, self.pool.id_kind)));
        }
        if let Some(labels) = &self.labels {
            frame.push(if npz { "labels" } else { "label" }, Column::Flat(labels.clone()));
        }
        frame.push("provenance", self.provenance());
        let points = self.pool.embeddings().select(&self.rows);
        frame.push(if npz { "embeddings" } else { "embedding" }, Column::Vectors(points));
        frame.notes.extend(self.pool.encoder.as_ref().map(|encoder| ("encoder", encoder.to_json())));
        write_frame(path, format, &frame)
    }
}
