//! A file that knows why it could not be written: libraries between it and us say it in their own way, or not at all.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use dance::Error;
use dance::whole_file::WholeFile;

pub(crate) struct Watched {
    file: WholeFile,
    /// What the system said first.
    failed: Option<io::Error>,
}

impl Watched {
    /// A file that is there when `fill` has filled it, whole. What the system refuses is said as it says it, with the name.
    pub(crate) fn write<T>(
        path: &Path,
        fill: impl FnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut watched = Self { file: WholeFile::create(path)?, failed: None };
        match (fill(&mut watched), watched.failed.take()) {
            (Ok(value), None) => {
                watched.file.commit()?;
                Ok(value)
            }
            (_, Some(source)) => Err(Error::Write { path: path.to_owned(), source }.into()),
            (Err(error), None) => Err(error),
        }
    }

    fn note<T>(&mut self, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &outcome
            && self.failed.is_none()
        {
            let same = |code| io::Error::from_raw_os_error(code);
            self.failed =
                Some(error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), same));
        }
        outcome
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.file.write(bytes);
        self.note(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.file.flush();
        self.note(outcome)
    }
}

impl Seek for Watched {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let outcome = self.file.seek(to);
        self.note(outcome)
    }
}
