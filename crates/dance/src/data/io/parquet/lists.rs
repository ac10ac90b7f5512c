//! Reading of a column of embeddings (lists of floats) as Arrow arrays.

use std::sync::Arc;

use arrow_array::{Float32Array, LargeListArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType as DataTypes, Field};
use half::f16;
use parquet::basic::{LogicalType, Repetition, Type};
use parquet::data_type::{DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType};

use crate::data::io::FilePart;
use crate::data::io::parquet::cursor::{Column, ColumnCursor, ParquetFile};
use crate::error::Result;

/// A column of embeddings, read in blocks of rows.
pub(super) struct ListColumn {
    cursor: AnyCursor,
    /// The number of rows read so far.
    rows: usize,
}

enum AnyCursor {
    Single(ColumnCursor<FloatType>),
    Double(ColumnCursor<DoubleType>),
    Half(ColumnCursor<FixedLenByteArrayType>),
}

impl ListColumn {
    /// Starts to read a column, or returns an error if the column does not hold lists of floats.
    pub(super) fn new(file: &ParquetFile, column: Column) -> Result<Self> {
        let leaf = &column.leaf;
        let wrong = |found: &str| {
            Err(FilePart { path: &file.path, name: &column.name }
                .error(format!("holds {found}; it must be a list of floats per row, cast to float32")))
        };
        if !column.only || leaf.max_rep_level() != 1 {
            return wrong(if column.only && leaf.max_rep_level() == 0 { "single values" } else { "nested values" });
        }
        let cursor = match (leaf.physical_type(), leaf.logical_type_ref()) {
            (Type::FLOAT, _) => AnyCursor::Single(ColumnCursor::new(file, column)),
            (Type::DOUBLE, _) => AnyCursor::Double(ColumnCursor::new(file, column)),
            (Type::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16)) if leaf.type_length() == 2 => {
                AnyCursor::Half(ColumnCursor::new(file, column))
            }
            (other, _) => return wrong(&format!("lists of {other}")),
        };
        Ok(Self { cursor, rows: 0 })
    }

    /// Returns the next rows of the column: at least `wanted` of them and at most a few hundred more. At the end of the
    /// file there may be fewer.
    pub(super) fn take(&mut self, wanted: usize) -> Result<LargeListArray> {
        let half = |value: &FixedLenByteArray| {
            value.data().first_chunk().map_or(f32::NAN, |&bytes| f16::from_le_bytes(bytes).to_f32())
        };
        match &mut self.cursor {
            AnyCursor::Single(cursor) => take(cursor, wanted, &mut self.rows, |&value| value),
            AnyCursor::Double(cursor) => take(cursor, wanted, &mut self.rows, |&value| value as f32),
            AnyCursor::Half(cursor) => take(cursor, wanted, &mut self.rows, half),
        }
    }

    pub(super) fn name(&self) -> &str {
        match &self.cursor {
            AnyCursor::Single(cursor) => &cursor.column.name,
            AnyCursor::Double(cursor) => &cursor.column.name,
            AnyCursor::Half(cursor) => &cursor.column.name,
        }
    }

    /// Returns an error unless `rows`, the number of rows that were read, is the number in the file's metadata.
    pub(super) fn check_end(&self, rows: usize) -> Result<()> {
        match &self.cursor {
            AnyCursor::Single(cursor) => cursor.check_rows(rows),
            AnyCursor::Double(cursor) => cursor.check_rows(rows),
            AnyCursor::Half(cursor) => cursor.check_rows(rows),
        }
    }
}

/// Reads at least `wanted` rows and at most a few hundred more; at the end of the file there may be fewer. `rows`
/// counts the rows read so far, and the function increases it.
fn take<T: DataType>(
    cursor: &mut ColumnCursor<T>,
    wanted: usize,
    rows: &mut usize,
    convert: impl Fn(&T::T) -> f32,
) -> Result<LargeListArray> {
    let leaf = cursor.column.leaf.clone();
    let full = leaf.max_def_level();
    // The definition level of an empty list. Null lists have a lower level. If numbers may be null, null numbers have
    // the next higher level.
    let empty = full - 1 - i16::from(leaf.self_type().get_basic_info().repetition() == Repetition::OPTIONAL);
    let (mut numbers, mut numbers_present) = (Vec::new(), NullBufferBuilder::new(0));
    let (mut lengths, mut lists_present) = (Vec::new(), NullBufferBuilder::new(0));
    while lengths.len() < wanted {
        // A full batch, since the decoder may return a single row in two pieces.
        let Some((values, definitions, repetitions)) = cursor.next(usize::MAX)? else { break };
        let present = definitions.iter().filter(|&&definition| definition == full).count();
        if repetitions.first() != Some(&0) || repetitions.len() != definitions.len() || present != values.len() {
            let row = *rows + lengths.len();
            return Err(cursor.part().error(format!("has no start of row {row}; the file is damaged. Save it again")));
        }
        // Without nulls and empty lists, the repetition levels alone give the lengths.
        if present == definitions.len() {
            numbers.extend(values.iter().map(&convert));
            numbers_present.append_n_non_nulls(present);
            let before = lengths.len();
            lengths.extend(repetitions.chunk_by(|_, &level| level != 0).map(<[i16]>::len));
            lists_present.append_n_non_nulls(lengths.len() - before);
            continue;
        }
        // Otherwise every pair of levels is an empty list, a null list, a null number, or a number.
        let mut values = values.iter();
        for (&definition, &repetition) in definitions.iter().zip(repetitions) {
            if repetition == 0 {
                lengths.push(0);
                lists_present.append(definition >= empty);
            }
            if definition > empty {
                numbers.push(if definition == full { values.next().map_or(f32::NAN, &convert) } else { 0.0 });
                numbers_present.append(definition == full);
                *lengths.last_mut().unwrap_or(&mut 0) += 1;
            }
        }
    }
    // The Arrow array.
    *rows += lengths.len();
    let numbers = Float32Array::new(ScalarBuffer::from(numbers), numbers_present.finish());
    let field = Arc::new(Field::new("element", DataTypes::Float32, true));
    let ends = OffsetBuffer::try_from_lengths(lengths).map_err(|error| cursor.part().error(error))?;
    LargeListArray::try_new(field, ends, Arc::new(numbers), lists_present.finish())
        .map_err(|error| cursor.part().error(error))
}
