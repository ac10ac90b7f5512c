//! `dance select`: the points of a pool to label next.

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
use crate::data::{Columns, FileFormat, LabelColumns, check_there};
use crate::output::{Cells, Column, Format, Frame, write_frame};
use crate::path_conflicts;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  dance select model.dance pool.npz --picked 200 -o list.csv
  dance select model.dance pool.npz --picked 200 --random 300 -o list.csv --points-out chosen.npz

Picked points have large sets and many neighbors without labels, and are unlike each other: their
labels teach the model most. --random draws points before any is picked, a uniform sample of the
pool; only these can calibrate a model or measure its coverage. The column `provenance`
(picked or random) distinguishes them in every file, and fit and recalibrate use it.

Fill the column `label` of the list, then run `dance fit chosen.npz --labels list.csv`, or fit a
folder with all files so far. Draw random points from a pool that no points were picked from: the rest
of such a pool is easier than new points.";

#[derive(Args, Debug)]
pub(crate) struct Select {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings to choose from. Labels do not influence the choice; they are kept where every row has one
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// Points to pick: those whose labels help the next fit most
    #[arg(long, value_name = "N", default_value_t = 0)]
    picked: usize,
    /// Points to draw at random. Only these may calibrate or evaluate
    #[arg(long, value_name = "N", default_value_t = 0)]
    random: usize,
    /// List to write, with the model's answer for each point: .csv, .jsonl, .parquet or .npz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the points too, in the order of the list, for fit and recalibrate
    #[arg(long, value_name = "FILE")]
    points_out: Option<PathBuf>,
    #[command(flatten)]
    files: LabelColumns,
}

impl Select {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&FileFormat::default())
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        let format = self.check(shared)?;
        let progress = Progress::new(shared);
        progress.begin("selecting");
        let (device, context) = (shared.device()?, shared.context(&progress)?);
        let model = Dance::load(device, &self.model, &context)?;
        let pool = self.columns().everything(&self.pool)?;
        EncoderIdentity::check(model.encoder(), pool.encoder.as_ref(), pool.origin())?;
        let options = SelectOptions { picked: self.picked, random: self.random, seed: shared.seed };
        let chosen = model
            .select(device, pool.embeddings(), options, &context)
            .with_context(|| self.pool.display().to_string())?;
        if chosen.seen > 0 {
            let bias = if self.random == 0 {
                ""
            } else {
                ". If they were picked from this pool, its random points are easier than new points"
            };
            progress.warn(&format!(
                "{} points of the pool fitted or calibrated the model and are not chosen{bias}",
                chosen.seen
            ));
        }
        // The list is for people, the points are for `fit`.
        let points = SelectedPoints::new(&pool, &model, &chosen);
        let answers = Answers::new(&model, &model.fitted().config.alphas[..1], &[], EmptySets::default(), &context)?;
        write_frame(&self.output, format, &points.list(&answers)?)?;
        if let Some(path) = &self.points_out {
            points.write(path)?;
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
                "overlap": chosen.seen,
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

    /// Refuses wrong options and files before anything is read, and returns the format of the list.
    fn check(&self, shared: &Shared) -> anyhow::Result<Format> {
        check_there(&self.model)?;
        self.columns().check(&self.pool)?;
        let format = Format::of_file(&self.output, "lists")?;
        if let Some(path) = &self.points_out {
            Format::of_file(path, "points")?;
        }
        if self.picked == 0 && self.random == 0 {
            bail!("no number is given: --picked 200 picks points, --random 100 draws some at random");
        }
        let inputs = [Some(&*self.model), Some(&self.pool), shared.config.as_deref()];
        path_conflicts::check(&inputs, &[Some(&self.output), self.points_out.as_deref()])?;
        Ok(format)
    }
}

/// The chosen points, picked ones first.
struct SelectedPoints<'a> {
    pool: &'a Table,
    rows: Vec<usize>,
    picked: usize,
    /// Labels that the pool has already, by the model's names.
    labels: Option<Cells>,
}

impl<'a> SelectedPoints<'a> {
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

    /// Returns the list: the model's answer for each point, and a column for its label.
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
        frame.push("label", Column::Flat(labels.unwrap_or(Cells::Texts(vec![String::new(); self.rows.len()]))));
        Ok(frame)
    }

    /// Writes the points as a file for `dance fit`.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
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
