//! What rows are answered with, and how answers are written as lines.

use std::io::{self, Write};

use serde::Serialize;

use crate::answers::{Answer, Refusal};

/// Answers to rows that came together, and what is wrong with the others; both in the order of their rows.
#[derive(Default)]
pub(crate) struct Replies<'a> {
    pub(crate) answers: Vec<Answer<'a>>,
    pub(crate) refused: Vec<Refusal>,
}

/// Takes replies as they come.
pub(crate) type Taker<'t, 'a> = &'t mut dyn FnMut(Replies<'a>) -> anyhow::Result<()>;

/// Writes replies as lines, in the order of their rows.
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

fn write_lines(out: &mut dyn Write, answers: &[impl Serialize]) -> io::Result<()> {
    let mut text = Vec::new();
    for answer in answers {
        text.clear();
        serde_json::to_writer(&mut text, answer)?;
        text.push(b'\n');
        out.write_all(&text)?;
    }
    Ok(())
}
