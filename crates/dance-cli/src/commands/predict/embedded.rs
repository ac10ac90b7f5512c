//! `dance predict` on pictures and texts, which the model's encoder embeds first.

use std::io::{self, Write};

use anyhow::Context;
use dance::device::DeviceChoice;
use serde_json::json;

use super::Predict;
use crate::answers::{self, Answers, Summary};
use crate::output::{Destination, Format, OutputFile, write_frame};
use crate::progress::Progress;
use crate::replies::{Replies, write_replies};

impl Predict {
    /// Embeds and answers the inputs; with `--on-error report`, answers the others with the reason.
    pub(super) fn embedded(
        &self,
        answers: &Answers<'_>,
        destination: &Destination,
        device: DeviceChoice,
        progress: &Progress,
    ) -> anyhow::Result<Summary> {
        let mut summary = Summary::new(answers, self.novelty);
        let (table, bad) =
            self.embedding.table(self.data(), answers.model, self.reports(), device, progress, answers.context)?;
        let found = answers
            .of(table.embeddings(), 0, &answers::ids_of(&table))
            .with_context(|| self.data().display().to_string())?;
        summary.bad = bad.len();
        summary.add(&found);
        let replies = Replies { answers: found, ..Replies::default() };
        let write_lines = |out: &mut dyn Write| -> io::Result<()> {
            write_replies(out, &replies)?;
            bad.iter().try_for_each(|(id, reason)| writeln!(out, "{}", json!({ "id": id, "error": reason })))
        };
        match destination {
            Destination::Stdout => write_lines(&mut io::stdout().lock())?,
            Destination::File(path, Format::Jsonl) => {
                OutputFile::write(path, |file| Ok(write_lines(file)?))?;
            }
            Destination::File(path, format) => {
                write_frame(path, *format, &answers.frame(&replies.answers, None))?;
            }
        }
        Ok(summary)
    }
}
