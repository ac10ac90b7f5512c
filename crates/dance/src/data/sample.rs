//! Reservoir sampling (Vitter's algorithm R): draws a uniform sample of a stream of rows in one pass, with no more
//! memory than the sample needs.
//!
//! Every set of `size` rows is equally likely. The drawn rows depend on the seed and the number of rows alone, not on
//! the blocks in which the rows come.

use super::table::Table;
use crate::error::Result;
use crate::numeric::random::Random;

/// The number that keeps the random draws of samples apart from draws for other purposes under one seed.
const PURPOSE: u64 = 0x5a4d;

/// A reservoir, which receives all rows of a stream and keeps a uniform sample of them.
#[derive(Debug)]
pub(crate) struct Sample {
    size: usize,
    random: Random,
    /// The number of rows of the stream so far.
    rows: u64,
    /// For every row of the sample, its row number in the stream.
    numbers: Vec<u64>,
    drawn: Option<Table>,
}

impl Sample {
    /// Starts a sample of `size` rows, or of all rows if there are fewer.
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        Self { size, random: Random::new(seed, PURPOSE), rows: 0, numbers: Vec::new(), drawn: None }
    }

    /// Returns the number of rows of the stream so far.
    pub(crate) fn seen(&self) -> u64 {
        self.rows
    }

    /// Adds the rows of a table to the stream.
    pub(crate) fn take(&mut self, table: &Table) -> Result<()> {
        // Pairs of an index in the sample and a row of the table. A later row replaces an earlier one at the same
        // index.
        let mut places: Vec<(usize, usize)> = Vec::new();
        let first = self.rows;
        for row in 0..table.embeddings().rows() {
            let place = if self.numbers.len() < self.size {
                self.numbers.push(self.rows);
                Some(self.numbers.len() - 1)
            } else {
                let place = self.random.below(self.rows as usize + 1);
                (place < self.size).then_some(place)
            };
            if let Some(place) = place {
                self.numbers[place] = self.rows;
                places.push((place, row));
            }
            self.rows += 1;
        }
        places.retain(|&(place, row)| self.numbers[place] == first + row as u64);
        if let Some(sample) = &mut self.drawn {
            return sample.replace(&places, table);
        }
        places.sort_unstable();
        let rows: Vec<usize> = places.iter().map(|&(_, row)| row).collect();
        self.drawn = Some(table.select(&rows));
        Ok(())
    }

    /// Returns the sample, in the order of the stream; `None` if the stream has no rows.
    pub(crate) fn finish(self) -> Option<Table> {
        let sample = self.drawn?;
        let mut order: Vec<usize> = (0..self.numbers.len()).collect();
        order.sort_unstable_by_key(|&place| self.numbers[place]);
        let mut table = sample.select(&order);
        table.details.lines = None;
        table.details.rows = Some(order.iter().map(|&place| self.numbers[place] as u32).collect());
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{RawLabels, assert_refused};
    use crate::numeric::matrix::Matrix;

    /// For tests: returns a table of the rows `first..first+count`. The embedding, label and id of a row are its row
    /// number.
    fn rows(first: usize, count: usize) -> Table {
        let numbers: Vec<f32> = (first..first + count).map(|row| row as f32).collect();
        let mut table = Table::new("test", Matrix::new(numbers, count, 1).unwrap()).unwrap();
        table.labels = Some(RawLabels::Integers((first..first + count).map(|row| row as i64).collect()));
        table.ids = Some((first..first + count).map(|row| row.to_string()).collect());
        table
    }

    /// For tests: returns a sample of `size` rows from a stream of `all` rows. The stream comes in blocks whose numbers
    /// of rows are `blocks`, repeated as often as needed.
    fn drawn(all: usize, size: usize, seed: u64, blocks: &[usize]) -> Table {
        let (mut sample, mut first) = (Sample::new(size, seed), 0);
        for count in blocks.iter().copied().cycle() {
            if first == all {
                break;
            }
            let count = count.min(all - first);
            sample.take(&rows(first, count)).unwrap();
            first += count;
        }
        assert_eq!(sample.seen(), all as u64);
        sample.finish().unwrap()
    }

    #[test]
    fn a_sample_does_not_depend_on_the_blocks() {
        let whole = drawn(200, 20, 3, &[200]);
        assert_eq!(whole.embeddings().rows(), 20);
        for blocks in [&[1][..], &[7, 30], &[20], &[199, 1]] {
            assert_eq!(drawn(200, 20, 3, blocks), whole);
        }
        assert_ne!(drawn(200, 20, 4, &[200]).embeddings(), whole.embeddings());
        // Embedding, label, id and row number belong to the same row.
        let Some(RawLabels::Integers(labels)) = &whole.labels else { panic!("labels are integers") };
        for (row, &label) in labels.iter().enumerate() {
            let number = whole.embeddings().row(row)[0];
            assert_eq!((label as f32, whole.row(row) as f32), (number, number));
            assert_eq!(whole.ids.as_ref().unwrap()[row], number.to_string());
        }
    }

    #[test]
    fn a_sample_larger_than_the_stream_has_all_rows() {
        let all = drawn(10, 10, 0, &[3]);
        assert_eq!(all.embeddings(), rows(0, 10).embeddings());
        assert_eq!(drawn(10, 50, 0, &[4]).embeddings(), rows(0, 10).embeddings());
    }

    /// Tests that each of 40 rows is drawn with probability 1/4. In 2,000 samples the share of a row may differ from
    /// 1/4 by 5 standard errors, which are 0.05.
    #[test]
    fn every_row_is_as_likely() {
        let mut counts = [0u32; 40];
        for seed in 0..2000 {
            for &number in drawn(40, 10, seed, &[9]).embeddings().as_slice() {
                counts[number as usize] += 1;
            }
        }
        assert!(counts.iter().all(|&count| (400..600).contains(&count)), "{counts:?}");
    }

    #[test]
    fn missing_labels_stay_missing() {
        let mut sample = Sample::new(2, 1);
        for first in 0..50 {
            let mut table = rows(first, 1);
            table.details.missing = if first % 2 == 1 { vec![0] } else { vec![] };
            sample.take(&table).unwrap();
        }
        let table = sample.finish().unwrap();
        let odd = |&row: &usize| table.embeddings().row(row)[0] % 2.0 == 1.0;
        assert_eq!(table.details.missing, (0..2).filter(odd).collect::<Vec<_>>());
    }

    #[test]
    fn tables_that_differ_are_refused() {
        let mut sample = Sample::new(5, 0);
        sample.take(&rows(0, 3)).unwrap();
        let wide = Table::new("wide", Matrix::zeros(1, 2)).unwrap();
        assert_refused(sample.take(&wide), &["wide: has 2 dimensions where test has 1"]);
        let names = Table { labels: Some(RawLabels::Names(vec!["a".into()])), ..rows(0, 1) };
        assert_refused(sample.take(&names), &["another type"]);
        assert!(Sample::new(5, 0).finish().is_none());
    }
}
