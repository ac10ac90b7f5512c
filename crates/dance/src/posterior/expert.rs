//! The interface of the experts: log posteriors of the bag, predictions for queries, and the changes when a query
//! joins.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::link::Link;
use crate::posterior::settings::Space;

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
