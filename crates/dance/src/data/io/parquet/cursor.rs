//! Reading of the columns of an untrusted Parquet file, each from start to end in batches of whole rows.

use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::Length;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::data::io::FilePart;
use crate::data::io::budget::Budget;
use crate::data::io::parquet::footer::schema_is_valid;
use crate::data::io::parquet::pages::{BoundedFile, CheckedPages, plausible};
use crate::error::{Error, Result};

/// The number of rows that are decoded at once.
const BATCH: usize = 512;

/// An open Parquet file. Clones share the file and its memory budget.
#[derive(Clone)]
pub(super) struct ParquetFile {
    pub(super) path: PathBuf,
    source: Arc<BoundedFile>,
    pub(super) metadata: Arc<ParquetMetaData>,
    budget: Rc<Cell<Budget>>,
}

impl ParquetFile {
    /// Reads the file's metadata, after a check of its schema.
    pub(super) fn open(path: &Path, file: File) -> Result<Self> {
        let source = BoundedFile::new(file).map_err(|error| Error::io(path, error))?;
        let unreadable = |error: ParquetError| {
            Error::format(
                path,
                format!("cannot be read as Parquet: {error}. It is truncated or damaged; save it again"),
            )
        };
        if !schema_is_valid(&source.footer().map_err(unreadable)?) {
            return Err(unreadable(ParquetError::General("the schema makes no sense".into())));
        }
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&source).map_err(unreadable)?;
        let budget = Rc::new(Cell::new(Budget::of(source.len())));
        Ok(Self { path: path.to_owned(), source: Arc::new(source), metadata: Arc::new(metadata), budget })
    }

    /// Returns the names of the top-level columns.
    pub(super) fn names(&self) -> Vec<String> {
        let fields = self.metadata.file_metadata().schema().get_fields().iter();
        fields.map(|field| field.name().to_owned()).collect()
    }

    /// Returns the text under this `key` in the file's metadata, if there is one.
    pub(super) fn note(&self, key: &str) -> Option<&str> {
        let notes = self.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        notes.filter(|note| note.key == key).find_map(|note| note.value.as_deref())
    }

    /// Returns the error for a missing column. `key` is the name of the column, and `help` the advice.
    pub(super) fn missing(&self, key: &str, help: &'static str) -> Error {
        Error::MissingKey { path: self.path.clone(), key: key.to_owned(), found: self.names(), help }
    }

    /// Returns the first leaf of the schema (a column without columns inside) under the top-level column `name`. `None`
    /// if no column has this name.
    pub(super) fn find(&self, name: &str) -> Option<Column> {
        let columns = self.metadata.file_metadata().schema_descr().columns();
        let of_name = |leaf: &ColumnDescPtr| leaf.path().parts().first().is_some_and(|part| part == name);
        let place = columns.iter().position(of_name)?;
        let only = columns.iter().filter(|leaf| of_name(leaf)).count() == 1;
        Some(Column { place, leaf: columns.get(place)?.clone(), only, name: name.to_owned() })
    }
}

/// A leaf of the schema (a column without columns inside). `place` is its index among all leaves, and `name` the name
/// of its top-level column.
pub(super) struct Column {
    pub(super) place: usize,
    pub(super) leaf: ColumnDescPtr,
    /// True if the top-level column has no other leaf.
    pub(super) only: bool,
    pub(super) name: String,
}

/// The values of whole rows with their definition levels and repetition levels, in which Parquet encodes nulls and
/// lists.
pub(super) type Batch<'a, T> = (&'a [T], &'a [i16], &'a [i16]);

/// A reader of one column, from start to end.
pub(super) struct ColumnCursor<T: DataType> {
    file: ParquetFile,
    pub(super) column: Column,
    /// The index of the next row group to open.
    group: usize,
    /// The largest number of compressed bytes that the remaining row groups may have together. All row groups have no
    /// more bytes than the file.
    packed_left: u64,
    reader: Option<ColumnReaderImpl<T>>,
    values: Vec<T::T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl<T: DataType> ColumnCursor<T> {
    pub(super) fn new(file: &ParquetFile, column: Column) -> Self {
        Self {
            packed_left: file.source.len(),
            file: file.clone(),
            column,
            group: 0,
            reader: None,
            values: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        }
    }

    /// Returns the file and the column's name, for errors.
    pub(super) fn part(&self) -> FilePart<'_> {
        FilePart { path: &self.file.path, name: &self.column.name }
    }

    /// Returns the next rows, at least one and at most `most` of them; `None` at the end of the column.
    pub(super) fn next(&mut self, most: usize) -> Result<Option<Batch<'_, T::T>>> {
        loop {
            if self.reader.is_none() && !self.open_group()? {
                return Ok(None);
            }
            self.values.clear();
            self.definitions.clear();
            self.repetitions.clear();
            let Some(reader) = &mut self.reader else { return Ok(None) };
            let read = reader.read_records(
                most.min(BATCH),
                Some(&mut self.definitions),
                Some(&mut self.repetitions),
                &mut self.values,
            );
            let (records, ..) = read.map_err(|error| self.undecodable(&error))?;
            if records > 0 || !self.definitions.is_empty() || !self.values.is_empty() {
                return Ok(Some((&self.values, &self.definitions, &self.repetitions)));
            }
            self.reader = None;
        }
    }

    /// Opens the next row group; returns false if there is none.
    fn open_group(&mut self) -> Result<bool> {
        let metadata = self.file.metadata.clone();
        let Some(group) = metadata.row_groups().get(self.group) else { return Ok(false) };
        self.group += 1;
        // Return an error for impossible sizes before anything is allocated.
        let damaged = || self.part().error("has impossible sizes; the file is damaged. Save it again");
        let chunk = group.columns().get(self.column.place).ok_or_else(damaged)?;
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let (values, packed) = (u64::try_from(chunk.num_values()), u64::try_from(chunk.compressed_size()));
        let (Ok(values), Ok(packed), 0..) = (values, packed, start) else { return Err(damaged()) };
        let packed_left = self.packed_left.checked_sub(packed).ok_or_else(damaged)?;
        if !plausible(values, packed) {
            return Err(self.part().error(format!(
                "claims {values} values in {packed} bytes; the file is damaged, or all its values are equal"
            )));
        }
        let pages = SerializedPageReader::new(self.file.source.clone(), chunk, 0, None)
            .map_err(|error| self.undecodable(&error))?;
        // The memory is taken before decoding, since one row may hold all values of a column. Two levels per value take
        // 4 bytes.
        self.take(values.saturating_mul(size_of::<T::T>() as u64 + 4))?;
        let levels = [self.column.leaf.max_rep_level(), self.column.leaf.max_def_level()];
        let pages = Box::new(CheckedPages::new(pages, values, levels));
        self.reader = Some(ColumnReaderImpl::<T>::new(self.column.leaf.clone(), pages));
        self.packed_left = packed_left;
        Ok(true)
    }

    fn undecodable(&self, error: &ParquetError) -> Error {
        self.part().error(format!("cannot be decoded: {error}. Save the file again"))
    }

    /// Takes `bytes` from the file's memory budget.
    pub(super) fn take(&self, bytes: u64) -> Result<()> {
        let mut budget = self.file.budget.get();
        let taken = budget.take(bytes).map_err(|problem| self.part().error(problem));
        self.file.budget.set(budget);
        taken
    }

    /// Returns an error unless the number of rows that were `found` is the number in the file's metadata.
    pub(super) fn check_rows(&self, found: usize) -> Result<()> {
        let claimed = self.file.metadata.file_metadata().num_rows();
        if i64::try_from(found) == Ok(claimed) {
            return Ok(());
        }
        Err(self.part().error(format!("has {found} rows, the file {claimed}; it is damaged. Save it again")))
    }
}
