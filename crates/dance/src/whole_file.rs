//! Atomic writes: a file appears whole or not at all. The library writes every file with this module. The function
//! [`read`] reads small files.
//!
//! A file is written under a random temporary name in its folder, flushed to the disk and renamed; then the folder is
//! flushed. A reader of the file's own name gets the old file or the new one, even when two programs write it at once.
//! An existing file keeps its mode, a symbolic link is followed, and a read-only file is refused.
//!
//! If a program is killed, its temporary file stays. The next writer of the same file removes the temporary file, since
//! only a running writer holds a lock on it.
//!
//! ```
//! use std::io::Write;
//! use dance::whole_file::WholeFile;
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("answer.txt");
//! let mut file = WholeFile::create(&path)?;
//! writeln!(file, "42")?;
//! assert!(!path.exists()); // not yet
//! file.commit()?;
//! assert_eq!(std::fs::read_to_string(&path)?, "42\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

use crate::error::{Error, Result, human_bytes};

/// The paths of the temporary files that are being written. They are removed when the program is interrupted.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that is being written. If it is dropped before [`commit`](Self::commit), nothing is left on the disk.
#[derive(Debug)]
pub struct WholeFile {
    /// The open file and its temporary path, which is removed on drop; `None` after the commit.
    out: Option<(BufWriter<File>, TempPath)>,
    temporary: PathBuf,
    /// The path of the finished file, with symbolic links followed.
    place: PathBuf,
    /// The path as the user wrote it.
    path: PathBuf,
}

impl WholeFile {
    /// Returns an error if the file `path` cannot be written. The disk stays unchanged.
    pub fn check(path: impl AsRef<Path>) -> Result<()> {
        Self::create(path).map(drop)
    }

    /// Begins to write the file `path`, under a temporary name.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |problem: &str| Err(Error::format(path, problem));
        let place = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => match fs::canonicalize(path) {
                Ok(target) => target,
                Err(_) => return refuse("is a symbolic link to nothing; remove it or name another file"),
            },
            _ => path.to_owned(),
        };
        let mode = match fs::metadata(&place) {
            Ok(found) if found.is_dir() => return refuse("is a directory; name a file in it"),
            // A rename would replace a device or a pipe by a file.
            Ok(found) if !found.is_file() => return refuse("is not a regular file"),
            Ok(found) if found.permissions().readonly() => {
                return refuse("is read-only; remove it, make it writable or name another file");
            }
            Ok(found) => Some(found.permissions()),
            Err(_) => None,
        };
        let Some(name) = place.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            return refuse("is not a file name");
        };
        // The temporary file lies in the same folder, so that the rename stays within one file system.
        let folder = folder_of(&place);
        let prefix = format!(".{name}.");
        remove_leftovers(folder, &prefix);
        let mut unfinished = lock();
        // `create_new` opens the file, so that the error holds no temporary name, which the user does not know.
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(SUFFIX)
            .make_in(folder, |name| create_new(name, mode.as_ref()))
            .map_err(|error| cannot_write(path, error))?;
        let (file, name) = file.into_parts();
        let temporary = name.to_path_buf();
        unfinished.push(temporary.clone());
        drop(unfinished);
        Ok(Self { out: Some((BufWriter::new(file), name)), temporary, place, path: path.to_owned() })
    }

    /// Writes `bytes` to the file `path`.
    pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let path = path.as_ref();
        let mut file = Self::create(path)?;
        file.open().and_then(|out| out.write_all(bytes)).map_err(|error| cannot_write(path, error))?;
        file.commit()
    }

    /// Flushes the file and renames it to its final path.
    pub fn commit(mut self) -> Result<()> {
        let finish = |(out, name): (BufWriter<File>, TempPath)| -> io::Result<()> {
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            let mut unfinished = lock();
            name.persist(&self.place).map_err(|error| error.error)?;
            unfinished.retain(|noted| *noted != self.temporary);
            drop(unfinished);
            sync_folder(folder_of(&self.place))
        };
        let outcome = self.out.take().map_or(Ok(()), finish);
        outcome.map_err(|error| {
            forget(&self.temporary);
            cannot_write(&self.path, error)
        })
    }

    /// Returns an I/O error with the file's path in its message, made from `error`.
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), cannot_write(&self.path, error))
    }

    fn open(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.out.as_mut().map(|(out, _)| out).ok_or_else(|| io::Error::other("the file is finished"))
    }
}

fn cannot_write(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

/// Reads a regular file of at most `longest` bytes. Returns [`Error::Format`] for a longer file. Also returns it for a
/// pipe, because reading a pipe may block.
pub fn read(path: impl AsRef<Path>, longest: u64) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let cannot_read = |error| Error::io(path, error);
    // Checked before the file is opened, since opening a pipe waits for its writer.
    let found = fs::metadata(path).map_err(cannot_read)?;
    if found.is_dir() {
        return Err(Error::format(path, "is a directory; name a file in it"));
    }
    if !found.is_file() {
        return Err(Error::format(path, "is not a regular file; save its contents to one"));
    }
    let mut bytes = Vec::new();
    if found.len() <= longest {
        let file = File::open(path).map_err(cannot_read)?;
        bytes.try_reserve_exact(found.len() as usize).map_err(|_| cannot_read(ErrorKind::OutOfMemory.into()))?;
        // The file may grow while it is read.
        file.take(longest.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot_read)?;
    }
    if found.len() > longest || bytes.len() as u64 > longest {
        let limit = human_bytes(longest);
        return Err(Error::format(path, format!("is longer than {limit}, more than such a file needs")));
    }
    Ok(bytes)
}

const SUFFIX: &str = ".tmp";

/// Removes every unfinished file, then runs `last`, which may end the program. Handlers of interruptions call this
/// function. No file can be committed while `last` runs.
pub fn abandon_all<T>(last: impl FnOnce() -> T) -> T {
    let mut unfinished = lock();
    for path in unfinished.drain(..) {
        let _ = fs::remove_file(path);
    }
    last()
}

fn lock() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(temporary: &Path) {
    lock().retain(|noted| noted != temporary);
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates and locks a new file. It gets the permission bits `mode` of the file that it will replace, less the bits in
/// the process's umask.
fn create_new(path: &Path, mode: Option<&Permissions>) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(mode) = mode {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(mode.mode());
    }
    #[cfg(not(unix))]
    let _ = mode; // other systems have no modes
    let file = options.open(path)?;
    // Without locks in the file system, leftovers stay until someone removes them.
    let _ = file.lock();
    // Another process may have removed the file before its lock; the caller then tries another name.
    if path.exists() { Ok(file) } else { Err(ErrorKind::AlreadyExists.into()) }
}

/// Flushes the folder to the disk, so that a new name in it survives a power failure. Only Unix can open a folder.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Removes the temporary files in `folder` whose names begin with `prefix`, if their writers have ended.
fn remove_leftovers(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(prefix) && name.ends_with(SUFFIX)) || lock().contains(&entry.path()) {
            continue;
        }
        // A running writer holds the lock of its file. Only regular files are opened, since opening a pipe blocks.
        let abandoned = entry.file_type().is_ok_and(|kind| kind.is_file())
            && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if abandoned {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open().and_then(|out| out.write(bytes)).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open().and_then(Write::flush).map_err(|error| self.named(error))
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.open()?.seek(to)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            forget(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_dropped_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(names(folder.path()).len(), 1);
        drop(file);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn many_writers_of_one_file_each_write_it_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        WholeFile::write(path, &[writer; 10_000]).unwrap();
                        let found = fs::read(path).unwrap();
                        assert!(found.len() == 10_000 && found.iter().all(|byte| *byte == found[0]));
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn leftovers_go_and_files_of_running_writers_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(folder.path().join(".out.dead.tmp"), b"half").unwrap();
        fs::write(folder.path().join(".other.dead.tmp"), b"half").unwrap();
        let running = WholeFile::create(&path).unwrap();
        WholeFile::write(&path, b"whole").unwrap();
        assert_eq!(names(folder.path()).len(), 3); // the leftover of `other`, the running writer's file, and `out`
        drop(running);
        assert_eq!(names(folder.path()), [".other.dead.tmp", "out"]);
    }

    #[cfg(unix)]
    #[test]
    fn modes_links_and_read_only_files_are_respected() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out"), folder.path().join("link"));
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        WholeFile::write(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        fs::set_permissions(&path, Permissions::from_mode(0o440)).unwrap();
        assert!(WholeFile::write(&path, b"newer").unwrap_err().to_string().contains("read-only"));
        fs::remove_file(&path).unwrap();
        assert!(WholeFile::write(&link, b"newer").unwrap_err().to_string().contains("link to nothing"));
        assert!(WholeFile::write(folder.path(), b"x").unwrap_err().to_string().contains("directory"));
    }

    #[test]
    fn only_regular_files_of_a_sensible_length_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        fs::write(&path, b"four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert!(read(&path, 3).unwrap_err().to_string().contains("longer than 3 B"));
        assert!(read(folder.path(), 4).unwrap_err().to_string().contains("is a directory"));
    }

    #[test]
    fn an_error_names_the_path_that_cannot_be_written() {
        let error = WholeFile::check("/no/such/folder/out").unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/out"), "{error}");
    }
}
