//! `.jsonl`: one point per line, `{"embedding": [0.1, …], "label": "cat", "id": 7}` or the bare array.
//!
//! Numbers go straight into the result, and a line is no longer than a point needs, so that memory is bounded by the numbers
//! that are kept. Ids and labels are kept as they are written: an integer of any size comes back digit by digit.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{ID_COLUMN, LABEL_COLUMN, ReadOptions};
use crate::data::kind::name_of_float;
use crate::data::labelled::Places;
use crate::data::provenance::{PROVENANCE, is_picked};
use crate::data::{Kind, RawLabels, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The longest line of a point: as much for each number, and as much for everything else.
const LONGEST_NUMBER: usize = 64;
const LONGEST_REST: usize = 1 << 20;
/// Dimensions that no embedding exceeds, while the number of them is not known.
const MOST: usize = 1 << 18;

/// Under which keys a line has its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonKeys {
    embedding: String,
    label: String,
    id: String,
}

impl From<&ReadOptions> for JsonKeys {
    fn from(options: &ReadOptions) -> Self {
        let name = |given: &Option<String>, usual: &str| given.clone().unwrap_or_else(|| usual.to_owned());
        Self {
            embedding: name(&options.embeddings_column, "embedding"),
            label: name(&options.label_column, LABEL_COLUMN),
            id: name(&options.id_column, ID_COLUMN),
        }
    }
}

/// A point as a line of JSON has it.
#[derive(Debug)]
pub struct JsonPoint {
    /// At most as many numbers as were asked for.
    pub embedding: Vec<f32>,
    /// How many there were.
    pub length: usize,
    /// As it is written; `None` where there is none.
    pub id: Option<Box<RawValue>>,
    label: Option<Box<RawValue>>,
    provenance: Option<String>,
    keys: Vec<String>,
}

impl JsonPoint {
    /// The longest line that a point of so many dimensions can need.
    pub fn longest_line(dimensions: usize) -> usize {
        LONGEST_REST + LONGEST_NUMBER * dimensions
    }

    /// The name of its label; `None` where there is none.
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

    /// Reads a line, of whose embedding at most `most` numbers are kept; or says what is wrong with it.
    pub fn parse(line: &[u8], keys: &JsonKeys, most: usize) -> Result<Self, String> {
        let mut deserializer = serde_json::Deserializer::from_slice(line.trim_ascii_end());
        let point = Line { most, keys }.deserialize(&mut deserializer);
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

/// What the parser says, with the place in the line in place of its own: every text it sees has one line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("{what} at character {}", error.column())
}

/// Reads the file.
pub(super) fn read(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    let keys = JsonKeys::from(options);
    let mut reader = BufReader::new(file);
    let (mut data, mut labels, mut ids, mut lines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut dimensions, mut columns, mut picked) = (None, Vec::new(), None);
    let mut text = Vec::new();
    for line in 1.. {
        let wrong = |problem: String| Error::format(path, format!("line {line}: {problem}"));
        let longest = JsonPoint::longest_line(dimensions.unwrap_or(MOST)) as u64;
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
        let point = JsonPoint::parse(&text, &keys, dimensions.unwrap_or(MOST)).map_err(wrong)?;
        let wanted = *dimensions.get_or_insert(point.length);
        if point.length != wanted || wanted > MOST {
            return Err(wrong(format!("{} numbers, where {wanted} are expected", point.length)));
        }
        if let Some(at) = point.embedding.iter().position(|value| !value.is_finite()) {
            return Err(wrong(format!(
                "number {at} is {}; every number must be finite",
                point.embedding[at]
            )));
        }
        if let Some(word) = point.provenance.as_deref().filter(|_| !options.without_labels) {
            let before = picked.get_or_insert_with(Vec::new);
            before.resize(lines.len(), false); // lines without the word came by chance
            before.push(is_picked(word).map_err(wrong)?);
        }
        data.extend(point.embedding);
        labels.push(
            Scalar::of(point.label.as_deref()).map_err(|problem| wrong(format!("the label {problem}")))?,
        );
        ids.push(point.id.as_deref().map_or(Scalar::Missing, Scalar::any));
        lines.push(line);
        if columns.is_empty() {
            columns = point.keys;
        }
    }
    if let Some(picked) = &mut picked {
        picked.resize(lines.len(), false);
    }
    let embeddings = Matrix::new(data, lines.len(), dimensions.unwrap_or(0))?;
    let mut places = Places { columns, label_column: keys.label, lines: Some(lines), ..Places::default() };
    let labels = match options.label_in_file(LABEL_COLUMN) {
        Some((_, needed)) if needed || labels.iter().any(|label| *label != Scalar::Missing) => {
            places.missing = (0..labels.len()).filter(|&row| labels[row] == Scalar::Missing).collect();
            Some(together(labels))
        }
        _ => None,
    };
    let id_kind =
        if ids.iter().all(|id| matches!(id, Scalar::Integer(_))) { Kind::Integer } else { Kind::Text };
    let some = ids.iter().any(|id| *id != Scalar::Missing);
    let ids = some.then(|| ids.into_iter().map(Scalar::name).collect());
    Ok(Table { labels, ids, id_kind, picked, places, ..Table::new(path.display().to_string(), embeddings)? })
}

/// A label or an id.
#[derive(Clone, Debug, PartialEq)]
enum Scalar {
    Missing,
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

impl Scalar {
    /// What a label is, or what is wrong with it.
    fn of(raw: Option<&RawValue>) -> Result<Self, &'static str> {
        match raw.map_or(Self::Missing, Self::any) {
            Self::Text(text) if raw.is_some_and(|raw| raw.get().starts_with(['{', '['])) => {
                drop(text);
                Err("must be a text, a number, true or false")
            }
            scalar => Ok(scalar),
        }
    }

    /// What an id is: whatever is neither a number nor a text keeps its letters.
    fn any(raw: &RawValue) -> Self {
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
                _ => Self::Text(text.to_owned()), // an integer beyond 64 bits keeps its digits
            },
        }
    }

    fn name(self) -> String {
        match self {
            Self::Missing => String::new(),
            Self::Text(text) => text,
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => name_of_float(number).unwrap_or_else(|| number.to_string()),
            Self::Boolean(value) => crate::data::kind::name_of_boolean(value),
        }
    }
}

/// Labels of all lines: one kind, or else texts.
fn together(labels: Vec<Scalar>) -> RawLabels {
    let there = || labels.iter().filter(|label| **label != Scalar::Missing);
    if there().all(|label| matches!(label, Scalar::Integer(_))) {
        let number = |label: &Scalar| if let Scalar::Integer(number) = label { *number } else { 0 };
        return RawLabels::Integers(labels.iter().map(number).collect());
    }
    if there().all(|label| matches!(label, Scalar::Boolean(_))) {
        return RawLabels::Booleans(labels.iter().map(|label| *label == Scalar::Boolean(true)).collect());
    }
    if there().all(|label| matches!(label, Scalar::Integer(_) | Scalar::Float(_))) {
        let number = |label: &Scalar| match label {
            Scalar::Integer(number) => *number as f64,
            Scalar::Float(number) => *number,
            _ => f64::NAN,
        };
        return RawLabels::Floats(labels.iter().map(number).collect());
    }
    RawLabels::Names(labels.into_iter().map(Scalar::name).collect())
}

/// Reads a point without keeping anything that is not asked for.
#[derive(Clone, Copy)]
struct Line<'k> {
    most: usize,
    keys: &'k JsonKeys,
}

impl<'de> DeserializeSeed<'de> for Line<'_> {
    type Value = JsonPoint;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonPoint, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// The numbers of an embedding, and nothing else.
struct Numbers<'k>(Line<'k>);

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = JsonPoint;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonPoint, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = JsonPoint;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, numbers: A) -> Result<JsonPoint, A::Error> {
        self.0.visit_seq(numbers)
    }
}

impl<'de> Visitor<'de> for Line<'_> {
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
                point = Some(entries.next_value_seed(Numbers(self))?);
            } else if key == self.keys.id {
                id = entries.next_value::<Option<Box<RawValue>>>()?;
            } else if key == self.keys.label {
                label = entries.next_value::<Option<Box<RawValue>>>()?;
            } else if key == PROVENANCE {
                // A word; whatever else somebody calls so keeps its letters, and whoever asks is told.
                let written = entries.next_value::<Option<Box<RawValue>>>()?;
                provenance = written.map(|written| Scalar::any(&written).name());
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
            keys.push(key);
        }
        // A label that comes after its point has no embedding of its own.
        let told = || JsonPoint {
            id: None,
            label: None,
            provenance: None,
            embedding: Vec::new(),
            length: 0,
            keys: Vec::new(),
        };
        let point = point.or_else(|| (id.is_some() && label.is_some()).then(told));
        let point: JsonPoint = point.ok_or_else(|| A::Error::missing_field("embedding"))?;
        Ok(JsonPoint { id, label, provenance, keys, ..point })
    }
}
