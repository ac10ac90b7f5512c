//! A journal as data to calibrate on.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use dance::data::RawLabels;
use dance::{Error, Matrix, Result, Table};

use super::How;
use super::entry::Entry;

/// No entry is longer: a point of 65,536 numbers.
const LONGEST_LINE: u64 = 4 << 20;

/// Whether a file begins as a journal does. A pipe is none: looking would take its first line.
pub fn is_journal(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut line = Vec::new();
    let read = BufReader::new(file.take(LONGEST_LINE)).read_until(b'\n', &mut line);
    read.is_ok() && serde_json::from_slice::<Entry<'static>>(&line).is_ok()
}

/// The labelled points of a journal that came by chance, and how many were left out because they were picked: those are not like new
/// points, and a model calibrated on them would promise nothing. Of a point with several labels the last one counts.
pub fn read_drawn(path: &Path) -> Result<(Table, usize)> {
    let file = std::fs::File::open(path).map_err(|error| Error::io(path, error))?;
    let mut entries: Vec<Entry<'static>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut picked = 0;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(|error| Error::io(path, error))?;
        // A last line without an end was torn by a crash.
        if read == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let entry: Entry<'static> = serde_json::from_slice(&line)
            .map_err(|error| Error::format(path, format!("line {number} is no label of dance: {error}")))?;
        if let Some(first) = entries.first()
            && first.embedding.len() != entry.embedding.len()
        {
            let (expected, found) = (first.embedding.len(), entry.embedding.len());
            return Err(Error::format(
                path,
                format!("line {number} has {found} dimensions, the first has {expected}"),
            ));
        }
        match entry.how {
            How::Picked => picked += 1,
            How::Chance => match places.insert(super::entry::fingerprint(&entry.embedding), entries.len()) {
                Some(place) => {
                    places.insert(super::entry::fingerprint(&entry.embedding), place);
                    entries[place] = entry;
                }
                None => entries.push(entry),
            },
        }
    }
    if entries.is_empty() {
        let problem = format!(
            "holds no label of a point that came by chance ({picked} were picked); only those are like new points"
        );
        return Err(Error::format(path, problem));
    }
    let dimensions = entries[0].embedding.len();
    let values = entries.iter().flat_map(|entry| entry.embedding.iter().copied()).collect();
    let mut table = Table::new(path.display().to_string(), Matrix::new(values, entries.len(), dimensions)?)?;
    table.labels = Some(RawLabels::Names(entries.iter().map(|entry| entry.label.to_string()).collect()));
    table.ids = entries.iter().map(|entry| entry.id.as_deref().map(str::to_owned)).collect();
    Ok((table, picked))
}
