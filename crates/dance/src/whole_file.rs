//! Files that appear whole or not at all: the one piece of code through which everything is written, and [`read`] for what is
//! wanted whole.
//!
//! A file is written under a random temporary name beside its place, flushed to the disk and renamed; then the folder is
//! flushed too. Whoever reads the final name sees the old file or the new one, also when two programs write it at once. An
//! existing file keeps its mode; a symbolic link is followed, not replaced; a read-only file is refused. What a killed run
//! left behind is removed by the next one that writes the same file: a temporary file is locked while its writer lives.
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

/// Temporary files that are to vanish when the program is interrupted.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file under way; dropped without [`commit`](Self::commit) it leaves nothing behind.
#[derive(Debug)]
pub struct WholeFile {
    /// The file and its temporary name, under which it is removed when it is dropped; `None` once it is committed.
    out: Option<(BufWriter<File>, TempPath)>,
    temporary: PathBuf,
    /// Where it goes: the target of a symbolic link.
    place: PathBuf,
    /// What the user called it.
    path: PathBuf,
}

impl WholeFile {
    /// Fails now if `path` could not be written later.
    pub fn check(path: impl AsRef<Path>) -> Result<()> {
        Self::create(path).map(drop)
    }

    /// Begins a file that will be called `path`.
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
            // A rename would put a file in the place of the device.
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
        // Beside its final place, so that the rename stays within one file system.
        let folder = folder_of(&place);
        let prefix = format!(".{name}.");
        remove_leftovers(folder, &prefix);
        let mut unfinished = lock();
        // Opened by us: what the system says then has no temporary name in it, which means nothing to the user.
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

    /// Writes all of `bytes` to a file called `path`.
    pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let path = path.as_ref();
        let mut file = Self::create(path)?;
        file.open().and_then(|out| out.write_all(bytes)).map_err(|error| cannot_write(path, error))?;
        file.commit()
    }

    /// Puts the file in its place.
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

    /// An error that names the file to whoever only sees a `Write`.
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

/// Reads all of a regular file that is no longer than `longest` bytes: a pipe could keep us waiting, and a file without end would
/// take all memory.
pub fn read(path: impl AsRef<Path>, longest: u64) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let cannot_read = |error| Error::io(path, error);
    // Before opening, which would wait for the other end of a pipe.
    let found = fs::metadata(path).map_err(cannot_read)?;
    if found.is_dir() {
        return Err(Error::format(path, "is a directory; name a file in it"));
    }
    if !found.is_file() {
        return Err(Error::format(path, "is not a regular file; save what it gives to one"));
    }
    let mut bytes = Vec::new();
    if found.len() <= longest {
        let file = File::open(path).map_err(cannot_read)?;
        bytes
            .try_reserve_exact(found.len() as usize)
            .map_err(|_| cannot_read(ErrorKind::OutOfMemory.into()))?;
        // It may grow while it is read.
        file.take(longest.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot_read)?;
    }
    if found.len() > longest || bytes.len() as u64 > longest {
        let limit = human_bytes(longest);
        return Err(Error::format(path, format!("is longer than {limit}, which such a file never is")));
    }
    Ok(bytes)
}

const SUFFIX: &str = ".tmp";

/// Removes every file that is under way and runs `last`; no file can be finished meanwhile or, if `last` ends the program,
/// ever after. For whoever handles an interruption.
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

/// A file that was not there, locked, with the mode of the one whose place it takes; the process's mask takes its share.
fn create_new(path: &Path, mode: Option<&Permissions>) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(mode) = mode {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(mode.mode());
    }
    #[cfg(not(unix))]
    let _ = mode; // other systems have none
    let file = options.open(path)?;
    // A file system without locks only loses the clean-up of leftovers.
    let _ = file.lock();
    // Whoever cleans up may have come between the file and its lock; another name is tried then.
    if path.exists() { Ok(file) } else { Err(ErrorKind::AlreadyExists.into()) }
}

/// So that the new name survives a power failure. Only Unix can open a folder.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Removes the temporary files of writers that are no more.
fn remove_leftovers(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(prefix) && name.ends_with(SUFFIX)) || lock().contains(&entry.path()) {
            continue;
        }
        // Whoever still writes it holds its lock. (To open a pipe would be to wait for its other end.)
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
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
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
    fn leftovers_of_the_dead_go_and_files_of_the_living_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(folder.path().join(".out.dead.tmp"), b"half").unwrap();
        fs::write(folder.path().join(".other.dead.tmp"), b"half").unwrap();
        let living = WholeFile::create(&path).unwrap();
        WholeFile::write(&path, b"whole").unwrap();
        assert_eq!(names(folder.path()).len(), 3); // the other's, the living one's, and the file
        drop(living);
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
    fn a_path_that_cannot_be_written_says_so() {
        let error = WholeFile::check("/no/such/folder/out").unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/out"), "{error}");
    }
}
