//! Arrow record batches of frames, for Parquet files and for answers over a network.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, GenericListArray,
    GenericStringArray, Int64Array, OffsetSizeTrait, RecordBatch,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};

use crate::frame::{Cells, Column, Frame};

impl Frame {
    /// Converts the frame to a record batch with the notes as metadata. A column is nullable if some rows have no
    /// value.
    pub fn record_batch(&self) -> Result<RecordBatch, ArrowError> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (name, column) in &self.columns {
            let (column, present) = column.parts();
            let array = array(column, present.map(NullBuffer::from))?;
            fields.push(Field::new(*name, array.data_type().clone(), present.is_some()));
            columns.push(array);
        }
        let notes = self.notes.iter().map(|(name, text)| ((*name).to_owned(), text.clone()));
        let schema = Schema::new(fields).with_metadata(notes.collect::<HashMap<_, _>>());
        RecordBatch::try_new(Arc::new(schema), columns)
    }
}

fn array(column: &Column, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    match column {
        Column::Flat(cells) => Ok(flat(cells, nulls)),
        Column::Lists(cells, lengths) if cells.len() > i32::MAX as usize => lists::<i64>(cells, lengths, nulls),
        Column::Lists(cells, lengths) => lists::<i32>(cells, lengths, nulls),
        Column::Vectors(matrix) => {
            let values = Float32Array::new(ScalarBuffer::from(matrix.as_slice().to_vec()), None);
            let size = i32::try_from(matrix.cols())
                .map_err(|_| ArrowError::InvalidArgumentError("vectors of too many numbers".into()))?;
            let array = FixedSizeListArray::try_new_with_length(
                element(&values),
                size,
                Arc::new(values),
                nulls,
                matrix.rows(),
            )?;
            Ok(Arc::new(array))
        }
        Column::Partly(column, _) => array(column, nulls),
    }
}

fn element(values: &dyn Array) -> Arc<Field> {
    Arc::new(Field::new("element", values.data_type().clone(), false))
}

fn flat(cells: &Cells, nulls: Option<NullBuffer>) -> ArrayRef {
    match cells {
        Cells::Integers(values) => Arc::new(Int64Array::new(ScalarBuffer::from(values.clone()), nulls)),
        Cells::Numbers(values) => Arc::new(Float64Array::new(ScalarBuffer::from(values.clone()), nulls)),
        Cells::Booleans(values) => Arc::new(BooleanArray::new(BooleanBuffer::from(values.as_slice()), nulls)),
        Cells::Texts(values) if values.iter().map(String::len).sum::<usize>() > i32::MAX as usize => {
            texts::<i64>(values, nulls.as_ref())
        }
        Cells::Texts(values) => texts::<i32>(values, nulls.as_ref()),
    }
}

fn texts<O: OffsetSizeTrait>(values: &[String], nulls: Option<&NullBuffer>) -> ArrayRef {
    let present = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let values = values.iter().enumerate().map(|(row, text)| present(row).then_some(text.as_str()));
    Arc::new(values.collect::<GenericStringArray<O>>())
}

fn lists<O: OffsetSizeTrait>(
    cells: &Cells,
    lengths: &[usize],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let values = flat(cells, None);
    let ends = OffsetBuffer::try_from_lengths(lengths.iter().copied())
        .map_err(|_| ArrowError::OffsetOverflowError(values.len()))?;
    Ok(Arc::new(GenericListArray::<O>::try_new(element(&values), ends, values, nulls)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float32Type;

    #[test]
    fn frames_become_batches_with_their_nulls() {
        let mut frame = Frame { notes: vec![("guarantee", "coverage".into())], ..Frame::default() };
        frame.push("row", Column::integers(vec![0, 1]));
        let sets = Column::Lists(Cells::Texts(vec!["a".into(), "b".into()]), vec![2, 0]);
        frame.push("set", Column::Partly(Box::new(sets), vec![true, false]));
        frame.push("error", Column::texts_or_none(vec![None, Some("is null".into())]));
        frame.push("embedding", Column::Vectors(dance::Matrix::new(vec![1.0, 2.0], 2, 1).unwrap()));
        let batch = frame.record_batch().unwrap();
        assert_eq!(batch.num_rows(), 2);
        assert_eq!(batch.schema().metadata()["guarantee"], "coverage");
        let nulls: Vec<usize> = batch.columns().iter().map(Array::null_count).collect();
        assert_eq!(nulls, [0, 1, 1, 0]);
        let nullable: Vec<bool> = batch.schema().fields().iter().map(|field| field.is_nullable()).collect();
        assert_eq!(nullable, [false, true, true, false]);
        let first = batch.column(1).as_list::<i32>().value(0);
        assert_eq!(first.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(batch.column(3).as_fixed_size_list().values().as_primitive::<Float32Type>().values(), &[1.0, 2.0]);
    }
}
