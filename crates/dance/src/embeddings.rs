//! Embeddings with labels: what a file holds ([`Table`]), what a fit needs ([`Dataset`]), and how embeddings are
//! normalised ([`Normalizer`]).
//!
//! Shape, finiteness and labels are checked once, here; everything after trusts a `Dataset`.

use std::collections::BTreeMap;

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

fn check_finite(origin: &str, matrix: &Matrix) -> Result<()> {
    match matrix.as_slice().iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::NotFinite {
            origin: origin.to_owned(),
            row: at / matrix.cols(),
            column: at % matrix.cols(),
            value: matrix.as_slice()[at],
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
