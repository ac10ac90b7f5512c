//! `dance predict` on JSON lines, which are answered as they come.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};

use super::Predict;
use super::adapt::Adapting;
use crate::answers::{Answers, Refusal, Summary};
use crate::output::{Destination, Format, Watched, write_frame};
use crate::replies::{Replies, Taker, write_replies};
use crate::stream::{Group, Next, Points, Told};

impl Predict {
    /// Lines in, lines out; a table is written when all have come.
    pub(super) fn stream<'a>(
        &self,
        answers: &Answers<'a>,
        destination: &Destination,
        adapting: &mut Option<Adapting>,
    ) -> anyhow::Result<Summary> {
        let input: Box<dyn Read> = if self.data() == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(self.data()).with_context(|| self.data().display().to_string())?)
        };
        let name =
            if self.data() == Path::new("-") { "stdin".into() } else { self.data().display().to_string() };
        let shape = answers.model.fitted().point_shape();
        let mut points = Points::new(input, name.clone(), self.columns.keys(), shape);
        if adapting.is_some() {
            points = points.with_labels();
        }
        let mut summary = Summary::new(&self.alpha, self.novelty);
        let mut each = |out: Taker<'_, 'a>| -> anyhow::Result<()> {
            loop {
                match points.next()? {
                    Next::Points(group) => match adapting {
                        Some(adapting) => {
                            adapting.answer(answers, &group, &mut summary, &name, out)?;
                            if *destination == Destination::Stdout {
                                adapting.save()?; // what has been answered is answered
                            }
                        }
                        None => self.answer(answers, &group, &mut summary, &name, out)?,
                    },
                    Next::Told(Told { row, line, id, label }) => {
                        let told = adapting.as_mut().map_or(Ok(()), |level| level.told(answers, &id, &label));
                        if let Err(error) = told {
                            let refusal = Refusal { row, line: Some(line), id: Some(id), error };
                            let replies = Replies { refused: vec![refusal], ..Replies::default() };
                            self.reply(replies, &mut summary, &name, out)?;
                        }
                    }
                    Next::Bad(refusal) => {
                        let replies = Replies { refused: vec![refusal], ..Replies::default() };
                        self.reply(replies, &mut summary, &name, out)?;
                    }
                    Next::End => return Ok(()),
                }
            }
        };
        let ended = match destination {
            Destination::Stdout => {
                let mut stdout = io::stdout().lock();
                each(&mut |replies| {
                    write_replies(&mut stdout, &replies)?;
                    Ok(stdout.flush()?) // whoever waits for the answer has it now
                })
            }
            Destination::File(path, Format::Jsonl) => {
                Watched::write(path, |file| each(&mut |replies| Ok(write_replies(file, &replies)?)))
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
        // A file that was not written answered nothing; on stdout everything before an error is answered.
        if let Some(adapting) =
            adapting.as_mut().filter(|_| ended.is_ok() || *destination == Destination::Stdout)
        {
            adapting.save()?;
        }
        ended.map(|()| summary)
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

    /// Hands replies on, unless a refusal is to be the end; what came before it is answered.
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
            bail!("{name}: line {}: {error} (--on-error report goes on behind it)", line.unwrap_or_default());
        }
        Ok(())
    }
}
