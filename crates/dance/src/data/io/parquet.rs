//! `.parquet`: a column `embedding` (or `embeddings`) of lists of floats, and columns of labels and ids.
//!
//! Lists may be fixed in size or not, of `float`, `double` or `float16`; labels integers, booleans, floats or
//! strings, dictionary-encoded or plain, and ids integers or strings. Every row must have an embedding of the same length.
//!
//! The `parquet` crate is used without Arrow: its column readers give the values of a column together with
//! *repetition levels* (0 begins a new row) and *definition levels* (below the maximum where something is null), from
//! which the rows are put together here. That keeps a dozen crates out of the build. The zstd codec is compiled from
//! C, because polars writes zstd unless told otherwise.
//!
//! Columns are read side by side, a block of rows at a time, so that a file need not fit into memory; all of it is one block.

use std::fs::File;
use std::path::Path;

use super::guard::guarded;
use super::parquet_cursor::Columns;
use super::parquet_lists::Lists;
use super::parquet_values::Values;
use super::{ID_COLUMN, LABEL_COLUMN, Part, ReadOptions};
use crate::data::labelled::Places;
use crate::data::provenance::PROVENANCE;
use crate::data::{EncoderIdentity, Kind, Table};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Reads the file.
pub(super) fn read(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    match ParquetBlocks::open(path, file, options)?.next(usize::MAX)? {
        Some(table) => Ok(table),
        None => Table::new(path.display().to_string(), Matrix::zeros(0, 0)),
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

    /// The next rows, so many or a few hundred more, or as many as there are; `None` at the end.
    pub(super) fn next(&mut self, rows: usize) -> Result<Option<Table>> {
        let path = self.columns.path.clone();
        guarded(&path, || self.decode(rows))
    }

    fn decode(&mut self, most: usize) -> Result<Option<Table>> {
        let first = self.done;
        let embeddings = self.embeddings.take(most)?;
        let rows = embeddings.rows();
        self.done += rows;
        let mut missing = Vec::new();
        let labels = self.labels.as_mut().map(|labels| labels.take(rows, Some(&mut missing))).transpose()?;
        let mut id_kind = Kind::Text;
        let ids = match &mut self.ids {
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
        let table = Table::new(self.columns.path.display().to_string(), embeddings);
        let table = table.map_err(|error| match error {
            Error::NotFinite { origin, row, column, value } => {
                Error::NotFinite { origin, row: first + row, column, value }
            }
            other => other,
        })?;
        let places = Places {
            missing,
            columns: self.columns.names(),
            label_column: self.label_column.clone(),
            rows: (first > 0).then(|| (first..first + rows).map(|row| row as u32).collect()),
            ..Places::default()
        };
        let picked = Part { path: &self.columns.path, name: PROVENANCE }.picked(words.as_deref(), first)?;
        Ok(Some(Table { labels, ids, id_kind, places, picked, encoder: self.encoder.clone(), ..table }))
    }
}
