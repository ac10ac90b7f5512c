//! **Nearest**: the distance to the nearest point of every class in the learned metric, `e(y) = -ln min_j ‖x-x_j‖²`
//! over the points j of class y.
//!
//! This stands for the rank of a label among the neighbors. Ranks of the whole bag would move with every query; a
//! distance moves only if the query is nearer. The logarithm makes ratios of distances count, as for ranks. Squared
//! distances are clamped between a floor and a ceiling from the fit points. A class without points has the ceiling.
//!
//! Cost of a query: `2Nd`. Memory: 12·n·c bytes and N·d numbers.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::expert::{Expert, MappedPoints, Predictions, TrainingSet};
use crate::posterior::products::Targets;
use crate::posterior::settings::Space;

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
