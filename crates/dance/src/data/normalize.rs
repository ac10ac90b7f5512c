//! Normalisation of embeddings, the first step of every computation.
//!
//! ```
//! use dance::{Matrix, data::{Normalize, Normalizer}};
//! let mut points = Matrix::new(vec![3.0, 4.0], 1, 2)?;
//! Normalizer::fit(Normalize::L2, &points).apply("points", &mut points)?;
//! assert_eq!(points.row(0), [0.6, 0.8]);
//! # Ok::<(), dance::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// A kind of normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalize {
    /// Scales every row to length 1. This suits encoders trained with a cosine loss.
    #[default]
    L2,
    /// Shifts and scales every column to mean 0 and variance 1 over the fit points.
    Standardize,
    /// Changes nothing.
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
        /// The standard deviation of each column, or 1 if the column is constant, so that its normalised values are 0.
        scale: Vec<f32>,
    },
    /// Changes nothing.
    None,
}

impl Normalizer {
    /// Computes the parameters of `kind` from `points`.
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

    /// Normalises `points` in place. `origin` names the points in errors. A row of zeros is an error under `L2`.
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

    /// Undoes the normalisation of `points` in place. Rows that were scaled to length 1 keep it.
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
