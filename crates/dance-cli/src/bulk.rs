//! Many rows: files are answered block by block, so that neither they nor their answers are held whole, and of many files one that
//! fails does not stop the others.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dance::Error;
use dance::data::io::{Blocks, ReadOptions, RefusedRow, Rows};
use dance::data::{EncoderIdentity, Frame, Table};
use serde_json::Value;

use crate::answers::{self, Answers, Refusal, Summary};
use crate::data::Columns;
use crate::output::{Destination, Format, Frames, Watched, write_frame};
use crate::plan::Plan;
use crate::progress::{Progress, tell};
use crate::replies::{Replies, Taker, write_replies};

/// Numbers in a block: 16 MB of them.
const NUMBERS: usize = 4 << 20;
/// The library's own blocks of queries.
const STEP: usize = 2048;

/// Answers files.
pub(crate) struct Bulk<'b, 'a> {
    pub(crate) answers: &'b Answers<'a>,
    pub(crate) columns: &'b Columns,
    pub(crate) progress: &'b Progress,
    /// Whether a row that is no point is answered with its reason, and does not end its file.
    pub(crate) reports: bool,
}

/// How many files had an end of which kind.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) answered: usize,
    pub(crate) before: usize,
    /// Which failed, and why.
    pub(crate) failed: Vec<(PathBuf, String)>,
}

impl<'a> Bulk<'_, 'a> {
    /// Answers every file of a plan. One that cannot be read is told and left; what the disk or the user says ends it all.
    pub(crate) fn files(
        &self,
        plan: &Plan,
        of: &Value,
        resume: bool,
        summary: &mut Summary,
    ) -> anyhow::Result<Ended> {
        let (left, before) = plan.begin(of, resume)?;
        let mut ended = Ended { before, ..Ended::default() };
        for (path, destination) in left {
            let number = 1 + ended.before + ended.answered + ended.failed.len();
            self.progress.begin(&format!("predicting, file {number} of {}", plan.len()));
            if let Destination::File(path, _) = destination
                && let Some(folder) = path.parent()
            {
                std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            }
            let mut own = summary.empty();
            match self.file(path, destination, &mut own) {
                Ok(()) => {
                    summary.merge(&own);
                    ended.answered += 1;
                }
                Err(error) if ends_all(&error) => return Err(error),
                Err(error) => {
                    tell(&format!("dance: {error:#}"));
                    ended.failed.push((path.clone(), format!("{error:#}")));
                }
            }
        }
        Ok(ended)
    }

    /// Answers all rows of a file. Its labels are nobody's business.
    pub(crate) fn file(
        &self,
        path: &Path,
        destination: &Destination,
        summary: &mut Summary,
    ) -> anyhow::Result<()> {
        let mut each = |out: Taker<'_, 'a>| {
            self.blocks(path, &mut |found| {
                summary.add(&found.answers);
                summary.bad += found.refused.len();
                out(found)
            })
        };
        match destination {
            Destination::Stdout => {
                let mut stdout = io::stdout().lock();
                each(&mut |found| Ok(write_replies(&mut stdout, &found)?))?;
                stdout.flush()?;
            }
            Destination::File(path, Format::Jsonl) => {
                Watched::write(path, |file| each(&mut |found| Ok(write_replies(file, &found)?)))?;
            }
            Destination::File(path, format @ (Format::Csv | Format::Parquet)) => {
                Watched::write(path, |file| {
                    let mut frames = Frames::new(file, *format);
                    each(&mut |found| frames.write(&self.frame(&found)))?;
                    frames.finish(&self.frame(&Replies::default()))
                })?;
            }
            // An archive of arrays is written whole.
            Destination::File(path, format) => {
                let mut all = Replies::default();
                each(&mut |found| {
                    all.answers.extend(found.answers);
                    Ok(())
                })?;
                write_frame(path, *format, &self.frame(&all))?;
            }
        }
        Ok(())
    }

    fn frame(&self, replies: &Replies<'a>) -> Frame {
        self.answers.frame(&replies.answers, self.reports.then_some(&replies.refused))
    }

    /// Hands on the answers to every block of rows.
    fn blocks(&self, path: &Path, out: Taker<'_, 'a>) -> anyhow::Result<()> {
        let options = ReadOptions { without_labels: true, ..self.columns.options() };
        let mut blocks = Blocks::open(path, &options)?;
        let shape = self.answers.model.fitted().point_shape();
        let most = block_rows(shape.dimensions);
        if self.reports {
            while let Some(rows) = blocks.next_points(most, shape)? {
                out(self.report(rows).with_context(|| path.display().to_string())?)?;
            }
            return Ok(());
        }
        let mut first = 0;
        while let Some(table) = blocks.next(most)? {
            self.check_encoder(&table)?;
            let points = table.embeddings();
            let is_zero = |&row: &usize| points.row(row).iter().all(|&value| value == 0.0);
            if let Some(row) = (0..points.rows()).find(is_zero).filter(|_| shape.directed) {
                bail!(
                    "{}: row {} is all zeros and has no direction to normalise; remove it",
                    path.display(),
                    first + row
                );
            }
            let found = self.answers.of(points, first, &answers::ids_of(&table));
            let answers = found.with_context(|| path.display().to_string())?;
            out(Replies { answers, ..Replies::default() })?;
            first += points.rows();
        }
        Ok(())
    }

    /// Answers what can be answered, and says of the rest why not.
    fn report(&self, rows: Rows) -> anyhow::Result<Replies<'a>> {
        let refusal = |refused: RefusedRow| Refusal {
            row: refused.row,
            line: None,
            error: refused.problem.to_string(),
            id: refused.id.and_then(|id| answers::written(&id, rows.id_kind)),
        };
        let mut replies =
            Replies { refused: rows.refused.into_iter().map(refusal).collect(), ..Replies::default() };
        if let Some(table) = &rows.table {
            self.check_encoder(table)?;
            let ids = answers::ids_of(table);
            let (found, overflowing) = self.answers.of_each(table.embeddings(), &rows.rows, &ids)?;
            replies.answers = found;
            replies.refused.extend(overflowing);
            replies.refused.sort_by_key(|refusal| refusal.row);
        }
        Ok(replies)
    }

    fn check_encoder(&self, table: &Table) -> dance::Result<()> {
        EncoderIdentity::check(self.answers.model.encoder(), table.encoder.as_ref(), table.origin())
    }
}

/// As many rows as fit into a block of [`NUMBERS`].
pub(crate) fn block_rows(dimensions: usize) -> usize {
    (NUMBERS / dimensions.max(1)).next_multiple_of(STEP).min(8 * STEP)
}

/// Whether there is no use in going on with other files.
fn ends_all(error: &anyhow::Error) -> bool {
    let ends = |error: &Error| matches!(error, Error::Interrupted | Error::Write { .. });
    error.chain().any(|cause| cause.downcast_ref::<Error>().is_some_and(ends))
}
