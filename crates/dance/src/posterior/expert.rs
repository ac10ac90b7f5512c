//! The interface of the experts: log posteriors of the calibration points, predictions for queries, and the changes of
//! these log posteriors when a query is added. The file also holds the nearest-neighbor expert.
//!
//! In names, `bag` means the calibration points that experts are trained on.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::link::Link;
use crate::posterior::settings::Space;
use crate::posterior::spaces::Targets;

/// Points mapped to every space.
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

    /// Returns these points, followed by those of `below`.
    pub(super) fn concat(self, below: &Self) -> Self {
        Self {
            raw: self.raw.concat(&below.raw),
            white: self.white.concat(&below.white),
            learned: self.learned.concat(&below.learned),
        }
    }
}

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

/// A classifier in closed form. The stack multiplies the log posteriors of each expert by a weight and adds them.
pub(super) trait Expert: Send + Sync + std::fmt::Debug {
    /// Returns the log posteriors of every calibration point, from all points but itself.
    fn bag(&self) -> &Matrix<f64>;

    /// Returns the regression outputs of the calibration points and the link that maps them to log posteriors; `None`
    /// for an expert without a link.
    fn outputs(&self) -> Option<(&Matrix<f64>, Link)> {
        None
    }

    /// Returns the predictions for a block of queries.
    fn predict<'a>(&'a self, block: &MappedPoints, context: &Context<'_>) -> Box<dyn Predictions + 'a>;
}

/// An expert's predictions for a block of queries, and the changes in the calibration points' log posteriors when one
/// of these queries is added.
pub(super) trait Predictions: Send + Sync {
    /// Returns the query's log posteriors, from all points that the expert was trained on.
    fn log_posterior(&self, query: usize) -> &[f64];

    /// Adds `weight` times the shift of a calibration point's log posteriors to `row`. The shift is the part of their
    /// change that does not depend on the query's label.
    fn add_shift(&self, _query: usize, _point: usize, _weight: f64, _row: &mut [f64]) {}

    /// Returns the terms of the [shift](Self::add_shift) for all calibration points; `None` if the expert has no shift.
    fn shifts(&self, _query: usize) -> Option<Shifts<'_>> {
        None
    }

    /// Returns the gain of a calibration point: the further change in its log posterior **for `label`** if the query
    /// carries this label.
    fn gain(&self, query: usize, point: usize, label: usize) -> f64;

    /// Adds `weight` times the [gain](Self::gain) of every one of `points` to its entry in `sums`. The pair `of` holds
    /// the query and its label; points with this label get meaningless values. Returns the largest intermediate value,
    /// without the weight, for the rounding bound.
    fn add_gains(&self, of: (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64;

    /// Adds `weight` times the least and the largest [gain](Self::gain) over all labels but the point's own, for every
    /// calibration point.
    fn add_gain_bounds(&self, query: usize, weight: f64, least: &mut [f64], most: &mut [f64]);
}

/// The terms of the shift: the change of regression outputs that does not depend on the query's label.
///
/// Let b be the [outputs](Expert::outputs) of a calibration point with label y, and f those of the query. The output
/// for label z changes by `shrunk·(b(z) - [z = y]) - joined·f(z)`. The output for the query's label changes by `joined`
/// in addition.
pub(super) struct Shifts<'a> {
    /// The outputs f of the query.
    pub(super) outputs: &'a [f64],
    /// The relative change of a point's residuals, one number per calibration point.
    pub(super) shrunk: &'a [f64],
    /// The factor of the query's outputs, one number per calibration point.
    pub(super) joined: &'a [f64],
}

/// The number of calibration points whose distances to all points are in memory at the same time.
pub(super) const ROWS: usize = 1024;

/// The nearest-neighbor expert. The log posterior of a class is `-ln` of the squared distance to its nearest point in
/// the learned space, with the distance limited to `range`.
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    /// The floor and the ceiling of squared distances.
    range: [f64; 2],
    points: Targets,
    labels: Vec<u32>,
    /// The number of fit points, which come before the calibration points.
    fit: usize,
    /// Log posteriors of the calibration points, each from all points but itself.
    bag: Matrix<f64>,
    /// The table `bag` in f32, transposed: one row per label.
    by_label: Matrix,
    /// The least log posterior of every calibration point.
    least: Vec<f64>,
}

impl Nearest {
    /// Computes the log posteriors of the calibration points. `range` holds the floor and the ceiling of squared
    /// distances.
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

    /// Computes the log posterior of every class from squared distances to all points.
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

/// Predictions for a block of queries.
struct NearestPredictions<'a> {
    of: &'a Nearest,
    log_posterior: Matrix<f64>,
    /// The log posterior that a class would have at every calibration point if its nearest point were the query.
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
