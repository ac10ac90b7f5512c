//! `.jsonl` files: one point per line, `{"embedding": [0.1, …], "label": "cat", "id": 7}` or an array of numbers.
//!
//! Numbers are parsed directly into the result, and the length of a line is limited, so that reading takes little more
//! memory than the result. Ids and labels keep their text, so that an integer of any size is returned with all its
//! digits.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{ID_COLUMN, LABEL_COLUMN, ReadOptions};
use crate::data::dataset::{PROVENANCE, is_picked};
use crate::data::labels::{name_of_boolean, name_of_float};
use crate::data::table_labels::FileDetails;
use crate::data::{Kind, RawLabels, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The largest number of bytes that a line may have for each number of its embedding.
const LONGEST_NUMBER: usize = 64;
/// The largest number of bytes that a line may have beside the numbers of its embedding.
const LONGEST_REST: usize = 1 << 20;
/// The largest number of dimensions of a point.
const MOST: usize = 1 << 18;

/// The keys in a line under which its embedding, label and id are found.
#[derive(Clone, Copy)]
struct JsonKeys<'k> {
    embedding: &'k str,
    label: &'k str,
    id: &'k str,
}

impl<'k> JsonKeys<'k> {
    fn new(options: &'k ReadOptions) -> Self {
        Self {
            embedding: options.embedding_column.as_deref().unwrap_or("embedding"),
            label: options.label_column.as_deref().unwrap_or(LABEL_COLUMN),
            id: options.id(ID_COLUMN).0,
        }
    }
}

/// The point that one line of JSON describes.
#[derive(Debug)]
pub struct JsonPoint {
    /// The numbers of the embedding, up to the limit given to [`parse`](Self::parse).
    pub embedding: Vec<f32>,
    /// The number of numbers in the line's embedding, including those beyond the limit.
    pub length: usize,
    /// The JSON text of the id; `None` without an id.
    pub id: Option<Box<RawValue>>,
    label: Option<Box<RawValue>>,
    provenance: Option<String>,
    keys: Vec<String>,
}

impl JsonPoint {
    /// Returns the largest number of bytes that a line may have whose embedding has this number of dimensions.
    pub fn longest_line(dimensions: usize) -> usize {
        LONGEST_REST + LONGEST_NUMBER * dimensions
    }

    /// Returns the label as text, which is the name of its class; `None` without a label.
    pub fn label(&self) -> Option<String> {
        let written = self.label.as_ref()?.get();
        match serde_json::from_str::<serde_json::Value>(written) {
            Ok(serde_json::Value::Null) => None,
            Ok(serde_json::Value::String(text)) => Some(text),
            Ok(serde_json::Value::Number(number)) if number.is_f64() => {
                number.as_f64().and_then(name_of_float).or_else(|| Some(written.to_owned()))
            }
            _ => Some(written.to_owned()),
        }
    }

    /// Parses a line with the keys that `options` names, and keeps at most the first `most` numbers of its embedding.
    /// The error is a message for the user.
    pub fn parse(line: &[u8], options: &ReadOptions, most: usize) -> Result<Self, String> {
        let keys = JsonKeys::new(options);
        let mut deserializer = serde_json::Deserializer::from_slice(line.trim_ascii_end());
        let point = PointVisitor { most, keys }.deserialize(&mut deserializer);
        match point.and_then(|point| deserializer.end().map(|()| point)) {
            Ok(point) => Ok(point),
            Err(error) if error.is_syntax() || error.is_eof() => Err(format!("not JSON: {}", reason(&error))),
            Err(_) => Err(format!(
                "must be {{\"{}\": [numbers], \"{}\": …}} or [numbers], all finite",
                keys.embedding, keys.id
            )),
        }
    }
}

/// Returns the parser's message, with the position of the problem in the line. The parser's own position also has a
/// line number, which is always 1 here.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
    format!("{problem} at character {}", error.column())
}

/// Reads a `.jsonl` file.
pub(super) fn read(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    let mut reader = BufReader::new(file);
    let mut points = PointLists::default();
    let mut text = Vec::new();
    for line in 1.. {
        let wrong = |problem: String| Error::format(path, format!("line {line}: {problem}"));
        let longest = JsonPoint::longest_line(points.dimensions.unwrap_or(MOST)) as u64;
        text.clear();
        let read = (&mut reader).take(longest).read_until(b'\n', &mut text);
        if read.map_err(|error| Error::io(path, error))? == 0 {
            break;
        }
        if text.len() as u64 == longest {
            return Err(wrong(format!("longer than {longest} bytes, which no point needs")));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let point = JsonPoint::parse(&text, options, points.dimensions.unwrap_or(MOST)).map_err(wrong)?;
        points.push(point, line, options).map_err(wrong)?;
    }
    points.into_table(path, options)
}

/// The points of a file, collected in one list for each field of a line.
#[derive(Default)]
struct PointLists {
    numbers: Vec<f32>,
    labels: Vec<JsonScalar>,
    ids: Vec<JsonScalar>,
    /// The line of every point.
    lines: Vec<u32>,
    /// True for every picked point; `None` until a line has a provenance.
    picked: Option<Vec<bool>>,
    /// The dimensions of the first point.
    dimensions: Option<usize>,
    /// The keys of the first point.
    columns: Vec<String>,
}

impl PointLists {
    /// Appends the point of the line with number `line`. The error is a message for the user.
    fn push(&mut self, point: JsonPoint, line: u32, options: &ReadOptions) -> Result<(), String> {
        let dimensions = *self.dimensions.get_or_insert(point.length);
        if point.length != dimensions || dimensions > MOST {
            return Err(format!("{} numbers, where {dimensions} are expected", point.length));
        }
        if let Some(at) = point.embedding.iter().position(|value| !value.is_finite()) {
            return Err(format!("number {at} is {}; every number must be finite", point.embedding[at]));
        }
        if let Some(word) = point.provenance.as_deref().filter(|_| !options.without_labels) {
            let before = self.picked.get_or_insert_default();
            before.resize(self.lines.len(), false); // lines without a provenance are random points
            before.push(is_picked(word)?);
        }
        let label = JsonScalar::of_label(point.label.as_deref());
        self.labels.push(label.map_err(|problem| format!("the label {problem}"))?);
        self.ids.push(point.id.as_deref().map_or(JsonScalar::Missing, JsonScalar::of));
        self.numbers.extend(point.embedding);
        self.lines.push(line);
        if self.columns.is_empty() {
            self.columns = point.keys;
        }
        Ok(())
    }

    fn into_table(mut self, path: &Path, options: &ReadOptions) -> Result<Table> {
        if let Some(picked) = &mut self.picked {
            picked.resize(self.lines.len(), false);
        }
        let embeddings = Matrix::new(self.numbers, self.lines.len(), self.dimensions.unwrap_or(0))?;
        let is_missing = |value: &JsonScalar| *value == JsonScalar::Missing;
        let label_column = JsonKeys::new(options).label.to_owned();
        let mut details =
            FileDetails { columns: self.columns, label_column, lines: Some(self.lines), ..FileDetails::default() };
        let labels = match options.label_in_file(LABEL_COLUMN) {
            Some((_, needed)) if needed || !self.labels.iter().all(is_missing) => {
                details.missing = (0..self.labels.len()).filter(|&row| is_missing(&self.labels[row])).collect();
                Some(unify(self.labels))
            }
            _ => None,
        };
        let is_integer = |id: &JsonScalar| matches!(id, JsonScalar::Integer(_));
        let id_kind = if self.ids.iter().all(is_integer) { Kind::Integer } else { Kind::Text };
        let has_ids = !self.ids.iter().all(is_missing);
        let ids = has_ids.then(|| self.ids.into_iter().map(JsonScalar::name).collect());
        let table = Table::new(path.display().to_string(), embeddings)?;
        Ok(Table { labels, ids, id_kind, picked: self.picked, details, ..table })
    }
}

/// The value of a label or an id in a line of JSON.
#[derive(Clone, Debug, PartialEq)]
enum JsonScalar {
    Missing,
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

impl JsonScalar {
    /// Parses a label. The error is a message that the caller puts after the words "the label".
    fn of_label(raw: Option<&RawValue>) -> Result<Self, &'static str> {
        match raw.map_or(Self::Missing, Self::of) {
            Self::Text(_) if raw.is_some_and(|raw| raw.get().starts_with(['{', '['])) => {
                Err("must be a text, a number, true or false")
            }
            scalar => Ok(scalar),
        }
    }

    /// Parses a JSON value. Arrays, objects and integers beyond 64 bits stay JSON text.
    fn of(raw: &RawValue) -> Self {
        let text = raw.get();
        match text {
            "null" => Self::Missing,
            "true" => Self::Boolean(true),
            "false" => Self::Boolean(false),
            _ if text.starts_with('"') => {
                serde_json::from_str(text).map_or_else(|_| Self::Text(text.to_owned()), Self::Text)
            }
            _ => match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(number), _) if number.to_string() == text => Self::Integer(number),
                (_, Ok(number)) if text.contains(['.', 'e', 'E']) => Self::Float(number),
                _ => Self::Text(text.to_owned()),
            },
        }
    }

    /// Returns the value as text; the text is empty if the value is missing.
    fn name(self) -> String {
        match self {
            Self::Missing => String::new(),
            Self::Text(text) => text,
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => name_of_float(number).unwrap_or_else(|| number.to_string()),
            Self::Boolean(value) => name_of_boolean(value),
        }
    }
}

/// Converts the labels of all lines to one type. They become text if no other type suits all of them.
fn unify(labels: Vec<JsonScalar>) -> RawLabels {
    let present = || labels.iter().filter(|label| **label != JsonScalar::Missing);
    if present().all(|label| matches!(label, JsonScalar::Integer(_))) {
        let number = |label: &JsonScalar| if let JsonScalar::Integer(number) = label { *number } else { 0 };
        return RawLabels::Integers(labels.iter().map(number).collect());
    }
    if present().all(|label| matches!(label, JsonScalar::Boolean(_))) {
        return RawLabels::Booleans(labels.iter().map(|label| *label == JsonScalar::Boolean(true)).collect());
    }
    if present().all(|label| matches!(label, JsonScalar::Integer(_) | JsonScalar::Float(_))) {
        let number = |label: &JsonScalar| match label {
            JsonScalar::Integer(number) => *number as f64,
            JsonScalar::Float(number) => *number,
            _ => f64::NAN,
        };
        return RawLabels::Floats(labels.iter().map(number).collect());
    }
    RawLabels::Names(labels.into_iter().map(JsonScalar::name).collect())
}

/// A visitor that parses a point. It skips unknown keys, and numbers of the embedding beyond the first `most`.
#[derive(Clone, Copy)]
struct PointVisitor<'k> {
    most: usize,
    keys: JsonKeys<'k>,
}

impl<'de> DeserializeSeed<'de> for PointVisitor<'_> {
    type Value = JsonPoint;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonPoint, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A visitor that parses the numbers of an embedding.
struct NumbersVisitor<'k>(PointVisitor<'k>);

impl<'de> DeserializeSeed<'de> for NumbersVisitor<'_> {
    type Value = JsonPoint;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonPoint, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NumbersVisitor<'_> {
    type Value = JsonPoint;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, numbers: A) -> Result<JsonPoint, A::Error> {
        self.0.visit_seq(numbers)
    }
}

impl<'de> Visitor<'de> for PointVisitor<'_> {
    type Value = JsonPoint;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("numbers, or an object with them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<JsonPoint, A::Error> {
        let (mut embedding, mut length) = (Vec::new(), 0);
        while length < self.most {
            let Some(number) = numbers.next_element::<f64>()? else { break };
            embedding.push(number as f32);
            length += 1;
        }
        while length >= self.most && numbers.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(JsonPoint { embedding, length, id: None, label: None, provenance: None, keys: Vec::new() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsonPoint, A::Error> {
        let (mut point, mut id, mut label, mut provenance, mut keys) = (None, None, None, None, Vec::new());
        while let Some(key) = entries.next_key::<String>()? {
            if key == self.keys.embedding {
                point = Some(entries.next_value_seed(NumbersVisitor(self))?);
            } else if key == self.keys.id {
                id = entries.next_value::<Option<Box<RawValue>>>()?;
            } else if key == self.keys.label {
                label = entries.next_value::<Option<Box<RawValue>>>()?;
            } else if key == PROVENANCE {
                // A value other than a text keeps its JSON text, which `is_picked` later refuses.
                let written = entries.next_value::<Option<Box<RawValue>>>()?;
                provenance = written.map(|written| JsonScalar::of(&written).name());
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
            keys.push(key);
        }
        // A line with id and label but no embedding is a label for an earlier point.
        let label_alone = || JsonPoint {
            id: None,
            label: None,
            provenance: None,
            embedding: Vec::new(),
            length: 0,
            keys: Vec::new(),
        };
        let point = point.or_else(|| (id.is_some() && label.is_some()).then(label_alone));
        let point: JsonPoint = point.ok_or_else(|| A::Error::missing_field("embedding"))?;
        Ok(JsonPoint { id, label, provenance, keys, ..point })
    }
}
