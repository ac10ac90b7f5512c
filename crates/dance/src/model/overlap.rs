//! Which points a model has seen before: what is promised, and what may judge it, depends on that.
//!
//! Points are the same when every number of their embeddings is, after normalisation; or when none differs by more than float16
//! rounding explains, so that the same points from a smaller file are known again. Sixteen numbers at least must say so, each
//! within a thirtieth of itself: different points do not agree in that many. (Points that are known by 64 bits alone, because a model does
//! not keep them, must have equal numbers.) A point that was drawn twice (another row of the same data set) is a copy; whether a
//! copy is one cannot be known of points that come from elsewhere, and they count as the point itself.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::fitted::Fitted;
use crate::data::{Dataset, Normalizer};
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::bits_of;

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
    points: &'a Matrix,
    places: HashMap<&'a [u32], Vec<usize>>,
    /// The coordinate that tells points apart best, and the rows in its order.
    axis: usize,
    order: Vec<usize>,
    /// How far every coordinate was moved in normalising, after scaling: rounding came before.
    moved: Vec<f32>,
}

/// Twice what float16 rounds a number by, at most: its own and, through the length of a vector, everybody's.
const HALF: f32 = 1.0 / 1024.0;
/// Of the largest number: below the range in which float16 has all its digits.
const TINY: f32 = 1.0 / (1 << 20) as f32;
/// Numbers that must agree, and how closely, for two points to be one.
const AGREEING: usize = 16;
const CLOSELY: f32 = 1.0 / 32.0;

impl<'a> Seen<'a> {
    /// Of points that were normalised so.
    pub(super) fn new(points: &'a Matrix, normalizer: &Normalizer) -> Self {
        let mut places: HashMap<&[u32], Vec<usize>> = HashMap::new();
        for row in 0..points.rows() {
            places.entry(bits(points, row)).or_default().push(row);
        }
        let axis = widest(points);
        let mut order: Vec<usize> = (0..points.rows()).collect();
        order.sort_by(|&a, &b| points.row(a)[axis].total_cmp(&points.row(b)[axis]));
        let moved = match normalizer {
            Normalizer::Standardize { mean, scale } => {
                mean.iter().zip(scale).map(|(mean, scale)| (mean / scale).abs()).collect()
            }
            Normalizer::L2 | Normalizer::None => vec![0.0; points.cols()],
        };
        Self { points, places, axis, order, moved }
    }

    /// Number of points.
    pub(super) fn len(&self) -> usize {
        self.points.rows()
    }

    /// Where a point is; nowhere if it is new.
    pub(super) fn places(&self, points: &Matrix, row: usize) -> Vec<usize> {
        if let Some(places) = self.places.get(bits(points, row)) {
            return places.clone();
        }
        let point = points.row(row);
        if point.len() != self.points.cols() {
            return Vec::new(); // whoever asks for a set will be told
        }
        let tiny = TINY * point.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let (value, moved) = (point[self.axis], self.moved[self.axis]);
        let reach = 2.0 * (HALF * (value.abs() + moved) + tiny);
        let at = |&row: &usize| self.points.row(row)[self.axis];
        let begin = self.order.partition_point(|row| at(row) < value - reach);
        let near = self.order[begin..].iter().take_while(|row| at(row) <= value + reach);
        near.copied().filter(|&other| self.is_rounded(self.points.row(other), point, tiny)).collect()
    }

    /// Whether one may be the other after float16 rounding, and cannot well be anything else.
    fn is_rounded(&self, one: &[f32], other: &[f32], tiny: f32) -> bool {
        let mut agreeing = 0;
        for ((&a, &b), &moved) in one.iter().zip(other).zip(&self.moved) {
            let size = a.abs().max(b.abs());
            let allowed = HALF * (size + moved) + tiny;
            if (a - b).abs() > allowed {
                return false;
            }
            agreeing += usize::from(allowed <= CLOSELY * size);
        }
        agreeing >= AGREEING
    }
}

/// The coordinate with the largest variance.
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

fn bits(matrix: &Matrix, row: usize) -> &[u32] {
    bytemuck::cast_slice(matrix.row(row))
}

/// A point by 64 bits of its own, for points that a model does not keep.
pub(super) fn hashes(points: &Matrix) -> Vec<u64> {
    (0..points.rows()).map(|row| bits_of(bits(points, row).iter().map(|&bits| u64::from(bits)))).collect()
}

/// Where a query was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SeenAs {
    /// Among the points that fitted the kernel or judged its settings.
    #[serde(rename = "fit")]
    FitPoint,
    /// Among the calibration points.
    #[serde(rename = "calibration")]
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
        let seen = Seen::new(&fitted.rfm.train, &fitted.normalizer);
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

    /// Whether each row of `others` is known by itself, and by nothing else, to a model of `points`.
    fn known(points: &Matrix, others: &Matrix, how: Normalize) -> Vec<Vec<usize>> {
        let normalizer = Normalizer::fit(how, points);
        let (mut points, mut others) = (points.clone(), others.clone());
        normalizer.apply("points", &mut points).unwrap();
        normalizer.apply("others", &mut others).unwrap();
        let seen = Seen::new(&points, &normalizer);
        (0..others.rows()).map(|row| seen.places(&others, row)).collect()
    }

    #[test]
    fn a_copy_in_float16_is_the_point_itself() {
        let own: Vec<Vec<usize>> = (0..200).map(|row| vec![row]).collect();
        for how in [Normalize::L2, Normalize::Standardize, Normalize::None] {
            let full = points(200, 64, 5);
            assert_eq!(
                known(&full, &halved(&full), how),
                own,
                "{how:?}: a smaller copy of the model's points"
            );
            assert_eq!(known(&halved(&full), &full, how), own, "{how:?}: the points behind a smaller file");
        }
    }

    #[test]
    fn other_points_are_others() {
        let none = vec![Vec::<usize>::new(); 200];
        for how in [Normalize::L2, Normalize::Standardize, Normalize::None] {
            assert_eq!(known(&points(200, 64, 5), &points(200, 64, 6), how), none);
            // In two dimensions points come as near as rounding puts them, and only equal ones are the same.
            let plane = points(2000, 2, 5);
            assert!(known(&plane, &points(200, 2, 6), how) == none, "{how:?}");
        }
        // A hundredth of its length away in each number is another point.
        let full = points(200, 64, 5);
        let moved = full.as_slice().iter().map(|value| value * 1.01 + 0.001).collect();
        assert_eq!(known(&full, &Matrix::new(moved, 200, 64).unwrap(), Normalize::None), none);
    }
}
