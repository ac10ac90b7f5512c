//! `.parquet`: a column `embedding` (or `embeddings`) of lists of floats, and columns of labels and ids.
//!
//! Lists may be fixed in size or not, of `float`, `double` or `float16`; labels and ids integers, booleans or strings,
//! dictionary-encoded or plain. Every row must have a value and every list the same length.
//!
//! The `parquet` crate is used without Arrow: its column readers give the values of a column together with
//! *repetition levels* (0 begins a new row) and *definition levels* (below the maximum where something is null), from
//! which the rows are put together here. That keeps a dozen crates out of the build. The zstd codec is compiled from
//! C, because polars writes zstd unless told otherwise.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use half::f16;
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::Length;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use super::budget::Budget;
use super::parquet_footer::schema_is_sound;
use super::parquet_pages::{Pages, Source, plausible};
use super::{ID_COLUMN, LABEL_COLUMN, Part, ReadOptions};
use crate::data::{EncoderIdentity, RawLabels, Table};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Rows decoded at once.
const BATCH: usize = 512;

/// Reads the file.
pub(super) fn read(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    // The crate answers some damaged files with a panic: an unknown level encoding, an overflow in a page header.
    // Everything it was working on is dropped here, so nothing half-done is left behind.
    catch_unwind(AssertUnwindSafe(|| Columns::open(path, file)?.table(options)))
        .unwrap_or_else(|_| Err(Error::format(path, "is damaged: it cannot be decoded. Save it again")))
}

pub(super) struct Columns<'a> {
    pub(super) path: &'a Path,
    source: Arc<Source>,
    pub(super) metadata: ParquetMetaData,
    budget: Cell<Budget>,
}

impl<'a> Columns<'a> {
    pub(super) fn open(path: &'a Path, file: File) -> Result<Self> {
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
        let budget = Cell::new(Budget::of(source.len()));
        Ok(Self { path, source: Arc::new(source), metadata, budget })
    }

    fn table(&self, options: &ReadOptions) -> Result<Table> {
        let embeddings = match (self.find("embedding"), self.find("embeddings")) {
            (Some(column), _) | (None, Some(column)) => self.embeddings(&column)?,
            (None, None) => {
                let help = "Save the embeddings as a column of lists of floats of that name";
                return Err(self.missing("embedding", help));
            }
        };
        let rows = embeddings.rows();
        let labels = if options.labels.is_some() {
            None // They come from a file of their own.
        } else {
            self.named(&options.label_column, options.label_column != LABEL_COLUMN, rows)?
        };
        let id = options.id_column.as_deref();
        let ids = self.named(id.unwrap_or(ID_COLUMN), id.is_some(), rows)?.map(|ids| match ids {
            RawLabels::Names(names) => names,
            RawLabels::Integers(numbers) => numbers.iter().map(ToString::to_string).collect(),
        });
        let origin = self.path.display().to_string();
        Ok(Table { labels, ids, encoder: self.encoder()?, ..Table::new(origin, embeddings)? })
    }

    /// The JSON of the encoder, in the metadata of the file.
    fn encoder(&self) -> Result<Option<EncoderIdentity>> {
        let notes = self.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        let text = notes.filter(|note| note.key == "encoder").find_map(|note| note.value.as_deref());
        let part = Part { path: self.path, name: "encoder" };
        text.map(|text| EncoderIdentity::from_json(text).map_err(|problem| part.error(problem))).transpose()
    }

    fn missing(&self, key: &str, help: &'static str) -> Error {
        let fields = self.metadata.file_metadata().schema().get_fields().iter();
        let found = fields.map(|field| field.name().to_owned()).collect();
        Error::MissingKey { path: self.path.to_owned(), key: key.to_owned(), found, help }
    }

    /// The first leaf under the top-level column `name`, and whether it is the only one.
    fn find<'b>(&'b self, name: &'b str) -> Option<Column<'b>> {
        let columns = self.metadata.file_metadata().schema_descr().columns();
        let of_name = |leaf: &ColumnDescPtr| leaf.path().parts().first().is_some_and(|part| part == name);
        let place = columns.iter().position(of_name)?;
        let alone = columns.iter().filter(|leaf| of_name(leaf)).count() == 1;
        Some(Column { place, leaf: columns.get(place)?.clone(), alone, part: Part { path: self.path, name } })
    }

    fn named(&self, name: &str, needed: bool, rows: usize) -> Result<Option<RawLabels>> {
        match self.find(name) {
            Some(column) => self.labels(&column, rows).map(Some),
            None if needed => Err(self.missing(name, "Give the name of a column that is there")),
            None => Ok(None),
        }
    }

    fn embeddings(&self, column: &Column<'_>) -> Result<Matrix> {
        let leaf = &column.leaf;
        let wrong = |found: &str| {
            Err(column
                .part
                .error(format!("holds {found}; it must be a list of floats per row, cast to float32")))
        };
        if !column.alone || leaf.max_rep_level() != 1 {
            return wrong(if column.alone && leaf.max_rep_level() == 0 {
                "single values"
            } else {
                "nested values"
            });
        }
        match (leaf.physical_type(), leaf.logical_type_ref()) {
            (Type::FLOAT, _) => self.lists::<FloatType>(column, |&value| value),
            (Type::DOUBLE, _) => self.lists::<DoubleType>(column, |&value| value as f32),
            (Type::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16)) if leaf.type_length() == 2 => {
                self.lists::<FixedLenByteArrayType>(column, |value| {
                    value.data().first_chunk().map_or(f32::NAN, |&bytes| f16::from_le_bytes(bytes).to_f32())
                })
            }
            (other, _) => wrong(&format!("lists of {other}")),
        }
    }

    fn lists<T: DataType>(&self, column: &Column<'_>, convert: impl Fn(&T::T) -> f32) -> Result<Matrix> {
        let full = column.leaf.max_def_level();
        let optional = column.leaf.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
        let mut rows = Rows { part: column.part, count: 0, current: 0, width: None };
        let mut data = Vec::new();
        self.each_batch::<T>(column, |values, definitions, repetitions| {
            for (&definition, &repetition) in definitions.iter().zip(repetitions) {
                if repetition == 0 {
                    rows.begin()?;
                }
                if definition < full {
                    let row = rows.count.saturating_sub(1);
                    return Err(column.part.error(if optional && definition == full - 1 {
                        format!("holds a null at row {row}; remove the row or fill it")
                    } else {
                        format!("is null or an empty list at row {row}; remove the row")
                    }));
                }
                rows.current += 1;
            }
            data.extend(values.iter().map(&convert));
            Ok(())
        })?;
        let (count, width) = rows.end()?;
        self.check_rows(column, count)?;
        Matrix::new(data, count, width)
    }

    /// One value for each of the rows that the embeddings have.
    fn labels(&self, column: &Column<'_>, rows: usize) -> Result<RawLabels> {
        let leaf = &column.leaf;
        let wrong = |found: &str| {
            Err(column.part.error(format!("holds {found}; one integer, boolean or string per row is needed")))
        };
        if !column.alone || leaf.path().parts().len() != 1 || leaf.max_rep_level() != 0 {
            return wrong("lists or records");
        }
        let logical = leaf.logical_type_ref();
        let unsigned = match logical {
            Some(LogicalType::Integer(integer)) => !integer.is_signed,
            // Writers older than logical types say it so.
            _ => leaf.converted_type().to_string().starts_with("UINT"),
        };
        let integer = matches!(logical, None | Some(LogicalType::Integer(_)))
            && !matches!(leaf.converted_type(), ConvertedType::DECIMAL | ConvertedType::DATE);
        match leaf.physical_type() {
            Type::BOOLEAN => {
                let values = self.flat::<BoolType>(column, rows)?;
                Ok(RawLabels::Integers(values.into_iter().map(i64::from).collect()))
            }
            Type::INT32 if integer => {
                let values = self.flat::<Int32Type>(column, rows)?.into_iter();
                let widen = |value: i32| if unsigned { i64::from(value as u32) } else { i64::from(value) };
                Ok(RawLabels::Integers(values.map(widen).collect()))
            }
            Type::INT64 if integer => {
                let values = self.flat::<Int64Type>(column, rows)?;
                match values.iter().position(|&value| unsigned && value < 0) {
                    Some(row) => Err(column.part.error(format!(
                        "is {} at row {row}, beyond the range of 64-bit signed integers; save strings",
                        values[row] as u64
                    ))),
                    None => Ok(RawLabels::Integers(values)),
                }
            }
            Type::BYTE_ARRAY if !matches!(logical, Some(LogicalType::Decimal(_))) => {
                let values = self.flat::<ByteArrayType>(column, rows)?;
                let text = values.iter().enumerate().map(|(row, value)| {
                    self.take(column, value.len() as u64)?;
                    let text = std::str::from_utf8(value.data()).map(str::to_owned);
                    text.map_err(|_| {
                        column.part.error(format!("is not UTF-8 text at row {row}; save strings"))
                    })
                });
                text.collect::<Result<_>>().map(RawLabels::Names)
            }
            other => wrong(&logical.map_or(other.to_string(), |logical| format!("{logical:?} values"))),
        }
    }

    /// The values of a column without lists, none of them null.
    fn flat<T: DataType>(&self, column: &Column<'_>, rows: usize) -> Result<Vec<T::T>> {
        let full = column.leaf.max_def_level();
        let mut all = Vec::new();
        self.each_batch::<T>(column, |values, definitions, _| {
            if let Some(null) = definitions.iter().position(|&definition| definition < full) {
                let row = all.len() + null;
                return Err(column.part.error(format!("is null at row {row}; remove the row or fill it")));
            }
            if all.len() + values.len() > rows {
                return Err(column
                    .part
                    .error(format!("has more than the {rows} rows that the embeddings have")));
            }
            all.extend_from_slice(values);
            Ok(())
        })?;
        self.check_rows(column, all.len())?;
        Ok(all)
    }

    pub(super) fn take(&self, column: &Column<'_>, bytes: u64) -> Result<()> {
        let mut budget = self.budget.get();
        let taken = budget.take(bytes).map_err(|problem| column.part.error(problem));
        self.budget.set(budget);
        taken
    }

    pub(super) fn check_rows(&self, column: &Column<'_>, found: usize) -> Result<()> {
        let claimed = self.metadata.file_metadata().num_rows();
        if i64::try_from(found) == Ok(claimed) {
            return Ok(());
        }
        Err(column.part.error(format!("has {found} rows, the file {claimed}; it is damaged. Save it again")))
    }

    /// Hands on values, definition levels and repetition levels of whole rows, a few hundred rows at a time.
    pub(super) fn each_batch<T: DataType>(
        &self,
        column: &Column<'_>,
        mut take: impl FnMut(&[T::T], &[i16], &[i16]) -> Result<()>,
    ) -> Result<()> {
        let part = column.part;
        let decoding =
            |error: ParquetError| part.error(format!("cannot be decoded: {error}. Save the file again"));
        let damaged = || part.error("has sizes that cannot be true; the file is damaged. Save it again");
        // The bytes of one row group are none of another's, so together they are no more than the file's.
        let mut packed_left = self.source.len();
        for group in self.metadata.row_groups() {
            let chunk = group.columns().get(column.place).ok_or_else(damaged)?;
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let (values, packed) =
                (u64::try_from(chunk.num_values()), u64::try_from(chunk.compressed_size()));
            let (Ok(values), Ok(packed), 0..) = (values, packed, start) else { return Err(damaged()) };
            packed_left = packed_left.checked_sub(packed).ok_or_else(damaged)?;
            if !plausible(values, packed) {
                return Err(part.error(format!(
                    "claims {values} values in {packed} bytes; the file is damaged, or all its values are alike"
                )));
            }
            let pages = SerializedPageReader::new(self.source.clone(), chunk, 0, None).map_err(decoding)?;
            // Before any of it is decoded: one row may hold all of a column's values, and levels take as much again.
            self.take(column, values.saturating_mul(size_of::<T::T>() as u64 + 4))?;
            let levels = [column.leaf.max_rep_level(), column.leaf.max_def_level()];
            let pages = Box::new(Pages { inner: pages, values_left: values, levels });
            let mut reader = ColumnReaderImpl::<T>::new(column.leaf.clone(), pages);
            let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                values.clear();
                definitions.clear();
                repetitions.clear();
                let (records, ..) = reader
                    .read_records(BATCH, Some(&mut definitions), Some(&mut repetitions), &mut values)
                    .map_err(decoding)?;
                take(&values, &definitions, &repetitions)?;
                if records == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// A leaf of the schema under the name that people know.
pub(super) struct Column<'a> {
    pub(super) place: usize,
    pub(super) leaf: ColumnDescPtr,
    pub(super) alone: bool,
    pub(super) part: Part<'a>,
}

/// Counts rows and sees that they are equally long.
struct Rows<'a> {
    part: Part<'a>,
    count: usize,
    current: usize,
    width: Option<usize>,
}

impl Rows<'_> {
    /// A new row begins, so the one before is complete.
    fn begin(&mut self) -> Result<()> {
        if self.count > 0 {
            let row = self.count - 1;
            let width = *self.width.get_or_insert(self.current);
            if width != self.current {
                return Err(self.part.error(format!(
                    "has {} numbers at row {row} but {width} at row 0; every row needs as many",
                    self.current
                )));
            }
        }
        self.count += 1;
        self.current = 0;
        Ok(())
    }

    fn end(mut self) -> Result<(usize, usize)> {
        self.begin()?;
        Ok((self.count - 1, self.width.unwrap_or(0)))
    }
}
