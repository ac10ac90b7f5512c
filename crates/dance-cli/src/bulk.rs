//! Prediction on files with many rows: block by block, so that neither rows nor answers are all in memory at once.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dance::Error;
use dance::data::io::{Block, Blocks, ReadOptions};
use dance::data::{EncoderIdentity, Table};
use dance_page::frame::Frame;
use serde_json::Value;

use crate::answers::{self, Answers, Refusal, Summary};
use crate::data::Columns;
use crate::flags::with_flags;
use crate::output::{Destination, Format, Frames, OutputFile, write_frame};
use crate::plan::Plan;
use crate::progress::{Progress, print_line};
use crate::replies::{Replies, Taker, write_replies};

/// Numbers in a block: 16 MiB of them.
const NUMBERS: usize = 4 << 20;
/// Rows in a block of the library; blocks here are multiples of it.
const STEP: usize = 2048;

/// A model and the options for answering files.
pub(crate) struct Bulk<'b, 'a> {
    pub(crate) answers: &'b Answers<'a>,
    pub(crate) columns: Columns,
    pub(crate) progress: &'b Progress,
    /// Answers an invalid row with the reason. Without it, an invalid row fails its file.
    pub(crate) reports: bool,
}

/// The number of files that were answered, and the files that failed.
#[derive(Default)]
pub(crate) struct FileCounts {
    pub(crate) answered: usize,
    /// Files that an earlier run has answered.
    pub(crate) before: usize,
    /// The files that failed, with the reasons.
    pub(crate) failed: Vec<(PathBuf, String)>,
}

impl<'a> Bulk<'_, 'a> {
    /// Answers every file of a plan. A file that cannot be read is reported and skipped; an output that cannot be
    /// written and an interruption end the run.
    pub(crate) fn files(
        &self,
        plan: &Plan,
        options: &Value,
        resume: bool,
        summary: &mut Summary,
    ) -> anyhow::Result<FileCounts> {
        let (left, before) = plan.begin(options, resume)?;
        let mut counts = FileCounts { before, ..FileCounts::default() };
        for (path, destination) in left {
            let number = 1 + counts.before + counts.answered + counts.failed.len();
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
                    counts.answered += 1;
                }
                Err(error) if ends_run(&error) => return Err(error),
                Err(error) => {
                    let text = with_flags(&format!("{error:#}"));
                    print_line(&format!("dance: {text}"));
                    counts.failed.push((path.clone(), text));
                }
            }
        }
        Ok(counts)
    }

    /// Answers all rows of a file.
    pub(crate) fn file(&self, path: &Path, destination: &Destination, summary: &mut Summary) -> anyhow::Result<()> {
        let mut each = |out: Taker<'_, 'a>| {
            self.blocks(path, &mut |replies| {
                summary.add(&replies.answers);
                summary.bad += replies.refused.len();
                out(replies)
            })
        };
        match destination {
            Destination::Stdout => {
                let mut stdout = io::stdout().lock();
                each(&mut |replies| Ok(write_replies(&mut stdout, &replies)?))?;
                stdout.flush()?;
            }
            Destination::File(path, Format::Jsonl) => {
                OutputFile::write(path, |file| each(&mut |replies| Ok(write_replies(file, &replies)?)))?;
            }
            Destination::File(path, format @ (Format::Csv | Format::Parquet)) => {
                OutputFile::write(path, |file| {
                    let mut frames = Frames::new(file, *format);
                    each(&mut |replies| frames.write(&self.frame(&replies)))?;
                    frames.finish(&self.frame(&Replies::default()))
                })?;
            }
            // An archive of arrays needs all answers before it is written.
            Destination::File(path, format) => {
                let mut all = Replies::default();
                each(&mut |replies| {
                    all.answers.extend(replies.answers);
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

    /// Passes on the answers to every block of rows. Labels are not read.
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

    /// Answers the valid rows of a block and refuses the others.
    fn report(&self, block: Block) -> anyhow::Result<Replies<'a>> {
        let id = |place: usize| answers::id_as_json(&block.refused_ids.as_ref()?[place], block.id_kind);
        let refusal =
            |(place, (row, error)): (usize, (usize, String))| Refusal { row, line: None, error, id: id(place) };
        let refused = block.refused.into_iter().enumerate().map(refusal).collect();
        let mut replies = Replies { refused, ..Replies::default() };
        if let Some(table) = &block.table {
            self.check_encoder(table)?;
            let ids = answers::ids_of(table);
            let (answers, overflowing) = self.answers.of_each(table.embeddings(), &block.rows, &ids)?;
            replies.answers = answers;
            replies.refused.extend(overflowing);
            replies.refused.sort_by_key(|refusal| refusal.row);
        }
        Ok(replies)
    }

    fn check_encoder(&self, table: &Table) -> dance::Result<()> {
        EncoderIdentity::check(self.answers.model.encoder(), table.encoder.as_ref(), table.origin())
    }
}

/// Returns the number of rows in a block of [`NUMBERS`].
fn block_rows(dimensions: usize) -> usize {
    (NUMBERS / dimensions.max(1)).next_multiple_of(STEP).min(8 * STEP)
}

/// Returns whether an error concerns the run, not only one input file.
fn ends_run(error: &anyhow::Error) -> bool {
    let ends = |error: &Error| matches!(error, Error::Interrupted | Error::Write { .. });
    error.chain().any(|cause| cause.downcast_ref::<Error>().is_some_and(ends))
}
