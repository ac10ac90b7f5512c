//! An output file that keeps the system's first write error, because format libraries change the message or lose it.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use dance::Error;
use dance::whole_file::WholeFile;

/// A file that appears under its name when it is complete.
pub(crate) struct OutputFile {
    file: WholeFile,
    /// The system's first error.
    failed: Option<io::Error>,
}

impl OutputFile {
    /// Writes a file by `fill`. An error of the system is returned with the name of the file.
    pub(crate) fn write<T>(path: &Path, fill: impl FnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut output = Self { file: WholeFile::create(path)?, failed: None };
        match (fill(&mut output), output.failed.take()) {
            (Ok(value), None) => {
                output.file.commit()?;
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
            let copied = error.raw_os_error().map(io::Error::from_raw_os_error);
            self.failed = Some(copied.unwrap_or_else(|| io::Error::other(error.to_string())));
        }
        outcome
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.file.write(bytes);
        self.note(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.file.flush();
        self.note(outcome)
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let outcome = self.file.seek(to);
        self.note(outcome)
    }
}
