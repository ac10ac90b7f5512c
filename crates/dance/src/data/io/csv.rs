//! Text tables, `.csv` and `.tsv`: a header row, then one point per line.
//!
//! The columns of labels and ids are found by name; every other column is a dimension, in the order of the file. Quoted
//! fields, both kinds of line ends, a byte order mark and spaces around fields are accepted. Messages give the line
//! number, as an editor counts it, and the name of the column.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use csv::{ErrorKind, Position, Reader, ReaderBuilder, StringRecord, Trim};

use super::budget::RowLimit;
use super::csv_cell::unescape;
use super::{ID_COLUMN, ID_HELP, LABEL_COLUMN, LABEL_HELP, ReadOptions, labels};
use crate::data::dataset::{PROVENANCE, is_picked};
use crate::data::table_labels::FileDetails;
use crate::data::{Kind, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// Reads a table of embeddings from a text file whose fields are separated by `delimiter`.
pub(super) fn read(path: &Path, mut file: File, delimiter: u8, options: &ReadOptions) -> Result<Table> {
    let ends = LineEnds::of(path, &mut file)?;
    let mut reader = build(file, delimiter);
    let mut record = StringRecord::new();
    if !next(path, &mut reader, &mut record, ends)? {
        return Err(Error::format(path, "has no header row; the first line must name the columns"));
    }
    let header = CsvColumns::new(path, &record, delimiter, options)?;
    // One point per row; fields go to the numbers, the labels, the ids or the provenance.
    let (mut data, mut lines) = (Vec::new(), Vec::new());
    let mut labels = header.label.map(|_| Vec::new());
    let mut ids = header.id.map(|_| Vec::new());
    let mut picked = header.provenance.filter(|_| !options.without_labels).map(|_| Vec::new());
    while next(path, &mut reader, &mut record, ends)? {
        let line = line(record.position(), ends);
        for (place, field) in record.iter().enumerate() {
            if Some(place) == header.label {
                labels.get_or_insert_default().push(unescape(field).to_owned());
            } else if Some(place) == header.id {
                ids.get_or_insert_default().push(unescape(field).to_owned());
            } else if Some(place) == header.provenance {
                if let Some(picked) = &mut picked {
                    picked.push(is_picked(field).map_err(|problem| header.wrong(line, place, problem))?);
                }
            } else if !header.others.contains(&place) {
                data.push(number(field).map_err(|problem| header.wrong(line, place, problem))?);
            }
        }
        lines.push(u32::try_from(line).unwrap_or(u32::MAX));
    }
    // Labels and ids are integers if all of them are written as integers.
    let embeddings = Matrix::new(data, lines.len(), header.dimensions())?;
    let label_column = options.label_column.clone().unwrap_or_else(|| LABEL_COLUMN.into());
    let mut details = FileDetails { columns: header.names, label_column, ..FileDetails::default() };
    let labels = labels.filter(|_| options.label_in_file(LABEL_COLUMN).is_some()).map(|texts| {
        let found = labels::from_text(texts, lines);
        (details.missing, details.lines) = (found.missing, found.lines);
        found.values
    });
    let id_kind = ids.as_deref().map_or(Kind::Text, labels::kind_of);
    Ok(Table { labels, ids, id_kind, picked, details, ..Table::new(path.display().to_string(), embeddings)? })
}

/// Reads a file of labels. If the first line has a field `column`, that column holds the labels. Otherwise the file has
/// one label per line and no header.
pub(super) fn read_labels(path: &Path, mut file: File, delimiter: u8, column: &str) -> Result<labels::FileLabels> {
    let ends = LineEnds::of(path, &mut file)?;
    let mut reader = build(file, delimiter);
    let mut record = StringRecord::new();
    let mut more = next(path, &mut reader, &mut record, ends)?;
    let header = record.iter().position(|field| field == column);
    if header.is_some() {
        more = next(path, &mut reader, &mut record, ends)?;
    } else if record.len() > 1 {
        return Err(Error::MissingKey {
            path: path.to_owned(),
            key: column.to_owned(),
            found: record.iter().map(str::to_owned).collect(),
            help: "Name the column of labels by the setting `label_column`, or give a file with one label per line",
        });
    }
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    while more {
        found.push(unescape(record.get(header.unwrap_or(0)).unwrap_or_default()).to_owned());
        lines.push(u32::try_from(line(record.position(), ends)).unwrap_or(u32::MAX));
        more = next(path, &mut reader, &mut record, ends)?;
    }
    Ok(labels::from_text(found, lines))
}

/// Returns the number of the line at which a row starts, counted from 1. With line ends of two bytes (`\r\n`) the
/// reader's position is one line behind, because the reader notes it before the second byte.
fn line(position: Option<&Position>, ends: LineEnds) -> u64 {
    let behind = |position: &Position| ends == LineEnds::TwoBytes && position.record() > 0;
    position.map_or(1, |position| position.line() + u64::from(behind(position)))
}

/// The kind of line ends: one byte (`\n`) or two bytes (`\r\n`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnds {
    OneByte,
    TwoBytes,
}

impl LineEnds {
    /// Returns the kind of the line end at the end of the first line, and rewinds the file.
    fn of(path: &Path, file: &mut File) -> Result<Self> {
        let mut begin = Vec::new();
        // A pipe cannot be rewound.
        if file.metadata().is_ok_and(|found| found.is_file()) {
            let read = file.by_ref().take(1 << 16).read_to_end(&mut begin).and_then(|_| file.rewind());
            read.map_err(|error| Error::io(path, error))?;
        }
        let end = begin.iter().position(|&byte| byte == b'\n').and_then(|end| end.checked_sub(1));
        Ok(if end.is_some_and(|end| begin[end] == b'\r') { Self::TwoBytes } else { Self::OneByte })
    }
}

fn build(file: File, delimiter: u8) -> Reader<RowLimit<File>> {
    ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false) // so that the header row has a position, and the other rows must have its length
        .trim(Trim::All)
        .buffer_capacity(1 << 16)
        .from_reader(RowLimit::new(file))
}

/// Reads the next row into `record`; returns false at the end of the file.
fn next(path: &Path, reader: &mut Reader<RowLimit<File>>, record: &mut StringRecord, ends: LineEnds) -> Result<bool> {
    reader.get_mut().next_row();
    let begins = line(Some(reader.position()), ends);
    reader.read_record(record).map_err(|error| {
        let line = line(error.position(), ends);
        match error.into_kind() {
            // The row is longer than the limit.
            ErrorKind::Io(source) if source.kind() == io::ErrorKind::FileTooLarge => {
                Error::format(path, format!("line {begins}: {source}"))
            }
            ErrorKind::Io(source) => Error::io(path, source),
            ErrorKind::Utf8 { err, .. } => Error::format(
                path,
                format!("line {line}, column {}: is not UTF-8 text; save the file as UTF-8", err.field() + 1),
            ),
            ErrorKind::UnequalLengths { expected_len, len, .. } => Error::format(
                path,
                format!("line {line}: has {len} fields, the header has {expected_len}; mend the line"),
            ),
            other => Error::format(path, format!("line {line}: {other:?}")),
        }
    })
}

/// Parses one number of an embedding. The error is a message that the caller puts after the place of the field.
fn number(field: &str) -> Result<f32, String> {
    match field.parse::<f32>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ if field.is_empty() => Err("is empty; a number is needed".into()),
        Ok(_) => Err(format!("`{field}` is not a finite 32-bit number; remove the row or mend the encoder's output")),
        Err(_) => Err(format!(
            "`{field}` is not a number. If the column is not a dimension, name it by the setting `label_column`, \
             `id_column` or `other_columns`; otherwise remove it"
        )),
    }
}

/// The names of a file's columns, and the indices of the columns that are not dimensions.
struct CsvColumns<'a> {
    path: &'a Path,
    names: Vec<String>,
    label: Option<usize>,
    id: Option<usize>,
    /// The index of the column `provenance`, which tells random points from picked ones.
    provenance: Option<usize>,
    /// The indices of the columns to ignore.
    others: Vec<usize>,
}

impl<'a> CsvColumns<'a> {
    fn new(path: &'a Path, record: &StringRecord, delimiter: u8, options: &ReadOptions) -> Result<Self> {
        let wrong = |problem: String| Error::format(path, format!("line 1: {problem}"));
        let names: Vec<String> = record.iter().map(str::to_owned).collect();
        if let Some(place) = names.iter().position(String::is_empty) {
            return Err(wrong(format!(
                "column {} has no name; if it is the index that pandas writes, save with index=False",
                place + 1
            )));
        }
        // Pandas names the columns of an array by whole numbers; any other number is data.
        let is_data = |name: &&String| name.parse::<f64>().is_ok() && name.parse::<u32>().is_err();
        if let Some(name) = names.iter().find(is_data) {
            return Err(wrong(format!("`{name}` is a number; the first line must name the columns")));
        }
        if let [only] = names.as_slice()
            && let Some(other) = [",", ";", "\t"].iter().find(|&&other| only.contains(other))
        {
            return Err(wrong(format!(
                "has one column, `{only}`; its fields seem to be separated by {other:?}, but {:?} is needed",
                char::from(delimiter)
            )));
        }
        // Find the columns that are not dimensions.
        let place = |wanted: &str, needed: bool, help: &'static str| {
            let mut places = names.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(place, _)| place);
            match (places.next(), places.next()) {
                (Some(_), Some(_)) => Err(wrong(format!("has two columns named `{wanted}`; rename one"))),
                (None, _) if needed => {
                    Err(Error::MissingKey { path: path.to_owned(), key: wanted.to_owned(), found: names.clone(), help })
                }
                (place, _) => Ok(place),
            }
        };
        // A column of labels is not a dimension even if the labels are not read.
        let needed = options.label_in_file(LABEL_COLUMN).is_some_and(|(_, needed)| needed);
        let wanted = options.label_column.as_deref().unwrap_or(LABEL_COLUMN);
        let label = place(wanted, needed, LABEL_HELP)?;
        let (name, needed) = options.id(ID_COLUMN);
        let id = place(name, needed, ID_HELP)?;
        if label.is_some() && label == id {
            return Err(wrong(format!("`{wanted}` cannot be both label and id")));
        }
        let is_named = |place: &usize| Some(*place) == label || Some(*place) == id;
        let provenance = place(PROVENANCE, false, "")?.filter(|place| !is_named(place));
        let is_other = |place: &usize| {
            !is_named(place) && Some(*place) != provenance && options.other_columns.contains(&names[*place])
        };
        let others = (0..names.len()).filter(is_other).collect();
        Ok(Self { path, names, label, id, provenance, others })
    }

    fn dimensions(&self) -> usize {
        let named = [self.label, self.id, self.provenance].into_iter().flatten().count();
        self.names.len() - named - self.others.len()
    }

    fn wrong(&self, line: u64, place: usize, problem: impl std::fmt::Display) -> Error {
        let name = self.names.get(place).map_or("", String::as_str);
        Error::format(self.path, format!("line {line}, column `{name}`: {problem}"))
    }
}
