//! A list of lists of different lengths, in one vector.

use serde::{Deserialize, Serialize};

/// A list of rows of different lengths, in one vector of values and one of offsets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ragged<T> {
    /// The start of every row, then the end of the last row: one entry more than rows.
    offsets: Vec<usize>,
    values: Vec<T>,
}

impl<T> Default for Ragged<T> {
    fn default() -> Self {
        Self { offsets: vec![0], values: Vec::new() }
    }
}

impl<T> Ragged<T> {
    /// Wraps values whose rows start at `offsets`; `None` unless these ascend from 0 to the number of values.
    pub fn new(offsets: Vec<usize>, values: Vec<T>) -> Option<Self> {
        let valid =
            offsets.first() == Some(&0) && offsets.last() == Some(&values.len()) && offsets.is_sorted();
        valid.then_some(Self { offsets, values })
    }

    /// Appends a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) {
        self.values.extend(row);
        self.offsets.push(self.values.len());
    }

    /// Appends the rows of another list.
    pub fn append(&mut self, mut other: Self) {
        let before = self.values.len();
        self.offsets.extend(other.offsets[1..].iter().map(|offset| before + offset));
        self.values.append(&mut other.values);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range of a row among all values.
    pub fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    /// Returns one row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.values[self.range(row)]
    }

    /// Returns one row, mutable.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        let range = self.range(row);
        &mut self.values[range]
    }

    /// Returns an iterator over the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[T]> {
        self.offsets.windows(2).map(|ends| &self.values[ends[0]..ends[1]])
    }

    /// Returns all values, row after row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns the start of every row, then the end of the last.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }
}

impl<T: Clone> Ragged<T> {
    /// Returns the given rows, in the given order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut selected = Self::default();
        for &row in rows {
            selected.push(self.row(row).iter().cloned());
        }
        selected
    }
}

impl<T, Row: IntoIterator<Item = T>> FromIterator<Row> for Ragged<T> {
    fn from_iter<Rows: IntoIterator<Item = Row>>(rows: Rows) -> Self {
        let mut all = Self::default();
        rows.into_iter().for_each(|row| all.push(row));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_a_list_of_lists() {
        let lists = vec![vec![3, 1], vec![], vec![7, 8, 9]];
        let mut ragged: Ragged<u32> = lists.iter().cloned().collect();
        let written = |ragged: &Ragged<u32>| ragged.iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(written(&ragged), lists);
        assert_eq!(written(&ragged.select(&[2, 0, 2])), [&lists[2], &lists[0], &lists[2]].map(Vec::clone));
        ragged.append(ragged.select(&[1, 0]));
        assert_eq!((ragged.len(), ragged.row(3), ragged.row(4)), (5, &[][..], &[3, 1][..]));
        assert!(Ragged::<u32>::default().is_empty());
    }

    #[test]
    fn offsets_that_do_not_ascend_to_the_end_are_refused() {
        assert_eq!(Ragged::new(vec![0, 2, 2, 3], vec![1, 2, 3]).unwrap().row(0), [1, 2]);
        for bad in [vec![], vec![0], vec![1, 3], vec![0, 4], vec![0, 2, 1, 3]] {
            assert_eq!(Ragged::new(bad, vec![1, 2, 3]), None);
        }
    }
}
