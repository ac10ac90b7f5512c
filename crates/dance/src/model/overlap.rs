//! Overlap between the points of a model and other points. A calibration point that took part in the fit ends the
//! guarantee, and an evaluation on points of the model says little about new points.
//!
//! Two points are the same if all coordinates are equal after normalisation, or if no coordinate differs by more than
//! rounding to float16 explains. In the second case the allowed difference must be at most 1/32 of the coordinate in at
//! least sixteen coordinates. Some points of a model are kept as 64-bit hashes only; a point is the same as such a
//! point if all coordinates are equal. An equal point from another row of the same data set is a copy. An equal point
//! from another data set counts as the point itself, since row numbers of two data sets cannot be compared.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::fitted::Fitted;
use crate::data::{Dataset, Normalizer};
use crate::numeric::counts_of;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::bits_of;

/// The numbers of calibration points that took part in the fit, or are copies of points that did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overlap {
    /// The number of calibration points that are themselves fit or validation points.
    pub(super) fitted: usize,
    /// The number of calibration points with the coordinates of a fit or validation point of another row.
    pub(super) copies: usize,
}

/// A table that finds points by their coordinates, which may differ by rounding to float16.
pub(super) struct PointLookup<'a> {
    points: &'a Matrix,
    /// The rows of all points that have equal coordinates. The key is the bits of these coordinates.
    places: HashMap<&'a [u32], Vec<usize>>,
    /// The coordinate with the largest variance.
    axis: usize,
    /// The rows of all points, sorted by the coordinate `axis`.
    order: Vec<usize>,
    /// For each coordinate, the absolute value of the constant that normalisation subtracts after scaling. Points are
    /// rounded to float16 before the subtraction, so rounding errors grow with this constant.
    shift: Vec<f32>,
}

/// The allowed difference of two coordinates, as a share of the larger of them. It is twice the largest error of
/// rounding to float16: once for the coordinate itself and once for the length of the vector.
const ROUNDING: f32 = 1.0 / 1024.0;
/// A further allowed difference of two coordinates, as a share of the point's largest coordinate. It covers coordinates
/// so small that float16 holds them with fewer digits.
const TINY: f32 = 1.0 / (1 << 20) as f32;
/// The smallest number of coordinates that must agree if two points are to be the same.
const MIN_AGREEING: usize = 16;
/// Two coordinates count as agreeing only if their allowed difference is at most this share of the larger of them.
const AGREEMENT: f32 = 1.0 / 32.0;

impl<'a> PointLookup<'a> {
    /// Creates the table of `points`, which `normalizer` has normalised.
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

    /// Returns the rows in this table of the points that are the same as row `row` of `points`, rounding to float16
    /// aside.
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

    /// Returns whether two points differ in no coordinate by more than rounding to float16 explains, and enough
    /// coordinates agree. `tiny` is a further allowed difference of every coordinate.
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

/// Returns the bits of the coordinates of the point at `row`.
fn bits(matrix: &Matrix, row: usize) -> &[u32] {
    bytemuck::cast_slice(matrix.row(row))
}

/// Returns a 64-bit hash of the coordinates of every point.
pub(super) fn hashes(points: &Matrix) -> Vec<u64> {
    (0..points.rows()).map(|row| bits_of(bits(points, row).iter().map(|&bits| u64::from(bits)))).collect()
}

/// A part of a model's points: those of the fit, or those of the calibration.
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
    /// Counts the calibration points `data` that took part in the fit, or are copies of points that did. `points` holds
    /// their normalised coordinates.
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

/// Counts of calibration points, from which the share of new labels is estimated.
///
/// Each calibration point is left out in turn, and plays the part of a new point. Its label is new if neither the fit
/// points nor the other calibration points have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewLabelShare {
    points: usize,
    /// The number of points whose label no fit point and no other calibration point has.
    single: usize,
    /// The number of points whose label no fit point and exactly one other calibration point has.
    paired: usize,
}

impl NewLabelShare {
    /// Counts calibration points by their `labels`, which are below `classes`. `fitted` holds the labels of the fit
    /// points, which are not new.
    pub(crate) fn new(labels: &[u32], fitted: &[u32], classes: usize) -> Self {
        let mut counts = counts_of(labels, classes);
        for &label in fitted {
            counts[label as usize] = usize::MAX; // not new, however few calibration points have it
        }
        let with = |count: usize| labels.iter().filter(|&&label| counts[label as usize] == count).count();
        Self { points: labels.len(), single: with(1), paired: with(2) }
    }

    /// Returns whether the counts are possible, as they may not be in a damaged file.
    pub(crate) fn is_valid(&self) -> bool {
        self.single.checked_add(self.paired).is_some_and(|counted| counted <= self.points)
    }

    /// Returns the estimated share of new points whose label no fit point and no calibration point has.
    pub(crate) fn share(&self) -> f64 {
        self.single as f64 / self.points.max(1) as f64
    }

    /// Returns the standard error of the estimated share. Two points with one label are not independent, which
    /// increases the error.
    pub(crate) fn standard_error(&self) -> f64 {
        let n = self.points.max(1) as f64;
        let variance = (self.single + self.paired) as f64 - (self.single as f64).powi(2) / n;
        variance.max(0.0).sqrt() / n
    }
}

/// Returns the estimated share of new points whose label is not among `labels`, and the standard error of this
/// estimate. Labels are below `classes`. The estimate is the share of points whose label no other point has.
pub fn new_label_share(labels: &[u32], classes: usize) -> (f64, f64) {
    let counts = NewLabelShare::new(labels, &[], classes);
    (counts.share(), counts.standard_error())
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

    /// For tests: returns, for each row of `others`, the rows of `points` that are the same point. Both are normalised
    /// in the way `how`.
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

    #[test]
    fn counts_labels_that_one_point_has() {
        // The fit has 0 and 4. Calibration has 1 once, 2 twice, 3 three times, 4 once.
        let found = NewLabelShare::new(&[0, 1, 2, 2, 3, 3, 3, 4], &[0, 4, 4, 5], 6);
        assert_eq!(found, NewLabelShare { points: 8, single: 1, paired: 2 });
        assert_eq!(found.share(), 0.125);
        // (N1 + 2·N2)/n² - N1²/n³ with N1 = 1 and N2 = 1 label.
        assert!((found.standard_error() - (3.0f64 - 1.0 / 8.0).sqrt() / 8.0).abs() < 1e-12);
        assert_eq!(NewLabelShare::new(&[], &[1], 2).share(), 0.0);
    }

    /// Tests that new draws from a law of labels carry a new label as often as estimated.
    #[test]
    fn estimates_the_share_of_new_labels() {
        let mut random = crate::numeric::random::Random::new(5, 1);
        let weights: Vec<f64> = (1..=200).map(|rank| 1.0 / f64::from(rank)).collect();
        let total: f64 = weights.iter().sum();
        let mut draw = || {
            let mut left = random.uniform() * total;
            weights
                .iter()
                .position(|weight| {
                    left -= weight;
                    left < 0.0
                })
                .unwrap_or(199) as u32
        };
        let (mut errors, mut scaled) = (0.0, 0.0);
        let rounds = 400;
        for _ in 0..rounds {
            let fit: Vec<u32> = (0..60).map(|_| draw()).collect();
            let calibration: Vec<u32> = (0..60).map(|_| draw()).collect();
            let found = NewLabelShare::new(&calibration, &fit, 200);
            let new: f64 = (0..200u32)
                .filter(|label| !fit.contains(label) && !calibration.contains(label))
                .map(|label| weights[label as usize] / total)
                .sum();
            errors += found.share() - new;
            scaled += ((found.share() - new) / found.standard_error().max(1e-3)).powi(2);
        }
        // The estimate is unbiased (but for one point in 60), and scaled errors have a standard deviation near 1.
        assert!((errors / f64::from(rounds)).abs() < 0.01, "{}", errors / f64::from(rounds));
        let spread = (scaled / f64::from(rounds)).sqrt();
        assert!((0.7..1.3).contains(&spread), "{spread}");
    }
}
