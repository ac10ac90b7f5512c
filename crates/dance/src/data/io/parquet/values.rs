//! Reading of a column with one value per row: labels, ids or provenance.

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};

use crate::data::RawLabels;
use crate::data::io::FilePart;
use crate::data::io::parquet::cursor::{Column, ColumnCursor, ParquetFile};
use crate::error::Result;

/// A column with one value per row, read in blocks of rows.
pub(super) struct ValueColumn {
    name: String,
    cursor: AnyCursor,
    /// The number of rows read so far.
    rows: usize,
}

enum AnyCursor {
    Boolean(ColumnCursor<BoolType>),
    /// 32-bit integers; the flag is true if they are unsigned.
    Short(ColumnCursor<Int32Type>, bool),
    /// 64-bit integers; the flag is true if they are unsigned.
    Long(ColumnCursor<Int64Type>, bool),
    Single(ColumnCursor<FloatType>),
    Double(ColumnCursor<DoubleType>),
    Text(ColumnCursor<ByteArrayType>),
}

impl ValueColumn {
    /// Starts to read a column. Returns an error if the column holds lists, records, or values that are neither
    /// integers, booleans, floats nor strings.
    pub(super) fn new(file: &ParquetFile, column: Column) -> Result<Self> {
        let (leaf, name) = (column.leaf.clone(), column.name.clone());
        let wrong = |found: &str| {
            Err(FilePart { path: &file.path, name: &name }
                .error(format!("holds {found}; one integer, boolean, whole float or string per row is needed")))
        };
        if !column.only || leaf.path().parts().len() != 1 || leaf.max_rep_level() != 0 {
            return wrong("lists or records");
        }
        let logical = leaf.logical_type_ref();
        let unsigned = match logical {
            Some(LogicalType::Integer(integer)) => !integer.is_signed,
            // Writers older than logical types use converted types.
            _ => leaf.converted_type().to_string().starts_with("UINT"),
        };
        let integer = matches!(logical, None | Some(LogicalType::Integer(_)))
            && !matches!(leaf.converted_type(), ConvertedType::DECIMAL | ConvertedType::DATE);
        let cursor = match leaf.physical_type() {
            Type::BOOLEAN => AnyCursor::Boolean(ColumnCursor::new(file, column)),
            Type::INT32 if integer => AnyCursor::Short(ColumnCursor::new(file, column), unsigned),
            Type::INT64 if integer => AnyCursor::Long(ColumnCursor::new(file, column), unsigned),
            Type::FLOAT => AnyCursor::Single(ColumnCursor::new(file, column)),
            Type::DOUBLE => AnyCursor::Double(ColumnCursor::new(file, column)),
            Type::BYTE_ARRAY if !matches!(logical, Some(LogicalType::Decimal(_))) => {
                AnyCursor::Text(ColumnCursor::new(file, column))
            }
            other => {
                return wrong(&logical.map_or(other.to_string(), |logical| format!("{logical:?} values")));
            }
        };
        Ok(Self { name, cursor, rows: 0 })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the values of the next `rows` rows, which must exist. If `missing` is given, the index of every null among
    /// these rows is added to it. Without `missing`, a null is an error.
    pub(super) fn take(&mut self, rows: usize, missing: Option<&mut Vec<usize>>) -> Result<RawLabels> {
        let first = self.rows;
        self.rows += rows;
        match &mut self.cursor {
            AnyCursor::Boolean(cursor) => take(cursor, rows, first, missing, &false).map(RawLabels::Booleans),
            AnyCursor::Short(cursor, unsigned) => {
                let widen = |value: i32| if *unsigned { i64::from(value as u32) } else { i64::from(value) };
                let values = take(cursor, rows, first, missing, &0)?;
                Ok(RawLabels::Integers(values.into_iter().map(widen).collect()))
            }
            AnyCursor::Long(cursor, unsigned) => {
                let values = take(cursor, rows, first, missing, &0)?;
                match values.iter().position(|&value| *unsigned && value < 0) {
                    Some(row) => Err(cursor.part().error(format!(
                        "is {} at row {}, beyond the range of 64-bit signed integers; save strings",
                        values[row] as u64,
                        first + row
                    ))),
                    None => Ok(RawLabels::Integers(values)),
                }
            }
            AnyCursor::Single(cursor) => {
                let values = take(cursor, rows, first, missing, &0.0)?;
                Ok(RawLabels::Floats(values.into_iter().map(f64::from).collect()))
            }
            AnyCursor::Double(cursor) => take(cursor, rows, first, missing, &0.0).map(RawLabels::Floats),
            AnyCursor::Text(cursor) => {
                let values = take(cursor, rows, first, missing, &ByteArray::from(""))?;
                let text = values.iter().enumerate().map(|(row, value)| {
                    cursor.take(value.len() as u64)?;
                    let text = std::str::from_utf8(value.data()).map(str::to_owned);
                    text.map_err(|_| {
                        cursor.part().error(format!("is not UTF-8 text at row {}; save strings", first + row))
                    })
                });
                text.collect::<Result<_>>().map(RawLabels::Names)
            }
        }
    }

    /// Returns an error if the column has more than `rows` rows, which is the number of embeddings.
    pub(super) fn check_end(&mut self, rows: usize) -> Result<()> {
        match &mut self.cursor {
            AnyCursor::Boolean(cursor) => check_end(cursor, rows),
            AnyCursor::Short(cursor, _) => check_end(cursor, rows),
            AnyCursor::Long(cursor, _) => check_end(cursor, rows),
            AnyCursor::Single(cursor) => check_end(cursor, rows),
            AnyCursor::Double(cursor) => check_end(cursor, rows),
            AnyCursor::Text(cursor) => check_end(cursor, rows),
        }
    }
}

fn check_end<T: DataType>(cursor: &mut ColumnCursor<T>, rows: usize) -> Result<()> {
    match cursor.next(1)? {
        None => Ok(()),
        Some(_) => Err(cursor.part().error(format!("has more rows than the embeddings, which have {rows}"))),
    }
}

/// Reads the values of the next `rows` rows; `first` is the number of the first of them in the file. A null becomes
/// `filler`, and its index among these rows is added to `missing`. Without `missing`, a null is an error.
fn take<T: DataType>(
    cursor: &mut ColumnCursor<T>,
    rows: usize,
    first: usize,
    mut missing: Option<&mut Vec<usize>>,
    filler: &T::T,
) -> Result<Vec<T::T>> {
    let full = cursor.column.leaf.max_def_level();
    let mut all = Vec::new();
    while all.len() < rows {
        let Some((values, definitions, _)) = cursor.next(rows - all.len())? else {
            return Err(cursor.check_rows(first + all.len()).err().unwrap_or_else(|| {
                cursor.part().error("has fewer rows than the embeddings; it is damaged. Save it again")
            }));
        };
        // A column that cannot be null has no levels.
        let count = if definitions.is_empty() { values.len() } else { definitions.len() };
        let mut values = values.iter();
        let mut null = None;
        for place in 0..count {
            if definitions.get(place).is_none_or(|&definition| definition == full) {
                all.extend(values.next().cloned());
                continue;
            }
            match &mut missing {
                Some(missing) => missing.push(all.len()),
                None => null = null.or(Some(first + all.len())),
            }
            all.push(filler.clone());
        }
        if let Some(row) = null {
            return Err(cursor.part().error(format!("is null at row {row}; remove the row or fill it")));
        }
    }
    Ok(all)
}
