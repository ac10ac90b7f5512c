//! Labels written as text, and labels in a file of their own.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::budget::LONGEST_ROW;
use super::{csv, extension, numpy, open};
use crate::data::RawLabels;
use crate::error::{Error, Result};

/// Reads a file of labels: `.npy`, `.txt`, `.csv` or `.tsv`.
pub(super) fn read(path: &Path, column: &str) -> Result<RawLabels> {
    let file = open(path)?;
    match extension(path).as_str() {
        "npy" => numpy::read_npy_labels(path, &file),
        "txt" => read_lines(path, BufReader::new(file)),
        "csv" => csv::read_labels(path, file, b',', column),
        "tsv" => csv::read_labels(path, file, b'\t', column),
        _ => Err(Error::format(path, "labels can be read from .npy, .txt, .csv and .tsv files")),
    }
}

fn read_lines(path: &Path, mut reader: impl BufRead) -> Result<RawLabels> {
    let mut labels = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let wrong = |problem: &str| Err(Error::format(path, format!("line {}: {problem}", labels.len() + 1)));
        bytes.clear();
        let read = reader.by_ref().take(LONGEST_ROW).read_until(b'\n', &mut bytes);
        if read.map_err(|error| Error::io(path, error))? == 0 {
            return Ok(from_text(labels));
        }
        if bytes.len() as u64 == LONGEST_ROW && !bytes.ends_with(b"\n") {
            return wrong("is longer than any label; every line is one label");
        }
        let Ok(text) = str::from_utf8(&bytes) else { return wrong("is not UTF-8 text") };
        let text = if labels.is_empty() { text.trim_start_matches('\u{feff}') } else { text }.trim();
        if text.is_empty() {
            return wrong("is blank; every line is one label");
        }
        labels.push(text.to_owned());
    }
}

/// Integers if every label is written the way an integer prints, otherwise strings: `007` or `+1` may be a code, and
/// turned into a number it could never be turned back.
pub(super) fn from_text(labels: Vec<String>) -> RawLabels {
    let integer = |text: &String| text.parse::<i64>().ok().filter(|number| number.to_string() == *text);
    match labels.iter().map(integer).collect() {
        Some(integers) => RawLabels::Integers(integers),
        None => RawLabels::Names(labels),
    }
}
