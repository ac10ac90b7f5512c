//! The interface of the experts: log posteriors of the calibration points, predictions for queries, and the changes of
//! these log posteriors when a query is added. Two experts are here too: prototypes and nearest neighbors. In names,
//! `bag` means the calibration points on which experts are trained.
//!
//! **Prototypes.** The log posterior of class y is `e(y) = -‖z-μ‖²`, the negative squared distance to its mean μ in the
//! whitened space. A point x is mapped to z = xW by the whitening map W with `WWᵀ = ((1-γ)S + γ·tr(S)/d·I)⁻¹`. S is the
//! pooled covariance within the classes of the fit points, in d dimensions, and γ the shrinkage. The mean μ of class y
//! is shrunk towards the mean m of all fit points: `μ = (κm + Σz)/(κ+k)` is the mean of the k points of the class and
//! of κ points at m. A class without points has the mean m.
//!
//! Leaving a point out and adding a query q move one mean each. If q is added to a mean μ of K = κ+k points, the new
//! mean μ' has `‖z-μ'‖² = K/(K+1)·‖z-μ‖² + ‖z-q‖²/(K+1) - K/(K+1)²·‖μ-q‖²`: nothing is refitted.
//!
//! Cost of a query, for n calibration points and c classes: `2d² + 2(n+c)d` operations, then two per label and point.
//! Memory: n·(2c+d) numbers in f64 and n·c in f32.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::maps::Link;
use crate::posterior::maps::{MappedPoints, Targets};
use crate::posterior::settings::Space;

/// The labelled points that experts are trained on: first the fit points, then the calibration points.
pub(super) struct TrainingSet<'a> {
    pub(super) points: &'a MappedPoints,
    pub(super) labels: &'a [u32],
    /// The number of fit points.
    pub(super) fit: usize,
    pub(super) classes: usize,
}

impl TrainingSet<'_> {
    pub(super) fn bag_labels(&self) -> &[u32] {
        &self.labels[self.fit..]
    }
}

/// A classifier in closed form. A [stack](super::Stack) multiplies the log posteriors of every expert by the expert's
/// weight and adds them.
pub(super) trait Expert: Send + Sync + std::fmt::Debug {
    /// Returns the log posteriors of the calibration points: one row per point, one column per class. A row is
    /// predicted by all training points but the row's own point.
    fn bag(&self) -> &Matrix<f64>;

    /// Returns the regression outputs of the calibration points, and the link function that maps them to log
    /// posteriors. Returns `None` for an expert that is no regression.
    fn outputs(&self) -> Option<(&Matrix<f64>, Link)> {
        None
    }

    /// Returns the predictions for a block of queries, which are mapped to all spaces.
    fn predict<'a>(&'a self, block: &MappedPoints, context: &Context<'_>) -> Box<dyn Predictions + 'a>;
}

/// An expert's predictions for a block of queries. They include the changes of the calibration points' log posteriors
/// if one of these queries is added to the training points.
pub(super) trait Predictions: Send + Sync {
    /// Returns the log posteriors of one query for all labels, predicted by all training points.
    fn log_posterior(&self, query: usize) -> &[f64];

    /// Adds `weight` times the shift of a calibration point to `row`, which has one entry per label. When the query is
    /// added, the point's log posteriors change. The shift is the part of this change that does not depend on the
    /// query's label.
    fn add_shift(&self, _query: usize, _point: usize, _weight: f64, _row: &mut [f64]) {}

    /// Returns the numbers from which the [shift](Self::add_shift) of every calibration point follows; `None` if the
    /// expert has no shift.
    fn shifts(&self, _query: usize) -> Option<Shifts<'_>> {
        None
    }

    /// Returns the gain of a calibration point for `label`. The gain is the change of the point's log posterior for
    /// `label` in addition to the [shift](Self::add_shift), if the added query carries `label`.
    fn gain(&self, query: usize, point: usize, label: usize) -> f64;

    /// Adds `weight` times the [gain](Self::gain) of each calibration point in `points` to the entry of `sums` at the
    /// same index. The pair `of` holds the query and its label, which none of the points may carry. Returns the largest
    /// intermediate value, without the weight, from which the caller bounds rounding errors.
    fn add_gains(&self, of: (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64;

    /// Adds `weight` times bounds on the [gain](Self::gain) of every calibration point: lower bounds to `least`, upper
    /// bounds to `most`. They are valid for all labels but the point's own.
    fn add_gain_bounds(&self, query: usize, weight: f64, least: &mut [f64], most: &mut [f64]);
}

/// The numbers that determine the [shift](Predictions::add_shift): the change of regression outputs that does not
/// depend on the query's label.
///
/// Let b be the [outputs](Expert::outputs) of a calibration point with label y, and f those of the query. When the
/// query is added, the output for label z changes by `shrunk·(b(z) - [z = y]) - joined·f(z)`. The output for the
/// query's label grows by `joined` in addition, which is no part of the shift.
pub(super) struct Shifts<'a> {
    /// The outputs f of the query.
    pub(super) outputs: &'a [f64],
    /// For every calibration point, the relative change of its residuals `b(z) - [z = y]`.
    pub(super) shrunk: &'a [f64],
    /// For every calibration point, the factor of the query's outputs in the change.
    pub(super) joined: &'a [f64],
}

/// Trained prototypes: one mean per class, shrunk towards the mean of all fit points. The [module](self) has the
/// formulas.
#[derive(Clone, Debug)]
pub(super) struct Prototypes {
    /// Labels of the calibration points.
    labels: Vec<u32>,
    /// The calibration points in the whitened space.
    points: Targets,
    means: Targets,
    /// For every class, the number K = κ+k of points in its mean: κ prior points at the mean of all fit points, and the
    /// k points of the class.
    counts: Vec<f64>,
    /// Squared distances of the calibration points to the class means. The mean of a point's own class is taken without
    /// the point.
    squared: Matrix<f64>,
    /// The table `squared` in f32, transposed: one row per label.
    by_label: Matrix,
    /// For every class, the largest squared distance of a calibration point to the class mean.
    largest: Vec<f64>,
    /// For every calibration point, the least and the largest squared distance to the means of all classes but its own.
    ends: Vec<[f64; 2]>,
    /// Log posteriors of the calibration points, predicted for each point by all training points but itself.
    bag: Matrix<f64>,
}

impl Prototypes {
    /// Computes the class means from all points of `training`. `prior` is the number κ, above 0, of prior points in
    /// every mean.
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
            // The distance to a mean of K points that includes the point itself is (K-1)/K of the distance to the mean
            // without it.
            squared[own] *= (count / (count - 1.0)).powi(2);
            for (label, (log_posterior, &squared)) in bag.row_mut(row).iter_mut().zip(&*squared).enumerate() {
                *log_posterior = -squared;
                if label != own {
                    ends[row] = [ends[row][0].min(squared), ends[row][1].max(squared)];
                }
            }
        }
        let transposed = squared.transposed();
        let largest = (0..classes).map(|label| transposed.row(label).iter().copied().fold(0.0, f64::max)).collect();
        let (points, by_label) = (Targets::new(&own, context), transposed.to_f32());
        Self { labels, points, means, counts, squared, by_label, largest, ends, bag }
    }
}

/// Returns the shrunken mean of every class, and the number of points in each mean. Each mean includes `prior` points
/// at the mean of all fit points.
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
        Box::new(PrototypePredictions { of: self, to_points, to_means, log_posterior, constant, near, farthest })
    }
}

/// Returns `K/(K+1)²·‖μ-q‖²`, the part of the [gain](Predictions::gain) that is equal for all calibration points.
/// `squared` is `‖μ-q‖²`, the squared distance of the query q to a class mean μ. `count` is the number K of points in
/// this mean.
fn constant_of(squared: f64, count: f64) -> f64 {
    let share = 1.0 / (count + 1.0);
    count * share * share * squared
}

/// The predictions of [`Prototypes`] for a block of queries.
struct PrototypePredictions<'a> {
    of: &'a Prototypes,
    /// Squared distances of the queries to the calibration points.
    to_points: Matrix<f64>,
    /// Squared distances of the queries to the class means.
    to_means: Matrix<f64>,
    log_posterior: Matrix<f64>,
    /// For every query and label, the part of the [gain](Predictions::gain) that is equal for all calibration points;
    /// see [`constant_of`].
    constant: Matrix<f64>,
    /// The table `to_points` in f32.
    near: Matrix,
    /// For every query, the largest squared distance to a calibration point.
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
        // The mean of the point's own class leaves out the point.
        let others = count - 1.0;
        let with = self.to_means.row(query)[label];
        let to_mean = count / others * (with - near / count + others / (count * count) * squared);
        (squared - near) / count + constant_of(to_mean, others)
    }

    fn add_gains(&self, (query, label): (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64 {
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

/// The number of calibration points whose distances to all points are in memory at the same time.
pub(super) const ROWS: usize = 1024;

/// The nearest-neighbor expert. Let d be the squared distance to the nearest point of a class in the learned space,
/// limited to `range`. The log posterior of the class is `-ln d`.
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    /// The floor and the ceiling, to which squared distances are limited.
    range: [f64; 2],
    points: Targets,
    labels: Vec<u32>,
    /// The number of fit points, which come before the calibration points.
    fit: usize,
    /// Log posteriors of the calibration points, predicted for each point by all training points but itself.
    bag: Matrix<f64>,
    /// The table `bag` in f32, transposed: one row per label.
    by_label: Matrix,
    /// For every calibration point, the least of its log posteriors over all classes.
    least: Vec<f64>,
}

impl Nearest {
    /// Trains the expert: computes the log posteriors of the calibration points from their distances to all other
    /// points. `range` holds the floor and the ceiling of squared distances.
    pub(super) fn open(training: &TrainingSet<'_>, range: [f64; 2], context: &Context<'_>) -> Self {
        let points = training.points.get(Space::Learned);
        let own: Vec<usize> = (training.fit..training.labels.len()).collect();
        let own = points.select(&own);
        let (points, labels) = (Targets::new(points, context), training.labels.to_vec());
        let mut opened = Self {
            range,
            points,
            labels,
            fit: training.fit,
            bag: Matrix::<f64>::default(),
            by_label: Matrix::default(),
            least: Vec::new(),
        };
        let mut bag = Matrix::<f64>::zeros(own.rows(), training.classes);
        for first in (0..own.rows()).step_by(ROWS) {
            let rows: Vec<usize> = (first..own.rows().min(first + ROWS)).collect();
            let mut squared = opened.points.squared(&own.select(&rows), context);
            for (at, row) in rows.into_iter().enumerate() {
                squared.row_mut(at)[training.fit + row] = f64::INFINITY;
                opened.of_classes(squared.row(at), bag.row_mut(row));
            }
        }
        let least = |row: &[f64]| row.iter().copied().fold(f64::INFINITY, f64::min);
        opened.least = (0..bag.rows()).map(|row| least(bag.row(row))).collect();
        opened.by_label = bag.transposed().to_f32();
        opened.bag = bag;
        opened
    }

    /// Writes the log posterior of every class to `log_posterior`. `squared` holds the squared distances of one point
    /// to all training points.
    fn of_classes(&self, squared: &[f64], log_posterior: &mut [f64]) {
        log_posterior.fill(self.range[1]);
        for (&squared, &label) in squared.iter().zip(&self.labels) {
            let least = &mut log_posterior[label as usize];
            *least = least.min(squared);
        }
        for value in log_posterior {
            *value = self.of(*value);
        }
    }

    fn of(&self, squared: f64) -> f64 {
        -squared.clamp(self.range[0], self.range[1]).ln()
    }
}

impl Expert for Nearest {
    fn bag(&self) -> &Matrix<f64> {
        &self.bag
    }

    fn predict<'a>(&'a self, block: &MappedPoints, context: &Context<'_>) -> Box<dyn Predictions + 'a> {
        let queries = block.get(Space::Learned);
        let squared = self.points.squared(queries, context);
        let mut log_posterior = Matrix::<f64>::zeros(queries.rows(), self.bag.cols());
        let mut to_bag = Matrix::<f64>::zeros(queries.rows(), self.points.len() - self.fit);
        for query in 0..queries.rows() {
            self.of_classes(squared.row(query), log_posterior.row_mut(query));
            for (log_posterior, &squared) in to_bag.row_mut(query).iter_mut().zip(&squared.row(query)[self.fit..]) {
                *log_posterior = self.of(squared);
            }
        }
        Box::new(NearestPredictions { of: self, near: to_bag.to_f32(), log_posterior, to_bag })
    }
}

struct NearestPredictions<'a> {
    of: &'a Nearest,
    log_posterior: Matrix<f64>,
    /// For every query and calibration point, the point's log posterior of a class if the query is the nearest point of
    /// this class.
    to_bag: Matrix<f64>,
    /// The table `to_bag` in f32.
    near: Matrix,
}

impl Predictions for NearestPredictions<'_> {
    fn log_posterior(&self, query: usize) -> &[f64] {
        self.log_posterior.row(query)
    }

    fn gain(&self, query: usize, point: usize, label: usize) -> f64 {
        (self.to_bag.row(query)[point] - self.of.bag.row(point)[label]).max(0.0)
    }

    fn add_gains(&self, (query, label): (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64 {
        let (near, log_posterior) = (self.near.row(query), self.of.by_label.row(label));
        let weight = weight as f32;
        for (sum, &point) in sums.iter_mut().zip(points) {
            *sum += weight * (near[point as usize] - log_posterior[point as usize]).max(0.0);
        }
        self.of.range[0].ln().abs().max(self.of.range[1].ln().abs())
    }

    fn add_gain_bounds(&self, query: usize, weight: f64, _least: &mut [f64], most: &mut [f64]) {
        for ((most, near), least) in most.iter_mut().zip(self.to_bag.row(query)).zip(&self.of.least) {
            *most += weight * (near - least).max(0.0);
        }
    }
}
