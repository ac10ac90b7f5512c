//! Answers and refusals of rows, and their lines.

use std::io::{self, Write};

use serde::Serialize;

use crate::answers::{Answer, Refusal};

/// The answers and the refusals of some rows, both in the order of rows.
#[derive(Default)]
pub(crate) struct Replies<'a> {
    pub(crate) answers: Vec<Answer<'a>>,
    pub(crate) refused: Vec<Refusal>,
}

/// A function that takes replies as they are made.
pub(crate) type Taker<'t, 'a> = &'t mut dyn FnMut(Replies<'a>) -> anyhow::Result<()>;

/// Writes replies as JSON lines, in the order of rows.
pub(crate) fn write_replies(out: &mut dyn Write, replies: &Replies<'_>) -> io::Result<()> {
    let mut answers = &replies.answers[..];
    for refusal in &replies.refused {
        let before = answers.partition_point(|answer| answer.row < refusal.row);
        write_lines(out, &answers[..before])?;
        write_lines(out, std::slice::from_ref(refusal))?;
        answers = &answers[before..];
    }
    write_lines(out, answers)
}

fn write_lines(out: &mut dyn Write, replies: &[impl Serialize]) -> io::Result<()> {
    let mut text = Vec::new();
    for reply in replies {
        text.clear();
        serde_json::to_writer(&mut text, reply)?;
        text.push(b'\n');
        out.write_all(&text)?;
    }
    Ok(())
}
