//! The whitened space: a map, computed from the fit points, after which the scatter within classes is round.
//!
//! Let n points x in d dimensions belong to c classes, and let S be their pooled covariance within classes. The
//! whitening map W has `WWᵀ = ((1-γ)S + γ·tr(S)/d·I)⁻¹` with the shrinkage γ. If γ is not given, the log loss of
//! leave-one-out distances chooses it. The log posterior of a class with k points and mean μ is `D/k - ‖(x-μ)W‖²`. The
//! spread D is the mean squared distance of a new point to its class mean, and D/k corrects for the noise of a mean of
//! k points.
//!
//! Let f be the degrees of freedom of S, and `r_i` the residual of point i: its difference from the mean of its class
//! of k points. Without point i, S loses `k/(k-1)·r_i r_iᵀ/f`. A rank-one update of the inverse then gives all
//! distances of point i. In eigenvector coordinates (the basis of S's eigenvectors) γ only scales the coordinates. So
//! points and means are rotated once. Distances and residuals follow from products of points with means and of means
//! with each other.
//!
//! Cost: 10d³ operations for an eigendecomposition and 2nd² for a rotation, then 2ndc for every γ.

use crate::context::Context;
use crate::error::Result;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::posterior::expert::{Expert, Prototypes, TrainingSet};
use crate::posterior::maps::{MappedPoints, dot};
use crate::posterior::weights::ConditionalLogit;

/// Values that are compared for the shrinkage γ, by the log loss of leave-one-out distances.
const SHRINKAGES: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97];
/// The largest number of points on which the shrinkage γ is chosen. They are taken at equal steps from all points.
const VALIDATION_POINTS: usize = 2000;
/// Values that are compared for the shrinkage γ by cross-fitting.
const CROSS_FITTED_SHRINKAGES: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.85, 0.95];
/// Values of κ, the number of prior points in the class means of [`Prototypes`]. Every shrinkage is tried with both,
/// and the smaller log loss counts.
const PRIORS: [f64; 2] = [1.0, 4.0];
/// The largest number of fit points in each half when the shrinkage is cross-fitted: computed on one half, tested on
/// the other.
const HALF_POINTS: usize = 600;
/// The largest number d of dimensions for which a covariance is computed. For more, its d² numbers would not fit into
/// memory.
const MOST_DIMENSIONS: usize = 4096;

/// The whitening map W with its shrinkage and spread; the [module](self) has the formulas.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whitening {
    /// The map W, a d×d matrix for d dimensions.
    pub(super) map: Matrix,
    pub(super) shrinkage: f64,
    /// The spread D: the mean squared distance of a new point to its class mean, in the whitened space.
    pub(super) spread: f64,
}

impl Whitening {
    /// Computes the whitening map W from labelled points. Without a given shrinkage, the one with the least log loss is
    /// used.
    pub(super) fn new(
        points: &Matrix<f64>,
        labels: &[u32],
        classes: usize,
        shrinkage: Option<f64>,
        context: &Context<'_>,
    ) -> Self {
        let d = points.cols();
        let fit = Scatter::new(points, labels, classes, context);
        let (sample, labels) = fit.validation_points(points, labels, context);
        let shrinkage = shrinkage.unwrap_or_else(|| fit.choose(&sample, &labels, context));
        let LeftOut { spread, .. } = fit.leave_one_out(&sample, &labels, shrinkage, context);
        let scales: Vec<f64> = fit.weights(shrinkage).into_iter().map(f64::sqrt).collect();
        // The map is rounded to f32, as in the model file.
        let map: Vec<f32> = (0..d * d).map(|at| (fit.vectors.row(at / d)[at % d] * scales[at % d]) as f32).collect();
        Self { map: Matrix::new(map, d, d).unwrap_or_default(), shrinkage, spread }
    }
}

/// Returns the log posterior `D/k - ‖(x-μ)W‖²` of every point x for every class, in the symbols of the [module](self).
/// The map W, the class mean μ and its number k of points leave out x. The shrinkage and the spread D do not.
pub(crate) fn leave_one_out(
    points: &Matrix<f64>,
    labels: &[u32],
    classes: usize,
    context: &Context<'_>,
) -> Matrix<f64> {
    let fit = Scatter::new(points, labels, classes, context);
    let (sample, sample_labels) = fit.validation_points(points, labels, context);
    let shrinkage = fit.choose(&sample, &sample_labels, context);
    fit.leave_one_out(&fit.rotate(points, context), labels, shrinkage, context).log_posterior
}

/// Returns the shrinkage γ with the least log loss, by cross-fitting on two halves of the fit points. `halves` holds
/// two pairs of lists of rows. In each pair, the first rows give the covariance, and prototypes predict the second
/// rows.
///
/// Cost for n points in d dimensions and c classes: an eigendecomposition (10d³ operations) and a rotation of the
/// points for each half, then `2ndc` for every shrinkage and prior.
pub(super) fn shrinkage(
    points: &Matrix<f64>,
    labels: &[u32],
    classes: usize,
    halves: [[&[usize]; 2]; 2],
    context: &Context<'_>,
) -> Result<f64> {
    let tried: Vec<[f64; 2]> =
        CROSS_FITTED_SHRINKAGES.iter().flat_map(|&shrinkage| PRIORS.map(|prior| [shrinkage, prior])).collect();
    let (mut tables, mut truth) = (vec![Matrix::<f64>::default(); tried.len()], Vec::new());
    for half in halves {
        let [trained, held_out] = half.map(|rows| &rows[..rows.len().min(HALF_POINTS)]);
        let of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<u32>>();
        let scatter = Scatter::new(&points.select(trained), &of(trained), classes, context);
        let rows = [trained, held_out].concat();
        let (rotated, labels) = (scatter.rotate(&points.select(&rows), context), of(&rows));
        for (table, &[shrinkage, prior]) in tables.iter_mut().zip(&tried) {
            context.check()?;
            let points = MappedPoints { white: scatter.white(&rotated, shrinkage), ..MappedPoints::default() };
            let training = TrainingSet { points: &points, labels: &labels, fit: trained.len(), classes };
            let prototypes = Prototypes::open(&training, prior, context);
            *table = std::mem::take(table).concat(prototypes.bag());
        }
        truth.extend(of(held_out));
    }
    let loss = |table: &Matrix<f64>| ConditionalLogit { tables: vec![table], labels: &truth, context }.fit(&[0]).loss;
    let losses = tables.iter().map(loss).zip(&tried);
    Ok(losses.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(CROSS_FITTED_SHRINKAGES[0], |(_, &[shrinkage, _])| shrinkage))
}

/// Returns the eigenvalues and the eigenvectors (as columns) of the covariance within classes. It is `RᵀR/freedom`,
/// where the rows of R are `residuals`. Beyond [`MOST_DIMENSIONS`], a multiple of the identity replaces it.
fn eigen(residuals: &Matrix<f64>, freedom: f64, context: &Context<'_>) -> (Vec<f64>, Matrix<f64>) {
    let (n, d) = (residuals.rows(), residuals.cols());
    let mut vectors = Matrix::<f64>::zeros(d, d);
    if d <= MOST_DIMENSIONS {
        let mut covariance = Matrix::<f64>::zeros(d, d);
        let found = context.run(|| {
            let residuals = linalg::row_major(residuals.as_slice(), n, d);
            linalg::product(linalg::row_major_mut(covariance.as_mut_slice(), d, d), residuals.transpose(), residuals);
            covariance.as_mut_slice().iter_mut().for_each(|value| *value /= freedom);
            linalg::symmetric_eigen(linalg::row_major(covariance.as_slice(), d, d))
        });
        if let Some((values, found)) = found {
            for row in 0..d {
                for (column, value) in vectors.row_mut(row).iter_mut().enumerate() {
                    *value = found[(row, column)];
                }
            }
            return (values.iter().map(|&value| value.max(0.0)).collect(), vectors);
        }
    }
    for at in 0..d {
        vectors.row_mut(at)[at] = 1.0;
    }
    let mean = residuals.as_slice().iter().map(|value| value * value).sum::<f64>() / (freedom * d as f64);
    (vec![mean; d], vectors)
}

/// The class means, and the eigenvalues and eigenvectors of the covariance within classes. The means are in the
/// coordinates of the eigenvectors.
pub(super) struct Scatter {
    counts: Vec<f64>,
    means: Matrix<f64>,
    /// The class means, packed as the right factor of products with points.
    packed: Packed<f64>,
    /// The degrees of freedom of the covariance: the number by which sums of squares are divided.
    freedom: f64,
    /// The eigenvalues of the covariance.
    values: Vec<f64>,
    /// The eigenvectors of the covariance, as columns.
    vectors: Matrix<f64>,
}

/// Log posteriors of points, predicted for each point by all points but itself, and the spread of the points.
struct LeftOut {
    /// `D/k - ‖(x-μ)W‖²` for every point x and every class with mean μ of k points, with the whitening map W and the
    /// spread D.
    log_posterior: Matrix<f64>,
    /// The spread D: the mean squared distance of a new point to its class mean, in the whitened space.
    spread: f64,
}

impl Scatter {
    pub(super) fn new(points: &Matrix<f64>, labels: &[u32], classes: usize, context: &Context<'_>) -> Self {
        let mut means = Matrix::<f64>::zeros(classes, points.cols());
        let mut counts = vec![0.0; classes];
        for (row, &label) in labels.iter().enumerate() {
            counts[label as usize] += 1.0;
            means.row_mut(label as usize).iter_mut().zip(points.row(row)).for_each(|(sum, x)| *sum += x);
        }
        for (label, &count) in counts.iter().enumerate() {
            means.row_mut(label).iter_mut().for_each(|sum| *sum /= f64::max(count, 1.0));
        }
        let mut residuals = points.clone();
        for (row, &label) in labels.iter().enumerate() {
            residuals.row_mut(row).iter_mut().zip(means.row(label as usize)).for_each(|(x, mean)| *x -= mean);
        }
        // Each class mean takes one degree of freedom. Classes of one point have no residual.
        let freedom = counts.iter().map(|&count: &f64| (count - 1.0).max(0.0)).sum::<f64>().max(1.0);
        let (values, vectors) = eigen(&residuals, freedom, context);
        let means = means.times(&columns(&vectors, context), context);
        Self { counts, packed: means.packed(context), means, freedom, values, vectors }
    }

    /// Returns `points` in eigenvector coordinates: the coordinates in the basis of the covariance's eigenvectors.
    pub(super) fn rotate(&self, points: &Matrix<f64>, context: &Context<'_>) -> Matrix<f64> {
        points.times(&columns(&self.vectors, context), context)
    }

    /// Returns the points on which the shrinkage γ is chosen, in eigenvector coordinates, and the labels of these
    /// points.
    fn validation_points(
        &self,
        points: &Matrix<f64>,
        labels: &[u32],
        context: &Context<'_>,
    ) -> (Matrix<f64>, Vec<u32>) {
        let step = labels.len().div_ceil(VALIDATION_POINTS).max(1);
        let sample: Vec<usize> = (0..labels.len()).step_by(step).collect();
        let labels = sample.iter().map(|&row| labels[row]).collect();
        (self.rotate(&points.select(&sample), context), labels)
    }

    /// Returns the shrinkage γ with the least log loss on `points`, which are in eigenvector coordinates.
    fn choose(&self, points: &Matrix<f64>, labels: &[u32], context: &Context<'_>) -> f64 {
        let tries = SHRINKAGES.iter().map(|&shrinkage| {
            let log_posterior = self.leave_one_out(points, labels, shrinkage, context).log_posterior;
            let logit = ConditionalLogit { tables: vec![&log_posterior], labels, context };
            (logit.fit(&[0]).loss, shrinkage)
        });
        tries.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(1.0, |best| best.1)
    }

    /// Returns the weights of the squared eigenvector coordinates in distances. They are the eigenvalues of the inverse
    /// of the shrunk covariance.
    fn weights(&self, shrinkage: f64) -> Vec<f64> {
        let mean = self.values.iter().sum::<f64>() / self.values.len().max(1) as f64;
        let weight = |value: &f64| 1.0 / ((1.0 - shrinkage) * value + shrinkage * mean).max(1e-12);
        self.values.iter().map(weight).collect()
    }

    /// Maps points from eigenvector coordinates to the whitened space of a given shrinkage.
    pub(super) fn white(&self, rotated: &Matrix<f64>, shrinkage: f64) -> Matrix<f64> {
        let scales: Vec<f64> = self.weights(shrinkage).into_iter().map(f64::sqrt).collect();
        Matrix::<f64>::from_fn(rotated.rows(), rotated.cols(), |row, at| rotated.row(row)[at] * scales[at])
    }

    /// Returns the log posteriors of `points`, predicted for each point by all points but itself. The points are in
    /// eigenvector coordinates, and the class means include them.
    fn leave_one_out(&self, points: &Matrix<f64>, labels: &[u32], shrinkage: f64, context: &Context<'_>) -> LeftOut {
        let weights = self.weights(shrinkage);
        let weighted = |points: &Matrix<f64>| {
            let mut weighted = points.clone();
            for row in 0..weighted.rows() {
                weighted.row_mut(row).iter_mut().zip(&weights).for_each(|(value, weight)| *value *= weight);
            }
            weighted
        };
        // Weighted products of means with each other, and of points with means. Distances replace the latter below.
        let among = weighted(&self.means).times(&self.packed, context);
        let heavy = weighted(points);
        let mut log_posterior = heavy.times(&self.packed, context);
        let (mut spread, mut others) = (Mean::default(), Mean::default());
        for (row, &label) in labels.iter().enumerate() {
            let (own, norm) = (label as usize, dot(heavy.row(row), points.row(row)));
            let (count, with_own) = (self.counts[own], log_posterior.row(row)[own]);
            let length = (norm - 2.0 * with_own + among.row(own)[own]).max(0.0);
            // Leaving out the only point of a class does not change the covariance, because its residual is 0.
            let lost = if count > 1.0 { count / (count - 1.0) / self.freedom * (1.0 - shrinkage) } else { 0.0 };
            let rest = (1.0 - lost * length).max(1e-3);
            for (class, value) in log_posterior.row_mut(row).iter_mut().enumerate() {
                // The weighted product of the point's residual with its difference from the mean of `class`.
                let along = norm - with_own - *value + among.row(own)[class];
                *value = (norm - 2.0 * *value + among.row(class)[class]).max(0.0);
                if class != own && self.counts[class] > 0.0 {
                    *value += lost / rest * along.powi(2);
                    others.add(*value);
                }
            }
            if count > 1.0 {
                let alone = length + lost / rest * length * length;
                let far = count / (count - 1.0);
                spread.add(alone * far);
                log_posterior.row_mut(row)[own] = alone * far * far;
            }
        }
        // A class without points gets the mean distance of points to other classes.
        let (spread, empty_class) = (spread.get(), others.get());
        for (row, &label) in labels.iter().enumerate() {
            for (class, value) in log_posterior.row_mut(row).iter_mut().enumerate() {
                let others = self.counts[class] - f64::from(u8::from(class == label as usize));
                *value = if others > 0.0 { spread / others - *value } else { -empty_class };
            }
        }
        LeftOut { log_posterior, spread }
    }
}

fn columns(matrix: &Matrix<f64>, context: &Context<'_>) -> Packed<f64> {
    Packed::new(matrix.rows(), matrix.cols(), |depth, column| matrix.row(depth)[column], context)
}

/// Packs `matrix` as the right factor of matrix products, in f64.
pub(super) fn packed_columns(matrix: &Matrix, context: &Context<'_>) -> Packed<f64> {
    Packed::new(matrix.rows(), matrix.cols(), |depth, column| f64::from(matrix.row(depth)[column]), context)
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn get(&self) -> f64 {
        if self.count == 0.0 { 1.0 } else { self.sum / self.count }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::numeric::random::Random;
    use crate::posterior::tests::brute_force::solve;

    /// Returns the class means, and the sums of products of residuals, computed in plain loops. The point `without` is
    /// left out.
    fn scatter(
        points: &Matrix<f64>,
        labels: &[u32],
        classes: usize,
        without: Option<usize>,
    ) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let d = points.cols();
        let of =
            |class: usize| (0..labels.len()).filter(move |&row| labels[row] as usize == class && Some(row) != without);
        let mean = |class: usize| -> Vec<f64> {
            let count = of(class).count().max(1) as f64;
            (0..d).map(|at| of(class).map(|row| points.row(row)[at]).sum::<f64>() / count).collect()
        };
        let means: Vec<Vec<f64>> = (0..classes).map(mean).collect();
        let mut products = vec![vec![0.0; d]; d];
        for row in (0..labels.len()).filter(|&row| Some(row) != without) {
            let mean = &means[labels[row] as usize];
            let residual: Vec<f64> = points.row(row).iter().zip(mean).map(|(x, mean)| x - mean).collect();
            for (sums, one) in products.iter_mut().zip(&residual) {
                sums.iter_mut().zip(&residual).for_each(|(sum, other)| *sum += one * other);
            }
        }
        (means, products)
    }

    /// Leave-one-out distances equal those of a fit without the point. In that fit the covariance loses the point, but
    /// keeps its degrees of freedom and its trace.
    #[test]
    fn distances_are_those_of_a_fit_without_the_point() {
        let mut random = Random::new(5, 1);
        let (n, d, classes, shrinkage) = (40, 6, 5, 0.3);
        let mut points = Matrix::<f64>::zeros(n, d);
        points.as_mut_slice().iter_mut().for_each(|value| *value = random.normal() + 0.5);
        // One class has one point, and one has none.
        let labels: Vec<u32> = (0..n).map(|row| if row == 7 { 3 } else { random.below(3) as u32 }).collect();
        let context = Context::new(2).unwrap();
        let whitening = Whitening::new(&points, &labels, classes, Some(shrinkage), &context);
        let count = |class: usize| labels.iter().filter(|&&label| label as usize == class).count() as f64;
        let freedom: f64 = (0..classes).map(|class| (count(class) - 1.0).max(0.0)).sum();
        let (_, all) = scatter(&points, &labels, classes, None);
        let trace = (0..d).map(|at| all[at][at]).sum::<f64>() / freedom / d as f64;
        let (mut spread, mut empty_class, mut squares) = (Mean::default(), Mean::default(), Vec::new());
        for row in 0..n {
            let (means, mut shrunk) = scatter(&points, &labels, classes, Some(row));
            for (at, sums) in shrunk.iter_mut().enumerate() {
                for sum in sums.iter_mut() {
                    *sum *= (1.0 - shrinkage) / freedom;
                }
                sums[at] += shrinkage * trace;
            }
            for (class, mean) in means.iter().enumerate() {
                let step: Vec<f64> = points.row(row).iter().zip(mean).map(|(x, mean)| x - mean).collect();
                let square = dot(&step, &solve(shrunk.clone(), step.clone()));
                let own = class == labels[row] as usize;
                let others = count(class) - f64::from(u8::from(own));
                squares.push((others > 0.0).then_some((square, others)));
                if own && others > 0.0 {
                    // The factor (k-1)/k removes the noise of a mean of k-1 points.
                    spread.add(square * others / count(class));
                } else if others > 0.0 {
                    empty_class.add(square);
                }
            }
        }
        assert!((whitening.spread / spread.get() - 1.0).abs() < 1e-9, "{}", whitening.spread);
        // W Wᵀ is the inverse of the shrunk covariance, up to f32 rounding.
        let mut shrunk = all;
        for (at, sums) in shrunk.iter_mut().enumerate() {
            for sum in sums.iter_mut() {
                *sum *= (1.0 - shrinkage) / freedom;
            }
            sums[at] += shrinkage * trace;
        }
        for a in 0..d {
            let axis = (0..d).map(|b| f64::from(u8::from(a == b))).collect();
            for (b, &expected) in solve(shrunk.clone(), axis).iter().enumerate() {
                let both = whitening.map.row(a).iter().zip(whitening.map.row(b));
                let found: f64 = both.map(|(&one, &other)| f64::from(one) * f64::from(other)).sum();
                assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
            }
        }
        let fit = Scatter::new(&points, &labels, classes, &context);
        let rotated = fit.rotate(&points, &context);
        // Distances in the whitened space equal those computed with the inverse of the shrunk covariance.
        let white = fit.white(&rotated, shrinkage);
        for row in 1..n {
            let step: Vec<f64> = points.row(row).iter().zip(points.row(0)).map(|(a, b)| a - b).collect();
            let expected = dot(&step, &solve(shrunk.clone(), step.clone()));
            let found: f64 = white.row(row).iter().zip(white.row(0)).map(|(a, b)| (a - b).powi(2)).sum();
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
        }
        let left_out = fit.leave_one_out(&rotated, &labels, shrinkage, &context);
        for (&found, square) in left_out.log_posterior.as_slice().iter().zip(&squares) {
            let expected = match square {
                Some((square, others)) => spread.get() / others - square,
                None => -empty_class.get(),
            };
            assert!((found - expected).abs() < 1e-8, "{found} is not {expected}");
        }
    }

    /// Returns the shrinkage that is chosen for 5 random classes of `each` points in 12 dimensions. Points have the
    /// standard deviation `wide` in the first 6 dimensions, and 1 in the others.
    fn chosen(each: usize, wide: f64) -> f64 {
        let mut random = Random::new(3, 9);
        let (classes, d) = (5, 12);
        let mut means = Matrix::<f64>::zeros(classes, d);
        means.as_mut_slice().iter_mut().for_each(|value| *value = random.normal());
        let labels: Vec<u32> = (0..classes * each).map(|row| (row % classes) as u32).collect();
        let mut points = Matrix::<f64>::zeros(labels.len(), d);
        for (row, &label) in labels.iter().enumerate() {
            for at in 0..d {
                let scatter = if at < d / 2 { wide } else { 1.0 };
                points.row_mut(row)[at] = means.row(label as usize)[at] + scatter * random.normal();
            }
        }
        let rows: Vec<usize> = (0..labels.len()).collect();
        let (first, second) = rows.split_at(rows.len() / 2);
        let context = Context::new(2).unwrap();
        shrinkage(&points, &labels, classes, [[first, second], [second, first]], &context).unwrap()
    }

    /// Few points of a round scatter need much shrinkage, which makes a covariance rounder. Many points determine an
    /// elongated scatter well, so it needs none.
    #[test]
    fn few_points_of_a_round_scatter_are_shrunk_and_many_of_a_long_one_are_not() {
        assert!(chosen(6, 1.0) >= 0.85, "{}", chosen(6, 1.0));
        assert!(chosen(120, 6.0) <= 0.1, "{}", chosen(120, 6.0));
    }
}
