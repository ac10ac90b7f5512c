//! Maps of the experts: from points to the spaces where experts compare them, from outputs of a regression to log
//! posteriors (the link function), and from log posteriors to scores.
//!
//! ## Spaces
//!
//! The spaces in which experts compare points.
//!
//! The embeddings of an encoder share a large common vector that carries no information on their labels. The raw space
//! therefore holds directions from the mean μ of the fit points, `(x-μ)/|x-μ|` for a point x. The whitened space is a
//! linear map of the raw space. If embeddings are not normalised to length 1, their lengths may carry information. Then
//! both spaces use the points themselves. The learned space always uses the points themselves, because its metric was
//! learned on them. Only fit points determine μ, so it does not change when a query is added.
//!
//! ## Link function
//!
//! The link function of kernel ridge regression. It maps an output f to the log posterior `g(f) = ln ln(1 + exp(f/s))`,
//! where s is the softness.
//!
//! The outputs of a regression on one-hot labels approximate probabilities. For f well above 0, g is close to the
//! logarithm of f/s. For f below 0, g is close to f/s itself.
//!
//! The link g is increasing and concave. A change δ of an output changes its log posterior by at most `g'(f)·δ`, and by
//! at least `g'(f)·δ - C·δ²/2`, where C is the largest -g'' between the two outputs.

use crate::context::Context;
use crate::kernel::{exp, ln};
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch};
use crate::posterior::settings::Space;
use crate::posterior::whitening::packed_columns;
use pulp::{Arch, Simd, WithSimd};
use std::iter::zip;

/// The logarithm of the smallest probability that counts in a score, relative to the largest probability. Less probable
/// labels are left out.
pub(super) const NEGLIGIBLE: f64 = -40.0;

/// The distance to the mean below which a point gets the direction 0, because f32 does not determine its direction.
/// Normalised points have length 1.
const NEAR: f64 = 1e-6;

/// The mean of the fit points, from which directions of points are taken. With `None`, points remain as they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Center(Option<Vec<f64>>);

impl Center {
    /// Creates the center: the mean of `points` if `centred` is true, otherwise `None`.
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

    /// Returns the unit vectors from the mean to the points; a point at the mean becomes 0. Without a mean, returns the
    /// points unchanged.
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

/// The maps from normalised points to the three spaces in which experts compare points.
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

    /// Returns normalised points, mapped to every space that an expert uses.
    pub(super) fn map(&self, points: &Matrix, context: &Context<'_>) -> MappedPoints {
        let points = Matrix::<f64>::from_f32(points);
        let learned = points.times(&self.root, context);
        let raw = self.center.directions(points);
        let white = self.whitening.as_ref().map(|map| raw.times(map, context)).unwrap_or_default();
        MappedPoints { raw, white, learned }
    }
}

/// Points in the raw, the whitened and the learned space, one row per point. A space that no expert uses may be empty.
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

/// The largest number of matrix rows in a parallel task.
const TILE: usize = 48;

impl Matrix<f64> {
    /// Creates a matrix with the entries `value(row, column)`.
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

    /// Returns the transposed matrix.
    pub(crate) fn transposed(&self) -> Self {
        Self::from_fn(self.cols(), self.rows(), |row, column| self.row(column)[row])
    }

    /// Returns the squared Euclidean norm of every row.
    pub(crate) fn norms(&self) -> Vec<f64> {
        (0..self.rows()).map(|row| dot(self.row(row), self.row(row))).collect()
    }

    /// Packs the rows for [`times`](Self::times), as the columns of its right factor. The product then holds inner
    /// products with these rows.
    pub(crate) fn packed(&self, context: &Context<'_>) -> Packed<f64> {
        Packed::new(self.cols(), self.rows(), |depth, column| self.row(column)[depth], context)
    }

    /// Returns the matrix product `self · right`, computed in parallel. A row of the product is the same to the last
    /// bit, whatever the other rows of `self` are.
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

/// Returns the inner product of two slices. The terms are summed in the same order as in products of packed matrices.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    Arch::new().dispatch(Dot { a, b })
}

/// The two slices of an inner product. They are a type instead of a closure, so that the computation is inlined; see
/// [`squared_distance`](crate::neighbors::squared_distance).
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

/// Points to which distances are computed, packed for matrix products, with their squared norms.
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

    /// Returns the squared distances of all `points` to all targets: one row per point, one column per target.
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

/// An upper bound on -h'' for `h(t) = ln ln(1 + exp t)`. The maximum of -h'' is 0.1671, at t = 0.495.
const CURVATURE: f64 = 0.1675;
/// The limit for t below which `h(t) = ln ln(1 + exp t)` equals t, up to a few units in the last place.
const STRAIGHT: f64 = -30.0;

/// The link function `g(f) = ln ln(1 + exp(f/s))` of the [module](self). It maps an output f of kernel ridge regression
/// to a log posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// The softness s, by which outputs are divided. It is above 0.
    softness: f64,
}

impl Link {
    pub(super) fn new(softness: f64) -> Self {
        Self { softness }
    }

    /// Returns the log posterior `g(output)`, where g is the link function.
    pub(super) fn apply(self, output: f64) -> f64 {
        let t = output / self.softness;
        if t < STRAIGHT { t } else { softplus(t).ln() }
    }

    /// Returns the slope `g'(output)` of the link function g, which falls as the output grows.
    pub(super) fn slope(self, output: f64) -> f64 {
        let t = output / self.softness;
        let slope = if t < STRAIGHT { 1.0 } else { 1.0 / ((1.0 + (-t).exp()) * softplus(t)) };
        slope / self.softness
    }

    /// Returns the least upper bound on the slope g' of the link function g over all outputs.
    pub(super) fn max_slope(self) -> f64 {
        1.0 / self.softness
    }

    /// Returns an upper bound on -g'' for all outputs above `least`, where g'' is the second derivative of the link
    /// function g.
    pub(super) fn curvature(self, least: f64) -> f64 {
        // For t > 0, -h''(t) is also below 1/t².
        let everywhere = CURVATURE / (self.softness * self.softness);
        if least > 0.0 { everywhere.min(1.0 / (least * least)) } else { everywhere }
    }

    /// Adds `weight` times a change of the log posterior to every entry of `sums`. The log posterior changes because
    /// the output in `from` grows by the number in `by`. Returns the scale of the rounding error, as
    /// [`Predictions::add_gains`](crate::posterior::expert::Predictions::add_gains) does.
    pub(super) fn add_gains(self, from: &[f32], by: &[f32], weight: f64, sums: &mut [f32]) -> f64 {
        let (inverse, weight) = ((1.0 / self.softness) as f32, weight as f32);
        let mut largest = 0.0f32;
        let most = &mut largest;
        Arch::new().dispatch(
            // `zip` moves `sums` into the closure: a closure that can be called twice is not inlined or vectorised.
            #[inline(always)]
            move || {
                for (sum, (from, by)) in zip(sums, zip(from, by)) {
                    let [low, high] = [from * inverse, (from + by) * inverse];
                    *most = most.max(low.abs()).max(high.abs());
                    *sum += weight * (link_f32(high) - link_f32(low));
                }
            },
        );
        8.0 + 2.0 * f64::from(largest)
    }
}

/// Statistics of one calibration point's regression outputs. There is an output b for every label, and the link
/// function g maps it to a log posterior.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputStats {
    /// The mean of `g'(b)·b` over the outputs b of all labels but the point's own, weighted by probability. Here g' is
    /// the slope of the link function g.
    pub(super) mean: f64,
    /// The range of `g'(b)·b`, its largest less its least value, over the outputs b of all labels but the point's own.
    /// Here g' is the slope of the link function g.
    pub(super) range: f64,
    /// The largest slope `g'(b)` of the link function g, over the outputs b of all labels but the point's own.
    pub(super) slope: f64,
    /// The largest absolute output of a label, over all labels but the point's own.
    pub(super) largest: f64,
    /// The slope `g'(b)` of the link function g at the output b of the point's own label.
    pub(super) own_slope: f64,
}

impl OutputStats {
    /// Computes the statistics of a point with the label `own` from its `outputs`, one per label. `log_posterior` holds
    /// the stack's log posteriors of the point. `total` is the logarithm of the sum of their exponentials over all
    /// labels but `own`.
    pub(super) fn new(outputs: &[f64], own: usize, log_posterior: &[f64], total: f64, link: Link) -> Self {
        let (mut mean, mut least, mut most) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        let (mut slope, mut largest) = (0.0f64, 0.0f64);
        for (label, (&output, value)) in zip(outputs, log_posterior).enumerate() {
            if label == own {
                continue;
            }
            let sloping = link.slope(output) * output;
            mean += (value - total).exp() * sloping;
            [least, most] = [least.min(sloping), most.max(sloping)];
            slope = slope.max(link.slope(output));
            largest = largest.max(output.abs());
        }
        Self { mean, range: (most - least).max(0.0), slope, largest, own_slope: link.slope(outputs[own]) }
    }
}

/// Returns the logarithm of the sum of `exp(value)` over all `values`.
pub(crate) fn log_sum(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + values.iter().map(|value| (value - most).exp()).sum::<f64>().ln()
}

/// Returns `ln(1 + exp t)`.
pub(super) fn softplus(t: f64) -> f64 {
    t.max(0.0) + (-t.abs()).exp().ln_1p()
}

/// Returns `h(t) = ln ln(1 + exp t)`, the link function with softness 1, in f32. The error is a few units in the last
/// place.
#[inline(always)]
fn link_f32(t: f32) -> f32 {
    let far = exp(-t.abs().min(60.0));
    // A series gives ln ln(1 + x) for small x = exp(-|t|), because 1 + x loses the digits of x.
    let below = far.mul_add(far.mul_add(5.0 / 24.0, -0.5), t);
    let above = ln(t.max(0.0) + ln(1.0 + far));
    if t < -4.0 { below } else { above }
}

/// Returns the logarithm of the sum of `exp(value)` over all entries of `row` but the one at `own`. Entries that are
/// negligible beside the largest are left out.
fn log_sum_without(row: &mut [f64], own: usize) -> f64 {
    let kept = std::mem::replace(&mut row[own], f64::NEG_INFINITY);
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = most + NEGLIGIBLE;
    let sum: f64 = row.iter().filter(|value| **value > least).map(|value| (value - most).exp()).sum();
    row[own] = kept;
    if most == f64::NEG_INFINITY { most } else { most + sum.ln() }
}

/// Returns the score `-ln p(label)` of a label. `row` holds unnormalised log posteriors, one per label.
pub(super) fn score(row: &mut [f64], label: usize) -> f64 {
    softplus(log_sum_without(row, label) - row[label])
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

#[cfg(test)]
mod link_tests {
    use super::*;

    #[test]
    fn bounds_hold_on_a_grid() {
        let link = Link::new(0.05);
        for step in -4000..4000 {
            let (output, h) = (f64::from(step) * 5e-4, 1e-4);
            let [before, here, after] = [-h, 0.0, h].map(|by| link.apply(output + by));
            let slope = (after - before) / (2.0 * h);
            assert!((slope / link.slope(output) - 1.0).abs() < 1e-5, "{output}: {slope} {}", link.slope(output));
            assert!(link.slope(output) <= link.max_slope() && link.slope(output) > 0.0);
            let bend = (2.0 * here - before - after) / (h * h);
            assert!(bend > -1e-4 && bend < link.curvature(output - h) + 1e-6, "{output}: {bend}");
        }
        // The outputs of these cases are compared with the formula, whose rounding is harmless for them.
        for output in [-0.2f64, -0.01, 0.0, 0.03, 0.4, 1.0] {
            let expected = (1.0 + (output / 0.05).exp()).ln().ln();
            assert!((link.apply(output) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn gains_in_f32_are_near_the_formula() {
        let link = Link::new(0.05);
        let from: Vec<f32> = (0..3000).map(|at| at as f32 * 1e-3 - 1.5).collect();
        for by in [-0.3f32, -1e-3, 0.0, 2e-5, 0.04, 0.7] {
            let mut sums = vec![1.0f32; from.len()];
            let magnitude = link.add_gains(&from, &vec![by; from.len()], 2.0, &mut sums);
            for (sum, &from) in sums.iter().zip(&from) {
                let (from, by) = (f64::from(from), f64::from(by));
                let expected = 1.0 + 2.0 * (link.apply(from + by) - link.apply(from));
                let room = 2.0 * 1e-6 * magnitude + 4e-6;
                assert!((f64::from(*sum) - expected).abs() < room, "{from} {by}: {sum} {expected}");
            }
        }
    }
}
