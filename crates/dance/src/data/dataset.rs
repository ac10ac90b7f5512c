//! The input of a fit: points with their classes, their provenance, and the encoder of their embeddings.
//!
//! **Provenance.** A column or array `provenance` tells whether a point was drawn at `random` like new points or
//! `picked` for a property; `dance select` writes it. Picked points, such as difficult ones, are not exchangeable with
//! new points. They may fit a kernel, but not calibrate or evaluate a model. Without a provenance, points count as
//! random.
//!
//! **Encoder.** Embeddings of two encoders cannot be compared, even if they have the same dimensions, so a mix of them
//! is refused.
//!
//! **Normalisation** is the first step of every computation:
//!
//! ```
//! use dance::{Matrix, data::{Normalize, Normalizer}};
//! let mut points = Matrix::new(vec![3.0, 4.0], 1, 2)?;
//! Normalizer::fit(Normalize::L2, &points).apply("points", &mut points)?;
//! assert_eq!(points.row(0), [0.6, 0.8]);
//! # Ok::<(), dance::Error>(())
//! ```

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::labels::Kind;
use crate::error::{Error, Result};
use crate::numeric::counts_of;
use crate::numeric::matrix::Matrix;

/// Embeddings with labels as class ids. All sizes and values are checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The embeddings: one row per point, one column per dimension.
    pub embeddings: Matrix,
    /// The class id of every point, an index in `classes`.
    pub labels: Vec<u32>,
    /// The class names; a class id is an index in this list.
    pub classes: Vec<String>,
    /// The id of every point, if the data have ids.
    pub ids: Option<Vec<String>>,
    /// One embedding per class, such as a text encoder's embedding of the class name.
    pub prototypes: Option<Matrix>,
    /// The row of every point in its file or array.
    pub rows: Vec<u32>,
    /// The identity of the file or array of the points, with the encoder of their embeddings.
    pub source: Source,
    /// The type of the labels in the file: text, integers, floats or booleans.
    pub label_kind: Kind,
    /// The type of the ids in the file, such as text or integers.
    pub id_kind: Kind,
    /// The provenance of every point: true for a picked point, false for one drawn at random. `None` means that all
    /// points were drawn at random.
    pub picked: Option<Vec<bool>>,
}

/// The identity of a file or array of points. All parts of one data set share one identity; every newly created source
/// has another one.
#[derive(Clone, Debug, Default)]
pub struct Source {
    identity: Arc<()>,
    /// The encoder that made the embeddings, if known.
    pub encoder: Option<Arc<EncoderIdentity>>,
}

impl Source {
    /// Returns whether this source and `other` are the same. Different rows of one source are different points, even if
    /// their numbers are equal.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }

    /// Creates a source that differs from all others. `encoder` made its embeddings; `None` if the encoder is unknown.
    pub fn of(encoder: Option<EncoderIdentity>) -> Self {
        Self { encoder: encoder.map(Arc::new), ..Self::default() }
    }
}

/// Lets all sources compare equal under `==`, so that data sets with equal points are equal. [`Source::is`] compares
/// the identities of sources.
impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The rows and ids of points, by which people can look the points up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The row of every point in its file or array.
    pub rows: Option<Vec<u32>>,
    /// The id of every point.
    pub ids: Option<Vec<String>>,
    /// The type of the ids in the file, such as text or integers.
    #[serde(default)]
    pub id_kind: Kind,
}

impl Names {
    /// Returns the rows and ids of the points at the indices `places`.
    pub(crate) fn select(&self, places: &[usize]) -> Self {
        Self {
            rows: self.rows.as_ref().map(|rows| places.iter().map(|&at| rows[at]).collect()),
            ids: self.ids.as_ref().map(|ids| places.iter().map(|&at| ids[at].clone()).collect()),
            id_kind: self.id_kind,
        }
    }
}

impl Dataset {
    /// Returns the rows and ids of all points, by which people can look the points up.
    pub fn names(&self) -> Names {
        Names { rows: Some(self.rows.clone()), ids: self.ids.clone(), id_kind: self.id_kind }
    }

    /// Returns the names of the classes that have points, and the label of every point as an index in this list of
    /// names.
    pub fn occurring_classes(&self) -> (Vec<String>, Vec<u32>) {
        let counts = self.class_counts();
        let mut place = vec![0; counts.len()];
        let mut names = Vec::new();
        for (class, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            place[class] = names.len() as u32;
            names.push(self.classes[class].clone());
        }
        (names, self.labels.iter().map(|&label| place[label as usize]).collect())
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the number of points of every class.
    pub fn class_counts(&self) -> Vec<usize> {
        counts_of(&self.labels, self.classes.len())
    }

    /// Returns the points at the indices `rows`, in this order. The list of classes does not change, even if some
    /// classes lose all points.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            embeddings: self.embeddings.select(rows),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            classes: self.classes.clone(),
            ids: self.ids.as_ref().map(|ids| rows.iter().map(|&row| ids[row].clone()).collect()),
            prototypes: self.prototypes.clone(),
            rows: rows.iter().map(|&row| self.rows[row]).collect(),
            source: self.source.clone(),
            label_kind: self.label_kind,
            id_kind: self.id_kind,
            picked: self.picked.as_ref().map(|picked| rows.iter().map(|&row| picked[row]).collect()),
        }
    }

    /// Returns the indices of the picked points, and the indices of the random points.
    pub fn by_provenance(&self) -> (Vec<usize>, Vec<usize>) {
        let picked = |&row: &usize| self.picked.as_ref().is_some_and(|picked| picked[row]);
        (0..self.len()).partition(picked)
    }

    /// Returns an error if any point was [picked](self). The guarantee of a calibration needs points drawn at random.
    pub(crate) fn check_random(&self) -> Result<()> {
        match self.by_provenance().0.len() {
            0 => Ok(()),
            picked => Err(Error::Data(format!(
                "{picked} of the {} calibration points were picked; a guarantee needs points that were drawn at random \
                 like new ones. Picked points may fit the kernel",
                self.len()
            ))),
        }
    }
}

/// The name of the column, array or tensor that holds the provenance.
pub(super) const PROVENANCE: &str = "provenance";

/// The value of `provenance` for points that were chosen for a property, such as being difficult.
pub const PICKED: &str = "picked";
/// The value of `provenance` for points that were drawn at random, like new points.
pub const RANDOM: &str = "random";

/// Returns true if the provenance `word` is `picked`, and false if it is `random` or empty. Any other word is an error,
/// given as a message.
pub(super) fn is_picked(word: &str) -> std::result::Result<bool, String> {
    match word {
        PICKED => Ok(true),
        RANDOM | "" => Ok(false),
        other => Err(format!("`{other}` is no provenance; `{PICKED}` or `{RANDOM}` is needed")),
    }
}

/// The identity of an encoder (the program that makes embeddings), as files of embeddings and model files store it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncoderIdentity {
    /// The user's name for the encoder: a model name, a folder or a file.
    pub name: String,
    /// SHA-256 of the weights, in hexadecimal.
    pub weights: String,
    /// The preprocessing of pictures or texts and the postprocessing of outputs, as JSON.
    pub preparation: String,
}

impl EncoderIdentity {
    /// Parses the JSON that [`to_json`](Self::to_json) returns. The error is a message that the caller puts after the
    /// name of the array or key with this JSON.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("is not the JSON of an encoder: {error}"))
    }

    /// Returns the encoder's identity as the JSON that files of embeddings and model files hold.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Returns whether this encoder and `other` give the same embeddings: their weights and preparations are equal.
    /// Names may differ, since one encoder may lie in two folders.
    pub fn is(&self, other: &Self) -> bool {
        self.weights == other.weights && self.preparation == other.preparation
    }

    /// Returns an error if both encoders are known and differ. `origin` names the file or array whose encoder is
    /// `found`.
    pub fn check(expected: Option<&Self>, found: Option<&Self>, origin: &str) -> Result<()> {
        match (expected, found) {
            (Some(expected), Some(found)) if !expected.is(found) => Err(Error::Encoder {
                origin: origin.to_owned(),
                expected: expected.to_string(),
                found: found.to_string(),
                hint: if expected.weights == found.weights {
                    "The weights are the same, the preparation is not: embed again with the same settings"
                } else {
                    "Embed again with the first encoder"
                },
            }),
            _ => Ok(()),
        }
    }
}

/// Shows an encoder as its name and the first 12 digits of its weights' hash.
impl fmt::Display for EncoderIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (weights {:.12})", self.name, self.weights)
    }
}

/// A kind of normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalize {
    /// Scales every row to length 1. This suits encoders trained with a cosine loss.
    #[default]
    L2,
    /// Shifts and scales every column to mean 0 and variance 1 over the fit points.
    Standardize,
    /// Leaves the embeddings unchanged.
    None,
}

/// A normalisation with its parameters from the fit points, so that queries are scaled in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Normalizer {
    /// Scales every row to length 1.
    L2,
    /// Maps every number x of a column to `(x - mean) / scale`.
    Standardize {
        /// The means of the columns.
        mean: Vec<f32>,
        /// The standard deviations of the columns. A constant column has 1 in this place, so that its normalised values
        /// are 0.
        scale: Vec<f32>,
    },
    /// Leaves the embeddings unchanged.
    None,
}

impl Normalizer {
    /// Creates a normaliser of this `kind`, with parameters computed from `points`.
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
                // By rounding, a constant column may have a variance of about (ε·mean)² instead of 0.
                let scale = square.iter().zip(&mean).map(|(&variance, mean)| {
                    if variance.sqrt() <= 1e-7 * mean.abs() { 1.0 } else { variance.sqrt() as f32 }
                });
                Self::Standardize { scale: scale.collect(), mean: mean.iter().map(|&mean| mean as f32).collect() }
            }
        }
    }

    /// Normalises `points` in place. `origin` names the points in errors. Under [`Normalizer::L2`], a row of zeros is
    /// an error.
    pub fn apply(&self, origin: &str, points: &mut Matrix) -> Result<()> {
        self.apply_named(origin, points, |row| row)
    }

    /// Normalises `points` in place, as [`apply`](Self::apply) does. Errors call row r of `points` by the number
    /// `number(r)`, its row in the file.
    pub(crate) fn apply_named(&self, origin: &str, points: &mut Matrix, number: impl Fn(usize) -> usize) -> Result<()> {
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
            // A row of zeros has no direction and cannot be scaled.
            Self::L2 => {
                for row in 0..points.rows() {
                    let values = points.row_mut(row);
                    let norm = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
                    if norm == 0.0 {
                        return Err(Error::Data(format!(
                            "{origin}: row {} is all zeros and has no direction to normalise; \
                             remove it or choose another normalisation (standardize, none)",
                            number(row)
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

    /// Undoes the normalisation of `points` in place. Rows that were scaled to length 1 stay so, since their former
    /// length is unknown.
    pub(crate) fn undo(&self, points: &mut Matrix) {
        if let Self::Standardize { mean, scale } = self {
            for row in 0..points.rows() {
                for ((value, mean), scale) in points.row_mut(row).iter_mut().zip(mean).zip(scale) {
                    *value = *value * scale + mean;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(name: &str, weights: &str, preparation: &str) -> EncoderIdentity {
        EncoderIdentity { name: name.into(), weights: weights.into(), preparation: preparation.into() }
    }

    #[test]
    fn another_encoder_is_refused_with_both_names() {
        let clip = encoder("clip", "0123456789abcdef", "{}");
        let check = |found: Option<&EncoderIdentity>| EncoderIdentity::check(Some(&clip), found, "new.npz");
        assert!(check(None).is_ok());
        assert!(check(Some(&encoder("elsewhere/clip", "0123456789abcdef", "{}"))).is_ok());
        let error = check(Some(&encoder("dino", "fedc", "{}"))).unwrap_err().to_string();
        for part in ["new.npz", "clip (weights 0123456789ab)", "dino (weights fedc)"] {
            assert!(error.contains(part), "{error}");
        }
        let error = check(Some(&encoder("clip", "0123456789abcdef", "{1}"))).unwrap_err().to_string();
        assert!(error.contains("preparation"), "{error}");
    }

    #[test]
    fn json_round_trips() {
        let clip = encoder("clip", "01", r#"{"size":224}"#);
        assert_eq!(EncoderIdentity::from_json(&clip.to_json()).unwrap(), clip);
        assert!(EncoderIdentity::from_json("clip").unwrap_err().contains("encoder"));
    }
}

#[cfg(test)]
mod normalization_tests {
    use super::*;
    use crate::data::assert_refused;

    fn matrix(rows: &[&[f32]]) -> Matrix {
        Matrix::new(rows.concat(), rows.len(), rows.first().map_or(0, |row| row.len())).unwrap()
    }

    #[test]
    fn l2_scales_rows_to_length_one_and_refuses_zeros() {
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
        // Queries are scaled with the parameters of the fit points.
        let mut query = matrix(&[&[5.0, 1.1]]);
        normalizer.apply("test", &mut query).unwrap();
        assert_eq!(query.row(0), [3.0, 1.0]);
        normalizer.undo(&mut query);
        assert_eq!(query.row(0), [5.0, 1.1]);
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
