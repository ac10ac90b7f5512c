//! Matrices in f64, for what decides: products whose rows come out the same in every batch.

use pulp::{Arch, Simd, WithSimd};

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch};

/// Most rows of a parallel task.
const TILE: usize = 48;

/// A row-major matrix of f64.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wide {
    data: Vec<f64>,
    rows: usize,
    cols: usize,
}

impl Wide {
    pub(crate) fn zeros(rows: usize, cols: usize) -> Self {
        Self { data: vec![0.0; rows * cols], rows, cols }
    }

    pub(crate) fn of_fn(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let data = (0..rows * cols).map(|at| value(at / cols, at % cols)).collect();
        Self { data, rows, cols }
    }

    pub(crate) fn of(matrix: &Matrix) -> Self {
        let data = matrix.as_slice().iter().map(|&value| f64::from(value)).collect();
        Self { data, rows: matrix.rows(), cols: matrix.cols() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.data[row * self.cols..][..self.cols]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.data[row * self.cols..][..self.cols]
    }

    pub(crate) fn as_slice(&self) -> &[f64] {
        &self.data
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// The rows of `self`, then those of `below`.
    pub(crate) fn above(mut self, below: &Self) -> Self {
        self.data.extend_from_slice(&below.data);
        self.rows += below.rows;
        self.cols = self.cols.max(below.cols);
        self
    }

    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        let data = rows.iter().flat_map(|&row| self.row(row)).copied().collect();
        Self { data, rows: rows.len(), cols: self.cols }
    }

    /// Rows as columns.
    pub(crate) fn turned(&self) -> Self {
        Self::of_fn(self.cols, self.rows, |row, column| self.data[column * self.cols + row])
    }

    /// In f32.
    pub(crate) fn narrow(&self) -> Matrix {
        let mut narrow = Matrix::zeros(self.rows, self.cols);
        for (out, &value) in narrow.as_mut_slice().iter_mut().zip(&self.data) {
            *out = value as f32;
        }
        narrow
    }

    /// Squared norms of the rows.
    pub(crate) fn norms(&self) -> Vec<f64> {
        (0..self.rows).map(|row| dot(self.row(row), self.row(row))).collect()
    }

    /// The rows, packed for inner products with them.
    pub(crate) fn packed(&self, context: &Context<'_>) -> Packed<f64> {
        Packed::new(self.cols, self.rows, |depth, column| self.data[column * self.cols + depth], context)
    }

    /// `self · right`, in parallel over rows; a row does not depend on those beside it.
    pub(crate) fn times(&self, right: &Packed<f64>, context: &Context<'_>) -> Self {
        let width = right.columns();
        let rows = self.rows.div_ceil(context.threads()).next_multiple_of(12).clamp(12, TILE);
        let tiles = context.map(self.rows.div_ceil(rows), |tile| {
            let (first, last) = (tile * rows, ((tile + 1) * rows).min(self.rows));
            let mut out = vec![0.0; (last - first) * width];
            let left = &self.data[first * self.cols..last * self.cols];
            right.multiply(left, 0..width, &mut out, &mut Scratch::default());
            out
        });
        Self { data: tiles.concat(), rows: self.rows, cols: width }
    }
}

/// The sum of products in their order: the order of the packed product.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    Arch::new().dispatch(Dot { a, b })
}

/// A type of its own and not a closure: see `squared_distance`.
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

/// Points that others are compared with: packed, with their squared norms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Targets {
    packed: Packed<f64>,
    norms: Vec<f64>,
}

impl Targets {
    pub(crate) fn new(points: &Wide, context: &Context<'_>) -> Self {
        Self { packed: points.packed(context), norms: points.norms() }
    }

    pub(crate) fn len(&self) -> usize {
        self.norms.len()
    }

    /// Squared distances of all points to all targets.
    pub(crate) fn squared(&self, points: &Wide, context: &Context<'_>) -> Wide {
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
