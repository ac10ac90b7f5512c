//! Labels written as text, and labels in a file of their own.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

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

fn read_lines(path: &Path, reader: impl BufRead) -> Result<RawLabels> {
    let mut labels = Vec::new();
    for (line, text) in reader.lines().enumerate() {
        let text = text.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Error::format(path, format!("line {}: is not UTF-8 text", line + 1)),
            _ => Error::io(path, error),
        })?;
        let text = if line == 0 { text.trim_start_matches('\u{feff}') } else { &text }.trim();
        if text.is_empty() {
            return Err(Error::format(path, format!("line {}: is blank; every line is one label", line + 1)));
        }
        labels.push(text.to_owned());
    }
    Ok(from_text(labels))
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
