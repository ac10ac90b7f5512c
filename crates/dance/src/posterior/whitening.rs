//! The space in which points of a class scatter alike, from the fit points.
//!
//! S is the pooled covariance within classes, `(1-γ)S + γ·tr(S)/d·I` what is inverted. Where γ is not given it is chosen by the log
//! loss of leave-one-out evidence: without point i of a class of k points, S loses `k/(k-1)·r_i r_iᵀ` (r its residual), so its inverse follows by one
//! rank-one update, and all distances of i with it. In the basis of S's eigenvectors a γ only scales coordinates: points and means
//! are turned into it once, and products of points with means, and of means with each other, are all that distances and residuals
//! need. Cost: one eigendecomposition (10d³) and one turn (2nd²), then `2ndc` for every γ.

use crate::context::Context;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::Packed;
use crate::posterior::weights::Evidences;
use crate::posterior::wide::{Wide, dot};

/// What is tried for γ.
const SHRINKAGES: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97];
/// Most points that judge a γ; evenly spread over those there are.
const JUDGES: usize = 2000;
/// Above so many dimensions covariances are not formed: squares of d would not fit.
const MOST_DIMENSIONS: usize = 4096;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whitening {
    /// W, d×d.
    pub(super) map: Matrix,
    pub(super) shrinkage: f64,
    /// D: the mean squared residual of a new point.
    pub(super) spread: f64,
    /// Stands for the squared distance to a class without points: that to an average other class.
    pub(super) nothing: f64,
}

impl Whitening {
    /// With the best γ, or the one given.
    pub(super) fn new(
        points: &Wide,
        labels: &[u32],
        classes: usize,
        shrinkage: Option<f64>,
        context: &Context<'_>,
    ) -> Self {
        let d = points.cols();
        let fit = Scatter::new(points, labels, classes, context);
        let (judged, labels) = fit.judges(points, labels, context);
        let shrinkage = shrinkage.unwrap_or_else(|| fit.choose(&judged, &labels, context));
        let LeftOut { spread, nothing, .. } = fit.leave_one_out(&judged, &labels, shrinkage, context);
        let scales: Vec<f64> = fit.weights(shrinkage).into_iter().map(f64::sqrt).collect();
        // Rounded as the model file keeps it.
        let map: Vec<f32> =
            (0..d * d).map(|at| (fit.vectors.row(at / d)[at % d] * scales[at % d]) as f32).collect();
        Self { map: Matrix::new(map, d, d).unwrap_or_default(), shrinkage, spread, nothing }
    }
}

/// `D/k - ‖(x-μ)W‖²` for every point and class, with everything but γ learned without the point.
pub(crate) fn leave_one_out(points: &Wide, labels: &[u32], classes: usize, context: &Context<'_>) -> Wide {
    let fit = Scatter::new(points, labels, classes, context);
    let (judged, judges) = fit.judges(points, labels, context);
    let shrinkage = fit.choose(&judged, &judges, context);
    fit.leave_one_out(&fit.turn(points, context), labels, shrinkage, context).evidence
}

/// Eigenvalues and eigenvectors (columns) of the covariance; the identity where there are too many dimensions for one.
fn eigen(residuals: &Wide, freedom: f64, context: &Context<'_>) -> (Vec<f64>, Wide) {
    let (n, d) = (residuals.rows(), residuals.cols());
    let mut vectors = Wide::zeros(d, d);
    if d <= MOST_DIMENSIONS {
        let mut covariance = Wide::zeros(d, d);
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

/// Classes in the basis of the covariance's eigenvectors.
pub(super) struct Scatter {
    counts: Vec<f64>,
    means: Wide,
    /// The means again.
    packed: Packed<f64>,
    freedom: f64,
    /// Eigenvalues.
    values: Vec<f64>,
    /// Eigenvectors, as columns.
    vectors: Wide,
}

/// Points judged by all others.
struct LeftOut {
    /// `D/k - ‖(x-μ)W‖²` for every class, without the point itself.
    evidence: Wide,
    spread: f64,
    nothing: f64,
}

impl Scatter {
    pub(super) fn new(points: &Wide, labels: &[u32], classes: usize, context: &Context<'_>) -> Self {
        let mut means = Wide::zeros(classes, points.cols());
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
        // Points beyond one per class; classes of one point have no residual.
        let freedom = counts.iter().map(|&count: &f64| (count - 1.0).max(0.0)).sum::<f64>().max(1.0);
        let (values, vectors) = eigen(&residuals, freedom, context);
        let means = means.times(&columns(&vectors, context), context);
        Self { counts, packed: means.packed(context), means, freedom, values, vectors }
    }

    /// Points in the basis.
    pub(super) fn turn(&self, points: &Wide, context: &Context<'_>) -> Wide {
        points.times(&columns(&self.vectors, context), context)
    }

    /// Points that judge a γ, in the basis, and their labels.
    fn judges(&self, points: &Wide, labels: &[u32], context: &Context<'_>) -> (Wide, Vec<u32>) {
        let step = labels.len().div_ceil(JUDGES).max(1);
        let judges: Vec<usize> = (0..labels.len()).step_by(step).collect();
        let labels = judges.iter().map(|&row| labels[row]).collect();
        (self.turn(&points.select(&judges), context), labels)
    }

    /// The γ of the least log loss, by points in the basis.
    fn choose(&self, points: &Wide, labels: &[u32], context: &Context<'_>) -> f64 {
        let tries = SHRINKAGES.iter().map(|&shrinkage| {
            let evidence = self.leave_one_out(points, labels, shrinkage, context).evidence;
            let evidences = Evidences { tables: vec![&evidence], labels, context };
            (evidences.fit(&[0]).loss, shrinkage)
        });
        tries.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(1.0, |best| best.1)
    }

    /// What squares of coordinates count under a γ: the inverse of the shrunk covariance.
    fn weights(&self, shrinkage: f64) -> Vec<f64> {
        let mean = self.values.iter().sum::<f64>() / self.values.len().max(1) as f64;
        let weight = |value: &f64| 1.0 / ((1.0 - shrinkage) * value + shrinkage * mean).max(1e-12);
        self.values.iter().map(weight).collect()
    }

    /// Points in the basis, in the space of a γ.
    pub(super) fn white(&self, turned: &Wide, shrinkage: f64) -> Wide {
        let scales: Vec<f64> = self.weights(shrinkage).into_iter().map(f64::sqrt).collect();
        Wide::of_fn(turned.rows(), turned.cols(), |row, at| turned.row(row)[at] * scales[at])
    }

    /// Evidence of points that are among those of the classes, in the basis.
    fn leave_one_out(&self, points: &Wide, labels: &[u32], shrinkage: f64, context: &Context<'_>) -> LeftOut {
        let weights = self.weights(shrinkage);
        let weighted = |points: &Wide| {
            let mut weighted = points.clone();
            for row in 0..weighted.rows() {
                weighted.row_mut(row).iter_mut().zip(&weights).for_each(|(value, weight)| *value *= weight);
            }
            weighted
        };
        // Products of means with each other, and of points with means, which become their evidence.
        let among = weighted(&self.means).times(&self.packed, context);
        let heavy = weighted(points);
        let mut evidence = heavy.times(&self.packed, context);
        let (mut spread, mut others) = (Mean::default(), Mean::default());
        for (row, &label) in labels.iter().enumerate() {
            let (own, norm) = (label as usize, dot(heavy.row(row), points.row(row)));
            let (count, with_own) = (self.counts[own], evidence.row(row)[own]);
            let length = (norm - 2.0 * with_own + among.row(own)[own]).max(0.0);
            // Without a class of one point the covariance stays as it is.
            let lost =
                if count > 1.0 { count / (count - 1.0) / self.freedom * (1.0 - shrinkage) } else { 0.0 };
            let rest = (1.0 - lost * length).max(1e-3);
            for (class, value) in evidence.row_mut(row).iter_mut().enumerate() {
                // Along the point's residual, from the class's mean to the point.
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
                evidence.row_mut(row)[own] = alone * far * far;
            }
        }
        let (spread, nothing) = (spread.get(), others.get());
        for (row, &label) in labels.iter().enumerate() {
            for (class, value) in evidence.row_mut(row).iter_mut().enumerate() {
                let others = self.counts[class] - f64::from(u8::from(class == label as usize));
                *value = if others > 0.0 { spread / others - *value } else { -nothing };
            }
        }
        LeftOut { evidence, spread, nothing }
    }
}

fn columns(matrix: &Wide, context: &Context<'_>) -> Packed<f64> {
    Packed::new(matrix.rows(), matrix.cols(), |depth, column| matrix.row(depth)[column], context)
}

/// `matrix`, packed for products `x · matrix`.
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

    /// Means, and the products of residuals summed up.
    fn scatter(
        points: &Wide,
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

    /// Everything anew without each point, as the module has it: the covariance loses the point, its freedom and trace stay.
    #[test]
    fn evidence_is_that_of_a_fit_without_the_point() {
        let mut random = Random::new(5, 1);
        let (n, d, classes, shrinkage) = (40, 6, 5, 0.3);
        let mut points = Wide::zeros(n, d);
        points.as_mut_slice().iter_mut().for_each(|value| *value = random.normal() + 0.5);
        // A class of one point, and one of none.
        let labels: Vec<u32> = (0..n).map(|row| if row == 7 { 3 } else { random.below(3) as u32 }).collect();
        let context = Context::new(2).unwrap();
        let whitening = Whitening::new(&points, &labels, classes, Some(shrinkage), &context);
        let count = |class: usize| labels.iter().filter(|&&label| label as usize == class).count() as f64;
        let freedom: f64 = (0..classes).map(|class| (count(class) - 1.0).max(0.0)).sum();
        let (_, all) = scatter(&points, &labels, classes, None);
        let trace = (0..d).map(|at| all[at][at]).sum::<f64>() / freedom / d as f64;
        let (mut spread, mut nothing, mut squares) = (Mean::default(), Mean::default(), Vec::new());
        for row in 0..n {
            let (means, mut shrunk) = scatter(&points, &labels, classes, Some(row));
            for (at, sums) in shrunk.iter_mut().enumerate() {
                for sum in sums.iter_mut() {
                    *sum *= (1.0 - shrinkage) / freedom;
                }
                sums[at] += shrinkage * trace;
            }
            for (class, mean) in means.iter().enumerate() {
                let apart: Vec<f64> = points.row(row).iter().zip(mean).map(|(x, mean)| x - mean).collect();
                let square = dot(&apart, &solve(shrunk.clone(), apart.clone()));
                let own = class == labels[row] as usize;
                let others = count(class) - f64::from(u8::from(own));
                squares.push((others > 0.0).then_some((square, others)));
                if own && others > 0.0 {
                    // The noise of a mean of k-1 points taken off.
                    spread.add(square * others / count(class));
                } else if others > 0.0 {
                    nothing.add(square);
                }
            }
        }
        assert!((whitening.spread / spread.get() - 1.0).abs() < 1e-9, "{}", whitening.spread);
        assert!((whitening.nothing / nothing.get() - 1.0).abs() < 1e-9, "{}", whitening.nothing);
        // W Wᵀ is the inverse of the shrunk covariance, as f32 holds it.
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
        let turned = fit.turn(&points, &context);
        // Distances in the space are those by the inverse.
        let white = fit.white(&turned, shrinkage);
        for row in 1..n {
            let apart: Vec<f64> = points.row(row).iter().zip(points.row(0)).map(|(a, b)| a - b).collect();
            let expected = dot(&apart, &solve(shrunk.clone(), apart.clone()));
            let found: f64 = white.row(row).iter().zip(white.row(0)).map(|(a, b)| (a - b).powi(2)).sum();
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
        }
        let found = fit.leave_one_out(&turned, &labels, shrinkage, &context).evidence;
        for (&found, square) in found.as_slice().iter().zip(&squares) {
            let expected = match square {
                Some((square, others)) => spread.get() / others - square,
                None => -nothing.get(),
            };
            assert!((found - expected).abs() < 1e-8, "{found} is not {expected}");
        }
    }
}
