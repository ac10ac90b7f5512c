//! A file of embeddings, a block of rows at a time: Parquet is never held whole, any other format is one block.

use std::path::Path;

use super::ReadOptions;
#[cfg(feature = "parquet")]
use super::{Format, open};
use crate::data::Table;
use crate::error::Result;

/// Hands out the rows of a file in their order.
pub struct Blocks {
    left: Left,
    /// Which label means none, where rows without one are left out.
    unlabelled: Option<String>,
    /// Rows that were left out.
    left_out: usize,
}

enum Left {
    Whole(Option<Box<Table>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<super::parquet::ParquetBlocks>),
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks").field("left_out", &self.left_out).finish_non_exhaustive()
    }
}

impl Blocks {
    /// Opens a file, or a pipe; `-` is stdin. A file that is not Parquet is read here, whole.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        let path = path.as_ref();
        let unlabelled = options.unlabelled.clone().filter(|_| !options.without_labels);
        let of = |left| Ok(Self { left, unlabelled, left_out: 0 });
        #[cfg(feature = "parquet")]
        if options.format.map_or_else(|| Format::known(path), Ok)? == Format::Parquet
            && options.labels.is_none()
        {
            let file = open::open(path, Format::Parquet.extension())?;
            let blocks = super::parquet::ParquetBlocks::open(open::shown(path), file, options)?;
            return of(Left::Parquet(Box::new(blocks)));
        }
        of(Left::Whole(Some(Box::new(super::read(path, options)?))))
    }

    /// Rows that were left out so far because they have no label.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The next rows: so many or a few hundred more, of a file that is not Parquet all; `None` at the end.
    #[cfg_attr(not(feature = "parquet"), allow(unused_variables))] // every other format is one block
    pub fn next(&mut self, rows: usize) -> Result<Option<Table>> {
        loop {
            let table = match &mut self.left {
                Left::Whole(table) => table.take().map(|table| *table),
                #[cfg(feature = "parquet")]
                Left::Parquet(blocks) => blocks.next(rows)?,
            };
            let Some(table) = table else { return Ok(None) };
            let table = table.checked()?;
            let Some(label) = &self.unlabelled else { return Ok(Some(table)) };
            let all = table.embeddings().rows();
            match table.labelled(label) {
                Some(table) => {
                    self.left_out += all - table.embeddings().rows();
                    return Ok(Some(table));
                }
                None => self.left_out += all,
            }
        }
    }
}
