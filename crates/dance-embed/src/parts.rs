//! Parts: finished embeddings on disk, from which an interrupted run continues.
//!
//! A folder holds `key`, a hash of the inputs and the encoder, and parts, each written whole or not at all: a line of
//! JSON, then numbers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use dance::data::EncoderIdentity;
use dance::whole_file::WholeFile;
use dance::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hub::hexadecimal;
use crate::items::{Content, Items};

/// One row of numbers, or the reason why its picture or text cannot be embedded.
pub(crate) type Outcome = std::result::Result<Vec<f32>, String>;

/// The folder of the parts of one run. It is locked against other runs.
pub(crate) struct Parts {
    folder: PathBuf,
    _lock: File,
}

/// The first line of a part.
#[derive(Serialize, Deserialize)]
struct Head {
    rows: usize,
    columns: usize,
    bad: Vec<(usize, String)>,
}

impl Parts {
    /// Opens the folder, or creates it. Parts of other inputs or encoders are refused.
    pub(crate) fn open(folder: &Path, items: &Items, encoder: &EncoderIdentity) -> Result<Self> {
        let write = |source: std::io::Error| Error::Write { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(write)?;
        let lock = File::options().create(true).append(true).open(folder.join("lock")).map_err(write)?;
        if matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            return Err(Error::format(folder, "another run is at work on it; wait for it, or write to another file"));
        }
        let (place, key) = (folder.join("key"), key(items, encoder));
        match fs::read_to_string(&place) {
            Ok(found) if found == key => {}
            Ok(_) => {
                return Err(Error::format(
                    folder,
                    "holds parts of an earlier run on other inputs or with another encoder; remove it to start again",
                ));
            }
            Err(_) => WholeFile::write(&place, key.as_bytes())?,
        }
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    fn place(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number:06}.part"))
    }

    /// Returns a part of `count` rows; `None` if it is missing or damaged, so that it is computed again.
    pub(crate) fn read(&self, number: usize, count: usize) -> Option<Vec<Outcome>> {
        let bytes = fs::read(self.place(number)).ok()?;
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let head: Head = serde_json::from_slice(&bytes[..end]).ok()?;
        let numbers = bytes[end + 1..].as_chunks::<4>().0;
        let good = count.checked_sub(head.bad.len())?;
        if head.rows != count || numbers.len() != good.checked_mul(head.columns)? || head.columns == 0 {
            return None;
        }
        let mut rows = numbers.chunks_exact(head.columns);
        let mut bad = head.bad.into_iter().peekable();
        let outcome = |row: usize| match bad.next_if(|(place, _)| *place == row) {
            Some((_, reason)) => Some(Err(reason)),
            None => Some(Ok(rows.next()?.iter().map(|&number| f32::from_le_bytes(number)).collect())),
        };
        (0..count).map(outcome).collect()
    }

    /// Writes a part.
    pub(crate) fn write(&self, number: usize, outcomes: &[Outcome]) -> Result<()> {
        let bad = outcomes.iter().enumerate().filter_map(|(row, outcome)| Some((row, outcome.as_ref().err()?.clone())));
        let columns = outcomes.iter().flatten().next().map_or(1, Vec::len);
        let head = Head { rows: outcomes.len(), columns, bad: bad.collect() };
        let mut bytes = serde_json::json!(head).to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend(outcomes.iter().flatten().flatten().flat_map(|number| number.to_le_bytes()));
        WholeFile::write(self.place(number), &bytes)
    }

    /// Removes a folder of parts.
    pub(crate) fn remove(folder: &Path) {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Returns a hash of the inputs and the encoder. A file enters with its length and modification time, since reading
/// thousands of files would take too long.
fn key(items: &Items, encoder: &EncoderIdentity) -> String {
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    put(encoder.weights.as_bytes());
    put(encoder.preparation.as_bytes());
    for (content, id) in items.contents.iter().zip(&items.ids) {
        put(id.as_bytes());
        match content {
            Content::Bytes(bytes) => put(bytes),
            Content::Text(text) => put(text.as_bytes()),
            Content::File(path) => {
                let found = fs::metadata(path).ok();
                let time = found.as_ref().and_then(|found| found.modified().ok());
                put(format!("{:?} {time:?}", found.map(|found| found.len())).as_bytes());
            }
        }
    }
    hexadecimal(&hash.finalize())
}
