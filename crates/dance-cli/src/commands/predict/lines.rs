//! `dance predict` on JSON lines, which are answered as they come.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use dance::data::Normalize;

use super::adapt::Adapting;
use super::{OnError, Predict};
use crate::answers::{Answers, Summary};
use crate::output::{Destination, Format, Watched, write_frame};
use crate::replies::{Refusal, Reply, Taker, write_reply};
use crate::stream::{BadLine, Group, Next, Points, Told};

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
        let dimensions = answers.model.fitted().dimensions();
        let directed = answers.model.fitted().config.normalize == Normalize::L2;
        let mut points = Points::new(input, name.clone(), self.columns.keys(), dimensions, directed);
        if adapting.is_some() {
            points = points.with_labels();
        }
        let mut summary = Summary::new(&self.alpha, self.novelty);
        let mut each = |out: Taker<'_, 'a>| -> anyhow::Result<()> {
            loop {
                match points.next()? {
                    Next::Points(group) => match adapting {
                        Some(adapting) => adapting.answer(answers, &group, &mut summary, &name, out)?,
                        None => self.answer(answers, group, &mut summary, &name, out)?,
                    },
                    Next::Told(Told { row, line, id, label }) => {
                        let told = adapting.as_mut().map_or(Ok(()), |level| level.told(answers, &id, &label));
                        if let Err(problem) = told {
                            let bad = BadLine { row, line, id: Some(id), problem };
                            self.refuse(bad, &mut summary, &name, out)?;
                        }
                    }
                    Next::Bad(bad) => self.refuse(bad, &mut summary, &name, out)?,
                    Next::End => return Ok(()),
                }
            }
        };
        match destination {
            Destination::Stdout => {
                let mut stdout = io::stdout().lock();
                each(&mut |reply| {
                    write_reply(&mut stdout, &reply)?;
                    Ok(stdout.flush()?) // whoever waits for the answer has it now
                })?;
            }
            Destination::File(path, Format::Jsonl) => {
                Watched::write(path, |file| each(&mut |reply| Ok(write_reply(file, &reply)?)))?;
            }
            Destination::File(path, format) => {
                let mut all = Vec::new();
                each(&mut |reply| {
                    if let Reply::Answers(found) = reply {
                        all.extend(found);
                    }
                    Ok(())
                })?;
                write_frame(path, *format, &answers.frame(&all))?;
            }
        }
        Ok(summary)
    }

    /// Answers points that arrived together. Where one of them cannot be answered (numbers so large that they overflow), each is
    /// asked by itself, so that the others are.
    fn answer<'a>(
        &self,
        answers: &Answers<'a>,
        group: Group,
        summary: &mut Summary,
        name: &str,
        out: Taker<'_, 'a>,
    ) -> anyhow::Result<()> {
        match answers.of(&group.points, group.first, &group.ids) {
            Ok(found) => {
                summary.add(&found);
                return out(Reply::Answers(found));
            }
            Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) => {}
            Err(error) => return Err(error).with_context(|| name.to_owned()),
        }
        for (place, id) in group.ids.into_iter().enumerate() {
            let (row, line) = (group.first + place, group.lines[place]);
            match answers.of(&group.points.select(&[place]), row, std::slice::from_ref(&id)) {
                Ok(found) => {
                    summary.add(&found);
                    out(Reply::Answers(found))?;
                }
                Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) => {
                    let problem = "its numbers are too large for the model; scale the embeddings down".into();
                    self.refuse(BadLine { row, line, id, problem }, summary, name, out)?;
                }
                Err(error) => return Err(error).with_context(|| format!("{name}: line {line}")),
            }
        }
        Ok(())
    }

    /// Says what is wrong with a line: in its answer, or by ending here.
    fn refuse(
        &self,
        bad: BadLine,
        summary: &mut Summary,
        name: &str,
        out: Taker<'_, '_>,
    ) -> anyhow::Result<()> {
        let BadLine { row, line, id, problem: error } = bad;
        if self.on_error == OnError::Stop {
            bail!("{name}: line {line}: {error} (--on-error report goes on behind it)");
        }
        summary.bad += 1;
        out(Reply::Refusal(Refusal { row, line, error, id }))
    }
}
