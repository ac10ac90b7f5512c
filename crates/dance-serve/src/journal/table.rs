//! Journals as data: the random labels of a journal, as a table to calibrate on.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use dance::data::{Kind, RawLabels};
use dance::{Error, Matrix, Result, Table};
use serde_json::Value;

use super::entry::{Entry, Provenance, hash_of};
use crate::names::name_of;

/// The most bytes of a line: an embedding of 65,536 numbers.
const LONGEST_LINE: u64 = 4 << 20;

/// Returns whether the first line of a file is an entry of a journal. Pipes are not read, since that would take their
/// first line.
pub fn is_journal(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut line = Vec::new();
    let read = BufReader::new(file.take(LONGEST_LINE)).read_until(b'\n', &mut line);
    read.is_ok() && serde_json::from_slice::<Entry<'static>>(&line).is_ok()
}

/// Reads the random points of a journal with their labels, and counts the picked points, which are left out: a model
/// that is calibrated on picked points has no guarantee. Of a point with several labels the last one is used.
pub fn read_drawn(path: &Path) -> Result<(Table, usize)> {
    let file = std::fs::File::open(path).map_err(|error| Error::io(path, error))?;
    let mut entries: Vec<Entry<'static>> = Vec::new();
    let mut places = HashMap::new();
    let mut picked = 0;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(|error| Error::io(path, error))?;
        // The server that writes the journal may be in the middle of the last line.
        if read == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let entry: Entry<'static> = serde_json::from_slice(&line)
            .map_err(|error| Error::format(path, format!("line {number} is no entry of a journal: {error}")))?;
        check_length(path, number, entries.first(), &entry)?;
        if entry.provenance == Provenance::Picked {
            picked += 1;
            continue;
        }
        let place = *places.entry(hash_of(&entry.embedding)).or_insert(entries.len());
        if place == entries.len() {
            entries.push(entry);
        } else {
            entries[place] = entry;
        }
    }
    if entries.is_empty() {
        let problem = format!(
            "has no label of a random point ({picked} points were picked); only random points are like new ones \
             and can calibrate"
        );
        return Err(Error::format(path, problem));
    }
    Ok((table(path, &entries)?, picked))
}

/// Refuses an entry whose embedding has another length than the first.
fn check_length(path: &Path, number: usize, first: Option<&Entry<'_>>, entry: &Entry<'_>) -> Result<()> {
    let found = entry.embedding.len();
    match first.map(|first| first.embedding.len()) {
        Some(expected) if expected != found => {
            let problem = format!("line {number} has {found} dimensions, the first has {expected}");
            Err(Error::format(path, problem))
        }
        _ => Ok(()),
    }
}

fn table(path: &Path, entries: &[Entry<'_>]) -> Result<Table> {
    let dimensions = entries[0].embedding.len();
    let values = entries.iter().flat_map(|entry| entry.embedding.iter().copied()).collect();
    let mut table = Table::new(path.display().to_string(), Matrix::new(values, entries.len(), dimensions)?)?;
    table.labels = Some(labels(entries));
    let ids: Option<Vec<&Value>> = entries.iter().map(|entry| entry.id.as_ref()).collect();
    if let Some(ids) = ids {
        table.id_kind = if ids.iter().all(|id| id.is_number()) { Kind::Integer } else { Kind::Text };
        table.ids = ids.into_iter().map(name_of).collect();
    }
    Ok(table)
}

/// Returns the labels in the kind that all of them have.
fn labels(entries: &[Entry<'_>]) -> RawLabels {
    let all = || entries.iter().map(|entry| &entry.label);
    if let Some(truths) = all().map(Value::as_bool).collect() {
        return RawLabels::Booleans(truths);
    }
    if let Some(numbers) = all().map(Value::as_i64).collect() {
        return RawLabels::Integers(numbers);
    }
    if let Some(numbers) = all().map(Value::as_f64).collect() {
        return RawLabels::Floats(numbers);
    }
    RawLabels::Names(entries.iter().map(Entry::label_name).collect())
}
