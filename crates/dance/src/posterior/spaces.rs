//! The spaces in which experts compare points.
//!
//! The embeddings of an encoder share a large common vector that carries no information on their labels. The raw space
//! therefore holds directions from the mean μ of the fit points, `(x-μ)/|x-μ|` for a point x. The whitened space is a
//! linear map of the raw space. If embeddings are not normalised to length 1, their lengths may carry information. Then
//! both spaces use the points themselves. The learned space always uses the points themselves, because its metric was
//! learned on them. Only fit points determine μ, so it does not change when a query is added.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch};
use crate::posterior::settings::Space;
use crate::posterior::whitening::packed_columns;
use pulp::{Arch, Simd, WithSimd};

/// Points nearer to the mean than this get no direction, because single precision does not determine it. Normalised
/// points have length 1.
const NEAR: f64 = 1e-6;

/// The mean from which directions are taken. With `None`, points remain as they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Center(Option<Vec<f64>>);

impl Center {
    /// Creates the center: the mean of `points` if the stack is `centred`, otherwise `None`.
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

    /// Returns the unit vectors from the mean to the points, or 0 for points at the mean. Without a mean, returns the
    /// points.
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

/// The maps from normalised points to every space.
#[derive(Debug)]
pub(super) struct Spaces {
    center: Center,
    whitening: Option<Packed<f64>>,
    root: Packed<f64>,
}

impl Spaces {
    pub(super) fn new(center: Center, whitening: Option<&Matrix>, root: &Matrix, context: &Context<'_>) -> Self {
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

/// Points in every space, one row per point. A space that no expert uses may be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MappedPoints {
    pub(super) raw: Matrix<f64>,
    pub(super) white: Matrix<f64>,
    pub(super) learned: Matrix<f64>,
}

impl MappedPoints {
    pub(super) fn get(&self, space: Space) -> &Matrix<f64> {
        match space {
            Space::Raw => &self.raw,
            Space::White => &self.white,
            Space::Learned => &self.learned,
        }
    }

    /// Returns the points of `self`, followed by the points of `below`, in every space.
    pub(super) fn concat(self, below: &Self) -> Self {
        Self {
            raw: self.raw.concat(&below.raw),
            white: self.white.concat(&below.white),
            learned: self.learned.concat(&below.learned),
        }
    }
}

/// The largest number of rows of a parallel task.
const TILE: usize = 48;

impl Matrix<f64> {
    /// Creates a matrix whose entries are the values of a function of row and column.
    pub(crate) fn from_fn(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let mut matrix = Self::zeros(rows, cols);
        for (at, out) in matrix.as_mut_slice().iter_mut().enumerate() {
            *out = value(at / cols, at % cols);
        }
        matrix
    }

    /// Converts an f32 matrix to f64.
    pub(crate) fn from_f32(matrix: &Matrix) -> Self {
        let mut copy = Self::zeros(matrix.rows(), matrix.cols());
        for (out, &value) in copy.as_mut_slice().iter_mut().zip(matrix.as_slice()) {
            *out = f64::from(value);
        }
        copy
    }

    /// Converts the matrix to f32.
    pub(crate) fn to_f32(&self) -> Matrix {
        let mut copy = Matrix::zeros(self.rows(), self.cols());
        for (out, &value) in copy.as_mut_slice().iter_mut().zip(self.as_slice()) {
            *out = value as f32;
        }
        copy
    }

    /// Returns the transpose.
    pub(crate) fn transposed(&self) -> Self {
        Self::from_fn(self.cols(), self.rows(), |row, column| self.row(column)[row])
    }

    /// Returns the squared norms of the rows.
    pub(crate) fn norms(&self) -> Vec<f64> {
        (0..self.rows()).map(|row| dot(self.row(row), self.row(row))).collect()
    }

    /// Packs the rows as the right factor of [`times`](Self::times), which then computes inner products with them.
    pub(crate) fn packed(&self, context: &Context<'_>) -> Packed<f64> {
        Packed::new(self.cols(), self.rows(), |depth, column| self.row(column)[depth], context)
    }

    /// Returns `self · right`, in parallel over rows. The result of a row is the same to the last bit, whatever the
    /// other rows are.
    pub(crate) fn times(&self, right: &Packed<f64>, context: &Context<'_>) -> Self {
        let (cols, width) = (self.cols(), right.columns());
        let rows = self.rows().div_ceil(context.threads()).next_multiple_of(12).clamp(12, TILE);
        let tiles = context.map(self.rows().div_ceil(rows), |tile| {
            let (first, last) = (tile * rows, ((tile + 1) * rows).min(self.rows()));
            let mut out = vec![0.0; (last - first) * width];
            let left = &self.as_slice()[first * cols..last * cols];
            right.multiply(left, 0..width, &mut out, &mut Scratch::default());
            out
        });
        let mut product = Self::zeros(self.rows(), width);
        let mut from = 0;
        for tile in tiles {
            product.as_mut_slice()[from..][..tile.len()].copy_from_slice(&tile);
            from += tile.len();
        }
        product
    }
}

/// Returns the inner product, summed in the same order as in packed products.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    Arch::new().dispatch(Dot { a, b })
}

/// The inner product of two slices. It is a type instead of a closure, so that it is inlined; see `squared_distance`.
struct Dot<'a> {
    a: &'a [f64],
    b: &'a [f64],
}

impl WithSimd for Dot<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        self.a.iter().zip(self.b).fold(0.0, |sum, (&a, &b)| a.mul_add(b, sum))
    }
}

/// Points to which distances are computed, packed together with their squared norms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Targets {
    packed: Packed<f64>,
    norms: Vec<f64>,
}

impl Targets {
    pub(crate) fn new(points: &Matrix<f64>, context: &Context<'_>) -> Self {
        Self { packed: points.packed(context), norms: points.norms() }
    }

    pub(crate) fn len(&self) -> usize {
        self.norms.len()
    }

    /// Returns the squared distances of all points to all targets: one row per point, one column per target.
    pub(crate) fn squared(&self, points: &Matrix<f64>, context: &Context<'_>) -> Matrix<f64> {
        let norms = points.norms();
        let mut squared = points.times(&self.packed, context);
        for (row, &norm) in norms.iter().enumerate() {
            for (value, &other) in squared.row_mut(row).iter_mut().zip(&self.norms) {
                *value = (norm + other - 2.0 * *value).max(0.0);
            }
        }
        squared
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
