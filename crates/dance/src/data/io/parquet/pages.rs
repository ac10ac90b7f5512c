//! Checked reading of the pages of an untrusted Parquet file. The decoder allocates as much memory as a page states. So
//! reads beyond the end of the file and pages with impossible sizes are refused.

use std::fs::File;

use bytes::Bytes;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::data::io::budget::Budget;
use crate::data::io::parquet::delta::counts_are_valid;
use crate::data::io::parquet::footer::page_sizes;

/// The number of values that any column may have, however few compressed bytes it takes. A constant column, for
/// example, compresses to a few bytes.
const ALWAYS_PLAUSIBLE: u64 = 1 << 22;
/// The largest number of values per compressed byte, for a column with more values than [`ALWAYS_PLAUSIBLE`].
const RATIO: u64 = 1024;
/// The largest number of bytes of a page header. A typical header has a few dozen bytes, and more if it holds the
/// smallest and the largest value of its page.
const LONGEST_HEADER: u64 = 1 << 16;

/// Returns whether a column with this number of `values` can be compressed to `packed` bytes.
pub(super) fn plausible(values: u64, packed: u64) -> bool {
    values <= ALWAYS_PLAUSIBLE.max(packed.saturating_mul(RATIO))
}

/// A file that refuses reads beyond its end, and pages with impossible sizes.
pub(super) struct BoundedFile {
    file: File,
    length: u64,
}

impl BoundedFile {
    pub(super) fn new(file: File) -> std::io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }

    /// Returns the offset and the length of the footer. The footer ends 8 bytes before the end of the file; these bytes
    /// hold its length and the text `PAR1`.
    fn footer_place(&self) -> Result<(u64, usize)> {
        let end = self.length.checked_sub(8).ok_or_else(|| ParquetError::EOF("the file is too short".into()))?;
        let tail = self.get_bytes(end, 8)?;
        let length = tail.first_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes));
        let start = end.checked_sub(u64::from(length));
        let start = start.ok_or_else(|| ParquetError::EOF("the footer is longer than the file".into()))?;
        Ok((start, length as usize))
    }

    /// Reads the footer.
    pub(super) fn footer(&self) -> Result<Bytes> {
        let (start, length) = self.footer_place()?;
        self.get_bytes(start, length)
    }

    /// Returns an error unless `length` bytes from the offset `start` lie within the file.
    fn check(&self, start: u64, length: u64) -> Result<()> {
        if start.checked_add(length).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        Err(ParquetError::EOF(format!("{length} bytes are claimed at byte {start} of a file of {} bytes", self.length)))
    }
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for BoundedFile {
    type T = <File as ChunkReader>::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.check(start, 0)?;
        if start >= self.footer_place()?.0 {
            return self.file.get_read(start);
        }
        // The decoder reads a page header here and then allocates the page, so its sizes are checked first.
        let head = self.file.get_bytes(start, (self.length - start).min(LONGEST_HEADER) as usize)?;
        match page_sizes(&head) {
            None => Err(ParquetError::General(format!("there is no page at byte {start}"))),
            Some((unpacked, packed)) if Budget::of(packed).take(unpacked).is_err() => Err(ParquetError::General(
                format!("a page at byte {start} claims {unpacked} bytes out of {packed} packed ones"),
            )),
            Some(_) => self.file.get_read(start),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.check(start, length as u64)?;
        self.file.get_bytes(start, length)
    }
}

/// A page reader that refuses pages with more values than the file states for this part of the column (a column chunk).
///
/// The method `peek_next_page` decodes the page and stores it. The decoder's own method would read the file at offsets
/// without a page header.
pub(super) struct CheckedPages<P> {
    inner: P,
    values_left: u64,
    /// The largest repetition level and the largest definition level of the column.
    levels: [i16; 2],
    /// The page that `peek_next_page` has read, until it is returned.
    next: Option<Page>,
}

impl<P: PageReader> CheckedPages<P> {
    pub(super) fn new(inner: P, values: u64, levels: [i16; 2]) -> Self {
        Self { inner, values_left: values, levels, next: None }
    }

    /// Reads and checks the next page.
    fn read(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.inner.get_next_page()? else { return Ok(None) };
        let values = u64::from(page.num_values());
        if let Page::DictionaryPage { buf, .. } = &page {
            if values > buf.len() as u64 {
                let problem = format!("a dictionary of {} bytes claims {values} values", buf.len());
                return Err(ParquetError::General(problem));
            }
        } else {
            self.values_left = self.values_left.checked_sub(values).ok_or_else(|| {
                ParquetError::General(format!("a page claims {values} values, {} are left", self.values_left))
            })?;
        }
        if !counts_are_valid(&page, self.levels) {
            return Err(ParquetError::General("a page claims more lengths than it has values".into()));
        }
        Ok(Some(page))
    }
}

impl<P: PageReader> PageReader for CheckedPages<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.next.take() {
            Some(page) => Ok(Some(page)),
            None => self.read(),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        Ok(self.next.as_ref().map(|page| PageMetadata {
            num_rows: match page {
                Page::DataPageV2 { num_rows, .. } => Some(*num_rows as usize),
                _ => None,
            },
            num_levels: Some(page.num_values() as usize),
            is_dict: matches!(page, Page::DictionaryPage { .. }),
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.get_next_page().map(drop)
    }

    /// Returns true only at the end of the column, since a row may continue in the next page.
    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(self.peek_next_page()?.is_none())
    }
}

impl<P: PageReader> Iterator for CheckedPages<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
