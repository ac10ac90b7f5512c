//! How much memory the contents of a file may take. A failed allocation ends the program and cannot be caught, so nothing is
//! allocated on a file's word beyond this: 256 times its length (real embeddings pack to a quarter, one-hot ones to a
//! hundredth), and 32 MiB for small files that are nothing but repetition. A row of a text file may have [`LONGEST_ROW`] bytes,
//! since all of it is held before any of it is understood.

use std::io::{self, ErrorKind, Read};

use crate::error::human_bytes;

/// More than a hundred thousand numbers.
pub(super) const LONGEST_ROW: u64 = 2 << 20;

const FACTOR: u64 = 256;
const ALWAYS: u64 = 32 << 20;

/// What is left of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    all: u64,
    left: u64,
}

impl Budget {
    /// For a file of `length` bytes.
    pub(super) fn of(length: u64) -> Self {
        let all = length.saturating_mul(FACTOR).saturating_add(ALWAYS);
        Self { all, left: all }
    }

    /// Takes so many bytes, or says why not.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), String> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!(
                "needs more memory than a file of this length can fill ({}); it is damaged, or its values are all alike: save it \
                 without compression",
                human_bytes(self.all)
            )),
        }
    }
}

/// A reader that fails where a row does not end.
#[derive(Debug)]
pub(super) struct Rows<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Rows<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, left: LONGEST_ROW }
    }

    /// A row has ended.
    pub(super) fn next(&mut self) {
        self.left = LONGEST_ROW;
    }
}

impl<R: Read> Read for Rows<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                self.left = left;
                Ok(read)
            }
            None => Err(io::Error::new(
                ErrorKind::FileTooLarge,
                format!(
                    "a row is longer than {}; if a quotation mark opens it, none closes it",
                    human_bytes(LONGEST_ROW)
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_may_be_long_but_not_endless() {
        let mut rows = Rows::new(io::repeat(b'1'));
        let mut piece = vec![0; 1 << 20];
        for _ in 0..2 {
            rows.read_exact(&mut piece).unwrap();
        }
        rows.next();
        rows.read_exact(&mut piece).unwrap();
        assert!(
            io::copy(&mut rows, &mut io::sink()).unwrap_err().to_string().contains("longer than 2.0 MiB")
        );
    }

    #[test]
    fn a_file_gets_a_multiple_of_its_length() {
        let mut budget = Budget::of(1000);
        budget.take((32 << 20) + 255_000).unwrap();
        budget.take(1000).unwrap();
        assert!(budget.take(1).unwrap_err().contains("32.2 MiB"));
        assert!(Budget::of(u64::MAX).take(u64::MAX).is_ok());
    }
}
