//! A uniform sample of rows that come one after the other, however many: a reservoir (Vitter's algorithm R), in one pass and with
//! the memory of the sample.
//!
//! Every set of `size` rows is equally likely. Which one it is follows from the seed and the number of rows alone, not from the
//! blocks they come in.
//!
//! ```
//! use dance::{Matrix, Table, data::Sample};
//!
//! let mut sample = Sample::new(3, 7);
//! for block in 0..4 {
//!     let points = Matrix::new((0..5).map(|row| (5 * block + row) as f32).collect(), 5, 1)?;
//!     sample.take(&Table::new("points", points)?)?;
//! }
//! let table = sample.finish()?;
//! assert_eq!(table.embeddings().rows(), 3);
//! assert!(table.embeddings().as_slice().is_sorted()); // rows stay in their order
//! # Ok::<(), dance::Error>(())
//! ```

use super::labels::RawLabels;
use super::table::Table;
use crate::error::{Error, Result};
use crate::numeric::random::Random;

/// Its random numbers are nobody else's.
const PURPOSE: u64 = 0x5a4d;

/// Takes rows as they come, and keeps some.
#[derive(Debug)]
pub struct Sample {
    size: usize,
    random: Random,
    /// Rows that came by.
    seen: u64,
    /// The number of each row that is kept.
    numbers: Vec<u64>,
    kept: Option<Table>,
}

impl Sample {
    /// Of so many rows, or of all where there are fewer.
    pub fn new(size: usize, seed: u64) -> Self {
        Self { size, random: Random::new(seed, PURPOSE), seen: 0, numbers: Vec::new(), kept: None }
    }

    /// How many rows came by.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes the rows of a table.
    pub fn take(&mut self, table: &Table) -> Result<()> {
        // Which row of the table goes to which place; a later one replaces an earlier one.
        let mut places: Vec<(usize, usize)> = Vec::new();
        let first = self.seen;
        for row in 0..table.embeddings().rows() {
            let place = if self.numbers.len() < self.size {
                self.numbers.push(self.seen);
                Some(self.numbers.len() - 1)
            } else {
                let place = self.random.below(self.seen as usize + 1);
                (place < self.size).then_some(place)
            };
            if let Some(place) = place {
                self.numbers[place] = self.seen;
                places.push((place, row));
            }
            self.seen += 1;
        }
        places.retain(|&(place, row)| self.numbers[place] == first + row as u64);
        if let Some(kept) = &mut self.kept {
            return kept.replace(&places, table);
        }
        places.sort_unstable();
        let rows: Vec<usize> = places.iter().map(|&(_, row)| row).collect();
        self.kept = Some(table.select(&rows));
        Ok(())
    }

    /// The sample, in the order in which its rows came.
    pub fn finish(self) -> Result<Table> {
        let Some(kept) = self.kept else {
            return Err(Error::Data("there are no rows to draw from".into()));
        };
        let mut order: Vec<usize> = (0..self.numbers.len()).collect();
        order.sort_unstable_by_key(|&place| self.numbers[place]);
        let mut table = kept.select(&order);
        table.places.lines = None;
        table.places.rows = Some(order.iter().map(|&place| self.numbers[place] as u32).collect());
        Ok(table)
    }
}

impl Table {
    /// Some of the rows.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let pick = |places: &Vec<u32>| rows.iter().map(|&row| places[row]).collect();
        let mut places = self.places.clone();
        places.lines = self.places.lines.as_ref().map(pick);
        places.rows = Some(rows.iter().map(|&row| self.row(row)).collect());
        let is_missing = |&(_, row): &(usize, &usize)| self.places.missing.binary_search(row).is_ok();
        places.missing = rows.iter().enumerate().filter(is_missing).map(|(place, _)| place).collect();
        Self {
            embeddings: self.embeddings.select(rows),
            labels: self.labels.as_ref().map(|labels| labels.select(rows)),
            ids: self.ids.as_ref().map(|ids| rows.iter().map(|&row| ids[row].clone()).collect()),
            places,
            origin: self.origin.clone(),
            class_names: self.class_names.clone(),
            id_kind: self.id_kind,
            prototypes: self.prototypes.clone(),
            encoder: self.encoder.clone(),
            picked: self.picked.as_ref().map(|picked| rows.iter().map(|&row| picked[row]).collect()),
        }
    }

    /// Puts rows of another table in the places of some of its own, or behind them: pairs of a place and a row.
    fn replace(&mut self, places: &[(usize, usize)], other: &Self) -> Result<()> {
        self.check_like(other)?;
        let mut places = places.to_vec();
        places.sort_unstable();
        let (inside, behind): (Vec<_>, Vec<_>) =
            places.into_iter().partition(|&(place, _)| place < self.embeddings.rows());
        for &(place, row) in &inside {
            self.embeddings.row_mut(place).copy_from_slice(other.embeddings.row(row));
            if let (Some(own), Some(others)) = (&mut self.labels, &other.labels) {
                own.set(place, others, row);
            }
            if let (Some(own), Some(others)) = (&mut self.ids, &other.ids) {
                own[place].clone_from(&others[row]);
            }
            self.places.missing.retain(|&missing| missing != place);
            if other.places.missing.binary_search(&row).is_ok() {
                self.places.missing.push(place);
            }
        }
        let rows: Vec<usize> = behind.iter().map(|&(_, row)| row).collect();
        if self.picked.is_some() || other.picked.is_some() {
            // A file that says nothing has points that came by chance.
            let own = self.picked.get_or_insert_with(|| vec![false; self.embeddings.rows()]);
            let is_picked = |row: usize| other.picked.as_ref().is_some_and(|picked| picked[row]);
            for &(place, row) in &inside {
                own[place] = is_picked(row);
            }
            own.extend(rows.iter().map(|&row| is_picked(row)));
        }
        for (place, row) in (self.embeddings.rows()..).zip(&rows) {
            if other.places.missing.binary_search(row).is_ok() {
                self.places.missing.push(place);
            }
        }
        self.places.missing.sort_unstable();
        self.embeddings.append(&other.embeddings.select(&rows))?;
        if let (Some(own), Some(others)) = (&mut self.labels, &other.labels) {
            own.extend(others.select(&rows));
        }
        if let (Some(own), Some(others)) = (&mut self.ids, &other.ids) {
            own.extend(rows.iter().map(|&row| others[row].clone()));
        }
        Ok(())
    }

    /// Refuses a table that cannot be one with this: of another width, with other labels or ids, or of another encoder.
    fn check_like(&self, other: &Self) -> Result<()> {
        let (own, others) = (self.embeddings.cols(), other.embeddings.cols());
        let kinds = |table: &Self| table.labels.as_ref().map(RawLabels::kind);
        let problem = if own != others {
            format!("has {others} dimensions where {} has {own}", self.origin)
        } else if kinds(self) != kinds(other) {
            let name = |table: &Self| kinds(table).map_or("none", |kind| kind.plural());
            format!("has labels of another kind ({}) than {} ({})", name(other), self.origin, name(self))
        } else if self.class_names != other.class_names {
            format!("has other class names than {}", self.origin)
        } else if (self.ids.is_some(), self.id_kind) != (other.ids.is_some(), other.id_kind) {
            format!("has ids of another kind than {}, or none", self.origin)
        } else if self.encoder != other.encoder {
            format!("was made by another encoder than {}", self.origin)
        } else {
            return Ok(());
        };
        Err(Error::Data(format!("{}: {problem}; files that are read together must be alike", other.origin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::assert_refused;
    use crate::numeric::matrix::Matrix;

    /// Rows `first..first+count`, whose number is their embedding, label and id.
    fn rows(first: usize, count: usize) -> Table {
        let numbers: Vec<f32> = (first..first + count).map(|row| row as f32).collect();
        let mut table = Table::new("test", Matrix::new(numbers, count, 1).unwrap()).unwrap();
        table.labels = Some(RawLabels::Integers((first..first + count).map(|row| row as i64).collect()));
        table.ids = Some((first..first + count).map(|row| row.to_string()).collect());
        table
    }

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
    fn what_is_drawn_does_not_depend_on_the_blocks() {
        let whole = drawn(200, 20, 3, &[200]);
        assert_eq!(whole.embeddings().rows(), 20);
        for blocks in [&[1][..], &[7, 30], &[20], &[199, 1]] {
            assert_eq!(drawn(200, 20, 3, blocks), whole);
        }
        assert_ne!(drawn(200, 20, 4, &[200]).embeddings(), whole.embeddings());
        // Everything belongs together, and rows are named by their number.
        let Some(RawLabels::Integers(labels)) = &whole.labels else { panic!("labels are integers") };
        for (row, &label) in labels.iter().enumerate() {
            let number = whole.embeddings().row(row)[0];
            assert_eq!((label as f32, whole.row(row) as f32), (number, number));
            assert_eq!(whole.ids.as_ref().unwrap()[row], number.to_string());
        }
    }

    #[test]
    fn all_are_kept_where_there_are_no_more() {
        let all = drawn(10, 10, 0, &[3]);
        assert_eq!(all.embeddings(), rows(0, 10).embeddings());
        assert_eq!(drawn(10, 50, 0, &[4]).embeddings(), rows(0, 10).embeddings());
    }

    /// Each of 40 rows is drawn with probability 1/4. In 2,000 draws a share is within 0.05 of that (5 standard errors).
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
    fn labels_that_are_missing_stay_so() {
        let mut sample = Sample::new(2, 1);
        for first in 0..50 {
            let mut table = rows(first, 1);
            table.places.missing = if first % 2 == 1 { vec![0] } else { vec![] };
            sample.take(&table).unwrap();
        }
        let table = sample.finish().unwrap();
        let odd = |&row: &usize| table.embeddings().row(row)[0] % 2.0 == 1.0;
        assert_eq!(table.places.missing, (0..2).filter(odd).collect::<Vec<_>>());
    }

    #[test]
    fn tables_that_differ_are_refused() {
        let mut sample = Sample::new(5, 0);
        sample.take(&rows(0, 3)).unwrap();
        let wide = Table::new("wide", Matrix::zeros(1, 2)).unwrap();
        assert_refused(sample.take(&wide), &["wide: has 2 dimensions where test has 1"]);
        let names = Table { labels: Some(RawLabels::Names(vec!["a".into()])), ..rows(0, 1) };
        assert_refused(sample.take(&names), &["another kind"]);
        assert_refused(Sample::new(5, 0).finish(), &["no rows"]);
    }
}
