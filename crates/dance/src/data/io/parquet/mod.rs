//! `.parquet` files: a column `embedding` (or `embeddings`) of lists of floats, and columns of labels and ids.
//!
//! Lists may have fixed or variable size and hold `float`, `double` or `float16`. Labels are integers, booleans, floats
//! or strings, and ids integers or strings, dictionary-encoded or plain. All embeddings have the same length.
//!
//! The column readers of the `parquet` crate return the values of a column with *repetition levels* (0 starts a new
//! row) and *definition levels* (less than the maximum for nulls). This module checks the claims of an untrusted file
//! before it calls these readers, and converts their output to Arrow arrays, whose rows [`crate::data::arrow`]
//! validates. The zstd codec is compiled from C, since zstd is the default of polars.
//!
//! All columns are read in blocks of rows, so that a file may be larger than memory.

mod cursor;
mod delta;
mod fields;
mod footer;
mod guard;
mod lists;
mod pages;
mod values;

pub use fields::ParquetFields;
pub use guard::silence_caught_panics;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::Array;

use super::{FilePart, ID_COLUMN, ID_HELP, LABEL_COLUMN, LABEL_HELP, ReadOptions};
use crate::data::arrow::{Points, checked_points};
use crate::data::dataset::PROVENANCE;
use crate::data::io::blocks::Block;
use crate::data::point::PointProblem;
use crate::data::table_labels::FileDetails;
use crate::data::{EncoderIdentity, Kind, PointShape, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;
use cursor::ParquetFile;
use guard::catch_panics;
use lists::ListColumn;
use values::ValueColumn;

/// Reads all rows of a Parquet file.
pub(super) fn read(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    match ParquetBlocks::open(path, file, options)?.next(usize::MAX, None)? {
        Some(Block { table: Some(table), .. }) => Ok(table),
        _ => Table::new(path.display().to_string(), Matrix::zeros(0, 0)),
    }
}

/// A Parquet file that is read in blocks of rows.
pub(super) struct ParquetBlocks {
    file: ParquetFile,
    embeddings: ListColumn,
    labels: Option<ValueColumn>,
    ids: Option<ValueColumn>,
    provenance: Option<ValueColumn>,
    encoder: Option<EncoderIdentity>,
    label_column: String,
    /// The number of dimensions of the first row, which all other rows must have.
    width: Option<usize>,
    /// The number of rows returned so far.
    done: usize,
}

impl ParquetBlocks {
    /// Opens a Parquet file and finds its columns of embeddings, labels, ids and provenance.
    pub(super) fn open(path: &Path, file: File, options: &ReadOptions) -> Result<Self> {
        catch_panics(path, || Self::of(ParquetFile::open(path, file)?, options))
    }

    fn of(file: ParquetFile, options: &ReadOptions) -> Result<Self> {
        let usual = |name| if options.embedding_column.is_none() { file.find(name) } else { None };
        let given = options.embedding_column.as_deref();
        let column = given.and_then(|name| file.find(name)).or_else(|| usual("embedding"));
        let Some(column) = column.or_else(|| usual("embeddings")) else {
            const HELP: &str = "Save the embeddings as a column of lists of floats of that name, or name their \
                                column by the setting `embedding_column`";
            return Err(file.missing(given.unwrap_or("embedding"), HELP));
        };
        let named = |name: &str, needed: bool, help: &'static str| match file.find(name) {
            Some(column) => ValueColumn::new(&file, column).map(Some),
            None if needed => Err(file.missing(name, help)),
            None => Ok(None),
        };
        let labels = options.label_in_file(LABEL_COLUMN).map(|(name, needed)| named(name, needed, LABEL_HELP));
        let (id, needed) = options.id(ID_COLUMN);
        let provenance = if options.without_labels { None } else { named(PROVENANCE, false, "")? };
        Ok(Self {
            embeddings: ListColumn::new(&file, column)?,
            labels: labels.transpose()?.flatten(),
            ids: named(id, needed, ID_HELP)?,
            provenance,
            encoder: Self::encoder(&file)?,
            label_column: options.label_column.clone().unwrap_or_else(|| LABEL_COLUMN.into()),
            width: None,
            done: 0,
            file,
        })
    }

    /// Reads the identity of the encoder from the file's metadata.
    fn encoder(file: &ParquetFile) -> Result<Option<EncoderIdentity>> {
        let part = FilePart { path: &file.path, name: "encoder" };
        let text = file.note("encoder");
        text.map(|text| EncoderIdentity::from_json(text).map_err(|problem| part.error(problem))).transpose()
    }

    /// Returns the next rows: at least `rows` of them and at most a few hundred more. There may be fewer at the end of
    /// the file; after the end it returns `None`.
    ///
    /// With a `shape`, invalid rows are returned apart from the points of this shape, and labels are not returned.
    /// Without it, an invalid row is an error.
    pub(super) fn next(&mut self, rows: usize, shape: Option<PointShape>) -> Result<Option<Block>> {
        let path = self.file.path.clone();
        catch_panics(&path, || self.decode(rows, shape))
    }

    fn decode(&mut self, most: usize, shape: Option<PointShape>) -> Result<Option<Block>> {
        // Read the same rows of every column.
        let first = self.done;
        let lists = self.embeddings.take(most)?;
        let rows = lists.len();
        self.done += rows;
        let mut missing = Vec::new();
        let labels = self.labels.as_mut().map(|labels| labels.take(rows, Some(&mut missing))).transpose()?;
        let mut id_kind = Kind::Text;
        let mut ids = match &mut self.ids {
            Some(column) => {
                let values = column.take(rows, None)?;
                let (ids, kind) = FilePart { path: &self.file.path, name: column.name() }.names(values)?;
                id_kind = kind;
                Some(ids)
            }
            None => None,
        };
        let words = match &mut self.provenance {
            Some(column) => {
                let values = column.take(rows, Some(&mut Vec::new()))?; // a null is a random point
                Some(FilePart { path: &self.file.path, name: PROVENANCE }.names(values)?.0)
            }
            None => None,
        };
        // At the end, all columns must have the same number of rows.
        if rows < most {
            self.embeddings.check_end(self.done)?;
            for column in [&mut self.labels, &mut self.ids, &mut self.provenance].into_iter().flatten() {
                column.check_end(self.done)?;
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        // Divide the rows into points and invalid rows.
        let width = *self.width.get_or_insert(lists.value_length(0).max(1) as usize);
        let wanted = shape.unwrap_or(PointShape { dimensions: width, directed: false });
        let Points { values, good, refused } = checked_points(Arc::new(lists), wanted)
            .map_err(|problem| FilePart { path: &self.file.path, name: self.embeddings.name() }.error(problem))?;
        if let (None, Some(&(row, problem))) = (shape, refused.first()) {
            return Err(self.invalid_row(first + row, problem));
        }
        let refused_ids = ids.as_ref().map(|ids| refused.iter().map(|&(row, _)| ids[row].clone()).collect::<Vec<_>>());
        let refused: Vec<_> = refused.into_iter().map(|(row, problem)| (first + row, problem.to_string())).collect();
        if !refused.is_empty() {
            ids = ids.map(|mut ids| good.iter().map(|&row| std::mem::take(&mut ids[row])).collect());
        }
        // The table of the valid rows.
        let rows: Vec<usize> = good.iter().map(|row| first + row).collect();
        let mut found = Block { table: None, rows, refused, refused_ids, id_kind };
        if !good.is_empty() || shape.is_none() {
            let embeddings = Matrix::new(values, good.len(), wanted.dimensions)?;
            let table = Table::new(self.file.path.display().to_string(), embeddings)?;
            let details = FileDetails {
                missing,
                columns: self.file.names(),
                label_column: self.label_column.clone(),
                rows: (first > 0 || !found.refused.is_empty())
                    .then(|| found.rows.iter().map(|&row| row as u32).collect()),
                ..FileDetails::default()
            };
            // A caller that gives a shape predicts the points and needs no labels.
            let labels = labels.filter(|_| shape.is_none());
            let part = FilePart { path: &self.file.path, name: PROVENANCE };
            let picked = part.picked(words.as_deref().filter(|_| shape.is_none()), first)?;
            found.table = Some(Table { labels, ids, id_kind, details, picked, encoder: self.encoder.clone(), ..table });
        }
        Ok(Some(found))
    }

    /// Returns the error for the invalid row number `row` of the file.
    fn invalid_row(&self, row: usize, problem: PointProblem) -> Error {
        let problem = match problem {
            PointProblem::NotFinite { column, value } => {
                let origin = self.file.path.display().to_string();
                return Error::NotFinite { origin, row, column, value };
            }
            PointProblem::HoldsNull => format!("holds a null at row {row}; remove the row or fill it"),
            PointProblem::Width { found: found @ 1.., wanted } => {
                format!("has {found} numbers at row {row} but {wanted} at row 0; every row needs as many")
            }
            PointProblem::Null | PointProblem::Zero | PointProblem::Width { .. } => {
                format!("is null or an empty list at row {row}; remove the row")
            }
        };
        FilePart { path: &self.file.path, name: self.embeddings.name() }.error(problem)
    }
}
