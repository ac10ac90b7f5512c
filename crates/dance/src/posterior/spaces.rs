//! The spaces in which experts compare points.
//!
//! Embeddings of an encoder share a direction that says nothing of their labels, often most of their length. So points are seen from the
//! middle, the mean μ of the fit points: `(x-μ)/|x-μ|` is the raw space, and what is made white. Where embeddings are not brought to length 1
//! (`--normalize`), lengths may tell something and are left alone, as they are in models of before. The learned metric was learned on
//! points as they are, and maps them. μ depends on the fit points alone, so that nothing changes when a query joins.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::posterior::expert::Block;
use crate::posterior::whitening::packed_columns;
use crate::posterior::wide::{Wide, dot};

/// A point that is nearer to the middle than this (points have length 1) has no direction that single precision could tell.
const NEAR: f64 = 1e-6;

/// Where points are seen from, if not as they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Middle(Option<Vec<f64>>);

impl Middle {
    /// The mean of normalised points, where they are `centred`.
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

    /// Directions of points from here.
    pub(super) fn see(&self, mut points: Wide) -> Wide {
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

/// From normalised points to every space.
#[derive(Debug)]
pub(super) struct Spaces {
    middle: Middle,
    whitening: Option<Packed<f64>>,
    root: Packed<f64>,
}

impl Spaces {
    pub(super) fn new(
        middle: Middle,
        whitening: Option<&Matrix>,
        root: &Matrix,
        context: &Context<'_>,
    ) -> Self {
        let whitening = whitening.map(|map| packed_columns(map, context));
        Self { middle, whitening, root: packed_columns(root, context) }
    }

    /// Normalised points in every space that is wanted.
    pub(super) fn block(&self, points: &Matrix, context: &Context<'_>) -> Block {
        let points = Wide::of(points);
        let learned = points.times(&self.root, context);
        let raw = self.middle.see(points);
        let white = self.whitening.as_ref().map(|map| raw.times(map, context)).unwrap_or_default();
        Block { raw, white, learned }
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
        let seen = Middle::new(true, &fit).see(Wide::of(&points));
        let half = 0.5f64.sqrt();
        for (found, expected) in seen.as_slice().iter().zip([half, -half, 0.0, 0.0, 0.0, 1.0]) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
        assert_eq!(Middle::new(false, &fit).see(Wide::of(&points)), Wide::of(&points));
    }
}
