//! The whitened space, in which points of a class have a round scatter; from the fit points.
//!
//! The whitening map W inverts the shrunk covariance `(1-γ)S + γ·tr(S)/d·I`, where S is the pooled covariance within
//! classes. If γ is not given, the log loss of leave-one-out distances chooses it. Without point i of a class of k
//! points, S loses `k/(k-1)·r_i r_iᵀ`, with r its residual. A rank-one update then gives the inverse, and with it all
//! distances of i. In the basis of S's eigenvectors γ only scales coordinates: points and means are rotated once, and
//! distances and residuals follow from products of points with means and of means with each other.
//!
//! Cost: one eigendecomposition (10d³) and one rotation (2nd²), then `2ndc` for every γ.

use crate::context::Context;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::posterior::spaces::dot;
use crate::posterior::weights::ConditionalLogit;

/// Values of γ that are compared.
const SHRINKAGES: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97];
/// The largest number of points that γ is chosen on, spread evenly over all.
const VALIDATION_POINTS: usize = 2000;
/// The largest number of dimensions with a covariance; its d² numbers would not fit into memory beyond.
const MOST_DIMENSIONS: usize = 4096;

/// A whitening map; see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whitening {
    /// The map W, d×d.
    pub(super) map: Matrix,
    pub(super) shrinkage: f64,
    /// D: the mean squared whitened residual of a new point.
    pub(super) spread: f64,
}

impl Whitening {
    /// Computes the map with the γ that is given, or else the best γ.
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
        // Rounded to f32, as in the model file.
        let map: Vec<f32> =
            (0..d * d).map(|at| (fit.vectors.row(at / d)[at % d] * scales[at % d]) as f32).collect();
        Self { map: Matrix::new(map, d, d).unwrap_or_default(), shrinkage, spread }
    }
}

/// Returns `D/k - ‖(x-μ)W‖²` for every point and class, each point without itself in everything but γ.
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

/// Returns eigenvalues and eigenvectors (columns) of the covariance. Beyond `MOST_DIMENSIONS` the covariance is taken
/// for a multiple of the identity.
fn eigen(residuals: &Matrix<f64>, freedom: f64, context: &Context<'_>) -> (Vec<f64>, Matrix<f64>) {
    let (n, d) = (residuals.rows(), residuals.cols());
    let mut vectors = Matrix::<f64>::zeros(d, d);
    if d <= MOST_DIMENSIONS {
        let mut covariance = Matrix::<f64>::zeros(d, d);
        let found = context.run(|| {
            let residuals = linalg::row_major(residuals.as_slice(), n, d);
            linalg::product(
                linalg::row_major_mut(covariance.as_mut_slice(), d, d),
                residuals.transpose(),
                residuals,
            );
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

/// The classes in the basis of the covariance's eigenvectors.
pub(super) struct Scatter {
    counts: Vec<f64>,
    means: Matrix<f64>,
    /// The means, packed for products with them.
    packed: Packed<f64>,
    /// The degrees of freedom of the covariance.
    freedom: f64,
    /// The eigenvalues.
    values: Vec<f64>,
    /// The eigenvectors, as columns.
    vectors: Matrix<f64>,
}

/// The distances of points to classes, each point without itself.
struct LeftOut {
    /// `D/k - ‖(x-μ)W‖²` for every point and class.
    log_posterior: Matrix<f64>,
    /// D.
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
        // One degree of freedom less per class; classes of one point have no residual.
        let freedom = counts.iter().map(|&count: &f64| (count - 1.0).max(0.0)).sum::<f64>().max(1.0);
        let (values, vectors) = eigen(&residuals, freedom, context);
        let means = means.times(&columns(&vectors, context), context);
        Self { counts, packed: means.packed(context), means, freedom, values, vectors }
    }

    /// Returns points in the basis of the eigenvectors.
    pub(super) fn rotate(&self, points: &Matrix<f64>, context: &Context<'_>) -> Matrix<f64> {
        points.times(&columns(&self.vectors, context), context)
    }

    /// Returns the points that γ is chosen on, in the basis, and their labels.
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

    /// Returns the γ with the least log loss on points in the basis.
    fn choose(&self, points: &Matrix<f64>, labels: &[u32], context: &Context<'_>) -> f64 {
        let tries = SHRINKAGES.iter().map(|&shrinkage| {
            let log_posterior = self.leave_one_out(points, labels, shrinkage, context).log_posterior;
            let logit = ConditionalLogit { tables: vec![&log_posterior], labels, context };
            (logit.fit(&[0]).loss, shrinkage)
        });
        tries.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(1.0, |best| best.1)
    }

    /// Returns the weights of squared coordinates under a γ: the eigenvalues of the inverse shrunk covariance.
    fn weights(&self, shrinkage: f64) -> Vec<f64> {
        let mean = self.values.iter().sum::<f64>() / self.values.len().max(1) as f64;
        let weight = |value: &f64| 1.0 / ((1.0 - shrinkage) * value + shrinkage * mean).max(1e-12);
        self.values.iter().map(weight).collect()
    }

    /// Maps points in the basis to the whitened space of a γ.
    pub(super) fn white(&self, rotated: &Matrix<f64>, shrinkage: f64) -> Matrix<f64> {
        let scales: Vec<f64> = self.weights(shrinkage).into_iter().map(f64::sqrt).collect();
        Matrix::<f64>::from_fn(rotated.rows(), rotated.cols(), |row, at| rotated.row(row)[at] * scales[at])
    }

    /// Returns the leave-one-out distances of points in the basis, which are among those of the classes.
    fn leave_one_out(
        &self,
        points: &Matrix<f64>,
        labels: &[u32],
        shrinkage: f64,
        context: &Context<'_>,
    ) -> LeftOut {
        let weights = self.weights(shrinkage);
        let weighted = |points: &Matrix<f64>| {
            let mut weighted = points.clone();
            for row in 0..weighted.rows() {
                weighted.row_mut(row).iter_mut().zip(&weights).for_each(|(value, weight)| *value *= weight);
            }
            weighted
        };
        // Products of means with each other, and of points with means; the latter become the distances in place.
        let among = weighted(&self.means).times(&self.packed, context);
        let heavy = weighted(points);
        let mut log_posterior = heavy.times(&self.packed, context);
        let (mut spread, mut others) = (Mean::default(), Mean::default());
        for (row, &label) in labels.iter().enumerate() {
            let (own, norm) = (label as usize, dot(heavy.row(row), points.row(row)));
            let (count, with_own) = (self.counts[own], log_posterior.row(row)[own]);
            let length = (norm - 2.0 * with_own + among.row(own)[own]).max(0.0);
            // The covariance does not change without a class of one point.
            let lost =
                if count > 1.0 { count / (count - 1.0) / self.freedom * (1.0 - shrinkage) } else { 0.0 };
            let rest = (1.0 - lost * length).max(1e-3);
            for (class, value) in log_posterior.row_mut(row).iter_mut().enumerate() {
                // The product of the point's residual with the step from the class mean to the point.
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
        // The mean distance to other classes stands for the distance to a class without points.
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

/// Packs `matrix` for products `x · matrix`.
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
    use super::*;
    use crate::numeric::random::Random;
    use crate::posterior::tests::brute_force::solve;

    /// Returns means, and the sums of products of residuals.
    fn scatter(
        points: &Matrix<f64>,
        labels: &[u32],
        classes: usize,
        without: Option<usize>,
    ) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let d = points.cols();
        let of = |class: usize| {
            (0..labels.len()).filter(move |&row| labels[row] as usize == class && Some(row) != without)
        };
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

    /// Refits without each point: the covariance loses the point; its degrees of freedom and its trace stay.
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
                    // The noise of a mean of k-1 points is subtracted.
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
        // Distances in the whitened space are those by the inverse.
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
}
