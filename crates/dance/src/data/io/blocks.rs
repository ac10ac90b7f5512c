//! A file of embeddings, a block of rows at a time: Parquet is never held whole, any other format is one block.

use std::path::Path;

use super::ReadOptions;
#[cfg(feature = "parquet")]
use super::{Format, open};
use crate::data::{Kind, NoPoint, PointShape, Table};
use crate::error::Result;

/// Hands out the rows of a file in their order.
pub struct Blocks {
    left: Left,
    /// Which label means none, where rows without one are left out.
    unlabelled: Option<String>,
    /// Rows that were left out.
    left_out: usize,
}

/// Rows that come together, of which some may be no points.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Those that are; `None` where none is.
    pub table: Option<Table>,
    /// Where in the file each row of the table is.
    pub rows: Vec<usize>,
    /// Those that are not.
    pub refused: Vec<RefusedRow>,
    /// What ids are.
    pub id_kind: Kind,
}

/// A row that is no point.
#[derive(Clone, Debug)]
pub struct RefusedRow {
    /// Its place in the file.
    pub row: usize,
    /// Its id, where rows have one.
    pub id: Option<String>,
    /// What is wrong with it.
    pub problem: NoPoint,
}

impl Rows {
    /// The rows of a table that begins its file.
    fn of(table: &Table, shape: PointShape) -> Self {
        let (points, id_kind) = (table.embeddings(), table.id_kind);
        let problem = |row: usize| shape.problem(points.row(row), points.cols());
        let (good, bad): (Vec<usize>, Vec<usize>) =
            (0..points.rows()).partition(|&row| problem(row).is_none());
        let refusal = |row: usize| {
            let id = table.ids.as_ref().map(|ids| ids[row].clone());
            Some(RefusedRow { row, id, problem: problem(row)? })
        };
        let refused = bad.into_iter().filter_map(refusal).collect();
        let table = (!good.is_empty()).then(|| table.select(&good));
        Self { table, rows: good, refused, id_kind }
    }
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

    /// The next rows, of which those that are no point of this shape are set aside. Of Parquet all that can be wrong with a row is; a file
    /// of another format was read whole when it was opened, and a row with a NaN has ended that. Labels are nobody's business here.
    #[cfg_attr(not(feature = "parquet"), allow(unused_variables))] // every other format is one block
    pub fn next_points(&mut self, rows: usize, shape: PointShape) -> Result<Option<Rows>> {
        match &mut self.left {
            Left::Whole(table) => Ok(table.take().map(|table| Rows::of(&table, shape))),
            #[cfg(feature = "parquet")]
            Left::Parquet(blocks) => blocks.next(rows, Some(shape)),
        }
    }

    /// The next rows: so many or a few hundred more, of a file that is not Parquet all; `None` at the end.
    #[cfg_attr(not(feature = "parquet"), allow(unused_variables))] // every other format is one block
    pub fn next(&mut self, rows: usize) -> Result<Option<Table>> {
        loop {
            let table = match &mut self.left {
                Left::Whole(table) => table.take().map(|table| *table),
                #[cfg(feature = "parquet")]
                Left::Parquet(blocks) => blocks.next(rows, None)?.and_then(|rows| rows.table),
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
