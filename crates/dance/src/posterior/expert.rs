//! The interface of the experts: log posteriors of the bag, predictions for queries, and the changes when a query
//! joins. The expert of nearest neighbors follows it.

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

/// The labelled points that experts are trained on: fit points, then the bag.
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

/// A classifier in closed form, whose log posteriors the stack multiplies by a weight and adds.
pub(super) trait Expert: Send + Sync + std::fmt::Debug {
    /// Returns the log posteriors of every point of the bag, from all points but itself.
    fn bag(&self) -> &Matrix<f64>;

    /// Returns the regression outputs of the bag and the link that maps them to log posteriors; `None` without a link.
    fn outputs(&self) -> Option<(&Matrix<f64>, Link)> {
        None
    }

    /// Predicts queries.
    fn predict<'a>(&'a self, block: &MappedPoints, context: &Context<'_>) -> Box<dyn Predictions + 'a>;
}

/// An expert's predictions for a block of queries, and the changes in the bag when one of them joins.
pub(super) trait Predictions: Send + Sync {
    /// Returns the query's log posteriors, from fit points and bag.
    fn log_posterior(&self, query: usize) -> &[f64];

    /// Adds `weight` times the change in a point's log posteriors that does not depend on the query's label.
    fn add_shift(&self, _query: usize, _point: usize, _weight: f64, _row: &mut [f64]) {}

    /// Returns the terms of this change for all points of the bag; `None` if there is no such change.
    fn shifts(&self, _query: usize) -> Option<Shifts<'_>> {
        None
    }

    /// Returns the further change in a point's log posterior **for `label`** if the query carries it.
    fn gain(&self, query: usize, point: usize, label: usize) -> f64;

    /// Adds `weight` times the [gain](Self::gain) of every one of `points` to its sum. Points with that label get
    /// values without meaning. Returns the largest intermediate value, without the weight, for the rounding bound.
    fn add_gains(&self, of: (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64;

    /// Adds `weight` times the least and the largest [gain](Self::gain) over labels but the point's own, for all
    /// points.
    fn add_gain_bounds(&self, query: usize, weight: f64, least: &mut [f64], most: &mut [f64]);
}

/// The terms of a change of outputs that does not depend on the query's label.
///
/// Let b be the [outputs](Expert::outputs) of a point with label y, and f those of the query. The output for z changes
/// by `shrunk·(b(z) - [z = y]) - joined·f(z)`. The output for the query's label changes by `joined` beyond that.
pub(super) struct Shifts<'a> {
    /// The outputs f of the query.
    pub(super) outputs: &'a [f64],
    /// The relative change of a point's residuals, one number per point.
    pub(super) shrunk: &'a [f64],
    /// The factor of the query's outputs, one number per point.
    pub(super) joined: &'a [f64],
}

/// Points of the bag whose distances to all points are in memory at the same time.
pub(super) const ROWS: usize = 1024;

/// The points and the nearest distances of the bag; see the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    /// Floor and ceiling of squared distances.
    range: [f64; 2],
    points: Targets,
    labels: Vec<u32>,
    /// The number of points before the bag.
    fit: usize,
    /// Log posteriors of the bag.
    bag: Matrix<f64>,
    /// Log posteriors of the bag in f32, label by label.
    by_label: Matrix,
    /// The least log posterior of every point of the bag.
    least: Vec<f64>,
}

impl Nearest {
    /// Takes all points; `range` holds squared distances.
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

    /// Fills in the log posteriors of every class from squared distances to all points.
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
            for (log_posterior, &squared) in
                to_bag.row_mut(query).iter_mut().zip(&squared.row(query)[self.fit..])
            {
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
    /// The log posterior that a class would have at every point of the bag if the query were its nearest point.
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

    fn add_gains(
        &self,
        (query, label): (usize, usize),
        points: &[u32],
        weight: f64,
        sums: &mut [f32],
    ) -> f64 {
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
