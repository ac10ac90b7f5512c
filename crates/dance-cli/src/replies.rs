//! What lines are answered with, and how answers are written as lines.

use std::io::{self, Write};

use serde::Serialize;

use crate::answers::{Answer, Id};

/// What lines are answered with.
pub(crate) enum Reply<'a> {
    Answers(Vec<Answer<'a>>),
    Refusal(Refusal),
}

/// Takes replies as they come.
pub(crate) type Taker<'t, 'a> = &'t mut dyn FnMut(Reply<'a>) -> anyhow::Result<()>;

/// The answer to a line that is no point.
#[derive(Serialize)]
pub(crate) struct Refusal {
    pub(crate) row: usize,
    pub(crate) line: usize,
    pub(crate) error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Id>,
}

pub(crate) fn write_reply(out: &mut dyn Write, reply: &Reply<'_>) -> io::Result<()> {
    match reply {
        Reply::Answers(answers) => write_lines(out, answers),
        Reply::Refusal(refusal) => write_lines(out, std::slice::from_ref(refusal)),
    }
}

pub(crate) fn write_lines(out: &mut dyn Write, answers: &[impl Serialize]) -> io::Result<()> {
    let mut text = Vec::new();
    for answer in answers {
        text.clear();
        serde_json::to_writer(&mut text, answer)?;
        text.push(b'\n');
        out.write_all(&text)?;
    }
    Ok(())
}
