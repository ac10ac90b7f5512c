//! Which points a model has seen before: what is promised, and what may judge it, depends on that.
//!
//! Points are the same when every number of their embeddings is, after normalisation. A point that was drawn twice (another row
//! of the same data set) is a copy; whether a copy is one cannot be known of points that come from elsewhere, and they count
//! as the point itself.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::fitted::Fitted;
use crate::data::{Dataset, Normalizer};
use crate::error::Result;
use crate::matrix::Matrix;
use crate::random::bits_of;

/// Calibration points that took part in the fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// Those that fitted the kernel or judged its settings.
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
    /// Among the points that fitted the kernel or judged its settings.
    FitPoint,
    /// Among the calibration points.
    CalibrationPoint,
}

/// Points that took part in a fit and that the machine does not keep: they judged its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judges {
    /// By which they are known again.
    pub(super) hashes: Vec<u64>,
    /// Rows in what they were read from.
    pub(super) rows: Vec<u32>,
}

impl Judges {
    /// The points of `data` at these places.
    pub(super) fn new(data: &Dataset, places: &[usize], normalizer: &Normalizer) -> Result<Self> {
        let mut points = data.embeddings.select(places);
        normalizer.apply("fit data", &mut points)?;
        Ok(Self { hashes: hashes(&points), rows: places.iter().map(|&place| data.rows[place]).collect() })
    }
}

impl Overlap {
    /// Of calibration points, normalised, and the points that took part in the fit.
    pub(super) fn new(fitted: &Fitted, points: &Matrix, data: &Dataset) -> Self {
        let seen = Seen::new(&fitted.rfm.train);
        let rows = fitted.names.rows.as_deref().unwrap_or_default();
        let mut judges: HashMap<u64, Vec<u32>> = HashMap::new();
        for (&hash, &row) in fitted.judges.hashes.iter().zip(&fitted.judges.rows) {
            judges.entry(hash).or_default().push(row);
        }
        let own = if judges.is_empty() { Vec::new() } else { hashes(points) };
        let one_source = fitted.source.is(&data.source);
        let mut overlap = Self::default();
        for row in 0..points.rows() {
            let trained = seen.places(points, row);
            let judged = own.get(row).and_then(|hash| judges.get(hash)).map_or(&[][..], Vec::as_slice);
            if trained.is_empty() && judged.is_empty() {
                continue;
            }
            let mut rows = trained.iter().filter_map(|&at| rows.get(at)).chain(judged);
            if one_source && rows.all(|&other| other != data.rows[row]) {
                overlap.copies += 1;
            } else {
                overlap.fitted += 1;
            }
        }
        overlap
    }
}
