//! Overlap between the points of a model and other points. The guarantee and every evaluation depend on it.
//!
//! Two points are the same if all coordinates are equal after normalisation, or if no coordinate differs by more than
//! rounding to float16 explains. In the second case at least sixteen coordinates must agree to 1/32 of their size. Some
//! points of a model are kept as 64-bit hashes only; a point is the same as such a point if all coordinates are equal.
//! An equal point from another row of the same data set is a copy. An equal point from another data set counts as the
//! point itself, since rows cannot be compared.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::fitted::Fitted;
use crate::data::{Dataset, Normalizer};
use crate::numeric::matrix::Matrix;
use crate::numeric::random::bits_of;

/// The numbers of calibration points that took part in the fit or are copies of points of the fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overlap {
    /// The number of calibration points that are themselves fit or validation points.
    pub(super) fitted: usize,
    /// The number of calibration points with the coordinates of a fit or validation point of another row.
    pub(super) copies: usize,
}

/// A table that finds the points with given coordinates, rounding to float16 aside.
pub(super) struct PointLookup<'a> {
    points: &'a Matrix,
    /// The rows of all points with the same coordinates. The bits of the coordinates are the key.
    places: HashMap<&'a [u32], Vec<usize>>,
    /// The coordinate with the largest variance.
    axis: usize,
    /// The rows, sorted by the coordinate `axis`.
    order: Vec<usize>,
    /// The absolute value of the constant that normalisation subtracts from each scaled coordinate. Points are rounded
    /// to float16 before the subtraction, so rounding errors grow with it.
    shift: Vec<f32>,
}

/// The allowed relative error of a coordinate: the largest error of rounding to float16, once for the coordinate itself
/// and once for the length of the vector.
const ROUNDING: f32 = 1.0 / 1024.0;
/// A further allowed error, as a share of the point's largest coordinate. It covers coordinates so small that float16
/// holds them with fewer digits.
const TINY: f32 = 1.0 / (1 << 20) as f32;
/// The fewest coordinates that must agree for two points to be the same.
const MIN_AGREEING: usize = 16;
/// A coordinate counts as agreeing only if its allowed error is at most this share of it.
const AGREEMENT: f32 = 1.0 / 32.0;

impl<'a> PointLookup<'a> {
    /// Prepares the table of `points`, which `normalizer` has normalised.
    pub(super) fn new(points: &'a Matrix, normalizer: &Normalizer) -> Self {
        let mut places: HashMap<&[u32], Vec<usize>> = HashMap::new();
        for row in 0..points.rows() {
            places.entry(bits(points, row)).or_default().push(row);
        }
        let axis = widest(points);
        let mut order: Vec<usize> = (0..points.rows()).collect();
        order.sort_by(|&a, &b| points.row(a)[axis].total_cmp(&points.row(b)[axis]));
        let shift = match normalizer {
            Normalizer::Standardize { mean, scale } => {
                mean.iter().zip(scale).map(|(mean, scale)| (mean / scale).abs()).collect()
            }
            Normalizer::L2 | Normalizer::None => vec![0.0; points.cols()],
        };
        Self { points, places, axis, order, shift }
    }

    pub(super) fn len(&self) -> usize {
        self.points.rows()
    }

    /// Returns the rows of the table's points that equal row `row` of `points`, rounding to float16 aside.
    pub(super) fn places(&self, points: &Matrix, row: usize) -> Vec<usize> {
        if let Some(places) = self.places.get(bits(points, row)) {
            return places.clone();
        }
        let point = points.row(row);
        if point.len() != self.points.cols() {
            return Vec::new(); // prediction refuses such a point
        }
        let tiny = TINY * point.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let (value, shift) = (point[self.axis], self.shift[self.axis]);
        let reach = 2.0 * (ROUNDING * (value.abs() + shift) + tiny);
        let at = |&row: &usize| self.points.row(row)[self.axis];
        let begin = self.order.partition_point(|row| at(row) < value - reach);
        let near = self.order[begin..].iter().take_while(|row| at(row) <= value + reach);
        near.copied().filter(|&other| self.is_rounded(self.points.row(other), point, tiny)).collect()
    }

    /// Returns whether no coordinate of two points differs by more than rounding to float16 explains, and enough
    /// coordinates agree. `tiny` is a further allowed error of every coordinate.
    fn is_rounded(&self, one: &[f32], other: &[f32], tiny: f32) -> bool {
        let mut agreeing = 0;
        for ((&a, &b), &shift) in one.iter().zip(other).zip(&self.shift) {
            let size = a.abs().max(b.abs());
            let allowed = ROUNDING * (size + shift) + tiny;
            if (a - b).abs() > allowed {
                return false;
            }
            agreeing += usize::from(allowed <= AGREEMENT * size);
        }
        agreeing >= MIN_AGREEING
    }
}

/// Returns the coordinate with the largest variance.
fn widest(points: &Matrix) -> usize {
    let mut sums = vec![(0.0f64, 0.0f64); points.cols()];
    for row in 0..points.rows() {
        for (sum, &value) in sums.iter_mut().zip(points.row(row)) {
            let value = f64::from(value);
            *sum = (sum.0 + value, sum.1 + value * value);
        }
    }
    let n = points.rows().max(1) as f64;
    let variance = |&(sum, squares): &(f64, f64)| squares - sum * sum / n;
    let widest = sums.iter().enumerate().max_by(|a, b| variance(a.1).total_cmp(&variance(b.1)));
    widest.map_or(0, |(place, _)| place)
}

/// Returns the bits of a point's coordinates.
fn bits(matrix: &Matrix, row: usize) -> &[u32] {
    bytemuck::cast_slice(matrix.row(row))
}

/// Returns a 64-bit hash of the coordinates of every point.
pub(super) fn hashes(points: &Matrix) -> Vec<u64> {
    (0..points.rows()).map(|row| bits_of(bits(points, row).iter().map(|&bits| u64::from(bits)))).collect()
}

/// A part of a model's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ModelPart {
    /// A fit point or a validation point.
    #[serde(rename = "fit")]
    FitPoint,
    /// A calibration point.
    #[serde(rename = "calibration")]
    CalibrationPoint,
}

impl Overlap {
    /// Counts the points of `data` that took part in the fit or are copies of its points. `points` holds the points of
    /// `data`, normalised.
    pub(super) fn new(fitted: &Fitted, points: &Matrix, data: &Dataset) -> Self {
        let fit = PointLookup::new(&fitted.rfm.train, &fitted.normalizer);
        let rows = fitted.names.rows.as_deref().unwrap_or_default();
        let mut validation: HashMap<u64, Vec<u32>> = HashMap::new();
        for (&hash, &row) in fitted.validation_hashes.iter().zip(&fitted.validation_rows) {
            validation.entry(hash).or_default().push(row);
        }
        let own = if validation.is_empty() { Vec::new() } else { hashes(points) };
        let one_source = fitted.source.is(&data.source);
        let mut overlap = Self::default();
        for row in 0..points.rows() {
            let trained = fit.places(points, row);
            let hash = own.get(row);
            let validated = hash.and_then(|hash| validation.get(hash)).map_or(&[][..], Vec::as_slice);
            if trained.is_empty() && validated.is_empty() {
                continue;
            }
            // An equal point from another row of the same data set is a copy.
            let mut rows = trained.iter().filter_map(|&at| rows.get(at)).chain(validated);
            if one_source && rows.all(|&other| other != data.rows[row]) {
                overlap.copies += 1;
            } else {
                overlap.fitted += 1;
            }
        }
        overlap
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::data::Normalize;
    use crate::numeric::random::Random;

    fn points(rows: usize, cols: usize, seed: u64) -> Matrix {
        let mut random = Random::new(seed, 1);
        Matrix::new((0..rows * cols).map(|_| random.normal() as f32 + 0.3).collect(), rows, cols).unwrap()
    }

    fn halved(points: &Matrix) -> Matrix {
        let halved = points.as_slice().iter().map(|&value| f16::from_f32(value).to_f32()).collect();
        Matrix::new(halved, points.rows(), points.cols()).unwrap()
    }

    /// Returns for each row of `others` the rows of `points` that equal it, after both are normalised.
    fn places(points: &Matrix, others: &Matrix, how: Normalize) -> Vec<Vec<usize>> {
        let normalizer = Normalizer::fit(how, points);
        let (mut points, mut others) = (points.clone(), others.clone());
        normalizer.apply("points", &mut points).unwrap();
        normalizer.apply("others", &mut others).unwrap();
        let lookup = PointLookup::new(&points, &normalizer);
        (0..others.rows()).map(|row| lookup.places(&others, row)).collect()
    }

    #[test]
    fn a_copy_in_float16_is_the_point_itself() {
        let own: Vec<Vec<usize>> = (0..200).map(|row| vec![row]).collect();
        for how in [Normalize::L2, Normalize::Standardize, Normalize::None] {
            let full = points(200, 64, 5);
            assert_eq!(places(&full, &halved(&full), how), own, "{how:?}: a smaller copy of the model's points");
            assert_eq!(places(&halved(&full), &full, how), own, "{how:?}: the points behind a smaller file");
        }
    }

    #[test]
    fn other_points_are_others() {
        let none = vec![Vec::<usize>::new(); 200];
        for how in [Normalize::L2, Normalize::Standardize, Normalize::None] {
            assert_eq!(places(&points(200, 64, 5), &points(200, 64, 6), how), none);
            // In two dimensions different points may be as near as rounded ones, so only equal points are the same.
            let plane = points(2000, 2, 5);
            assert!(places(&plane, &points(200, 2, 6), how) == none, "{how:?}");
        }
        // A point that differs by a hundredth in each coordinate is another point.
        let full = points(200, 64, 5);
        let moved = full.as_slice().iter().map(|value| value * 1.01 + 0.001).collect();
        assert_eq!(places(&full, &Matrix::new(moved, 200, 64).unwrap(), Normalize::None), none);
    }
}
