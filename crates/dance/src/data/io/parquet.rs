//! `.parquet`: a column `embedding` (or `embeddings`) of lists of floats, and columns of labels and ids.
//!
//! Lists may be fixed in size or not, of `float`, `double` or `float16`; labels integers, booleans, floats or
//! strings, dictionary-encoded or plain, and ids integers or strings. Every row must have an embedding of the same length.
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
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type,
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
use crate::data::labelled::Places;
use crate::data::{EncoderIdentity, Kind, RawLabels, Table};
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
        let usual = |name| if options.embeddings_column.is_none() { self.find(name) } else { None };
        let given = options.embeddings_column.as_deref();
        let column = given.and_then(|name| self.find(name)).or_else(|| usual("embedding"));
        let Some(column) = column.or_else(|| usual("embeddings")) else {
            let help = "Save the embeddings as a column of lists of floats of that name, or name theirs with --embeddings-name";
            return Err(self.missing(given.unwrap_or("embedding"), help));
        };
        let embeddings = self.embeddings(&column)?;
        let rows = embeddings.rows();
        let (mut labels, mut missing) = (None, Vec::new());
        if let Some((name, needed)) = options.label_in_file(LABEL_COLUMN) {
            labels = match self.find(name) {
                Some(column) => Some(self.labels(&column, rows, Some(&mut missing))?),
                None if needed => {
                    return Err(self.missing(name, "Name a column that is there with --label-column"));
                }
                None => None,
            };
        }
        let (name, needed) = options.id(ID_COLUMN);
        let (ids, id_kind) = match self.find(name) {
            Some(column) => {
                let (ids, kind) = column.part.names(self.labels(&column, rows, None)?)?;
                (Some(ids), kind)
            }
            None if needed => return Err(self.missing(name, "Name a column that is there with --id-column")),
            None => (None, Kind::Text),
        };
        let label_column = options.label_column.clone().unwrap_or_else(|| LABEL_COLUMN.into());
        let places = Places { missing, columns: self.columns(), label_column, ..Places::default() };
        let table = Table::new(self.path.display().to_string(), embeddings)?;
        Ok(Table { labels, ids, id_kind, places, encoder: self.encoder()?, ..table })
    }

    fn columns(&self) -> Vec<String> {
        let fields = self.metadata.file_metadata().schema().get_fields().iter();
        fields.map(|field| field.name().to_owned()).collect()
    }

    /// The JSON of the encoder, in the metadata of the file.
    fn encoder(&self) -> Result<Option<EncoderIdentity>> {
        let notes = self.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        let text = notes.filter(|note| note.key == "encoder").find_map(|note| note.value.as_deref());
        let part = Part { path: self.path, name: "encoder" };
        text.map(|text| EncoderIdentity::from_json(text).map_err(|problem| part.error(problem))).transpose()
    }

    fn missing(&self, key: &str, help: &'static str) -> Error {
        Error::MissingKey { path: self.path.to_owned(), key: key.to_owned(), found: self.columns(), help }
    }

    /// The first leaf under the top-level column `name`, and whether it is the only one.
    fn find<'b>(&'b self, name: &'b str) -> Option<Column<'b>> {
        let columns = self.metadata.file_metadata().schema_descr().columns();
        let of_name = |leaf: &ColumnDescPtr| leaf.path().parts().first().is_some_and(|part| part == name);
        let place = columns.iter().position(of_name)?;
        let alone = columns.iter().filter(|leaf| of_name(leaf)).count() == 1;
        Some(Column { place, leaf: columns.get(place)?.clone(), alone, part: Part { path: self.path, name } })
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

    /// One value for each of the rows that the embeddings have. Rows without one are noted where that is allowed.
    fn labels(
        &self,
        column: &Column<'_>,
        rows: usize,
        missing: Option<&mut Vec<usize>>,
    ) -> Result<RawLabels> {
        let leaf = &column.leaf;
        let wrong = |found: &str| {
            Err(column.part.error(format!(
                "holds {found}; one integer, boolean, whole float or string per row is needed"
            )))
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
            Type::BOOLEAN => self.flat::<BoolType>(column, rows, missing, &false).map(RawLabels::Booleans),
            Type::INT32 if integer => {
                let values = self.flat::<Int32Type>(column, rows, missing, &0)?.into_iter();
                let widen = |value: i32| if unsigned { i64::from(value as u32) } else { i64::from(value) };
                Ok(RawLabels::Integers(values.map(widen).collect()))
            }
            Type::INT64 if integer => {
                let values = self.flat::<Int64Type>(column, rows, missing, &0)?;
                match values.iter().position(|&value| unsigned && value < 0) {
                    Some(row) => Err(column.part.error(format!(
                        "is {} at row {row}, beyond the range of 64-bit signed integers; save strings",
                        values[row] as u64
                    ))),
                    None => Ok(RawLabels::Integers(values)),
                }
            }
            Type::FLOAT => {
                let values = self.flat::<FloatType>(column, rows, missing, &0.0)?;
                Ok(RawLabels::Floats(values.into_iter().map(f64::from).collect()))
            }
            Type::DOUBLE => self.flat::<DoubleType>(column, rows, missing, &0.0).map(RawLabels::Floats),
            Type::BYTE_ARRAY if !matches!(logical, Some(LogicalType::Decimal(_))) => {
                let values = self.flat::<ByteArrayType>(column, rows, missing, &ByteArray::from(""))?;
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

    /// The values of a column without lists. Rows that are null are noted in `missing`, where that is allowed, and
    /// filled.
    fn flat<T: DataType>(
        &self,
        column: &Column<'_>,
        rows: usize,
        mut missing: Option<&mut Vec<usize>>,
        filler: &T::T,
    ) -> Result<Vec<T::T>> {
        let full = column.leaf.max_def_level();
        let mut all = Vec::new();
        self.each_batch::<T>(column, |values, definitions, _| {
            // A column that cannot be null has no levels.
            let count = if definitions.is_empty() { values.len() } else { definitions.len() };
            if all.len() + count > rows {
                return Err(column
                    .part
                    .error(format!("has more than the {rows} rows that the embeddings have")));
            }
            let mut values = values.iter();
            for place in 0..count {
                if definitions.get(place).is_none_or(|&definition| definition == full) {
                    all.extend(values.next().cloned());
                    continue;
                }
                let row = all.len();
                match &mut missing {
                    Some(missing) => missing.push(row),
                    None => {
                        return Err(column
                            .part
                            .error(format!("is null at row {row}; remove the row or fill it")));
                    }
                }
                all.push(filler.clone());
            }
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
