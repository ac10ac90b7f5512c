//! The contents of a file of embeddings, and the checks on it.
//!
//! Sizes, finiteness and labels are checked once, here. Later modules use a [`Dataset`] without further checks.

use std::collections::BTreeSet;

use super::dataset::{Dataset, EncoderIdentity, Source};
use super::labels::{Kind, RawLabels, class_ids};
use super::table_labels::FileDetails;
use crate::error::{Error, Result};
use crate::numeric::matrix::{Matrix, check_finite};

/// The contents of a file of embeddings. All fields but the embeddings are optional.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file's name, for messages.
    pub(super) origin: String,
    /// The embeddings: one row per point, every number finite, at least one row and one column.
    pub(super) embeddings: Matrix,
    /// The label of every point, if the file has labels.
    pub labels: Option<RawLabels>,
    /// The class names. Integer labels are indices of this list.
    pub class_names: Option<Vec<String>>,
    /// The id of every point, shown to people in place of the row number.
    pub ids: Option<Vec<String>>,
    /// The type of the ids in the file, such as text or integers.
    pub id_kind: Kind,
    /// One embedding per class, for example from a text encoder.
    pub prototypes: Option<Matrix>,
    /// The encoder of the embeddings, if the file names it.
    pub encoder: Option<EncoderIdentity>,
    /// True for every picked point, if the file has a provenance; `None` means that all points are random.
    pub picked: Option<Vec<bool>>,
    pub(super) details: FileDetails,
}

impl Table {
    /// Creates a table that has embeddings and nothing else; `origin` names the table in messages. Callers then set
    /// labels and other fields.
    pub fn new(origin: impl Into<String>, embeddings: Matrix) -> Result<Self> {
        let origin = origin.into();
        let (rows, cols) = (embeddings.rows(), embeddings.cols());
        if rows == 0 || cols == 0 {
            return Err(Error::Data(format!(
                "{origin}: embeddings are {rows} × {cols}; at least one row and one column are needed"
            )));
        }
        check_finite(&origin, &embeddings)?;
        Ok(Self {
            origin,
            embeddings,
            labels: None,
            class_names: None,
            ids: None,
            id_kind: Kind::Text,
            prototypes: None,
            details: FileDetails { label_column: "labels".into(), ..FileDetails::default() },
            encoder: None,
            picked: None,
        })
    }

    /// Returns the file's name, as messages show it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the embeddings, one row per point; every number is finite.
    pub fn embeddings(&self) -> &Matrix {
        &self.embeddings
    }

    /// Returns the table unchanged, or an error if its fields disagree in size, a class name occurs twice, or a
    /// prototype is not finite.
    pub fn checked(self) -> Result<Self> {
        let (rows, cols) = (self.embeddings.rows(), self.embeddings.cols());
        let length = |what: &str, expected: usize, found: usize| {
            if expected == found {
                return Ok(());
            }
            Err(Error::Shape {
                what: format!("{}: {what}", self.origin),
                expected: expected.to_string(),
                found: found.to_string(),
            })
        };
        if let Some(labels) = &self.labels {
            length("number of labels (one per row of embeddings)", rows, labels.len())?;
        }
        if let Some(ids) = &self.ids {
            length("number of ids (one per row of embeddings)", rows, ids.len())?;
        }
        if let Some(picked) = &self.picked {
            length("number of values of `provenance` (one per row of embeddings)", rows, picked.len())?;
        }
        // Class names are unique, and prototypes have the dimensions of embeddings and one row per class.
        if let Some(names) = &self.class_names {
            let mut unique = BTreeSet::new();
            if let Some(twice) = names.iter().find(|name| !unique.insert(name.as_str())) {
                return Err(Error::Data(format!(
                    "{}: the class name `{twice}` occurs twice; every class needs a name of its own",
                    self.origin
                )));
            }
        }
        if let Some(prototypes) = &self.prototypes {
            length("columns of prototypes (as many as embeddings have)", cols, prototypes.cols())?;
            check_finite(&format!("{}: prototypes", self.origin), prototypes)?;
            if let Some(names) = &self.class_names {
                length("rows of prototypes (one per class name)", names.len(), prototypes.rows())?;
            }
        }
        Ok(self)
    }

    /// Turns the labels into class ids. Returns an error if a row has no label or there are fewer than two classes.
    pub fn into_dataset(self) -> Result<Dataset> {
        self.into_dataset_for(&[])
    }

    /// Turns the labels into class ids as [`into_dataset`](Self::into_dataset) does. `known` holds the class names of a
    /// model. Such a name is accepted even if it often means "no label", as `nan` does.
    pub fn into_dataset_for(self, known: &[String]) -> Result<Dataset> {
        let table = self.checked()?;
        let (names, label_kind) = (table.label_names(known)?, table.label_kind());
        // Classes, and one prototype for each.
        let (classes, labels) = encode(&table, &names, label_kind)?;
        if let Some(prototypes) = &table.prototypes
            && prototypes.rows() != classes.len()
        {
            return Err(Error::Shape {
                what: format!("{}: rows of prototypes (one per class)", table.origin),
                expected: classes.len().to_string(),
                found: prototypes.rows().to_string(),
            });
        }
        let dataset = Dataset {
            rows: table.details.rows.unwrap_or_else(|| (0..labels.len() as u32).collect()),
            source: Source::of(table.encoder),
            embeddings: table.embeddings,
            labels,
            classes,
            ids: table.ids,
            prototypes: table.prototypes,
            label_kind,
            id_kind: table.id_kind,
            picked: table.picked,
        };
        match dataset.class_counts().iter().filter(|&&count| count > 0).count() {
            0 | 1 => Err(Error::Data(format!(
                "{}: all {} points carry the same label; at least two classes are needed",
                table.origin,
                dataset.len()
            ))),
            _ => Ok(dataset),
        }
    }
}

impl Table {
    /// Returns the table of the rows at the indices `rows`, in this order.
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

    /// Replaces rows by rows of the table `other`, or appends them. Each pair in `places` holds the index of a row of
    /// this table and the index of a row of `other`. If the first index is beyond the end of this table, the row is
    /// appended.
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

    /// Returns an error if the table `other` differs from this one in dimensions, type of labels or ids, class names or
    /// encoder.
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

/// Returns the class names, and every label as an index in this list. The list is [`Table::class_names`] in its own
/// order. Without class names, it holds the labels that occur, sorted (numbers by value).
fn encode(table: &Table, labels: &[String], kind: Kind) -> Result<(Vec<String>, Vec<u32>)> {
    let classes = table.class_names.clone().unwrap_or_else(|| {
        let mut occurring: Vec<String> = labels.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
        if matches!(kind, Kind::Integer | Kind::Float) {
            occurring.sort_by_key(|name| name.parse::<i64>().unwrap_or(i64::MAX));
        }
        occurring
    });
    let numbers = class_ids(&classes);
    let encoded = labels.iter().enumerate().map(|(row, label)| {
        let problem = || format!("`{label}` is not among the {} class names", classes.len());
        numbers.get(label.as_str()).copied().ok_or_else(|| table.wrong_label(row, &problem()))
    });
    let encoded = encoded.collect::<Result<Vec<_>>>()?;
    Ok((classes, encoded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::assert_refused;

    fn table(rows: &[&[f32]], labels: Option<RawLabels>) -> Table {
        Table { labels, ..Table::new("test", matrix(rows)).unwrap() }
    }

    fn matrix(rows: &[&[f32]]) -> Matrix {
        Matrix::new(rows.concat(), rows.len(), rows.first().map_or(0, |row| row.len())).unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_valid_table_passes_unchanged() {
        let mut good = table(&[&[1.0, 2.0], &[3.0, 4.0]], Some(RawLabels::Integers(vec![0, 1])));
        good.ids = Some(names(&["a", "b"]));
        good.class_names = Some(names(&["x", "y", "z"]));
        good.prototypes = Some(matrix(&[&[0.0, 1.0], &[1.0, 0.0], &[1.0, 1.0]]));
        assert_eq!(good.clone().checked().unwrap(), good);
    }

    #[test]
    fn sizes_that_disagree_are_refused() {
        let rows: &[&[f32]] = &[&[1.0, 2.0], &[3.0, 4.0]];
        assert_refused(Table::new("test", matrix(&[])), &["test", "0 × 0"]);
        assert_refused(Table::new("test", matrix(&[&[], &[]])), &["2 × 0"]);
        let three = Some(RawLabels::Integers(vec![0, 1, 2]));
        assert_refused(table(rows, three).checked(), &["test", "number of labels", "expected 2, found 3"]);
        let ids = Table { ids: Some(names(&["a"])), ..table(rows, None) };
        assert_refused(ids.checked(), &["number of ids", "expected 2, found 1"]);
        let narrow = Table { prototypes: Some(matrix(&[&[1.0]])), ..table(rows, None) };
        assert_refused(narrow.checked(), &["columns of prototypes", "expected 2, found 1"]);
        let class_names = Some(names(&["x", "y"]));
        let few = Table { prototypes: Some(matrix(&[&[1.0, 2.0]])), class_names, ..table(rows, None) };
        assert_refused(few.checked(), &["rows of prototypes", "expected 2, found 1"]);
        let twice = Table { class_names: Some(names(&["x", "y", "x"])), ..table(rows, None) };
        assert_refused(twice.checked(), &["`x` occurs twice"]);
    }

    #[test]
    fn numbers_that_are_not_finite_name_row_and_column() {
        let bad = Table::new("test", matrix(&[&[1.0, 2.0], &[3.0, f32::NAN]]));
        assert_refused(bad, &["test: row 1, column 1 is NaN"]);
        let prototypes = Some(matrix(&[&[f32::INFINITY, 0.0]]));
        let bad = Table { prototypes, ..table(&[&[1.0, 2.0]], None) };
        assert_refused(bad.checked(), &["prototypes: row 0, column 0 is inf"]);
    }

    #[test]
    fn labels_become_indices_of_sorted_classes() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0], &[3.0]];
        let numbers = table(rows, Some(RawLabels::Integers(vec![10, -2, 9]))).into_dataset().unwrap();
        assert_eq!(numbers.classes, ["-2", "9", "10"]);
        assert_eq!((numbers.labels, numbers.label_kind), (vec![2, 0, 1], Kind::Integer));
        let floats = table(rows, Some(RawLabels::Floats(vec![10.0, 9.0, 9.0]))).into_dataset().unwrap();
        assert_eq!((floats.classes, floats.label_kind), (names(&["9", "10"]), Kind::Float));
        let words = table(rows, Some(RawLabels::Names(names(&["b", "a", "b"])))).into_dataset().unwrap();
        assert_eq!(words.classes, ["a", "b"]);
        assert_eq!(words.labels, [1, 0, 1]);
        assert_eq!(words.class_counts(), [1, 2]);
    }

    #[test]
    fn class_names_keep_their_order_and_may_go_unused() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0]];
        let class_names = || Some(names(&["z", "y", "x"]));
        for labels in [RawLabels::Integers(vec![2, 0]), RawLabels::Names(names(&["x", "z"]))] {
            let dataset = Table { class_names: class_names(), ..table(rows, Some(labels)) }.into_dataset().unwrap();
            assert_eq!(dataset.classes, ["z", "y", "x"]);
            assert_eq!(dataset.labels, [2, 0]);
        }
        for (label, parts) in [(3, ["row 1", "3 is outside 0…2"]), (-1, ["row 1", "-1 is outside 0…2"])] {
            let labels = Some(RawLabels::Integers(vec![0, label]));
            assert_refused(Table { class_names: class_names(), ..table(rows, labels) }.into_dataset(), &parts);
        }
        let labels = Some(RawLabels::Names(names(&["x", "w"])));
        let unknown = Table { class_names: class_names(), ..table(rows, labels) };
        assert_refused(unknown.into_dataset(), &["row 1", "`w` is not among the 3 class names"]);
    }

    #[test]
    fn a_dataset_needs_labels_of_two_classes_and_a_prototype_for_each() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0]];
        assert_refused(table(rows, None).into_dataset(), &["test", "no `labels`"]);
        let one = Some(RawLabels::Integers(vec![4, 4]));
        assert_refused(table(rows, one).into_dataset(), &["same label", "two classes"]);
        let short = Some(RawLabels::Integers(vec![4]));
        assert_refused(table(rows, short).into_dataset(), &["number of labels", "expected 2, found 1"]);
        let prototypes = Some(matrix(&[&[1.0], &[2.0], &[3.0]]));
        let three = Table { prototypes, ..table(rows, Some(RawLabels::Integers(vec![0, 1]))) };
        assert_refused(three.into_dataset(), &["rows of prototypes", "expected 2, found 3"]);
    }
}
