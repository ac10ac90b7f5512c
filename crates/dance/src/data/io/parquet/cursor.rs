//! The columns of an untrusted Parquet file, each read from its beginning to its end, whole rows at a time.

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

use crate::data::io::Part;
use crate::data::io::budget::Budget;
use crate::data::io::parquet::footer::schema_is_sound;
use crate::data::io::parquet::pages::{Pages, Source, plausible};
use crate::error::{Error, Result};

/// Rows decoded at once.
const BATCH: usize = 512;

/// A file, open. Copies of it are the same file.
#[derive(Clone)]
pub(super) struct Columns {
    pub(super) path: PathBuf,
    source: Arc<Source>,
    pub(super) metadata: Arc<ParquetMetaData>,
    budget: Rc<Cell<Budget>>,
}

impl Columns {
    pub(super) fn open(path: &Path, file: File) -> Result<Self> {
        let source = Source::new(file).map_err(|error| Error::io(path, error))?;
        let unreadable = |error: ParquetError| {
            Error::format(
                path,
                format!("cannot be read as Parquet: {error}. It is truncated or damaged; save it again"),
            )
        };
        if !schema_is_sound(&source.footer().map_err(unreadable)?) {
            return Err(unreadable(ParquetError::General("the schema makes no sense".into())));
        }
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&source).map_err(unreadable)?;
        let budget = Rc::new(Cell::new(Budget::of(source.len())));
        Ok(Self { path: path.to_owned(), source: Arc::new(source), metadata: Arc::new(metadata), budget })
    }

    /// The names of the top-level columns.
    pub(super) fn names(&self) -> Vec<String> {
        let fields = self.metadata.file_metadata().schema().get_fields().iter();
        fields.map(|field| field.name().to_owned()).collect()
    }

    /// What the file says of itself under this key.
    pub(super) fn note(&self, key: &str) -> Option<&str> {
        let notes = self.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        notes.filter(|note| note.key == key).find_map(|note| note.value.as_deref())
    }

    pub(super) fn missing(&self, key: &str, help: &'static str) -> Error {
        Error::MissingKey { path: self.path.clone(), key: key.to_owned(), found: self.names(), help }
    }

    /// The first leaf under the top-level column `name`, and whether it is the only one.
    pub(super) fn find(&self, name: &str) -> Option<Column> {
        let columns = self.metadata.file_metadata().schema_descr().columns();
        let of_name = |leaf: &ColumnDescPtr| leaf.path().parts().first().is_some_and(|part| part == name);
        let place = columns.iter().position(of_name)?;
        let alone = columns.iter().filter(|leaf| of_name(leaf)).count() == 1;
        Some(Column { place, leaf: columns.get(place)?.clone(), alone, name: name.to_owned() })
    }
}

/// A leaf of the schema under the name that people know.
pub(super) struct Column {
    pub(super) place: usize,
    pub(super) leaf: ColumnDescPtr,
    pub(super) alone: bool,
    pub(super) name: String,
}

/// Values, definition levels and repetition levels of whole rows.
pub(super) type Batch<'a, T> = (&'a [T], &'a [i16], &'a [i16]);

/// Goes through a column once.
pub(super) struct Cursor<T: DataType> {
    columns: Columns,
    pub(super) column: Column,
    /// The next row group.
    group: usize,
    /// The bytes of one row group are none of another's, so together they are no more than the file's.
    packed_left: u64,
    reader: Option<ColumnReaderImpl<T>>,
    values: Vec<T::T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl<T: DataType> Cursor<T> {
    pub(super) fn new(columns: &Columns, column: Column) -> Self {
        Self {
            packed_left: columns.source.len(),
            columns: columns.clone(),
            column,
            group: 0,
            reader: None,
            values: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        }
    }

    /// For messages about it.
    pub(super) fn part(&self) -> Part<'_> {
        Part { path: &self.columns.path, name: &self.column.name }
    }

    /// The next rows, at least one and at most so many; `None` at the end.
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

    /// Whether there is a row group more.
    fn open_group(&mut self) -> Result<bool> {
        let metadata = self.columns.metadata.clone();
        let Some(group) = metadata.row_groups().get(self.group) else { return Ok(false) };
        self.group += 1;
        let damaged =
            || self.part().error("has sizes that cannot be true; the file is damaged. Save it again");
        let chunk = group.columns().get(self.column.place).ok_or_else(damaged)?;
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let (values, packed) = (u64::try_from(chunk.num_values()), u64::try_from(chunk.compressed_size()));
        let (Ok(values), Ok(packed), 0..) = (values, packed, start) else { return Err(damaged()) };
        let packed_left = self.packed_left.checked_sub(packed).ok_or_else(damaged)?;
        if !plausible(values, packed) {
            return Err(self.part().error(format!(
                "claims {values} values in {packed} bytes; the file is damaged, or all its values are alike"
            )));
        }
        let pages = SerializedPageReader::new(self.columns.source.clone(), chunk, 0, None)
            .map_err(|error| self.undecodable(&error))?;
        // Before any of it is decoded: one row may hold all of a column's values, and levels take as much again.
        self.take(values.saturating_mul(size_of::<T::T>() as u64 + 4))?;
        let levels = [self.column.leaf.max_rep_level(), self.column.leaf.max_def_level()];
        let pages = Box::new(Pages::new(pages, values, levels));
        self.reader = Some(ColumnReaderImpl::<T>::new(self.column.leaf.clone(), pages));
        self.packed_left = packed_left;
        Ok(true)
    }

    fn undecodable(&self, error: &ParquetError) -> Error {
        self.part().error(format!("cannot be decoded: {error}. Save the file again"))
    }

    /// Takes so many bytes of what the file may fill.
    pub(super) fn take(&self, bytes: u64) -> Result<()> {
        let mut budget = self.columns.budget.get();
        let taken = budget.take(bytes).map_err(|problem| self.part().error(problem));
        self.columns.budget.set(budget);
        taken
    }

    /// Refuses another number of rows than the file says it has.
    pub(super) fn check_rows(&self, found: usize) -> Result<()> {
        let claimed = self.columns.metadata.file_metadata().num_rows();
        if i64::try_from(found) == Ok(claimed) {
            return Ok(());
        }
        Err(self.part().error(format!("has {found} rows, the file {claimed}; it is damaged. Save it again")))
    }
}
