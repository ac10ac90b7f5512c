//! **Kernel ridge** regression on N points, the fit points and n calibration points, with leave-one-out outputs of the
//! calibration points for c classes.
//!
//! Let K be the kernel matrix of all points, ρ the ridge, Y the one-hot labels and `e_l` the one-hot row of label l.
//! With B = (K+ρI)⁻¹, the output at point i without point i is `Y_i - (BY)_i / B_ii`. Let a query q have the label l
//! and the kernel column k: its kernel values with all points. With `v = Bk`, `σ = K(q,q)+ρ - kᵀv` and `f = kᵀBY`,
//! adding the query changes this output to `Y_i - [(BY)_i + v_i(f - e_l)/σ] / [B_ii + v_i²/σ]`. The query's own
//! output is f.
//!
//! This takes N² numbers, and 2N² operations per query. Beyond 2,048 points, m landmarks among the fit points span the
//! kernel instead: `K ≈ ΦΦᵀ` with the features `Φ = K_Nm L⁻ᵀ`. `K_Nm` holds the kernel values of all points with the
//! landmarks, `K_mm` those of the landmarks, and `LLᵀ = K_mm` is a Cholesky factorisation. Then `B = (I - ΦAΦᵀ)/ρ` with
//! `A = (ΦᵀΦ+ρI)⁻¹`. A query with the features φ has `v = ΦAφ` and `σ = ρ(1 + φᵀAφ)`. These are products with the
//! query's m kernel values `k_m(q)`: 2m(n+m+c) operations.
//!
//! A [link](crate::posterior::maps) maps outputs to log posteriors.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::numeric::random::Random;
use crate::posterior::bounds::PAIRS;
use crate::posterior::expert::{Expert, Predictions, Shifts, TrainingSet};
use crate::posterior::maps::Link;
use crate::posterior::maps::{MappedPoints, Targets, dot};
use crate::posterior::settings::Space;

/// The largest number of points for which the whole kernel matrix is inverted. Beyond, landmarks span the kernel.
pub(super) const WHOLE: usize = 2048;
/// The number of landmarks: points that span the kernel if there are more than [`WHOLE`] points.
pub(super) const LANDMARKS: usize = 1024;
/// The number that is added to the diagonal of the landmarks' kernel matrix. Without it, two equal landmarks would make
/// the matrix singular.
const JITTER: f64 = 1e-8;
/// The tag of the random stream that draws landmarks.
const LANDMARK_STREAM: u64 = 0x1a4d;

/// The settings of a kernel ridge regression, without its weight in the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RidgeSettings {
    pub(super) space: Space,
    pub(super) kernel: Kernel,
    pub(super) ridge: f64,
    pub(super) link: Link,
}

/// The largest fall of an output up to which the slope in [`OutputEnds`] remains an upper bound.
const FALL: f64 = 0.02;

/// A trained kernel ridge regression; the [module](self) has the formulas and symbols.
#[derive(Clone, Debug)]
pub(super) struct Ridge {
    settings: RidgeSettings,
    /// The points whose kernel values with a query make up its kernel column: all points, or the landmarks.
    centers: Targets,
    /// The matrix by which a query's kernel column k is multiplied, in the symbols of the [module](self). The product
    /// holds `v = Bk` at the calibration points, from index `bag_columns` on, and `Qk`, from index `own_columns` on.
    /// Without landmarks Q is B, and with landmarks `L⁻ᵀAL⁻¹`.
    influence: Packed<f64>,
    bag_columns: usize,
    own_columns: usize,
    /// The constant term in `σ = base + sign·kᵀQk`, in the symbols of the [module](self) and of `influence`.
    base: f64,
    sign: f64,
    /// The matrix by which a query's kernel column is multiplied to get its outputs, one per class.
    to_outputs: Packed<f64>,
    /// For every calibration point i, the entry `B_ii` of the matrix B = (K+ρI)⁻¹, with the kernel matrix K and the
    /// ridge ρ.
    diagonal: Vec<f64>,
    labels: Vec<u32>,
    /// Outputs of the calibration points, predicted for each point by all training points but itself.
    outputs: Matrix<f64>,
    /// Log posteriors of the calibration points: `outputs`, mapped by the link function.
    bag: Matrix<f64>,
    /// Bounds on the outputs of every calibration point and on the slope of the link function.
    ends: Vec<OutputEnds>,
}

/// Bounds for one calibration point, over all labels but the point's own.
#[derive(Clone, Copy, Debug)]
struct OutputEnds {
    /// The largest absolute output, over the outputs for all labels but the point's own.
    largest: f64,
    /// The largest slope of the link function, over the outputs for all labels but the point's own. It remains an upper
    /// bound as long as no output falls by more than [`FALL`].
    slope: f64,
}

impl Ridge {
    /// Trains the regression on all points of `training`. `whole` is the largest number of points for which no
    /// landmarks are used, and `seed` draws the landmarks.
    pub(super) fn open(
        training: &TrainingSet<'_>,
        settings: RidgeSettings,
        (whole, seed): (usize, u64),
        context: &Context<'_>,
    ) -> Result<Self> {
        let points = training.points.get(settings.space);
        let mut opened = if points.rows() <= whole || training.fit == 0 {
            Self::whole(training, settings, points, context)?
        } else {
            let mut rows: Vec<usize> = (0..training.fit).collect();
            Random::new(seed, LANDMARK_STREAM).shuffle(&mut rows);
            rows.truncate(LANDMARKS);
            rows.sort_unstable();
            Self::spanned(training, settings, points, &points.select(&rows), context)?
        };
        opened.link_outputs();
        Ok(opened)
    }

    /// Maps the outputs of the calibration points to log posteriors, and computes bounds on the outputs.
    fn link_outputs(&mut self) {
        let link = self.settings.link;
        let mut bag = self.outputs.clone();
        bag.as_mut_slice().iter_mut().for_each(|output| *output = link.apply(*output));
        let ends = |(row, &own): (usize, &u32)| {
            let others = || self.outputs.row(row).iter().enumerate().filter(|&(label, _)| label != own as usize);
            let least = others().map(|(_, &output)| output).fold(f64::INFINITY, f64::min);
            let largest = others().map(|(_, output)| output.abs()).fold(0.0, f64::max);
            OutputEnds { largest, slope: link.slope(least - FALL) }
        };
        self.ends = self.labels.iter().enumerate().map(ends).collect();
        self.bag = bag;
    }

    /// Trains without landmarks: inverts the kernel matrix of all points.
    fn whole(
        training: &TrainingSet<'_>,
        settings: RidgeSettings,
        points: &Matrix<f64>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let (n, fit) = (points.rows(), training.fit);
        let centers = Targets::new(points, context);
        let mut matrix = kernel_of(settings.kernel, centers.squared(points, context), context);
        for row in 0..n {
            matrix.row_mut(row)[row] += settings.ridge;
        }
        let inverse = context.run(|| linalg::inverse(matrix.as_mut_slice(), n)).map_err(singular)?;
        let inverse = |row: usize, column: usize| inverse[row * n + column];
        // The product BY, one row per point.
        let mut by = Matrix::<f64>::zeros(n, training.classes);
        for row in 0..n {
            for (column, &label) in training.labels.iter().enumerate() {
                by.row_mut(row)[label as usize] += inverse(row, column);
            }
        }
        let diagonal: Vec<f64> = (fit..n).map(|row| inverse(row, row)).collect();
        let labels = training.bag_labels().to_vec();
        let mut outputs = Matrix::<f64>::zeros(n - fit, training.classes);
        for (at, &label) in labels.iter().enumerate() {
            for (out, &by) in outputs.row_mut(at).iter_mut().zip(by.row(fit + at)) {
                *out = -by / diagonal[at];
            }
            outputs.row_mut(at)[label as usize] += 1.0;
        }
        Ok(Self {
            settings,
            influence: Packed::new(n, n, inverse, context),
            bag_columns: fit,
            own_columns: 0,
            base: 1.0 + settings.ridge,
            sign: -1.0,
            to_outputs: Packed::new(n, training.classes, |depth, class| by.row(depth)[class], context),
            centers,
            diagonal,
            labels,
            outputs,
            bag: Matrix::<f64>::default(),
            ends: Vec::new(),
        })
    }

    /// Trains with landmarks: the kernel columns of the landmarks span the kernel matrix of all points.
    fn spanned(
        training: &TrainingSet<'_>,
        settings: RidgeSettings,
        points: &Matrix<f64>,
        landmarks: &Matrix<f64>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let (m, n, ridge) = (landmarks.rows(), points.rows(), settings.ridge);
        // The Cholesky factor L of the landmarks' kernel matrix.
        let centers = Targets::new(landmarks, context);
        let mut factor = kernel_of(settings.kernel, centers.squared(landmarks, context), context);
        for row in 0..m {
            factor.row_mut(row)[row] += JITTER;
        }
        context.run(|| linalg::cholesky(factor.as_mut_slice(), m)).map_err(singular)?;
        // The features Φ = K_Nm L⁻ᵀ, one row per point.
        let mut features = kernel_of(settings.kernel, centers.squared(points, context), context);
        context.run(|| linalg::solve_rows(factor.as_slice(), m, features.as_mut_slice(), false));
        let mut gram = Matrix::<f64>::zeros(m, m);
        context.run(|| {
            let phi = linalg::row_major(features.as_slice(), n, m);
            linalg::product(linalg::row_major_mut(gram.as_mut_slice(), m, m), phi.transpose(), phi);
        });
        for row in 0..m {
            gram.row_mut(row)[row] += ridge;
        }
        let inverse = context.run(|| linalg::inverse(gram.as_mut_slice(), m)).map_err(singular)?;
        // The product ΦA, one row per point, and the coefficients AΦᵀY.
        let mut solved = Matrix::<f64>::zeros(n, m);
        context.run(|| {
            linalg::product(
                linalg::row_major_mut(solved.as_mut_slice(), n, m),
                linalg::row_major(features.as_slice(), n, m),
                linalg::row_major(&inverse, m, m),
            );
        });
        let mut coefficients = Matrix::<f64>::zeros(training.classes, m);
        for (row, &label) in training.labels.iter().enumerate() {
            for (sum, &value) in coefficients.row_mut(label as usize).iter_mut().zip(solved.row(row)) {
                *sum += value;
            }
        }
        // The leverages φᵀAφ of the calibration points give their leave-one-out outputs.
        let labels = training.bag_labels().to_vec();
        let own: Vec<usize> = (training.fit..n).collect();
        let mut outputs = features.select(&own).times(&coefficients.packed(context), context);
        let mut diagonal = Vec::with_capacity(labels.len());
        for (at, &label) in labels.iter().enumerate() {
            let row = training.fit + at;
            let rest = (1.0 - dot(solved.row(row), features.row(row))).max(1e-12);
            diagonal.push(rest / ridge);
            for (class, out) in outputs.row_mut(at).iter_mut().enumerate() {
                let target = f64::from(u8::from(class == label as usize));
                *out = target - (target - *out) / rest;
            }
        }
        // Queries are given as kernel columns with the landmarks, so L⁻¹ is multiplied into the matrices that multiply
        // them.
        let mut influence = solved.select(&own);
        let mut quadratic = Matrix::<f64>::zeros(m, m);
        quadratic.as_mut_slice().copy_from_slice(&inverse);
        context.run(|| {
            for rows in [&mut influence, &mut coefficients, &mut quadratic] {
                linalg::solve_rows(factor.as_slice(), m, rows.as_mut_slice(), true);
            }
        });
        // The matrix A is symmetric, so a transpose and a second solution give L⁻ᵀAL⁻¹.
        let mut quadratic = quadratic.transposed();
        context.run(|| linalg::solve_rows(factor.as_slice(), m, quadratic.as_mut_slice(), true));
        let bag_points = influence.rows();
        let influence = influence.concat(&quadratic);
        Ok(Self {
            settings,
            influence: influence.packed(context),
            bag_columns: 0,
            own_columns: bag_points,
            base: ridge,
            sign: ridge,
            to_outputs: coefficients.packed(context),
            centers,
            diagonal,
            labels,
            outputs,
            bag: Matrix::<f64>::default(),
            ends: Vec::new(),
        })
    }
}

fn singular(row: usize) -> Error {
    Error::Data(format!(
        "the kernel matrix is singular at point {row}; it needs a larger ridge, or the points hold NaN"
    ))
}

/// Returns the kernel values at the squared distances in `squared`.
fn kernel_of(kernel: Kernel, mut squared: Matrix<f64>, context: &Context<'_>) -> Matrix<f64> {
    use rayon::prelude::*;
    let width = squared.cols().max(1);
    context.run(|| {
        squared.as_mut_slice().par_chunks_mut(width).for_each(|row| {
            for value in row {
                *value = kernel.value(*value);
            }
        });
    });
    squared
}

impl Expert for Ridge {
    fn bag(&self) -> &Matrix<f64> {
        &self.bag
    }

    fn outputs(&self) -> Option<(&Matrix<f64>, Link)> {
        Some((&self.outputs, self.settings.link))
    }

    fn predict<'a>(&'a self, block: &MappedPoints, context: &Context<'_>) -> Box<dyn Predictions + 'a> {
        let queries = block.get(self.settings.space);
        let columns = kernel_of(self.settings.kernel, self.centers.squared(queries, context), context);
        let outputs = columns.times(&self.to_outputs, context);
        let influence = columns.times(&self.influence, context);
        let (bag, centers) = (self.labels.len(), self.centers.len());
        // The coefficients of the changes in the calibration points' outputs, for every query.
        let mut joined = Matrix::<f64>::zeros(queries.rows(), bag);
        let mut shrunk = Matrix::<f64>::zeros(queries.rows(), bag);
        for query in 0..queries.rows() {
            let found = influence.row(query);
            let quadratic = dot(columns.row(query), &found[self.own_columns..][..centers]);
            let rest = (self.base + self.sign * quadratic).max(1e-12);
            let each = joined.row_mut(query).iter_mut().zip(shrunk.row_mut(query));
            for ((joined, shrunk), (&v, &own)) in each.zip(found[self.bag_columns..][..bag].iter().zip(&self.diagonal))
            {
                let after = own + v * v / rest;
                *joined = v / (rest * after);
                *shrunk = -(v * v / rest) / after;
            }
        }
        let mut log_posterior = outputs.clone();
        log_posterior.as_mut_slice().iter_mut().for_each(|output| *output = self.settings.link.apply(*output));
        Box::new(RidgePredictions { of: self, outputs, log_posterior, joined, shrunk })
    }
}

/// The predictions of [`Ridge`] for a block of queries.
struct RidgePredictions<'a> {
    of: &'a Ridge,
    /// The outputs f of the queries: one row per query, one column per class.
    outputs: Matrix<f64>,
    /// The log posteriors of the queries: `outputs`, mapped by the link function.
    log_posterior: Matrix<f64>,
    /// The rise of every calibration point's output for the label that the query carries. It comes in addition to the
    /// changes for all labels. In the symbols of the [module](self) it is `v/(σ·(B_ii + v²/σ))`. One row per query.
    joined: Matrix<f64>,
    /// The relative change of every calibration point's residuals (output less one-hot label) when the query is added.
    /// In the symbols of the [module](self) it is `B_ii/(B_ii + v²/σ) - 1`. One row per query.
    shrunk: Matrix<f64>,
}

impl RidgePredictions<'_> {
    /// Returns a calibration point's output for `label` after the query is added, if the query carries another label.
    /// If the query carries `label`, the output is higher by the rise in `joined`, which is left out here.
    fn after(&self, query: usize, point: usize, label: usize) -> f64 {
        let (shrunk, joined) = (self.shrunk.row(query)[point], self.joined.row(query)[point]);
        let target = f64::from(u8::from(label == self.of.labels[point] as usize));
        let before = self.of.outputs.row(point)[label];
        before + shrunk * (before - target) - joined * self.outputs.row(query)[label]
    }
}

impl Predictions for RidgePredictions<'_> {
    fn log_posterior(&self, query: usize) -> &[f64] {
        self.log_posterior.row(query)
    }

    fn add_shift(&self, query: usize, point: usize, weight: f64, row: &mut [f64]) {
        let (link, before) = (self.of.settings.link, self.of.bag.row(point));
        for (label, (row, &before)) in row.iter_mut().zip(before).enumerate() {
            *row += weight * (link.apply(self.after(query, point, label)) - before);
        }
    }

    fn shifts(&self, query: usize) -> Option<Shifts<'_>> {
        let (shrunk, joined) = (self.shrunk.row(query), self.joined.row(query));
        Some(Shifts { outputs: self.outputs.row(query), shrunk, joined })
    }

    fn gain(&self, query: usize, point: usize, label: usize) -> f64 {
        let (link, joined) = (self.of.settings.link, self.joined.row(query)[point]);
        let without = self.after(query, point, label);
        link.apply(without + joined) - link.apply(without)
    }

    fn add_gains(&self, (query, label): (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64 {
        let link = self.of.settings.link;
        let (shrunk, joined) = (self.shrunk.row(query), self.joined.row(query));
        let own = self.outputs.row(query)[label];
        let (mut from, mut by) = ([0.0; PAIRS], [0.0; PAIRS]);
        for ((from, by), &point) in from.iter_mut().zip(&mut by).zip(points) {
            let (shrunk, joined) = (shrunk[point as usize], joined[point as usize]);
            let before = self.of.outputs.row(point as usize)[label];
            *from = (before + shrunk * before - joined * own) as f32;
            *by = joined as f32;
        }
        link.add_gains(&from[..points.len()], &by[..points.len()], weight, sums)
    }

    fn add_gain_bounds(&self, query: usize, weight: f64, least: &mut [f64], most: &mut [f64]) {
        let steepest = self.of.settings.link.max_slope();
        let own = self.outputs.row(query).iter().map(|output| output.abs()).fold(0.0, f64::max);
        let changes = self.shrunk.row(query).iter().zip(self.joined.row(query));
        let each = least.iter_mut().zip(most).zip(&self.of.ends);
        for (((least, most), ends), (shrunk, &joined)) in each.zip(changes) {
            // The largest slope of the link between the output after the shift and the output with the gain.
            let fall = shrunk.abs() * ends.largest + joined.abs() * own + (-joined).max(0.0);
            let slope = if fall <= FALL { ends.slope } else { steepest };
            *(if joined > 0.0 { most } else { least }) += weight * slope * joined;
        }
    }
}
