//! `dance predict` on JSON lines, which are answered as they arrive.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};

use super::Predict;
use super::adapt::Adapting;
use crate::answers::{Answers, Refusal, Summary};
use crate::json_lines::{Group, LateLabel, Next, Points};
use crate::output::{Destination, Format, OutputFile, write_frame};
use crate::replies::{Replies, Taker, write_replies};

impl Predict {
    /// Reads lines and writes answers; a table is written at the end.
    pub(super) fn stream<'a>(
        &self,
        answers: &Answers<'a>,
        destination: &Destination,
        adapting: &mut Option<Adapting>,
    ) -> anyhow::Result<Summary> {
        let is_stdin = self.data() == Path::new("-");
        let name = if is_stdin { "stdin".into() } else { self.data().display().to_string() };
        let input: Box<dyn Read> = if is_stdin {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(self.data()).with_context(|| name.clone())?)
        };
        let shape = answers.model.fitted().point_shape();
        let mut points = Points::new(input, name.clone(), self.columns().options(), shape);
        if adapting.is_some() {
            points = points.with_late_labels();
        }
        let mut summary = Summary::new(answers, self.novelty);
        let mut each = |out: Taker<'_, 'a>| -> anyhow::Result<()> {
            loop {
                match points.next()? {
                    Next::Points(group) => match adapting {
                        Some(adapting) => {
                            adapting.answer(answers, &group, &mut summary, &name, out)?;
                            // Answers on stdout cannot be taken back, so the state is saved with them.
                            if *destination == Destination::Stdout {
                                adapting.save()?;
                            }
                        }
                        None => self.answer(answers, &group, &mut summary, &name, out)?,
                    },
                    Next::Label(LateLabel { row, line, id, label }) => {
                        let taken = adapting.as_mut().map_or(Ok(()), |level| level.take_label(answers, &id, &label));
                        if let Err(error) = taken {
                            let refusal = Refusal { row, line: Some(line), id: Some(id), error };
                            let replies = Replies { refused: vec![refusal], ..Replies::default() };
                            self.reply(replies, &mut summary, &name, out)?;
                        }
                    }
                    Next::Invalid(refusal) => {
                        let replies = Replies { refused: vec![refusal], ..Replies::default() };
                        self.reply(replies, &mut summary, &name, out)?;
                    }
                    Next::End => return Ok(()),
                }
            }
        };

        let result = match destination {
            // Every answer is flushed, because its reader may wait for it before it sends the next point.
            Destination::Stdout => {
                let mut stdout = io::stdout().lock();
                each(&mut |replies| {
                    write_replies(&mut stdout, &replies)?;
                    Ok(stdout.flush()?)
                })
            }
            Destination::File(path, Format::Jsonl) => {
                OutputFile::write(path, |file| each(&mut |replies| Ok(write_replies(file, &replies)?)))
            }
            Destination::File(path, format) => {
                let mut all = Replies::default();
                each(&mut |replies| {
                    all.answers.extend(replies.answers);
                    all.refused.extend(replies.refused);
                    Ok(())
                })?;
                let refused = self.reports().then_some(&all.refused[..]);
                write_frame(path, *format, &answers.frame(&all.answers, refused))
            }
        };
        // After an error, stdout has the answers before it, but a file was not written.
        let is_answered = result.is_ok() || *destination == Destination::Stdout;
        if let Some(adapting) = adapting.as_mut().filter(|_| is_answered) {
            adapting.save()?;
        }
        result.map(|()| summary)
    }

    /// Answers points that arrived together.
    fn answer<'a>(
        &self,
        answers: &Answers<'a>,
        group: &Group,
        summary: &mut Summary,
        name: &str,
        out: Taker<'_, 'a>,
    ) -> anyhow::Result<()> {
        let rows: Vec<usize> = (group.first..group.first + group.ids.len()).collect();
        let (answers, mut refused) =
            answers.of_each(&group.points, &rows, &group.ids).with_context(|| name.to_owned())?;
        for refusal in &mut refused {
            refusal.line = Some(group.lines[refusal.row - group.first]);
        }
        self.reply(Replies { answers, refused }, summary, name, out)
    }

    /// Passes replies on. Without `--on-error report` the first refusal is an error, after the answers before it.
    fn reply<'a>(
        &self,
        mut replies: Replies<'a>,
        summary: &mut Summary,
        name: &str,
        out: Taker<'_, 'a>,
    ) -> anyhow::Result<()> {
        let end = replies.refused.first().filter(|_| !self.reports()).cloned();
        if let Some(end) = &end {
            replies.answers.retain(|answer| answer.row < end.row);
            replies.refused.clear();
        }
        summary.add(&replies.answers);
        summary.bad += replies.refused.len();
        out(replies)?;
        if let Some(Refusal { line, error, .. }) = end {
            bail!("{name}: line {}: {error} (--on-error report skips such lines)", line.unwrap_or_default());
        }
        Ok(())
    }
}
