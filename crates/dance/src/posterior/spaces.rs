//! The spaces in which experts compare points.
//!
//! Embeddings of an encoder share a direction that carries no information on their labels, often most of their length.
//! The raw space therefore holds directions from the mean μ of the fit points, `(x-μ)/|x-μ|`, and the whitened space is
//! a linear map of it. Lengths may carry information if embeddings are not normalised to length 1; then both spaces use
//! the points themselves. The learned space always does, because its metric was learned on them. Only fit points
//! determine μ, so nothing changes when a query joins.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::posterior::expert::MappedPoints;
use crate::posterior::products::dot;
use crate::posterior::whitening::packed_columns;

/// Points nearer to the mean than this have no reliable direction in single precision; normalised points have length 1.
const NEAR: f64 = 1e-6;

/// The mean from which directions are taken; `None` leaves points as they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Center(Option<Vec<f64>>);

impl Center {
    /// Returns the mean of `points` if the stack is `centred`.
    pub(super) fn new(centred: bool, points: &Matrix) -> Self {
        if !centred {
            return Self(None);
        }
        let mut mean = vec![0.0; points.cols()];
        for row in 0..points.rows() {
            mean.iter_mut().zip(points.row(row)).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        for sum in &mut mean {
            *sum /= points.rows().max(1) as f64;
        }
        Self(Some(mean))
    }

    /// Returns the unit vectors from the mean to the points, and 0 for points at the mean.
    pub(super) fn directions(&self, mut points: Matrix<f64>) -> Matrix<f64> {
        let Self(Some(mean)) = self else { return points };
        for row in 0..points.rows() {
            let row = points.row_mut(row);
            row.iter_mut().zip(mean).for_each(|(value, mean)| *value -= mean);
            let length = dot(row, row).sqrt();
            let factor = if length > NEAR { 1.0 / length } else { 0.0 };
            for value in row.iter_mut() {
                *value *= factor;
            }
        }
        points
    }
}

/// Maps from normalised points to every space.
#[derive(Debug)]
pub(super) struct Spaces {
    center: Center,
    whitening: Option<Packed<f64>>,
    root: Packed<f64>,
}

impl Spaces {
    pub(super) fn new(
        center: Center,
        whitening: Option<&Matrix>,
        root: &Matrix,
        context: &Context<'_>,
    ) -> Self {
        let whitening = whitening.map(|map| packed_columns(map, context));
        Self { center, whitening, root: packed_columns(root, context) }
    }

    /// Maps normalised points to every space that an expert uses.
    pub(super) fn map(&self, points: &Matrix, context: &Context<'_>) -> MappedPoints {
        let points = Matrix::<f64>::from_f32(points);
        let learned = points.times(&self.root, context);
        let raw = self.center.directions(points);
        let white = self.whitening.as_ref().map(|map| raw.times(map, context)).unwrap_or_default();
        MappedPoints { raw, white, learned }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn directions_from_the_mean() {
        let fit = Matrix::new(vec![1.0, 0.0, 0.0, 1.0], 2, 2).unwrap();
        let points = Matrix::new(vec![1.0, 0.0, 0.5, 0.5, 0.5, 2.0], 3, 2).unwrap();
        // The mean is (½, ½): the first point lies at (½, -½) from it, the second on it, the third at (0, 1½).
        let directions = Center::new(true, &fit).directions(Matrix::<f64>::from_f32(&points));
        let half = 0.5f64.sqrt();
        for (found, expected) in directions.as_slice().iter().zip([half, -half, 0.0, 0.0, 0.0, 1.0]) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
        assert_eq!(
            Center::new(false, &fit).directions(Matrix::<f64>::from_f32(&points)),
            Matrix::<f64>::from_f32(&points)
        );
    }
}
