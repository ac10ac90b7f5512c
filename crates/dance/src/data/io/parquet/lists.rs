//! A column of lists of floats as an Arrow array: embeddings.

use std::sync::Arc;

use arrow_array::{Float32Array, LargeListArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType as DataTypes, Field};
use half::f16;
use parquet::basic::{LogicalType, Repetition, Type};
use parquet::data_type::{DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType};

use crate::data::io::Part;
use crate::data::io::parquet::cursor::{Column, Columns, Cursor};
use crate::error::Result;

/// Reads embeddings, some rows at a time.
pub(super) struct Lists {
    cursor: AnyCursor,
    /// Rows read.
    rows: usize,
}

enum AnyCursor {
    Single(Cursor<FloatType>),
    Double(Cursor<DoubleType>),
    Half(Cursor<FixedLenByteArrayType>),
}

impl Lists {
    pub(super) fn new(columns: &Columns, column: Column) -> Result<Self> {
        let leaf = &column.leaf;
        let wrong = |found: &str| {
            Err(Part { path: &columns.path, name: &column.name }
                .error(format!("holds {found}; it must be a list of floats per row, cast to float32")))
        };
        if !column.alone || leaf.max_rep_level() != 1 {
            return wrong(if column.alone && leaf.max_rep_level() == 0 {
                "single values"
            } else {
                "nested values"
            });
        }
        let cursor = match (leaf.physical_type(), leaf.logical_type_ref()) {
            (Type::FLOAT, _) => AnyCursor::Single(Cursor::new(columns, column)),
            (Type::DOUBLE, _) => AnyCursor::Double(Cursor::new(columns, column)),
            (Type::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16)) if leaf.type_length() == 2 => {
                AnyCursor::Half(Cursor::new(columns, column))
            }
            (other, _) => return wrong(&format!("lists of {other}")),
        };
        Ok(Self { cursor, rows: 0 })
    }

    /// The next rows, so many or a few hundred more; fewer only at the end.
    pub(super) fn take(&mut self, most: usize) -> Result<LargeListArray> {
        let half = |value: &FixedLenByteArray| {
            value.data().first_chunk().map_or(f32::NAN, |&bytes| f16::from_le_bytes(bytes).to_f32())
        };
        match &mut self.cursor {
            AnyCursor::Single(cursor) => take(cursor, most, &mut self.rows, |&value| value),
            AnyCursor::Double(cursor) => take(cursor, most, &mut self.rows, |&value| value as f32),
            AnyCursor::Half(cursor) => take(cursor, most, &mut self.rows, half),
        }
    }

    pub(super) fn name(&self) -> &str {
        match &self.cursor {
            AnyCursor::Single(cursor) => &cursor.column.name,
            AnyCursor::Double(cursor) => &cursor.column.name,
            AnyCursor::Half(cursor) => &cursor.column.name,
        }
    }

    /// Refuses another number of rows than the file says it has.
    pub(super) fn check_end(&self, rows: usize) -> Result<()> {
        match &self.cursor {
            AnyCursor::Single(cursor) => cursor.check_rows(rows),
            AnyCursor::Double(cursor) => cursor.check_rows(rows),
            AnyCursor::Half(cursor) => cursor.check_rows(rows),
        }
    }
}

fn take<T: DataType>(
    cursor: &mut Cursor<T>,
    most: usize,
    rows: &mut usize,
    convert: impl Fn(&T::T) -> f32,
) -> Result<LargeListArray> {
    let leaf = cursor.column.leaf.clone();
    let full = leaf.max_def_level();
    // Below what is there: a number that is null where numbers may be, an empty list, and a list that is null.
    let empty = full - 1 - i16::from(leaf.self_type().get_basic_info().repetition() == Repetition::OPTIONAL);
    let (mut numbers, mut numbers_there) = (Vec::new(), NullBufferBuilder::new(0));
    let (mut lengths, mut lists_there) = (Vec::new(), NullBufferBuilder::new(0));
    while lengths.len() < most {
        // Always as many as are decoded at once: a row that is asked for alone may come in two pieces.
        let Some((values, definitions, repetitions)) = cursor.next(usize::MAX)? else { break };
        let there = definitions.iter().filter(|&&definition| definition == full).count();
        if repetitions.first() != Some(&0) || repetitions.len() != definitions.len() || there != values.len()
        {
            let row = *rows + lengths.len();
            return Err(cursor
                .part()
                .error(format!("does not say where row {row} begins; the file is damaged. Save it again")));
        }
        if there == definitions.len() {
            numbers.extend(values.iter().map(&convert));
            numbers_there.append_n_non_nulls(there);
            let before = lengths.len();
            lengths.extend(repetitions.chunk_by(|_, &level| level != 0).map(<[i16]>::len));
            lists_there.append_n_non_nulls(lengths.len() - before);
            continue;
        }
        let mut values = values.iter();
        for (&definition, &repetition) in definitions.iter().zip(repetitions) {
            if repetition == 0 {
                lengths.push(0);
                lists_there.append(definition >= empty);
            }
            if definition > empty {
                numbers.push(if definition == full { values.next().map_or(f32::NAN, &convert) } else { 0.0 });
                numbers_there.append(definition == full);
                *lengths.last_mut().unwrap_or(&mut 0) += 1;
            }
        }
    }
    *rows += lengths.len();
    let numbers = Float32Array::new(ScalarBuffer::from(numbers), numbers_there.finish());
    let field = Arc::new(Field::new("element", DataTypes::Float32, true));
    let ends = OffsetBuffer::try_from_lengths(lengths).map_err(|error| cursor.part().error(error))?;
    LargeListArray::try_new(field, ends, Arc::new(numbers), lists_there.finish())
        .map_err(|error| cursor.part().error(error))
}
