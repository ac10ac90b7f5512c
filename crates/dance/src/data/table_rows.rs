//! Selection and replacement of a table's rows.

use super::labels::RawLabels;
use super::table::Table;
use crate::error::{Error, Result};

impl Table {
    /// Returns the given rows.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let of_rows = |values: &Vec<u32>| rows.iter().map(|&row| values[row]).collect();
        let mut details = self.details.clone();
        details.lines = self.details.lines.as_ref().map(of_rows);
        details.rows = Some(rows.iter().map(|&row| self.row(row)).collect());
        let is_missing = |&(_, row): &(usize, &usize)| self.details.missing.binary_search(row).is_ok();
        details.missing = rows.iter().enumerate().filter(is_missing).map(|(place, _)| place).collect();
        Self {
            embeddings: self.embeddings.select(rows),
            labels: self.labels.as_ref().map(|labels| labels.select(rows)),
            ids: self.ids.as_ref().map(|ids| rows.iter().map(|&row| ids[row].clone()).collect()),
            details,
            origin: self.origin.clone(),
            class_names: self.class_names.clone(),
            id_kind: self.id_kind,
            prototypes: self.prototypes.clone(),
            encoder: self.encoder.clone(),
            picked: self.picked.as_ref().map(|picked| rows.iter().map(|&row| picked[row]).collect()),
        }
    }

    /// Replaces rows by rows of another table, or appends them. `places` holds pairs of a row of this table, or one
    /// beyond its end, and a row of the other.
    pub(super) fn replace(&mut self, places: &[(usize, usize)], other: &Self) -> Result<()> {
        self.check_like(other)?;
        let mut places = places.to_vec();
        places.sort_unstable();
        // Replace rows within the table.
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
            self.details.missing.retain(|&missing| missing != place);
            if other.details.missing.binary_search(&row).is_ok() {
                self.details.missing.push(place);
            }
        }
        let rows: Vec<usize> = behind.iter().map(|&(_, row)| row).collect();
        if self.picked.is_some() || other.picked.is_some() {
            // A table without a provenance has random points.
            let own = self.picked.get_or_insert_with(|| vec![false; self.embeddings.rows()]);
            let is_picked = |row: usize| other.picked.as_ref().is_some_and(|picked| picked[row]);
            for &(place, row) in &inside {
                own[place] = is_picked(row);
            }
            own.extend(rows.iter().map(|&row| is_picked(row)));
        }
        // Append the other rows.
        for (place, row) in (self.embeddings.rows()..).zip(&rows) {
            if other.details.missing.binary_search(row).is_ok() {
                self.details.missing.push(place);
            }
        }
        self.details.missing.sort_unstable();
        self.embeddings.append(&other.embeddings.select(&rows))?;
        if let (Some(own), Some(others)) = (&mut self.labels, &other.labels) {
            own.extend(others.select(&rows));
        }
        if let (Some(own), Some(others)) = (&mut self.ids, &other.ids) {
            own.extend(rows.iter().map(|&row| others[row].clone()));
        }
        Ok(())
    }

    /// Returns an error if the other table differs in dimensions, type of labels or ids, class names or encoder.
    fn check_like(&self, other: &Self) -> Result<()> {
        let (own, others) = (self.embeddings.cols(), other.embeddings.cols());
        let kinds = |table: &Self| table.labels.as_ref().map(RawLabels::kind);
        let problem = if own != others {
            format!("has {others} dimensions where {} has {own}", self.origin)
        } else if kinds(self) != kinds(other) {
            let name = |table: &Self| kinds(table).map_or("none", |kind| kind.plural());
            format!("has labels of another type ({}) than {} ({})", name(other), self.origin, name(self))
        } else if self.class_names != other.class_names {
            format!("has other class names than {}", self.origin)
        } else if (self.ids.is_some(), self.id_kind) != (other.ids.is_some(), other.id_kind) {
            format!("has ids of another type than {}, or none", self.origin)
        } else if self.encoder != other.encoder {
            format!("comes from another encoder than {}", self.origin)
        } else {
            return Ok(());
        };
        Err(Error::Data(format!("{}: {problem}; files that are read together must agree in this", other.origin)))
    }
}
