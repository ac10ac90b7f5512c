//! Labels that became known: appended to a file of JSON lines, each flushed to the disk before it is acknowledged.
//!
//! A line that a crash tore is cut off at the next start: it was never acknowledged. Where the disk refuses, the file is brought
//! back to what it was, the labels are refused, and health says so; answers go on. One server writes a journal at a time.

mod entry;
mod table;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use entry::How;
pub(crate) use entry::{Brief, Entry, fingerprint};
pub use table::{is_journal, read_drawn};

use crate::telemetry;

/// Labels that became known.
pub(crate) struct Journal {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Opened with the first label, so that a server that gets none leaves no file.
    file: Option<File>,
    /// Bytes of whole lines.
    length: u64,
    /// What the disk said last, while it refuses.
    failure: Option<String>,
    entries: Vec<Brief>,
    /// How each point was found, by its numbers.
    found: HashMap<u64, How>,
}

impl Journal {
    /// Reads what there is. A journal that cannot be read refuses labels and says why; the server is there for answers first.
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

    /// Why labels cannot be written, where they cannot.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Appends entries, all or none, and returns when they are on the disk.
    pub(crate) fn append(&self, entries: &[Entry<'_>]) -> Result<(), String> {
        let inner = &mut *self.lock();
        let outcome = inner.append(&self.path, entries);
        telemetry::journal(outcome.is_ok());
        inner.failure = outcome.as_ref().err().cloned();
        outcome
    }

    /// Hands on all entries with their points, oldest first, some at a time.
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

    /// How a point was found whose label is known already.
    pub(crate) fn found(&self, point: u64) -> Option<How> {
        self.lock().found.get(&point).copied()
    }

    /// What `look` makes of all entries, oldest first.
    pub(crate) fn with_entries<T>(&self, look: impl FnOnce(&[Brief]) -> T) -> T {
        look(&self.lock().entries)
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
        let Some(file) = &mut self.file else { return Err(refused(path, &"it is not open")) };
        if let Err(error) = file.write_all(&lines).and_then(|()| file.sync_data()) {
            // Nothing half-written stays: the next line must begin on a line of its own.
            let length = self.length;
            if file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length))).is_err() {
                self.file = None;
            }
            return Err(refused(path, &error));
        }
        self.length += lines.len() as u64;
        for entry in entries {
            self.note(entry.brief());
        }
        Ok(())
    }

    fn note(&mut self, brief: Brief) {
        self.found.insert(brief.point, brief.how);
        self.entries.push(brief);
    }

    /// Opens the file, reads its lines and cuts off a torn one.
    fn open(&mut self, path: &Path) -> Result<(), String> {
        let refused = |error: &dyn std::fmt::Display| refused(path, error);
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| refused(&error))?;
        file.try_lock().map_err(|_| refused(&"another server writes it"))?;
        (self.entries, self.found, self.length) = (Vec::new(), HashMap::new(), 0);
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
                telemetry::event(
                    "warning",
                    &format!("{}: line {number} was torn and is cut off", path.display()),
                );
                return Ok(());
            }
            let entry: Entry<'_> = serde_json::from_slice(&line)
                .map_err(|error| refused(path, &format!("line {number} is no label of dance: {error}")))?;
            self.note(entry.brief());
            self.length += read as u64;
        }
    }
}

fn refused(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests;
