//! JSON lines, one point per line: `{"embedding": [0.1, …], "id": "a"}` or the bare array.
//!
//! Points are answered in groups of what has already arrived, at most [`GROUP`]: a file goes through at full speed, a
//! person or a program that waits for each answer gets it at once, and memory does not grow with the number of lines.

use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, bail};
use dance::Matrix;
use serde::Deserialize;
use serde_json::Value;

const GROUP: usize = 256;
/// Room for a group's lines, so that what has arrived can be seen without waiting.
const BUFFER: usize = 1 << 20;
/// A line longer than this is no embedding.
const LONGEST_LINE: u64 = 64 << 20;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Bare(Vec<f32>),
    Point {
        embedding: Vec<f32>,
        #[serde(default)]
        id: Option<Value>,
    },
}

/// Points that arrived together.
pub(crate) struct Group {
    pub(crate) points: Matrix,
    pub(crate) ids: Option<Vec<String>>,
    /// Row of the first.
    pub(crate) first: usize,
}

pub(crate) struct Points<R> {
    reader: BufReader<R>,
    origin: String,
    dimensions: usize,
    line: usize,
    rows: usize,
    /// What is wrong with a line, while the points before it are being answered.
    failed: Option<anyhow::Error>,
}

impl<R: Read> Points<R> {
    pub(crate) fn new(reader: R, origin: String, dimensions: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, reader),
            origin,
            dimensions,
            line: 0,
            rows: 0,
            failed: None,
        }
    }

    /// The next points; `None` at the end. Waits for the first only.
    pub(crate) fn next_group(&mut self) -> anyhow::Result<Option<Group>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let (mut data, mut ids, mut named) = (Vec::new(), Vec::new(), false);
        let mut text = Vec::new();
        while ids.len() < GROUP && (ids.is_empty() || self.reader.buffer().contains(&b'\n')) {
            text.clear();
            let read = (&mut self.reader)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut text)
                .with_context(|| self.origin.clone())?;
            if read == 0 {
                break;
            }
            self.line += 1;
            if read as u64 == LONGEST_LINE {
                bail!("{}: line {}: longer than any embedding", self.origin, self.line);
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let (embedding, id) = match self.parse(&text) {
                Ok(Line::Bare(embedding)) => (embedding, None),
                Ok(Line::Point { embedding, id }) => (embedding, id),
                Err(error) if ids.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            };
            data.extend(embedding);
            named |= id.is_some();
            ids.push(match id {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(id)) => id,
                Some(id) => id.to_string(),
            });
        }
        if ids.is_empty() {
            return Ok(None);
        }
        let first = self.rows;
        self.rows += ids.len();
        let points = Matrix::new(data, ids.len(), self.dimensions)?;
        Ok(Some(Group { points, ids: named.then_some(ids), first }))
    }

    /// A line whose embedding has the right length and only finite numbers.
    fn parse(&self, text: &[u8]) -> anyhow::Result<Line> {
        let place = || format!("{}: line {}", self.origin, self.line);
        let line: Line = match serde_json::from_slice(text) {
            Ok(line) => line,
            Err(error) if error.is_syntax() || error.is_eof() => {
                return Err(error).with_context(|| format!("{}: not JSON", place()));
            }
            Err(_) => {
                bail!("{}: must be {{\"embedding\": [numbers], \"id\": …}} or [numbers], all finite", place())
            }
        };
        let (Line::Bare(embedding) | Line::Point { embedding, .. }) = &line;
        if embedding.len() != self.dimensions {
            bail!(
                "{}: {} numbers, but the model was fitted with {} dimensions",
                place(),
                embedding.len(),
                self.dimensions
            );
        }
        if let Some(column) = embedding.iter().position(|value| !value.is_finite()) {
            bail!("{}: number {column} is {}; every number must be finite", place(), embedding[column]);
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(text: &str) -> Points<&[u8]> {
        Points::new(text.as_bytes(), "test".into(), 2)
    }

    #[test]
    fn both_forms_and_blank_lines() {
        let mut points = points("[1,2]\n\n{\"embedding\":[3,4],\"id\":7,\"label\":\"cat\"}");
        let group = points.next_group().unwrap().unwrap();
        assert_eq!(group.points.as_slice(), [1.0, 2.0]); // the last line has no end yet, so it may grow
        let group = points.next_group().unwrap().unwrap();
        assert_eq!((group.first, group.ids), (1, Some(vec!["7".to_owned()])));
        assert!(points.next_group().unwrap().is_none());
    }

    #[test]
    fn points_before_a_wrong_line_are_not_lost() {
        let mut points = points("[1,2]\n[3,4]\n[5]\n[6,7]\n");
        assert_eq!(points.next_group().unwrap().unwrap().points.rows(), 2);
        assert!(points.next_group().is_err());
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, part) in [
            ("[1,2]\n[1]\n", "line 2: 1 numbers"),
            ("[1,1e60]\n", "number 1 is inf"),
            ("{\"x\":1}\n", "line 1: must be"),
            ("[1,\n", "line 1: not JSON"),
        ] {
            let mut points = points(text);
            let error = loop {
                match points.next_group() {
                    Ok(_) => {}
                    Err(error) => break format!("{error:#}"),
                }
            };
            assert!(error.contains(part), "{error}");
        }
    }
}
