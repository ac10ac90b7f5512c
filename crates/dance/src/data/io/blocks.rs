//! Reading of a file of embeddings in blocks of rows: a Parquet file has many blocks, any other file has one.

use std::path::Path;

use super::ReadOptions;
#[cfg(feature = "parquet")]
use super::{Format, open};
use crate::data::{Kind, PointShape, Table};
use crate::error::Result;

/// A file of embeddings, read block by block in the order of its rows.
pub struct Blocks {
    rest: Rest,
    /// The label of rows to leave out; rows without a label are left out too. `None` keeps all rows.
    unlabeled: Option<String>,
    /// The number of rows that were left out.
    left_out: usize,
}

/// A block of rows, some of which may be invalid.
#[derive(Clone, Debug)]
pub struct Block {
    /// The valid rows; `None` if there are none.
    pub table: Option<Table>,
    /// The row number in the file of every valid row.
    pub rows: Vec<usize>,
    /// The row number in the file of every invalid row, with a message about its problem.
    pub refused: Vec<(usize, String)>,
    /// The id of every invalid row, if rows have ids.
    pub refused_ids: Option<Vec<String>>,
    /// The type of the ids in the file, such as text or integers.
    pub id_kind: Kind,
}

impl Block {
    /// Divides a table, which holds the whole file, into rows that are valid points of this `shape` and invalid rows.
    fn of(table: &Table, shape: PointShape) -> Self {
        let (points, id_kind) = (table.embeddings(), table.id_kind);
        let problem = |row: usize| shape.problem(points.row(row), points.cols());
        let (mut rows, mut refused) = (Vec::new(), Vec::new());
        for row in 0..points.rows() {
            match problem(row) {
                None => rows.push(row),
                Some(problem) => refused.push((row, problem)),
            }
        }
        let id_of = |ids: &Vec<String>| refused.iter().map(|&(row, _)| ids[row].clone()).collect();
        let refused_ids = table.ids.as_ref().map(id_of);
        let table = (!rows.is_empty()).then(|| table.select(&rows));
        Self { table, rows, refused, refused_ids, id_kind }
    }
}

/// The rows of the file that have not been returned yet: a whole table, or the remaining blocks of a Parquet file.
enum Rest {
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
    /// Opens a file or a pipe; `-` is stdin. A file that is not Parquet is read completely.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        let path = path.as_ref();
        let unlabeled = options.unlabeled.clone().filter(|_| !options.without_labels);
        let of = |rest| Ok(Self { rest, unlabeled, left_out: 0 });
        #[cfg(feature = "parquet")]
        if options.format.map_or_else(|| Format::known(path), Ok)? == Format::Parquet && options.labels.is_none() {
            let file = open::open(path, Format::Parquet.extension())?;
            let blocks = super::parquet::ParquetBlocks::open(open::display_path(path), file, options)?;
            return of(Rest::Parquet(Box::new(blocks)));
        }
        of(Rest::Whole(Some(Box::new(super::read(path, options)?))))
    }

    /// Returns the number of rows that were left out so far because they have no label.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the next block of rows without their labels; `None` at the end. The block is divided into valid points
    /// of this `shape` and invalid rows. Only a block of a Parquet file has about `rows` rows; any other file is one
    /// block.
    ///
    /// Rows of a Parquet file are checked here for every problem. Files of other formats were checked when they were
    /// opened, where a number that is not finite is an error.
    #[cfg_attr(not(feature = "parquet"), allow(unused_variables))] // every other format is one block
    pub fn next_points(&mut self, rows: usize, shape: PointShape) -> Result<Option<Block>> {
        match &mut self.rest {
            Rest::Whole(table) => Ok(table.take().map(|table| Block::of(&table, shape))),
            #[cfg(feature = "parquet")]
            Rest::Parquet(blocks) => blocks.next(rows, Some(shape)),
        }
    }

    /// Returns the next block of rows, or `None` at the end. A block of a Parquet file has at least `rows` rows and a
    /// few hundred more at most; any other file is one block.
    #[cfg_attr(not(feature = "parquet"), allow(unused_variables))] // every other format is one block
    pub fn next(&mut self, rows: usize) -> Result<Option<Table>> {
        loop {
            let table = match &mut self.rest {
                Rest::Whole(table) => table.take().map(|table| *table),
                #[cfg(feature = "parquet")]
                Rest::Parquet(blocks) => blocks.next(rows, None)?.and_then(|rows| rows.table),
            };
            let Some(table) = table else { return Ok(None) };
            let table = table.checked()?;
            // A block without labels is skipped.
            let Some(label) = &self.unlabeled else { return Ok(Some(table)) };
            let all = table.embeddings().rows();
            match table.without_label(label) {
                Some(table) => {
                    self.left_out += all - table.embeddings().rows();
                    return Ok(Some(table));
                }
                None => self.left_out += all,
            }
        }
    }
}
