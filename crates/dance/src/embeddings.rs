//! Embeddings with labels: what a file holds ([`Table`]), what a fit needs ([`Dataset`]), and how embeddings are
//! normalised ([`Normalizer`]).
//!
//! Shape, finiteness and labels are checked once, here; everything after trusts a `Dataset`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Labels as a file stores them.
#[derive(Clone, Debug, PartialEq)]
pub enum RawLabels {
    /// Integers of any width.
    Integers(Vec<i64>),
    /// Strings.
    Names(Vec<String>),
}

impl RawLabels {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Names(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a file of embeddings holds. Only `embeddings` is always there.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file's name, for messages.
    pub origin: String,
    /// One row a point; every number finite, at least one row and one column.
    pub embeddings: Matrix,
    /// One label a row.
    pub labels: Option<RawLabels>,
    /// Names of the classes; integer labels index them.
    pub class_names: Option<Vec<String>>,
    /// One name a row, shown to people in place of the row number.
    pub ids: Option<Vec<String>>,
    /// One embedding a class (of a text encoder, say).
    pub prototypes: Option<Matrix>,
}

impl Table {
    /// Checks what every reader and every caller must: shapes, lengths and finiteness.
    pub fn checked(self) -> Result<Self> {
        let (rows, cols) = (self.embeddings.rows(), self.embeddings.cols());
        if rows == 0 || cols == 0 {
            return Err(Error::Data(format!(
                "{}: embeddings are {rows} × {cols}; at least one row and one column are needed",
                self.origin
            )));
        }
        check_finite(&self.origin, &self.embeddings)?;
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
            length("number of labels (one a row of embeddings)", rows, labels.len())?;
        }
        if let Some(ids) = &self.ids {
            length("number of ids (one a row of embeddings)", rows, ids.len())?;
        }
        if let Some(names) = &self.class_names {
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
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
                length("rows of prototypes (one a class name)", names.len(), prototypes.rows())?;
            }
        }
        Ok(self)
    }

    /// Encodes the labels and checks that the points can be learned from: labels for all, at least two classes.
    pub fn into_dataset(self) -> Result<Dataset> {
        let table = self.checked()?;
        let Some(labels) = table.labels else {
            return Err(Error::MissingKey {
                path: table.origin.into(),
                key: "labels".into(),
                found: vec!["embeddings".into()],
                help: "Fitting and calibrating need a label for every row",
            });
        };
        let (classes, labels) = encode(&table.origin, &labels, table.class_names)?;
        if let Some(prototypes) = &table.prototypes
            && prototypes.rows() != classes.len()
        {
            return Err(Error::Shape {
                what: format!("{}: rows of prototypes (one a class)", table.origin),
                expected: classes.len().to_string(),
                found: prototypes.rows().to_string(),
            });
        }
        let dataset = Dataset {
            embeddings: table.embeddings,
            labels,
            classes,
            ids: table.ids,
            prototypes: table.prototypes,
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

/// Embeddings with encoded labels, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// One row a point.
    pub embeddings: Matrix,
    /// One class index a row.
    pub labels: Vec<u32>,
    /// Class names; a label indexes them.
    pub classes: Vec<String>,
    /// One name a row.
    pub ids: Option<Vec<String>>,
    /// One embedding a class.
    pub prototypes: Option<Matrix>,
}

impl Dataset {
    /// Number of points.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Number of points of every class.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes.len()];
        for &label in &self.labels {
            counts[label as usize] += 1;
        }
        counts
    }

    /// The points at `rows`, with the same classes.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            embeddings: self.embeddings.select(rows),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            classes: self.classes.clone(),
            ids: self.ids.as_ref().map(|ids| rows.iter().map(|&row| ids[row].clone()).collect()),
            prototypes: self.prototypes.clone(),
        }
    }
}

pub(crate) fn check_finite(origin: &str, matrix: &Matrix) -> Result<()> {
    check_finite_rows(origin, matrix.as_slice(), matrix.cols())
}

pub(crate) fn check_finite_rows(origin: &str, values: &[f32], cols: usize) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::NotFinite {
            origin: origin.to_owned(),
            row: at / cols,
            column: at % cols,
            value: values[at],
        }),
    }
}

/// Classes are the given names in their order or, without names, the labels that occur, sorted (numbers as numbers).
fn encode(origin: &str, labels: &RawLabels, names: Option<Vec<String>>) -> Result<(Vec<String>, Vec<u32>)> {
    match (labels, names) {
        (RawLabels::Integers(values), Some(names)) => {
            let encoded = values.iter().enumerate().map(|(row, &value)| match u32::try_from(value) {
                Ok(class) if (class as usize) < names.len() => Ok(class),
                _ => Err(Error::Label {
                    origin: origin.to_owned(),
                    row,
                    problem: format!(
                        "{value} is outside 0…{}, the range of the {} class names; labels count from 0",
                        names.len().saturating_sub(1),
                        names.len()
                    ),
                }),
            });
            let encoded = encoded.collect::<Result<Vec<_>>>()?;
            Ok((names, encoded))
        }
        (RawLabels::Integers(values), None) => Ok(index(values, ToString::to_string)),
        (RawLabels::Names(values), None) => Ok(index(values, Clone::clone)),
        (RawLabels::Names(values), Some(names)) => {
            let place: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
            let encoded = values.iter().enumerate().map(|(row, value)| {
                place.get(value.as_str()).copied().ok_or_else(|| Error::Label {
                    origin: origin.to_owned(),
                    row,
                    problem: format!("`{value}` is not among the {} class names", names.len()),
                })
            });
            let encoded = encoded.collect::<Result<Vec<_>>>()?;
            Ok((names, encoded))
        }
    }
}

fn index<T: Ord>(values: &[T], name: impl Fn(&T) -> String) -> (Vec<String>, Vec<u32>) {
    let mut place: BTreeMap<&T, u32> = values.iter().map(|value| (value, 0)).collect();
    for (slot, class) in place.values_mut().zip(0..) {
        *slot = class;
    }
    (place.keys().map(|value| name(value)).collect(), values.iter().map(|value| place[value]).collect())
}

/// How embeddings are brought to a common scale before anything else looks at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalize {
    /// Every row to length 1: what encoders trained with a cosine loss expect.
    #[default]
    L2,
    /// Every column to mean 0 and variance 1 over the points that fit the kernel.
    Standardize,
    /// As they are.
    None,
}

/// A [`Normalize`] with what it learned from the fit points, so that queries are treated alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Normalizer {
    /// Every row to length 1.
    L2,
    /// `(x - mean) / scale` a column.
    Standardize {
        /// Column means.
        mean: Vec<f32>,
        /// Column standard deviations; 1 for a constant column, which so becomes 0.
        scale: Vec<f32>,
    },
    /// As they are.
    None,
}

impl Normalizer {
    /// Learns from `points` what `kind` needs.
    pub fn fit(kind: Normalize, points: &Matrix) -> Self {
        match kind {
            Normalize::L2 => Self::L2,
            Normalize::None => Self::None,
            Normalize::Standardize => {
                let n = points.rows().max(1) as f64;
                let mut mean = vec![0.0f64; points.cols()];
                let mut square = vec![0.0f64; points.cols()];
                for row in 0..points.rows() {
                    for (sum, &value) in mean.iter_mut().zip(points.row(row)) {
                        *sum += f64::from(value) / n;
                    }
                }
                for row in 0..points.rows() {
                    for ((sum, &value), mean) in square.iter_mut().zip(points.row(row)).zip(&mean) {
                        *sum += (f64::from(value) - mean).powi(2) / n;
                    }
                }
                // Rounding leaves a constant column with a variance of about (ε·mean)², not 0.
                let scale = square.iter().zip(&mean).map(|(&variance, mean)| {
                    if variance.sqrt() <= 1e-7 * mean.abs() { 1.0 } else { variance.sqrt() as f32 }
                });
                Self::Standardize {
                    scale: scale.collect(),
                    mean: mean.iter().map(|&mean| mean as f32).collect(),
                }
            }
        }
    }

    /// Normalises `points` in place. `origin` names them in messages.
    pub fn apply(&self, origin: &str, points: &mut Matrix) -> Result<()> {
        match self {
            Self::None => {}
            Self::Standardize { mean, scale } => {
                if mean.len() != points.cols() {
                    return Err(Error::Shape {
                        what: format!("{origin}: number of columns"),
                        expected: mean.len().to_string(),
                        found: points.cols().to_string(),
                    });
                }
                for row in 0..points.rows() {
                    for ((value, mean), scale) in points.row_mut(row).iter_mut().zip(mean).zip(scale) {
                        *value = (*value - mean) / scale;
                    }
                }
            }
            Self::L2 => {
                for row in 0..points.rows() {
                    let values = points.row_mut(row);
                    let norm = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
                    if norm == 0.0 {
                        return Err(Error::Data(format!(
                            "{origin}: row {row} is all zeros and has no direction to normalise; \
                             remove it or choose another normalisation (standardize, none)"
                        )));
                    }
                    for value in values {
                        *value = (f64::from(*value) / norm) as f32;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[f32]], labels: Option<RawLabels>) -> Table {
        Table {
            origin: "test".into(),
            embeddings: matrix(rows),
            labels,
            class_names: None,
            ids: None,
            prototypes: None,
        }
    }

    fn matrix(rows: &[&[f32]]) -> Matrix {
        Matrix::new(rows.concat(), rows.len(), rows.first().map_or(0, |row| row.len())).unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[track_caller]
    fn assert_refused<T: std::fmt::Debug>(result: Result<T>, parts: &[&str]) {
        let message = result.expect_err("should have been refused").to_string();
        for part in parts {
            assert!(message.contains(part), "`{message}` does not say `{part}`");
        }
    }

    #[test]
    fn a_good_table_passes_unchanged() {
        let mut good = table(&[&[1.0, 2.0], &[3.0, 4.0]], Some(RawLabels::Integers(vec![0, 1])));
        good.ids = Some(names(&["a", "b"]));
        good.class_names = Some(names(&["x", "y", "z"]));
        good.prototypes = Some(matrix(&[&[0.0, 1.0], &[1.0, 0.0], &[1.0, 1.0]]));
        assert_eq!(good.clone().checked().unwrap(), good);
    }

    #[test]
    fn sizes_that_disagree_are_refused() {
        let rows: &[&[f32]] = &[&[1.0, 2.0], &[3.0, 4.0]];
        assert_refused(table(&[], None).checked(), &["test", "0 × 0"]);
        assert_refused(table(&[&[], &[]], None).checked(), &["2 × 0"]);
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
        let bad = table(&[&[1.0, 2.0], &[3.0, f32::NAN]], None);
        assert_refused(bad.checked(), &["test: row 1, column 1 is NaN"]);
        let prototypes = Some(matrix(&[&[f32::INFINITY, 0.0]]));
        let bad = Table { prototypes, ..table(&[&[1.0, 2.0]], None) };
        assert_refused(bad.checked(), &["prototypes: row 0, column 0 is inf"]);
    }

    #[test]
    fn labels_become_indices_of_sorted_classes() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0], &[3.0]];
        let numbers = table(rows, Some(RawLabels::Integers(vec![10, -1, 9]))).into_dataset().unwrap();
        assert_eq!(numbers.classes, ["-1", "9", "10"]);
        assert_eq!(numbers.labels, [2, 0, 1]);
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
            let dataset =
                Table { class_names: class_names(), ..table(rows, Some(labels)) }.into_dataset().unwrap();
            assert_eq!(dataset.classes, ["z", "y", "x"]);
            assert_eq!(dataset.labels, [2, 0]);
        }
        for (label, parts) in [(3, ["row 1", "3 is outside 0…2"]), (-1, ["row 1", "-1 is outside 0…2"])] {
            let labels = Some(RawLabels::Integers(vec![0, label]));
            assert_refused(
                Table { class_names: class_names(), ..table(rows, labels) }.into_dataset(),
                &parts,
            );
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

    #[test]
    fn l2_makes_rows_of_length_one_and_refuses_zeros() {
        let mut points = matrix(&[&[3.0, 4.0], &[0.0, -2.0], &[1e-30, 0.0]]);
        Normalizer::fit(Normalize::L2, &points).apply("test", &mut points).unwrap();
        assert_eq!(points, matrix(&[&[0.6, 0.8], &[0.0, -1.0], &[1.0, 0.0]]));
        let mut zeros = matrix(&[&[1.0, 0.0], &[0.0, 0.0]]);
        assert_refused(Normalizer::L2.apply("test", &mut zeros), &["test: row 1 is all zeros"]);
    }

    #[test]
    fn standardize_leaves_a_constant_column_at_zero() {
        // Mean 2 and variance 1 in the first column; 0.1 has no exact binary form, so its mean carries rounding.
        let mut points = matrix(&[&[1.0, 0.1], &[3.0, 0.1], &[1.0, 0.1], &[3.0, 0.1]]);
        let normalizer = Normalizer::fit(Normalize::Standardize, &points);
        normalizer.apply("test", &mut points).unwrap();
        assert_eq!(points, matrix(&[&[-1.0, 0.0], &[1.0, 0.0], &[-1.0, 0.0], &[1.0, 0.0]]));
        // Queries are treated with what the fit points taught.
        let mut query = matrix(&[&[5.0, 1.1]]);
        normalizer.apply("test", &mut query).unwrap();
        assert_eq!(query.row(0), [3.0, 1.0]);
        let mut narrow = matrix(&[&[5.0]]);
        assert_refused(normalizer.apply("test", &mut narrow), &["number of columns", "expected 2, found 1"]);
    }

    #[test]
    fn none_changes_nothing() {
        let mut points = matrix(&[&[0.0, 0.0], &[7.0, -2.0]]);
        let before = points.clone();
        Normalizer::fit(Normalize::None, &points).apply("test", &mut points).unwrap();
        assert_eq!(points, before);
    }
}
