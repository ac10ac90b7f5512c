//! A file that appears whole or not at all: written under a temporary name beside its place, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::interrupt;

pub(crate) struct WholeFile {
    /// `None` once it is committed.
    out: Option<BufWriter<File>>,
    temporary: PathBuf,
    path: PathBuf,
}

impl WholeFile {
    /// Fails now if `path` could not be written later.
    pub(crate) fn check(path: &Path) -> anyhow::Result<()> {
        Self::create(path).map(drop)
    }

    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => bail!("{}: is a directory; name a file in it", path.display()),
            // A rename would put a file in the place of the device.
            Ok(found) if !found.is_file() => bail!("{}: is not a regular file", path.display()),
            _ => {}
        }
        let Some(name) = path.file_name() else { bail!("{}: is not a file name", path.display()) };
        // Beside its final place, so that the rename stays within one file system.
        let temporary =
            path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        interrupt::note(&temporary);
        match File::create(&temporary) {
            Ok(file) => Ok(Self { out: Some(BufWriter::new(file)), temporary, path: path.to_owned() }),
            Err(error) => {
                interrupt::settle(&temporary, || {});
                Err(error).with_context(|| format!("{}: cannot be written", path.display()))
            }
        }
    }

    /// Puts the file in its place.
    pub(crate) fn commit(mut self) -> anyhow::Result<()> {
        let finish = |out: BufWriter<File>| -> io::Result<()> {
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            interrupt::settle(&self.temporary, || fs::rename(&self.temporary, &self.path))
        };
        match self.out.take().map_or(Ok(()), finish) {
            Ok(()) => Ok(()),
            Err(error) => {
                interrupt::settle(&self.temporary, || {
                    let _ = fs::remove_file(&self.temporary);
                });
                Err(error).with_context(|| format!("{}: cannot be written", self.path.display()))
            }
        }
    }

    fn open(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.out.as_mut().ok_or_else(|| io::Error::other("the file is finished"))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
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
            interrupt::settle(&self.temporary, || {
                let _ = fs::remove_file(&self.temporary);
            });
        }
    }
}
