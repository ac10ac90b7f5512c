//! `.parquet`: a column `embedding` (or `embeddings`) of lists of floats, and columns of labels and ids.
//!
//! Lists may be fixed in size or not, of `float`, `double` or `float16`; labels integers, booleans, floats or
//! strings, dictionary-encoded or plain, and ids integers or strings. Every row must have an embedding of the same length.
//!
//! The column readers of the `parquet` crate give the values of a column together with *repetition levels* (0 begins a new
//! row) and *definition levels* (below the maximum where something is null), from which an Arrow array is put together
//! here, behind our own checks of what an untrusted file claims; what is a point is then decided as for Arrow from elsewhere
//! ([`crate::data::arrow`]). The zstd codec is compiled from C, because polars writes zstd unless told otherwise.
//!
//! Columns are read side by side, a block of rows at a time, so that a file need not fit into memory; all of it is one block.

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

use super::{ID_COLUMN, LABEL_COLUMN, Part, ReadOptions};
use crate::data::arrow::{Points, points};
use crate::data::io::blocks::{RefusedRow, Rows};
use crate::data::labelled::Places;
use crate::data::provenance::PROVENANCE;
use crate::data::{EncoderIdentity, Kind, NoPoint, PointShape, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;
use cursor::Columns;
use guard::guarded;
use lists::Lists;
use values::Values;

/// Reads the file.
pub(super) fn read(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    match ParquetBlocks::open(path, file, options)?.next(usize::MAX, None)? {
        Some(Rows { table: Some(table), .. }) => Ok(table),
        _ => Table::new(path.display().to_string(), Matrix::zeros(0, 0)),
    }
}

/// A file that is read a block of rows at a time.
pub(super) struct ParquetBlocks {
    columns: Columns,
    embeddings: Lists,
    labels: Option<Values>,
    ids: Option<Values>,
    provenance: Option<Values>,
    encoder: Option<EncoderIdentity>,
    label_column: String,
    /// Numbers in a row, by the first.
    width: Option<usize>,
    /// Rows that were handed out.
    done: usize,
}

impl ParquetBlocks {
    pub(super) fn open(path: &Path, file: File, options: &ReadOptions) -> Result<Self> {
        guarded(path, || Self::of(Columns::open(path, file)?, options))
    }

    fn of(columns: Columns, options: &ReadOptions) -> Result<Self> {
        let usual = |name| if options.embeddings_column.is_none() { columns.find(name) } else { None };
        let given = options.embeddings_column.as_deref();
        let column = given.and_then(|name| columns.find(name)).or_else(|| usual("embedding"));
        let Some(column) = column.or_else(|| usual("embeddings")) else {
            let help = "Save the embeddings as a column of lists of floats of that name, or name theirs with --embeddings-name";
            return Err(columns.missing(given.unwrap_or("embedding"), help));
        };
        let named = |name: &str, needed: bool, help: &'static str| match columns.find(name) {
            Some(column) => Values::new(&columns, column).map(Some),
            None if needed => Err(columns.missing(name, help)),
            None => Ok(None),
        };
        let labels = options
            .label_in_file(LABEL_COLUMN)
            .map(|(name, needed)| named(name, needed, "Name a column that is there with --label-column"));
        let (id, needed) = options.id(ID_COLUMN);
        let provenance = if options.without_labels { None } else { named(PROVENANCE, false, "")? };
        Ok(Self {
            embeddings: Lists::new(&columns, column)?,
            labels: labels.transpose()?.flatten(),
            ids: named(id, needed, "Name a column that is there with --id-column")?,
            provenance,
            encoder: Self::encoder(&columns)?,
            label_column: options.label_column.clone().unwrap_or_else(|| LABEL_COLUMN.into()),
            width: None,
            done: 0,
            columns,
        })
    }

    /// The JSON of the encoder, in the metadata of the file.
    fn encoder(columns: &Columns) -> Result<Option<EncoderIdentity>> {
        let part = Part { path: &columns.path, name: "encoder" };
        let text = columns.note("encoder");
        text.map(|text| EncoderIdentity::from_json(text).map_err(|problem| part.error(problem))).transpose()
    }

    /// The next rows, so many or a few hundred more, or as many as there are; `None` at the end. Rows that are no point of a
    /// shape are set aside where one is given, and end it all otherwise.
    pub(super) fn next(&mut self, rows: usize, shape: Option<PointShape>) -> Result<Option<Rows>> {
        let path = self.columns.path.clone();
        guarded(&path, || self.decode(rows, shape))
    }

    fn decode(&mut self, most: usize, shape: Option<PointShape>) -> Result<Option<Rows>> {
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
                let (ids, kind) = Part { path: &self.columns.path, name: column.name() }.names(values)?;
                id_kind = kind;
                Some(ids)
            }
            None => None,
        };
        let words = match &mut self.provenance {
            Some(column) => {
                let values = column.take(rows, Some(&mut Vec::new()))?; // null: came by chance
                Some(Part { path: &self.columns.path, name: PROVENANCE }.names(values)?.0)
            }
            None => None,
        };
        if rows < most {
            self.embeddings.check_end(self.done)?;
            for column in [&mut self.labels, &mut self.ids, &mut self.provenance].into_iter().flatten() {
                column.check_end(self.done)?;
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let width = *self.width.get_or_insert(lists.value_length(0).max(1) as usize);
        let wanted = shape.unwrap_or(PointShape { dimensions: width, directed: false });
        let Points { values, good, refused } = points(Arc::new(lists), wanted).map_err(|problem| {
            Part { path: &self.columns.path, name: self.embeddings.name() }.error(problem)
        })?;
        if let (None, Some(&(row, problem))) = (shape, refused.first()) {
            return Err(self.refused(first + row, problem));
        }
        let set_aside = |(row, problem): (usize, NoPoint)| RefusedRow {
            row: first + row,
            id: ids.as_ref().map(|ids| ids[row].clone()),
            problem,
        };
        let refused: Vec<RefusedRow> = refused.into_iter().map(set_aside).collect();
        if !refused.is_empty() {
            ids = ids.map(|mut ids| good.iter().map(|&row| std::mem::take(&mut ids[row])).collect());
        }
        let rows: Vec<usize> = good.iter().map(|row| first + row).collect();
        let mut found = Rows { table: None, rows, refused, id_kind };
        if !good.is_empty() || shape.is_none() {
            let embeddings = Matrix::new(values, good.len(), wanted.dimensions)?;
            let table = Table::new(self.columns.path.display().to_string(), embeddings)?;
            let places = Places {
                missing,
                columns: self.columns.names(),
                label_column: self.label_column.clone(),
                rows: (first > 0 || !found.refused.is_empty())
                    .then(|| found.rows.iter().map(|&row| row as u32).collect()),
                ..Places::default()
            };
            // Whoever sets rows aside needs no labels.
            let labels = labels.filter(|_| shape.is_none());
            let part = Part { path: &self.columns.path, name: PROVENANCE };
            let picked = part.picked(words.as_deref().filter(|_| shape.is_none()), first)?;
            found.table =
                Some(Table { labels, ids, id_kind, places, picked, encoder: self.encoder.clone(), ..table });
        }
        Ok(Some(found))
    }

    /// What is wrong with the first row that is no point.
    fn refused(&self, row: usize, problem: NoPoint) -> Error {
        let problem = match problem {
            NoPoint::NotFinite { column, value } => {
                let origin = self.columns.path.display().to_string();
                return Error::NotFinite { origin, row, column, value };
            }
            NoPoint::HoldsNull => format!("holds a null at row {row}; remove the row or fill it"),
            NoPoint::Width { found: found @ 1.., wanted } => {
                format!("has {found} numbers at row {row} but {wanted} at row 0; every row needs as many")
            }
            NoPoint::Null | NoPoint::Zero | NoPoint::Width { .. } => {
                format!("is null or an empty list at row {row}; remove the row")
            }
        };
        Part { path: &self.columns.path, name: self.embeddings.name() }.error(problem)
    }
}
