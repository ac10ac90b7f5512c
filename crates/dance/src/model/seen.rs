//! Which points a model has seen before: what is promised, and what may judge it, depends on that.
//!
//! Points are the same when every number of their embeddings is, after normalisation. A point that was drawn twice (another row
//! of the same data set) is a copy; whether a copy is one cannot be known of points that come from elsewhere, and they count
//! as the point itself.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::data::{Dataset, Source};
use crate::matrix::Matrix;
use crate::random::bits_of;

/// Calibration points that the kernel has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// Those that fitted the kernel.
    pub fitted: usize,
    /// Copies of those: the same numbers, but another draw.
    pub copies: usize,
}

/// Points to look others up in.
pub(super) struct Seen<'a> {
    places: HashMap<&'a [u32], Vec<usize>>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(points: &'a Matrix) -> Self {
        let mut places: HashMap<&[u32], Vec<usize>> = HashMap::new();
        for row in 0..points.rows() {
            places.entry(bits(points, row)).or_default().push(row);
        }
        Self { places }
    }

    /// Where a point is; nowhere if it is new.
    pub(super) fn places(&self, points: &Matrix, row: usize) -> &[usize] {
        self.places.get(bits(points, row)).map_or(&[], Vec::as_slice)
    }
}

fn bits(matrix: &Matrix, row: usize) -> &[u32] {
    bytemuck::cast_slice(matrix.row(row))
}

/// A point by 64 bits of its own, for points that a model does not keep.
pub(super) fn hashes(points: &Matrix) -> Vec<u64> {
    (0..points.rows()).map(|row| bits_of(bits(points, row).iter().map(|&bits| u64::from(bits)))).collect()
}

/// Where a query was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenAs {
    /// Among the points that fitted the kernel.
    FitPoint,
    /// Among the calibration points.
    CalibrationPoint,
}

impl Overlap {
    /// Of calibration points, normalised, and the points that fitted the kernel, which have these rows in their source.
    pub(super) fn new(
        (train, rows, source): (&Matrix, &[usize], &Source),
        points: &Matrix,
        data: &Dataset,
    ) -> Self {
        let seen = Seen::new(train);
        let mut overlap = Self::default();
        for row in 0..points.rows() {
            let places = seen.places(points, row);
            if places.is_empty() {
                continue;
            }
            let another =
                source.is(&data.source) && places.iter().all(|&at| rows[at] != data.rows[row] as usize);
            if another {
                overlap.copies += 1;
            } else {
                overlap.fitted += 1;
            }
        }
        overlap
    }
}
