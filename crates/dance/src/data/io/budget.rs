//! Limits on the memory for the contents of a file.
//!
//! A failed allocation ends the program and cannot be caught. So the memory that a file's stated sizes may take is
//! limited to 256 times the file's length plus 32 MiB. Typical embeddings are compressed to a quarter, one-hot vectors
//! to a hundredth; the 32 MiB allow for small files of repeated values. A row of a text file is read completely before
//! it is parsed, and may have at most [`LONGEST_ROW`] bytes.

use std::io::{self, ErrorKind, Read};

use crate::error::human_bytes;

/// The largest number of bytes of a row of a text file. It leaves room for more than a hundred thousand numbers.
pub(super) const LONGEST_ROW: u64 = 2 << 20;

/// The number of bytes of memory allowed per byte of the file.
const FACTOR: u64 = 256;
/// The number of bytes of memory allowed in addition, for a file of any length.
const ALWAYS: u64 = 32 << 20;

/// The bytes of memory that the contents of a file may take: in total (`all`), and from now on (`left`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    all: u64,
    left: u64,
}

impl Budget {
    /// Returns the budget of a file of `length` bytes.
    pub(super) fn of(length: u64) -> Self {
        let all = length.saturating_mul(FACTOR).saturating_add(ALWAYS);
        Self { all, left: all }
    }

    /// Takes `bytes` from the budget. If fewer are left, the error is a message for the user.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), String> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!(
                "needs more memory than a file of this length can fill ({}); it is damaged, or all its values are \
                 equal: save it without compression",
                human_bytes(self.all)
            )),
        }
    }
}

/// A reader that returns an error in a row longer than [`LONGEST_ROW`].
#[derive(Debug)]
pub(super) struct RowLimit<R> {
    inner: R,
    left: u64,
}

impl<R: Read> RowLimit<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, left: LONGEST_ROW }
    }

    /// Starts the next row: the limit counts bytes from here on.
    pub(super) fn next_row(&mut self) {
        self.left = LONGEST_ROW;
    }
}

impl<R: Read> Read for RowLimit<R> {
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
    fn a_row_may_be_long_up_to_the_limit() {
        let mut rows = RowLimit::new(io::repeat(b'1'));
        let mut piece = vec![0; 1 << 20];
        for _ in 0..2 {
            rows.read_exact(&mut piece).unwrap();
        }
        rows.next_row();
        rows.read_exact(&mut piece).unwrap();
        assert!(io::copy(&mut rows, &mut io::sink()).unwrap_err().to_string().contains("longer than 2.0 MiB"));
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
