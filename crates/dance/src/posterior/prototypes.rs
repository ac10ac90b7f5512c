//! **Prototypes**: squared distances to class means in the whitened space, `e(y) = -‖z-μ‖²`.
//!
//! Points are mapped by z = xW with `WWᵀ = ((1-γ)S + γ·tr(S)/d·I)⁻¹`, where S is the pooled covariance within the
//! classes of the fit points. The mean μ of class y is shrunk towards the mean m of all fit points: it is the mean of
//! the k points of the class and of κ points at m, `(κm + Σz)/(κ+k)`. This is the posterior mean if points scatter
//! around their class mean with covariance S, and class means scatter around m with covariance `S/κ`. A class without
//! points is at m.
//!
//! Leaving a point out and adding a query move one mean each. With K = κ+k points in the mean, the squared distance
//! becomes `‖z-μ'‖² = K/(K+1)·‖z-μ‖² + ‖z-q‖²/(K+1) - K/(K+1)²·‖μ-q‖²`: nothing is refitted.
//!
//! Cost of a query: `2d² + 2(n+c)d`, then two operations per label and point. Memory: n·(2c+d) numbers of f64 and n·c
//! of f32.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::expert::{Expert, MappedPoints, Predictions, TrainingSet};
use crate::posterior::settings::Space;
use crate::posterior::spaces::Targets;

/// Trained prototypes; see the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Prototypes {
    /// Labels of the bag.
    labels: Vec<u32>,
    /// Points of the bag.
    points: Targets,
    means: Targets,
    /// K of every class: its points, and κ.
    counts: Vec<f64>,
    /// Squared distances of the bag to the means, each point without itself.
    squared: Matrix<f64>,
    /// Squared distances in f32, label by label.
    by_label: Matrix,
    /// The largest squared distance of every label.
    largest: Vec<f64>,
    /// The least and the largest squared distance of every point to a class that is not its own.
    ends: Vec<[f64; 2]>,
    /// Log posteriors of the bag.
    bag: Matrix<f64>,
}

impl Prototypes {
    /// Trains on all points; `prior` is κ, above 0.
    pub(super) fn open(training: &TrainingSet<'_>, prior: f64, context: &Context<'_>) -> Self {
        let classes = training.classes;
        let (means, counts) = shrunk_means(training, prior);
        let points = training.points.get(Space::White);
        let own: Vec<usize> = (training.fit..training.labels.len()).collect();
        let (own, labels) = (points.select(&own), training.bag_labels().to_vec());
        let means = Targets::new(&means, context);
        let mut squared = means.squared(&own, context);
        let mut bag = Matrix::<f64>::zeros(own.rows(), classes);
        let mut ends = vec![[f64::INFINITY, 0.0f64]; own.rows()];
        for (row, &label) in labels.iter().enumerate() {
            let squared = squared.row_mut(row);
            let (own, count) = (label as usize, counts[label as usize]);
            // A mean that holds the point itself is nearer by (K-1)/K than the mean of the others.
            squared[own] *= (count / (count - 1.0)).powi(2);
            for (label, (log_posterior, &squared)) in bag.row_mut(row).iter_mut().zip(&*squared).enumerate() {
                *log_posterior = -squared;
                if label != own {
                    ends[row] = [ends[row][0].min(squared), ends[row][1].max(squared)];
                }
            }
        }
        let transposed = squared.transposed();
        let largest =
            (0..classes).map(|label| transposed.row(label).iter().copied().fold(0.0, f64::max)).collect();
        let (points, by_label) = (Targets::new(&own, context), transposed.to_f32());
        Self { labels, points, means, counts, squared, by_label, largest, ends, bag }
    }
}

/// Returns the mean of every class with `prior` points at the mean of all fit points, and the number of points in it.
fn shrunk_means(training: &TrainingSet<'_>, prior: f64) -> (Matrix<f64>, Vec<f64>) {
    let (points, classes) = (training.points.get(Space::White), training.classes);
    let mut means = Matrix::<f64>::zeros(classes, points.cols());
    let mut counts = vec![prior; classes];
    let mut all = vec![0.0; points.cols()];
    for row in 0..training.fit {
        all.iter_mut().zip(points.row(row)).for_each(|(sum, value)| *sum += value);
    }
    let share = prior / training.fit.max(1) as f64;
    for sum in &mut all {
        *sum *= share;
    }
    (0..classes).for_each(|label| means.row_mut(label).copy_from_slice(&all));
    for (row, &label) in training.labels.iter().enumerate() {
        counts[label as usize] += 1.0;
        for (sum, &value) in means.row_mut(label as usize).iter_mut().zip(points.row(row)) {
            *sum += value;
        }
    }
    for (label, &count) in counts.iter().enumerate() {
        means.row_mut(label).iter_mut().for_each(|sum| *sum /= count);
    }
    (means, counts)
}

impl Expert for Prototypes {
    fn bag(&self) -> &Matrix<f64> {
        &self.bag
    }

    fn predict<'a>(&'a self, block: &MappedPoints, context: &Context<'_>) -> Box<dyn Predictions + 'a> {
        let queries = block.get(Space::White);
        let to_points = self.points.squared(queries, context);
        let to_means = self.means.squared(queries, context);
        let mut log_posterior = Matrix::<f64>::zeros(queries.rows(), self.counts.len());
        let mut constant = log_posterior.clone();
        for query in 0..queries.rows() {
            let each = log_posterior.row_mut(query).iter_mut().zip(constant.row_mut(query));
            for ((log_posterior, constant), (&squared, &count)) in
                each.zip(to_means.row(query).iter().zip(&self.counts))
            {
                *log_posterior = -squared;
                *constant = constant_of(squared, count);
            }
        }
        let largest = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
        let farthest = (0..to_points.rows()).map(|query| largest(to_points.row(query))).collect();
        let near = to_points.to_f32();
        let of = self;
        Box::new(PrototypePredictions { of, to_points, to_means, log_posterior, constant, near, farthest })
    }
}

/// Returns the term of the gain that does not depend on the point: the query is `squared` away from a mean of `count`
/// points.
fn constant_of(squared: f64, count: f64) -> f64 {
    let share = 1.0 / (count + 1.0);
    count * share * share * squared
}

/// Predictions for a block of queries.
struct PrototypePredictions<'a> {
    of: &'a Prototypes,
    /// Squared distances to the points of the bag.
    to_points: Matrix<f64>,
    /// Squared distances to the means.
    to_means: Matrix<f64>,
    log_posterior: Matrix<f64>,
    /// The term of every gain that does not depend on the point.
    constant: Matrix<f64>,
    /// Squared distances to the points of the bag in f32.
    near: Matrix,
    /// The largest squared distance of every query to a point of the bag.
    farthest: Vec<f64>,
}

impl Predictions for PrototypePredictions<'_> {
    fn log_posterior(&self, query: usize) -> &[f64] {
        self.log_posterior.row(query)
    }

    fn gain(&self, query: usize, point: usize, label: usize) -> f64 {
        let near = self.to_points.row(query)[point];
        let (count, squared) = (self.of.counts[label], self.of.squared.row(point)[label]);
        if label != self.of.labels[point] as usize {
            return (squared - near) / (count + 1.0) + self.constant.row(query)[label];
        }
        // The mean of the point's own class is taken without the point.
        let others = count - 1.0;
        let with = self.to_means.row(query)[label];
        let to_mean = count / others * (with - near / count + others / (count * count) * squared);
        (squared - near) / count + constant_of(to_mean, others)
    }

    fn add_gains(
        &self,
        (query, label): (usize, usize),
        points: &[u32],
        weight: f64,
        sums: &mut [f32],
    ) -> f64 {
        let (near, squared) = (self.near.row(query), self.of.by_label.row(label));
        let share = 1.0 / (self.of.counts[label] + 1.0);
        let constant = self.constant.row(query)[label];
        let (factor, added) = ((weight * share) as f32, (weight * constant) as f32);
        for (sum, &point) in sums.iter_mut().zip(points) {
            *sum += factor * (squared[point as usize] - near[point as usize]) + added;
        }
        share * (self.of.largest[label] + self.farthest[query]) + constant.abs()
    }

    fn add_gain_bounds(&self, query: usize, weight: f64, least: &mut [f64], most: &mut [f64]) {
        let counts = &self.of.counts;
        let fewest = counts.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = counts.iter().copied().fold(0.0, f64::max);
        let [fewest, largest] = [fewest, largest].map(|count| weight / (count + 1.0));
        let constants = self.constant.row(query);
        let low = weight * constants.iter().copied().fold(f64::INFINITY, f64::min);
        let high = weight * constants.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let each = least.iter_mut().zip(most).zip(&self.of.ends);
        for (((least, most), [lowest, highest]), near) in each.zip(self.to_points.row(query)) {
            let (lowest, highest) = (lowest - near, highest - near);
            *least += low + if lowest < 0.0 { fewest } else { largest } * lowest;
            *most += high + if highest > 0.0 { fewest } else { largest } * highest;
        }
    }
}
