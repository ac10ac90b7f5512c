//! Text tables, `.csv` and `.tsv`: a header row, then one point per line.
//!
//! The label and id columns are found by name; every other column is a dimension, in the order of the file. Quoted
//! fields, both kinds of line ends, a byte order mark and spaces around fields are fine. Messages give the line, as an
//! editor counts, and the name of the column.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use csv::{ErrorKind, Position, Reader, ReaderBuilder, StringRecord, Trim};

use super::budget::Rows;
use super::csv_cell::restored;
use super::{ID_COLUMN, LABEL_COLUMN, ReadOptions, labels};
use crate::data::labelled::Places;
use crate::data::provenance::{PROVENANCE, is_picked};
use crate::data::{Kind, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// Reads a table of embeddings.
pub(super) fn read(path: &Path, mut file: File, delimiter: u8, options: &ReadOptions) -> Result<Table> {
    let ends = LineEnds::of(path, &mut file)?;
    let mut reader = build(file, delimiter);
    let mut record = StringRecord::new();
    if !next(path, &mut reader, &mut record, ends)? {
        return Err(Error::format(path, "has no header row; the first line must name the columns"));
    }
    let header = Header::new(path, &record, delimiter, options)?;
    let (mut data, mut lines) = (Vec::new(), Vec::new());
    let mut labels = header.label.map(|_| Vec::new());
    let mut ids = header.id.map(|_| Vec::new());
    let mut picked = header.provenance.filter(|_| !options.without_labels).map(|_| Vec::new());
    while next(path, &mut reader, &mut record, ends)? {
        let line = line(record.position(), ends);
        for (place, field) in record.iter().enumerate() {
            if Some(place) == header.label {
                labels.get_or_insert_default().push(restored(field).to_owned());
            } else if Some(place) == header.id {
                ids.get_or_insert_default().push(restored(field).to_owned());
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
    let embeddings = Matrix::new(data, lines.len(), header.dimensions())?;
    let label_column = options.label_column.clone().unwrap_or_else(|| LABEL_COLUMN.into());
    let mut places = Places { columns: header.names, label_column, ..Places::default() };
    let labels = labels.filter(|_| options.label_in_file(LABEL_COLUMN).is_some()).map(|texts| {
        let found = labels::from_text(texts, lines);
        (places.missing, places.lines) = (found.missing, found.lines);
        found.values
    });
    let id_kind = ids.as_deref().map_or(Kind::Text, labels::kind_of);
    Ok(Table { labels, ids, id_kind, picked, places, ..Table::new(path.display().to_string(), embeddings)? })
}

/// Reads a file of labels: the column of that name or, if the first line has no such field, one label per line.
pub(super) fn read_labels(
    path: &Path,
    mut file: File,
    delimiter: u8,
    column: &str,
) -> Result<labels::Labels> {
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
            help: "Name the column of labels with --label-column, or give a file with one label per line",
        });
    }
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    while more {
        found.push(restored(record.get(header.unwrap_or(0)).unwrap_or_default()).to_owned());
        lines.push(u32::try_from(line(record.position(), ends)).unwrap_or(u32::MAX));
        more = next(path, &mut reader, &mut record, ends)?;
    }
    Ok(labels::from_text(found, lines))
}

/// The line, as editors count, on which a row begins. A position is taken before the second half of a line's end in two
/// bytes (`\\r\\n`) is passed over.
fn line(position: Option<&Position>, ends: LineEnds) -> u64 {
    let behind = |position: &Position| ends == LineEnds::TwoBytes && position.record() > 0;
    position.map_or(1, |position| position.line() + u64::from(behind(position)))
}

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnds {
    OneByte,
    TwoBytes,
}

impl LineEnds {
    /// By the first line of a file, which is then at its begin again.
    fn of(path: &Path, file: &mut File) -> Result<Self> {
        let mut begin = Vec::new();
        // A pipe cannot be read twice.
        if file.metadata().is_ok_and(|found| found.is_file()) {
            let read = file.by_ref().take(1 << 16).read_to_end(&mut begin).and_then(|_| file.rewind());
            read.map_err(|error| Error::io(path, error))?;
        }
        let end = begin.iter().position(|&byte| byte == b'\n').and_then(|end| end.checked_sub(1));
        Ok(if end.is_some_and(|end| begin[end] == b'\r') { Self::TwoBytes } else { Self::OneByte })
    }
}

fn build(file: File, delimiter: u8) -> Reader<Rows<File>> {
    ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false) // so that the header row comes with its position, and its length binds the others
        .trim(Trim::All)
        .buffer_capacity(1 << 16)
        .from_reader(Rows::new(file))
}

/// The next row, if there is one.
fn next(
    path: &Path,
    reader: &mut Reader<Rows<File>>,
    record: &mut StringRecord,
    ends: LineEnds,
) -> Result<bool> {
    reader.get_mut().next();
    let begins = line(Some(reader.position()), ends);
    reader.read_record(record).map_err(|error| {
        let line = line(error.position(), ends);
        match error.into_kind() {
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

fn number(field: &str) -> Result<f32, String> {
    match field.parse::<f32>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ if field.is_empty() => Err("is empty; a number is needed".into()),
        Ok(_) => Err(format!(
            "`{field}` is not a finite 32-bit number; remove the row or mend the encoder's output"
        )),
        Err(_) => Err(format!(
            "`{field}` is not a number. If the column is the label, the id, a group or a part, say so with --label-column, --id-column, \
             --groups or --parts; otherwise remove it"
        )),
    }
}

/// The columns by name.
struct Header<'a> {
    path: &'a Path,
    names: Vec<String>,
    label: Option<usize>,
    id: Option<usize>,
    /// How points came to be there, which is no dimension.
    provenance: Option<usize>,
    /// Columns that nobody wants.
    others: Vec<usize>,
}

impl<'a> Header<'a> {
    fn new(path: &'a Path, record: &StringRecord, delimiter: u8, options: &ReadOptions) -> Result<Self> {
        let wrong = |problem: String| Error::format(path, format!("line 1: {problem}"));
        let names: Vec<String> = record.iter().map(str::to_owned).collect();
        if let Some(place) = names.iter().position(String::is_empty) {
            return Err(wrong(format!(
                "column {} has no name; if it is the index that pandas writes, save with index=False",
                place + 1
            )));
        }
        // Whole numbers are how pandas names the columns of a bare array; any other number is data.
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
        let place = |wanted: &str, needed: bool, help: &'static str| {
            let mut places =
                names.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(place, _)| place);
            match (places.next(), places.next()) {
                (Some(_), Some(_)) => Err(wrong(format!("has two columns named `{wanted}`; rename one"))),
                (None, _) if needed => Err(Error::MissingKey {
                    path: path.to_owned(),
                    key: wanted.to_owned(),
                    found: names.clone(),
                    help,
                }),
                (place, _) => Ok(place),
            }
        };
        // A column of labels that nobody wants is no dimension either.
        let needed = options.label_in_file(LABEL_COLUMN).is_some_and(|(_, needed)| needed);
        let wanted = options.label_column.as_deref().unwrap_or(LABEL_COLUMN);
        let label = place(wanted, needed, "Name a column that is there with --label-column")?;
        let (name, needed) = options.id(ID_COLUMN);
        let id = place(name, needed, "Name a column that is there with --id-column")?;
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
