//! Conversion of Arrow arrays to points, and of frames to record batches, for files and for requests over a network.
//!
//! An invalid row is returned with its problem, and the other rows are read. Lists may have fixed or variable size and
//! hold 16-, 32- or 64-bit floats. A column of lists of 32-bit floats without invalid rows is used without a copy.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, GenericListArray,
    GenericStringArray, Int64Array, OffsetSizeTrait, RecordBatch,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::frame::{Cells, Column, Frame};
use super::point::{PointProblem, PointShape};

/// The points of a column of lists, and its invalid rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// The numbers of the valid rows, row after row.
    pub values: Vec<f32>,
    /// The indices of the valid rows.
    pub good: Vec<usize>,
    /// The indices of the invalid rows, with their problems.
    pub refused: Vec<(usize, PointProblem)>,
}

/// Reads a column of embeddings, each of the given shape. Returns an error with the column's type if it does not hold
/// lists of floats.
pub fn points(column: ArrayRef, shape: PointShape) -> Result<Points, String> {
    let kind = column.data_type().clone();
    let nulls = column.nulls().cloned();
    // The array of all numbers, and the offsets of the rows in it.
    let (values, ends): (ArrayRef, Vec<usize>) = match &kind {
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            (column.as_fixed_size_list().values().clone(), (0..=column.len()).map(|row| row * size).collect())
        }
        DataType::List(_) => ends(column.as_list::<i32>()),
        DataType::LargeList(_) => ends(column.as_list::<i64>()),
        other => return Err(format!("holds {other}; lists of 16-, 32- or 64-bit floats are read")),
    };
    drop(column); // unless the caller holds the column, the numbers now have one owner and need no copy
    let missing = values.nulls().cloned();
    // The numbers as f32.
    let numbers = match values.data_type() {
        DataType::Float16 => {
            values.as_primitive::<Float16Type>().values().iter().map(|number| number.to_f32()).collect()
        }
        DataType::Float32 => {
            let data = values.to_data();
            drop(values);
            Vec::from(Float32Array::from(data).into_parts().1)
        }
        DataType::Float64 => {
            values.as_primitive::<Float64Type>().values().iter().map(|&number| number as f32).collect()
        }
        other => return Err(format!("holds lists of {other}; 16-, 32- or 64-bit floats are read")),
    };
    // Check every row.
    let problem = |row: usize| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Some(PointProblem::Null);
        }
        let (begin, end) = (ends[row], ends[row + 1]);
        if missing.as_ref().is_some_and(|missing| (begin..end).any(|at| missing.is_null(at))) {
            return Some(PointProblem::HoldsNull);
        }
        shape.problem(&numbers[begin..end], end - begin)
    };
    let mut points = Points::default();
    for row in 0..ends.len() - 1 {
        match problem(row) {
            None => points.good.push(row),
            Some(problem) => points.refused.push((row, problem)),
        }
    }
    // Without invalid rows and without unused numbers, the numbers are the result; otherwise the valid rows are copied.
    points.values = if points.refused.is_empty() && ends[0] == 0 && ends.last() == Some(&numbers.len()) {
        numbers
    } else {
        points.good.iter().flat_map(|&row| &numbers[ends[row]..ends[row + 1]]).copied().collect()
    };
    Ok(points)
}

/// Returns the array of all numbers of the lists, the index in it at which every list starts, and the end of the last
/// list.
fn ends<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> (ArrayRef, Vec<usize>) {
    (lists.values().clone(), lists.value_offsets().iter().map(|end| end.as_usize()).collect())
}

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
    use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder};
    use arrow_array::types::Float32Type;
    use arrow_array::{Float16Array, LargeListArray};
    use half::f16;

    const SHAPE: PointShape = PointShape { dimensions: 2, directed: true };

    /// Six rows: a point, null, one with a null inside, a short one, one with NaN, zeros, and a point.
    fn mixed() -> ListBuilder<Float32Builder> {
        let mut lists = ListBuilder::new(Float32Builder::new());
        for row in [
            Some(&[Some(1.0), Some(2.0)][..]),
            None,
            Some(&[Some(1.0), None]),
            Some(&[Some(1.0)]),
            Some(&[Some(1.0), Some(f32::NAN)]),
            Some(&[Some(0.0), Some(-0.0)]),
            Some(&[Some(3.0), Some(4.0)]),
        ] {
            row.into_iter().flatten().for_each(|&number| lists.values().append_option(number));
            lists.append(row.is_some());
        }
        lists
    }

    #[test]
    fn an_invalid_row_leaves_the_others() {
        let found = points(Arc::new(mixed().finish()), SHAPE).unwrap();
        assert_eq!((found.values, found.good), (vec![1.0, 2.0, 3.0, 4.0], vec![0, 6]));
        let reasons: Vec<String> = found.refused.iter().map(|(row, why)| format!("{row}: {why}")).collect();
        let parts = [
            "1: its embedding is null",
            "2: its embedding holds a null",
            "3: 1 numbers",
            "4: number 1 is NaN",
            "5: all its numbers are 0",
        ];
        assert!(reasons.iter().zip(parts).all(|(reason, part)| reason.starts_with(part)), "{reasons:?}");
        assert_eq!(reasons.len(), parts.len());
    }

    /// A slice of a longer column gives its own rows.
    #[test]
    fn slices_give_their_own_rows() {
        let found = points(Arc::new(mixed().finish().slice(5, 2)), SHAPE).unwrap();
        assert_eq!((found.values, found.good), (vec![3.0, 4.0], vec![1]));
        let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
        for row in [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]] {
            fixed.values().append_slice(&row);
            fixed.append(true);
        }
        let found = points(Arc::new(fixed.finish().slice(1, 2)), SHAPE).unwrap();
        assert_eq!((found.values, found.good), (vec![3.0, 4.0, 5.0, 6.0], vec![0, 1]));
    }

    #[test]
    fn other_floats_and_long_lists() {
        let halves = Float16Array::from(vec![f16::from_f32(0.5), f16::from_f32(-2.0)]);
        let ends = OffsetBuffer::<i64>::from_lengths([2]);
        let field = Arc::new(Field::new("item", DataType::Float16, true));
        let found = points(Arc::new(LargeListArray::new(field, ends, Arc::new(halves), None)), SHAPE).unwrap();
        assert_eq!(found.values, [0.5, -2.0]);
        let wrong = points(Arc::new(Int64Array::from(vec![1])), SHAPE).unwrap_err();
        assert!(wrong.starts_with("holds Int64"), "{wrong}");
    }

    #[test]
    fn frames_become_batches_with_their_nulls() {
        let mut frame = Frame { notes: vec![("guarantee", "coverage".into())], ..Frame::default() };
        frame.push("row", Column::integers(vec![0, 1]));
        let sets = Column::Lists(Cells::Texts(vec!["a".into(), "b".into()]), vec![2, 0]);
        frame.push("set", Column::Partly(Box::new(sets), vec![true, false]));
        frame.push("error", Column::texts_or_none(vec![None, Some("is null".into())]));
        frame.push("embedding", Column::Vectors(crate::Matrix::new(vec![1.0, 2.0], 2, 1).unwrap()));
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
