//! Ctrl-C: remove what is half written, then end.
//!
//! The `ctrlc` crate runs the handler on a thread of its own, so it may lock and delete, which a raw signal handler must
//! not, and it works while the main thread waits for stdin or sits in a matrix product. One lock covers "rename a finished
//! file" and "delete unfinished files and end": a file under its final name is whole.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Listens for SIGINT, SIGTERM and SIGHUP from here on.
pub(crate) fn install() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        let unfinished = lock();
        for path in &*unfinished {
            let _ = std::fs::remove_file(path);
        }
        eprintln!("\ndance: interrupted; no partial file was left");
        std::process::exit(2); // while holding the lock: nothing is renamed any more
    })?;
    Ok(())
}

/// Notes a file that is to vanish when the program is interrupted.
pub(crate) fn note(path: &Path) {
    lock().push(path.to_owned());
}

/// Runs `last` (a rename, a removal) and forgets the file, uninterrupted.
pub(crate) fn settle<T>(path: &Path, last: impl FnOnce() -> T) -> T {
    let mut unfinished = lock();
    let value = last();
    unfinished.retain(|noted| noted != path);
    value
}

fn lock() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
