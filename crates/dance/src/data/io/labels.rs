//! Reading of files of labels, and the type of labels and ids that are written as text.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::budget::LONGEST_ROW;
use super::open::open;
use super::{csv, numpy};
use crate::data::{Kind, RawLabels};
use crate::error::{Error, Result};

/// The labels of a file.
pub(super) struct FileLabels {
    pub(super) values: RawLabels,
    /// The rows without a label, if labels are integers. In other types, a value of `values` itself stands for a
    /// missing label.
    pub(super) missing: Vec<usize>,
    /// The line number of every label, if the file is a text file.
    pub(super) lines: Option<Vec<u32>>,
}

/// Reads a file of labels: `.npy`, `.txt`, `.csv` or `.tsv`. `column` names the labels in a `.csv` or `.tsv`.
pub(super) fn read(path: &Path, column: &str) -> Result<FileLabels> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let file = open(path, &extension)?;
    match extension.as_str() {
        "npy" => {
            let values = numpy::read_npy_labels(path, &file)?;
            Ok(FileLabels { values, missing: Vec::new(), lines: None })
        }
        "txt" => read_lines(path, BufReader::new(file)),
        "csv" => csv::read_labels(path, file, b',', column),
        "tsv" => csv::read_labels(path, file, b'\t', column),
        _ => Err(Error::format(path, "labels can be read from .npy, .txt, .csv and .tsv files")),
    }
}

/// Reads one label per line; a blank line is a row without a label.
fn read_lines(path: &Path, mut reader: impl BufRead) -> Result<FileLabels> {
    let mut labels = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let wrong = |problem: &str| Err(Error::format(path, format!("line {}: {problem}", labels.len() + 1)));
        bytes.clear();
        let read = reader.by_ref().take(LONGEST_ROW).read_until(b'\n', &mut bytes);
        if read.map_err(|error| Error::io(path, error))? == 0 {
            let lines = (1..=labels.len() as u32).collect();
            return Ok(from_text(labels, lines));
        }
        if bytes.len() as u64 == LONGEST_ROW && !bytes.ends_with(b"\n") {
            return wrong("is longer than any label; every line is one label");
        }
        let Ok(text) = str::from_utf8(&bytes) else { return wrong("is not UTF-8 text") };
        let text = if labels.is_empty() { text.trim_start_matches('\u{feff}') } else { text }.trim();
        labels.push(text.to_owned());
    }
}

/// Converts labels written as text. They become integers if every one is written as an integer is printed, and strings
/// otherwise. For example, `007` and `+1` may be codes, which an integer would not preserve. An empty text is a row
/// without a label. `lines` holds the line number of every label.
pub(super) fn from_text(texts: Vec<String>, lines: Vec<u32>) -> FileLabels {
    let lines = Some(lines);
    let missing: Vec<usize> = (0..texts.len()).filter(|&row| texts[row].is_empty()).collect();
    let number = |text: &String| if text.is_empty() { Some(0) } else { integer(text) };
    match texts.iter().map(number).collect() {
        Some(numbers) if missing.len() < texts.len() => {
            FileLabels { values: RawLabels::Integers(numbers), missing, lines }
        }
        _ => FileLabels { values: RawLabels::Names(texts), missing: Vec::new(), lines },
    }
}

/// Returns the type of ids written as text. They are integers if every one is written as an integer is printed, and
/// text otherwise.
pub(super) fn kind_of(texts: &[String]) -> Kind {
    if texts.iter().all(|text| integer(text).is_some()) { Kind::Integer } else { Kind::Text }
}

fn integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}
