//! The space in which points of a class scatter alike, from the fit points.
//!
//! S is the pooled covariance within classes, `(1-γ)S + γ·tr(S)/d·I` what is inverted. γ is chosen by the log loss of leave-one-out
//! evidence: without point i of a class of k points, S loses `k/(k-1)·r_i r_iᵀ` (r its residual), so its inverse follows by one
//! rank-one update, and all distances of i with it. Cost: one eigendecomposition (10d³), then `4ndc` for every γ.

use super::weights::Evidences;
use super::wide::{Targets, Wide, dot};
use crate::context::Context;
use crate::device::cpu::linalg;
use crate::matrix::Matrix;

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
        let mut means = Wide::zeros(classes, d);
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
        let fit = Fit { points, labels, counts, means, residuals, freedom, values, vectors };
        let tried: &[f64] = match &shrinkage {
            Some(given) => std::slice::from_ref(given),
            None => &SHRINKAGES,
        };
        let tries = tried.iter().map(|&shrinkage| fit.judge(shrinkage, context));
        let best = tries.min_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or_else(|| fit.judge(1.0, context).1, |(_, best)| best)
    }
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

struct Fit<'a> {
    points: &'a Wide,
    labels: &'a [u32],
    counts: Vec<f64>,
    means: Wide,
    residuals: Wide,
    freedom: f64,
    values: Vec<f64>,
    vectors: Wide,
}

impl Fit<'_> {
    /// The log loss of leave-one-out evidence under a γ, and the whitening it makes.
    fn judge(&self, shrinkage: f64, context: &Context<'_>) -> (f64, Whitening) {
        let d = self.points.cols();
        let mean = self.values.iter().sum::<f64>() / d.max(1) as f64;
        let scales: Vec<f64> = self
            .values
            .iter()
            .map(|value| 1.0 / ((1.0 - shrinkage) * value + shrinkage * mean).max(1e-12).sqrt())
            .collect();
        // Rounded as the model file keeps it.
        let map: Vec<f32> =
            (0..d * d).map(|at| (self.vectors.row(at / d)[at % d] * scales[at % d]) as f32).collect();
        let map = Matrix::new(map, d, d).unwrap_or_default();
        let step = self.labels.len().div_ceil(JUDGES).max(1);
        let judged: Vec<usize> = (0..self.labels.len()).step_by(step).collect();
        let white = packed_columns(&map);
        let points = self.points.select(&judged).times(&white, context);
        let residuals = self.residuals.select(&judged).times(&white, context);
        let means = self.means.times(&white, context);
        let mut squared = Targets::new(&means).squared(&points, context);
        let to_means = residuals.times(&means.packed(), context);
        let (mut spread, mut others) = (Mean::default(), Mean::default());
        let labels: Vec<u32> = judged.iter().map(|&row| self.labels[row]).collect();
        for (row, &label) in labels.iter().enumerate() {
            let (own, residual) = (label as usize, residuals.row(row));
            let (count, length) = (self.counts[own], dot(residual, residual));
            let along = dot(points.row(row), residual);
            // Without a class of one point the covariance stays as it is.
            let lost =
                if count > 1.0 { count / (count - 1.0) / self.freedom * (1.0 - shrinkage) } else { 0.0 };
            let rest = (1.0 - lost * length).max(1e-3);
            for (class, value) in squared.row_mut(row).iter_mut().enumerate() {
                if class != own && self.counts[class] > 0.0 {
                    *value += lost / rest * (along - to_means.row(row)[class]).powi(2);
                    others.add(*value);
                }
            }
            if count > 1.0 {
                let alone = length + lost / rest * length * length;
                let far = count / (count - 1.0);
                spread.add(alone * far);
                squared.row_mut(row)[own] = alone * far * far;
            }
        }
        let (spread, nothing) = (spread.get(), others.get());
        for (row, &label) in labels.iter().enumerate() {
            for (class, value) in squared.row_mut(row).iter_mut().enumerate() {
                let others = self.counts[class] - f64::from(u8::from(class == label as usize));
                *value = if others > 0.0 { spread / others - *value } else { -nothing };
            }
        }
        let evidences = Evidences { tables: vec![&squared], labels: &labels, context };
        (evidences.fit(&[0]).loss, Whitening { map, shrinkage, spread, nothing })
    }
}

/// `matrix`, packed for products `x · matrix`.
pub(super) fn packed_columns(matrix: &Matrix) -> crate::device::cpu::packed::Packed<f64> {
    crate::device::cpu::packed::Packed::new(matrix.rows(), matrix.cols(), |depth, column| {
        f64::from(matrix.row(depth)[column])
    })
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
