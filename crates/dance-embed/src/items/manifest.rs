//! Lists of pictures or texts: lines of text, tables, JSON lines.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use dance::{Error, Result};
use serde_json::Value;

use super::{Items, Row, of_rows};

/// The longest line, in bytes.
const LONGEST_LINE: usize = 16 << 20;

/// Reads one text per line, without empty lines.
pub(super) fn lines(path: &Path) -> Result<Items> {
    let mut texts = Vec::new();
    each_line(path, |_, line| {
        if !line.trim().is_empty() {
            texts.push(line.to_owned());
        }
        Ok(())
    })?;
    Ok(Items::texts(path.display().to_string(), texts))
}

/// Reads the columns `path` or `text`, `label` and `id` of a table.
pub(super) fn table(path: &Path, delimiter: u8) -> Result<Items> {
    let wrong =
        |error: csv::Error| Error::format(path, format!("{error}; quote cells that hold separators or line breaks"));
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_path(path).map_err(wrong)?;
    let header = reader.headers().map_err(wrong)?.clone();
    let column = |name: &str| header.iter().position(|found| found.trim_start_matches('\u{feff}') == name);
    let [picture, text, label, id] = ["path", "text", "label", "id"].map(column);
    if picture.is_none() && text.is_none() {
        return Err(missing(path, header.iter().map(str::to_owned).collect()));
    }
    let (mut rows, mut places) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let cell = |column: Option<usize>| column.and_then(|column| record.get(column)).map(str::to_owned);
        places.push(record.position().map_or(0, csv::Position::line));
        let there = |cell: Option<String>| cell.filter(|cell| !cell.is_empty());
        rows.push(Row { path: there(cell(picture)), text: there(cell(text)), label: cell(label), id: cell(id) });
    }
    of_rows(path, rows, |row| format!("line {}", places[row]))
}

/// Reads one JSON object per line, with `path` or `text`, `label` and `id`.
pub(super) fn json_lines(path: &Path) -> Result<Items> {
    let (mut rows, mut places) = (Vec::new(), Vec::new());
    each_line(path, |number, line| {
        if line.trim().is_empty() {
            return Ok(());
        }
        let wrong = |problem: String| Error::format(path, format!("line {number}: {problem}"));
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(format!("is not JSON: {error}")))?;
        if !value.is_object() {
            return Err(wrong("is not an object; {\"path\": …, \"label\": …} or {\"text\": …} is needed".into()));
        }
        let field = |key: &str| match value.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) if key != "path" && key != "text" => Ok(Some(number.to_string())),
            Some(Value::Bool(bit)) if key == "label" => Ok(Some(u8::from(*bit).to_string())),
            Some(other) => Err(wrong(format!("`{key}` is {other}; a string is needed"))),
        };
        rows.push(Row { path: field("path")?, text: field("text")?, label: field("label")?, id: field("id")? });
        places.push(number);
        Ok(())
    })?;
    of_rows(path, rows, |row| format!("line {}", places[row]))
}

/// The error of a table without a known column.
fn missing(path: &Path, found: Vec<String>) -> Error {
    let help = "Name the column of pictures `path`, or that of texts `text`";
    Error::MissingKey { path: path.to_owned(), key: "path".into(), found, help }
}

/// Calls `take` with every line and its number from 1, without line ends and without a byte order mark.
fn each_line(path: &Path, mut take: impl FnMut(usize, &str) -> Result<()>) -> Result<()> {
    let wrong = |error| Error::io(path, error);
    let mut reader = BufReader::new(File::open(path).map_err(wrong)?);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let limit = LONGEST_LINE as u64 + 1;
        if std::io::Read::take(&mut reader, limit).read_until(b'\n', &mut bytes).map_err(wrong)? == 0 {
            break;
        }
        if bytes.len() > LONGEST_LINE {
            return Err(Error::format(path, format!("line {number}: is longer than {LONGEST_LINE} bytes")));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Error::format(path, format!("line {number}: is not UTF-8 text; save the file as UTF-8")))?;
        let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
        take(number, text.trim_end_matches(['\r', '\n']))?;
    }
    Ok(())
}
