//! A column of lists of floats, all of one length: embeddings.

use half::f16;
use parquet::basic::{LogicalType, Repetition, Type};
use parquet::data_type::{DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType};

use super::Part;
use super::parquet_cursor::{Column, Columns, Cursor};
use crate::error::Result;
use crate::matrix::Matrix;

/// Reads embeddings, some rows at a time.
pub(super) struct Lists {
    cursor: AnyCursor,
    /// Rows read.
    rows: usize,
    /// Numbers in a row, by the first.
    width: Option<usize>,
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
        Ok(Self { cursor, rows: 0, width: None })
    }

    /// The next rows, so many or a few hundred more; fewer only at the end.
    pub(super) fn take(&mut self, most: usize) -> Result<Matrix> {
        let half = |value: &FixedLenByteArray| {
            value.data().first_chunk().map_or(f32::NAN, |&bytes| f16::from_le_bytes(bytes).to_f32())
        };
        let Self { cursor, rows, width } = self;
        let begin = *rows;
        let data = match cursor {
            AnyCursor::Single(cursor) => take(cursor, most, rows, width, |&value| value),
            AnyCursor::Double(cursor) => take(cursor, most, rows, width, |&value| value as f32),
            AnyCursor::Half(cursor) => take(cursor, most, rows, width, half),
        }?;
        Matrix::new(data, self.rows - begin, self.width.unwrap_or(0))
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
    width: &mut Option<usize>,
    convert: impl Fn(&T::T) -> f32,
) -> Result<Vec<f32>> {
    let leaf = cursor.column.leaf.clone();
    let full = leaf.max_def_level();
    let optional = leaf.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
    let (begin, mut data) = (*rows, Vec::new());
    while *rows - begin < most {
        // Always as many as are decoded at once: a row that is asked for alone may come in two pieces.
        let Some((values, definitions, repetitions)) = cursor.next(usize::MAX)? else { break };
        data.extend(values.iter().map(&convert));
        let first = *rows;
        let null = definitions.iter().position(|&definition| definition < full);
        let problem = if let Some(at) = null {
            let row =
                first + repetitions[..=at].iter().filter(|&&level| level == 0).count().saturating_sub(1);
            Some(if optional && definitions[at] == full - 1 {
                format!("holds a null at row {row}; remove the row or fill it")
            } else {
                format!("is null or an empty list at row {row}; remove the row")
            })
        } else if repetitions.first() != Some(&0) || repetitions.len() != values.len() {
            Some(format!("does not say where row {first} begins; the file is damaged. Save it again"))
        } else {
            let lengths: Vec<usize> =
                repetitions.chunk_by(|_, &level| level != 0).map(<[i16]>::len).collect();
            *rows += lengths.len();
            let width = *width.get_or_insert(lengths[0]);
            lengths.iter().position(|&found| found != width).map(|at| {
                let (found, row) = (lengths[at], first + at);
                format!("has {found} numbers at row {row} but {width} at row 0; every row needs as many")
            })
        };
        if let Some(problem) = problem {
            return Err(cursor.part().error(problem));
        }
    }
    Ok(data)
}
