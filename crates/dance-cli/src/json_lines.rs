//! JSON lines, one point per line: `{"embedding": [0.1, …], "id": "a"}`, or the array alone.
//!
//! A group is made of lines that have already arrived, at most [`GROUP`]. So a file is read at full speed, a program
//! that waits for each answer gets it at once, and memory does not grow with the number of lines. A line that is not a
//! valid point ends the group before it and is returned by itself.

use std::io::{BufRead, BufReader, Read};

use anyhow::Context;
use dance::Matrix;
use dance::data::PointShape;
use dance::data::io::{JsonPoint, ReadOptions};

use crate::answers::{Id, Refusal};

/// Most points in a group.
const GROUP: usize = 256;
/// Bytes of the read buffer. It holds many lines, so that lines that have arrived can be read without waiting.
const BUFFER: usize = 1 << 20;

/// The next part of the input.
#[derive(Debug)]
pub(crate) enum Next {
    Points(Group),
    /// A label that arrives after its point, where such labels are expected.
    Label(LateLabel),
    /// A line that is not a valid point. Its row is its place among lines that are not blank, from 0.
    Invalid(Refusal),
    End,
}

/// Points that arrived together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) points: Matrix,
    /// The ids as they were written; `None` for a point without one.
    pub(crate) ids: Vec<Option<Id>>,
    /// The names of the labels; `None` for a point without one.
    pub(crate) labels: Vec<Option<String>>,
    /// The row of the first point. The others have the rows after it.
    pub(crate) first: usize,
    /// The line of every point, counted from 1.
    pub(crate) lines: Vec<usize>,
}

/// The label of a point that arrived before.
#[derive(Clone, Debug)]
pub(crate) struct LateLabel {
    pub(crate) row: usize,
    pub(crate) line: usize,
    pub(crate) id: Id,
    pub(crate) label: String,
}

/// A reader of points.
pub(crate) struct Points<R> {
    reader: BufReader<R>,
    origin: String,
    options: ReadOptions,
    shape: PointShape,
    line: usize,
    rows: usize,
    /// Accepts labels that arrive after their points.
    late_labels: bool,
    /// A line after a group that is not a point; it is returned after the group.
    other: Option<Next>,
}

impl<R: Read> Points<R> {
    pub(crate) fn new(reader: R, origin: String, options: ReadOptions, shape: PointShape) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, reader),
            origin,
            options,
            shape,
            line: 0,
            rows: 0,
            late_labels: false,
            other: None,
        }
    }

    /// Accepts labels that arrive after their points: `{"id": 7, "label": "cat"}`.
    pub(crate) fn with_late_labels(self) -> Self {
        Self { late_labels: true, ..self }
    }

    /// Returns the next points, or the next line that is not a point. It waits for the first line only.
    pub(crate) fn next(&mut self) -> anyhow::Result<Next> {
        if let Some(other) = self.other.take() {
            return Ok(other);
        }
        let (mut data, mut ids, mut labels, mut lines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let first = self.rows;
        // After the first point, only lines that are already in the buffer are read.
        while ids.len() < GROUP && (ids.is_empty() || self.reader.buffer().contains(&b'\n')) {
            let Some(text) = self.read_line()? else { break };
            self.line += 1;
            if text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
                continue;
            }
            let row = self.rows;
            self.rows += 1;
            match text.map_err(|problem| (problem, None)).and_then(|text| self.parse(&text)) {
                // A line without an embedding: `parse` accepts it as a late label.
                Ok(point) if point.length == 0 => {
                    let (id, label) = (point.id.clone(), point.label());
                    let (line, error) = (self.line, "a label without an id, or an id without a label");
                    self.other = Some(match id.zip(label) {
                        Some((id, label)) => Next::Label(LateLabel { row, line, id, label }),
                        None => Next::Invalid(Refusal { row, line: Some(line), id: point.id, error: error.into() }),
                    });
                    break;
                }
                Ok(point) => {
                    labels.push(point.label());
                    data.extend(point.embedding);
                    ids.push(point.id);
                    lines.push(self.line);
                }
                Err((error, id)) => {
                    self.other = Some(Next::Invalid(Refusal { row, line: Some(self.line), error, id }));
                    break;
                }
            }
        }
        if ids.is_empty() {
            return Ok(self.other.take().unwrap_or(Next::End));
        }
        let points = Matrix::new(data, ids.len(), self.shape.dimensions)?;
        Ok(Next::Points(Group { points, ids, labels, first, lines }))
    }

    /// Returns the next line, or the problem with it; `None` at the end. A line that is too long is skipped.
    fn read_line(&mut self) -> anyhow::Result<Option<Result<Vec<u8>, String>>> {
        let longest = JsonPoint::longest_line(self.shape.dimensions);
        let mut text = Vec::new();
        let origin = || self.origin.clone();
        let read = (&mut self.reader).take(longest as u64).read_until(b'\n', &mut text).with_context(origin)?;
        if read == 0 {
            return Ok(None);
        }
        if read < longest || text.ends_with(b"\n") {
            return Ok(Some(Ok(text)));
        }
        loop {
            let buffer = self.reader.fill_buf().with_context(origin)?;
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let (length, ends) = (end.map_or(buffer.len(), |end| end + 1), end.is_some() || buffer.is_empty());
            self.reader.consume(length);
            if ends {
                return Ok(Some(Err(format!("longer than {longest} bytes, the most that a point can have"))));
            }
        }
    }

    /// Parses a line with an embedding of the right length and finite numbers; otherwise returns the problem and the
    /// id.
    fn parse(&self, text: &[u8]) -> Result<JsonPoint, (String, Option<Id>)> {
        let point = JsonPoint::parse(text, &self.options, self.shape.dimensions);
        let point = point.map_err(|problem| (problem, None))?;
        if point.length == 0 && self.late_labels && point.label().is_some() {
            return Ok(point);
        }
        match self.shape.problem(&point.embedding, point.length) {
            None => Ok(point),
            Some(problem) => Err((problem, point.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(text: &str) -> Points<&[u8]> {
        Points::new(
            text.as_bytes(),
            "test".into(),
            ReadOptions::default(),
            PointShape { dimensions: 2, directed: true },
        )
    }

    fn group(points: &mut Points<&[u8]>) -> Group {
        match points.next().unwrap() {
            Next::Points(group) => group,
            other => panic!("{other:?}"),
        }
    }

    fn written(ids: &[Option<Id>]) -> Vec<Option<&str>> {
        ids.iter().map(|id| id.as_deref().map(serde_json::value::RawValue::get)).collect()
    }

    fn invalid(points: &mut Points<&[u8]>) -> Refusal {
        match points.next().unwrap() {
            Next::Invalid(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_forms_and_blank_lines() {
        let mut points = points("[1,2]\n\n{\"embedding\":[3,4],\"id\":7,\"label\":\"cat\"}");
        assert_eq!(group(&mut points).points.as_slice(), [1.0, 2.0]); // the last line has no end yet, so it may grow
        let last = group(&mut points);
        assert_eq!((last.first, written(&last.ids), last.lines), (1, vec![Some("7")], vec![3]));
        assert!(matches!(points.next().unwrap(), Next::End));
    }

    /// A point has an id if and only if its own line has one.
    #[test]
    fn ids_belong_to_their_lines() {
        let mut points = points("[1,2]\n{\"id\":\"a\",\"embedding\":[3,4]}\n{\"embedding\":[5,6],\"id\":null}\n");
        assert_eq!(written(&group(&mut points).ids), [None, Some("\"a\""), None]);
    }

    /// Numbers beyond 64 bits are not rounded.
    #[test]
    fn ids_keep_their_digits() {
        let mut points = points("{\"id\":36893488147419103233,\"embedding\":[3,4]}\n");
        assert_eq!(written(&group(&mut points).ids), [Some("36893488147419103233")]);
    }

    #[test]
    fn an_invalid_line_comes_alone_and_the_others_with_their_rows() {
        let mut points = points("[1,2]\n[3,4]\n\n[5]\n[6,7]\n");
        assert_eq!(group(&mut points).points.rows(), 2);
        let found = invalid(&mut points);
        assert_eq!((found.row, found.line, found.id.is_none()), (2, Some(4), true));
        assert_eq!(found.error, "1 numbers, but the model was fitted with 2 dimensions");
        let last = group(&mut points);
        assert_eq!((last.first, last.lines), (3, vec![5]));
    }

    #[test]
    fn problems_are_named() {
        for (text, part) in [
            ("[1]\n", "1 numbers"),
            ("[1,2,3,4]\n", "4 numbers"),
            ("[1,1e60]\n", "number 1 is inf"),
            ("{\"x\":1}\n", "must be"),
            ("{\"embedding\":[[1,2]]}\n", "must be"),
            ("[1,\n", "not JSON: EOF while parsing a value at character"),
            ("[1,2] tail\n", "not JSON"),
            ("7\n", "must be"),
            ("{\"embedding\":{\"embedding\":[1,2]}}\n", "must be"),
            ("[0,-0.0]\n", "no direction"),
        ] {
            let problem = invalid(&mut points(text)).error;
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    /// A line of any length is skipped, and the next one is read.
    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let text = format!("[1,2]\n{}\n[3,4]\n", "1".repeat(3 << 20));
        let mut points = points(&text);
        assert_eq!(group(&mut points).lines, [1]);
        let refusal = invalid(&mut points);
        assert!(refusal.line == Some(2) && refusal.error.contains("longer than"), "{refusal:?}");
        assert_eq!(group(&mut points).lines, [3]);
    }
}
