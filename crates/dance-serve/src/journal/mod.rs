//! Journal: a file of JSON lines to which labels are appended when they become known.
//!
//! Each line is flushed to the disk before it is acknowledged. The next start cuts off a last line without an end,
//! which was never acknowledged. When a write fails, the file gets its length of before, the labels are refused,
//! `/healthz` reports it, and predictions go on. A file lock keeps a second server from writing the same journal.

mod entry;
mod table;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use entry::Provenance;
pub(crate) use entry::{Entry, Summary, hash_of};
pub use table::{is_journal, read_drawn};

use crate::telemetry;

/// The journal of one server.
pub(crate) struct Journal {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The open file; it is created with the first label, so that a server without labels leaves no file.
    file: Option<File>,
    /// The number of bytes in whole lines.
    length: u64,
    /// The error of the last write, if it failed.
    failure: Option<String>,
    entries: Vec<Summary>,
    /// The place of the last entry of each point, by the hash of its embedding.
    last: HashMap<u64, usize>,
}

impl Journal {
    /// Reads the file, if it exists. With a journal that cannot be read, the server starts all the same and refuses
    /// labels.
    pub(crate) fn open(path: &Path) -> Self {
        let mut inner = Inner::default();
        if path.exists()
            && let Err(error) = inner.open(path)
        {
            telemetry::event("error", &error);
            inner.failure = Some(error);
        }
        telemetry::journal(inner.failure.is_none());
        Self { path: path.to_owned(), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the error that keeps labels from being written, if any.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Appends all of the entries or none, and returns when they are on the disk.
    pub(crate) fn append(&self, entries: &[Entry<'_>]) -> Result<(), String> {
        let inner = &mut *self.lock();
        let outcome = inner.append(&self.path, entries);
        telemetry::journal(outcome.is_ok());
        inner.failure = outcome.as_ref().err().cloned();
        outcome
    }

    /// Reads all entries from the file, oldest first, and passes them to `take` in blocks of at most `most`.
    pub(crate) fn replay(&self, most: usize, take: &mut dyn FnMut(&[Entry<'static>])) -> Result<(), String> {
        let inner = self.lock();
        if inner.length == 0 {
            return Ok(());
        }
        let wrong = |error: &dyn std::fmt::Display| refused(&self.path, error);
        let file = File::open(&self.path).map_err(|error| wrong(&error))?;
        let lines = BufReader::new(file.take(inner.length)).lines();
        let mut entries = Vec::new();
        for line in lines {
            let line = line.map_err(|error| wrong(&error))?;
            entries.push(serde_json::from_str(&line).map_err(|error| wrong(&error))?);
            if entries.len() == most {
                take(&entries);
                entries.clear();
            }
        }
        take(&entries);
        Ok(())
    }

    /// Returns the last label of a point by its hash; `None` for a point without a label so far.
    pub(crate) fn last_label(&self, point: u64) -> Option<Summary> {
        let inner = self.lock();
        inner.last.get(&point).map(|&place| inner.entries[place].clone())
    }

    /// Returns at most `limit` labels after number `after`, with their numbers from 1, and whether there are more. Of a
    /// point with several labels the last one counts.
    pub(crate) fn last_labels(&self, after: usize, limit: usize) -> (Vec<(usize, Summary)>, bool) {
        let inner = self.lock();
        let is_last = |place: &usize| inner.last.get(&inner.entries[*place].point) == Some(place);
        let mut places = (after..inner.entries.len()).filter(is_last);
        let page = places.by_ref().take(limit).map(|place| (place + 1, inner.entries[place].clone())).collect();
        (page, places.next().is_some())
    }

    /// Returns all entries, oldest first.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        self.lock().entries.clone()
    }
}

impl Inner {
    fn append(&mut self, path: &Path, entries: &[Entry<'_>]) -> Result<(), String> {
        if self.file.is_none() {
            self.open(path)?;
        }
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry).map_err(|error| refused(path, &error))?;
            lines.push(b'\n');
        }
        let Some(file) = &mut self.file else { return Err(refused(path, &"the file is not open")) };
        if let Err(error) = file.write_all(&lines).and_then(|()| file.sync_data()) {
            // A part of a line may be in the file: it is cut off, so that the next entry begins on a line of its own.
            let length = self.length;
            if file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length))).is_err() {
                self.file = None;
            }
            return Err(refused(path, &error));
        }
        self.length += lines.len() as u64;
        for entry in entries {
            self.remember(entry.summary());
        }
        Ok(())
    }

    fn remember(&mut self, summary: Summary) {
        self.last.insert(summary.point, self.entries.len());
        self.entries.push(summary);
    }

    /// Opens the file, reads its lines and cuts off a last one without an end.
    fn open(&mut self, path: &Path) -> Result<(), String> {
        let refused = |error: &dyn std::fmt::Display| refused(path, error);
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(path).map_err(|error| refused(&error))?;
        file.try_lock().map_err(|_| refused(&"another server writes this journal"))?;
        (self.entries, self.last, self.length) = (Vec::new(), HashMap::new(), 0);
        if file.metadata().map_err(|error| refused(&error))?.is_file() {
            self.read(&file, path)?;
            file.set_len(self.length).map_err(|error| refused(&error))?;
            file.seek(SeekFrom::Start(self.length)).map_err(|error| refused(&error))?;
        }
        self.file = Some(file);
        Ok(())
    }

    fn read(&mut self, file: &File, path: &Path) -> Result<(), String> {
        let mut reader = BufReader::new(file);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            number += 1;
            let read = reader.read_until(b'\n', &mut line).map_err(|error| refused(path, &error))?;
            if read == 0 {
                return Ok(());
            }
            if line.last() != Some(&b'\n') {
                telemetry::event("warning", &format!("{}: line {number} has no end and is cut off", path.display()));
                return Ok(());
            }
            let entry: Entry<'_> = serde_json::from_slice(&line)
                .map_err(|error| refused(path, &format!("line {number} is no entry of a journal: {error}")))?;
            self.remember(entry.summary());
            self.length += read as u64;
        }
    }
}

fn refused(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests;
