//! Conversion of Arrow arrays to points, for Parquet files and for requests over a network.
//!
//! An invalid row is reported with its problem, and the other rows are still read. Lists may have fixed or variable
//! size and hold 16-, 32- or 64-bit floats. A column of lists of 32-bit floats without invalid rows is used without a
//! copy.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, GenericListArray, OffsetSizeTrait};
use arrow_schema::DataType;

use super::point::{PointProblem, PointShape};

/// The points of a column of lists, and its invalid rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Points {
    /// The numbers of the valid rows, row after row.
    pub(crate) values: Vec<f32>,
    /// The indices of the valid rows.
    pub(crate) good: Vec<usize>,
    /// The indices of the invalid rows, with their problems.
    pub(crate) refused: Vec<(usize, PointProblem)>,
}

/// Reads a column of lists, one embedding of the given `shape` per row. Returns the numbers of the valid rows, row
/// after row, and the index and the problem of every invalid row, ascending. If the column holds no lists of floats,
/// the error names its type.
#[allow(clippy::type_complexity)]
pub fn points(column: ArrayRef, shape: PointShape) -> Result<(Vec<f32>, Vec<(usize, String)>), String> {
    let Points { values, refused, .. } = checked_points(column, shape)?;
    Ok((values, refused.into_iter().map(|(row, problem)| (row, problem.to_string())).collect()))
}

/// Reads a column of embeddings as [`points`] does, and also returns the indices of the valid rows. Problems are values
/// of [`PointProblem`], not messages.
pub(crate) fn checked_points(column: ArrayRef, shape: PointShape) -> Result<Points, String> {
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
        shape.check(&numbers[begin..end], end - begin)
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

/// Returns the array that holds the numbers of all lists, one list after the other. The second value holds the index in
/// this array at which every list starts, and then the end of the last list.
fn ends<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> (ArrayRef, Vec<usize>) {
    (lists.values().clone(), lists.value_offsets().iter().map(|end| end.as_usize()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder};
    use arrow_array::{Float16Array, Int64Array, LargeListArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;
    use half::f16;
    use std::sync::Arc;

    const SHAPE: PointShape = PointShape { dimensions: 2, directed: true };

    /// For tests: returns a column of seven rows. They are a point, null, one with a null inside, a short one, one with
    /// NaN, zeros, and a point.
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
        let found = checked_points(Arc::new(mixed().finish()), SHAPE).unwrap();
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

    /// Tests that a slice of a longer column gives the rows of the slice alone.
    #[test]
    fn slices_give_their_own_rows() {
        let found = checked_points(Arc::new(mixed().finish().slice(5, 2)), SHAPE).unwrap();
        assert_eq!((found.values, found.good), (vec![3.0, 4.0], vec![1]));
        let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
        for row in [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]] {
            fixed.values().append_slice(&row);
            fixed.append(true);
        }
        let found = checked_points(Arc::new(fixed.finish().slice(1, 2)), SHAPE).unwrap();
        assert_eq!((found.values, found.good), (vec![3.0, 4.0, 5.0, 6.0], vec![0, 1]));
    }

    #[test]
    fn other_floats_and_long_lists() {
        let halves = Float16Array::from(vec![f16::from_f32(0.5), f16::from_f32(-2.0)]);
        let ends = OffsetBuffer::<i64>::from_lengths([2]);
        let field = Arc::new(Field::new("item", DataType::Float16, true));
        let found = checked_points(Arc::new(LargeListArray::new(field, ends, Arc::new(halves), None)), SHAPE).unwrap();
        assert_eq!(found.values, [0.5, -2.0]);
        let wrong = points(Arc::new(Int64Array::from(vec![1])), SHAPE).unwrap_err();
        assert!(wrong.starts_with("holds Int64"), "{wrong}");
    }
}
