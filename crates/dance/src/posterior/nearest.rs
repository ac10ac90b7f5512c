//! **Nearest**: how far the nearest point of every class is, in the metric that the kernel learned: `e(y) = -ln min_j ‖x-x_j‖²`, j of
//! class y.
//!
//! What the rank of a label says, without ranks: those of the whole bag would move with every query, a distance moves only when the
//! query is nearer. The logarithm makes it a matter of ratios, as ranks are. Squared distances are held between a floor and a
//! ceiling from the fit part; the ceiling also stands for a class without points.
//!
//! Cost of a query: `2Nd`. Memory: 12·n·c bytes and N·d numbers.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::expert::{Asked, Block, Expert, Support};
use crate::posterior::settings::Space;
use crate::posterior::wide::{Targets, Wide};

/// Points of the bag whose distances to all points are there at the same time.
pub(super) const ROWS: usize = 1024;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    range: [f64; 2],
    points: Targets,
    labels: Vec<u32>,
    /// Points before the bag.
    fit: usize,
    bag: Wide,
    /// The same in f32, label by label.
    by_label: Matrix,
    /// The least evidence of every point of the bag.
    least: Vec<f64>,
}

impl Nearest {
    /// `range` holds squared distances.
    pub(super) fn open(support: &Support<'_>, range: [f64; 2], context: &Context<'_>) -> Self {
        let points = support.points.get(Space::Learned);
        let own: Vec<usize> = (support.fit..support.labels.len()).collect();
        let own = points.select(&own);
        let (points, labels) = (Targets::new(points, context), support.labels.to_vec());
        let mut opened = Self {
            range,
            points,
            labels,
            fit: support.fit,
            bag: Wide::default(),
            by_label: Matrix::default(),
            least: Vec::new(),
        };
        let mut bag = Wide::zeros(own.rows(), support.classes);
        for first in (0..own.rows()).step_by(ROWS) {
            let rows: Vec<usize> = (first..own.rows().min(first + ROWS)).collect();
            let mut squared = opened.points.squared(&own.select(&rows), context);
            for (at, row) in rows.into_iter().enumerate() {
                squared.row_mut(at)[support.fit + row] = f64::INFINITY;
                opened.of_classes(squared.row(at), bag.row_mut(row));
            }
        }
        let least = |row: &[f64]| row.iter().copied().fold(f64::INFINITY, f64::min);
        opened.least = (0..bag.rows()).map(|row| least(bag.row(row))).collect();
        opened.by_label = bag.turned().narrow();
        opened.bag = bag;
        opened
    }

    /// Evidence for every class from squared distances to all points.
    fn of_classes(&self, squared: &[f64], evidence: &mut [f64]) {
        evidence.fill(self.range[1]);
        for (&squared, &label) in squared.iter().zip(&self.labels) {
            let least = &mut evidence[label as usize];
            *least = least.min(squared);
        }
        for value in evidence {
            *value = self.of(*value);
        }
    }

    fn of(&self, squared: f64) -> f64 {
        -squared.clamp(self.range[0], self.range[1]).ln()
    }
}

impl Expert for Nearest {
    fn bag(&self) -> &Wide {
        &self.bag
    }

    fn ask<'a>(&'a self, block: &Block, context: &Context<'_>) -> Box<dyn Asked + 'a> {
        let queries = block.get(Space::Learned);
        let squared = self.points.squared(queries, context);
        let mut evidence = Wide::zeros(queries.rows(), self.bag.cols());
        let mut to_bag = Wide::zeros(queries.rows(), self.points.len() - self.fit);
        for query in 0..queries.rows() {
            self.of_classes(squared.row(query), evidence.row_mut(query));
            for (evidence, &squared) in to_bag.row_mut(query).iter_mut().zip(&squared.row(query)[self.fit..])
            {
                *evidence = self.of(squared);
            }
        }
        Box::new(Asking { of: self, near: to_bag.narrow(), evidence, to_bag })
    }
}

struct Asking<'a> {
    of: &'a Nearest,
    evidence: Wide,
    /// What a class would have if the query were its nearest point.
    to_bag: Wide,
    /// The same in f32.
    near: Matrix,
}

impl Asked for Asking<'_> {
    fn evidence(&self, query: usize) -> &[f64] {
        self.evidence.row(query)
    }

    fn join(&self, query: usize, point: usize, label: usize) -> f64 {
        (self.to_bag.row(query)[point] - self.of.bag.row(point)[label]).max(0.0)
    }

    fn gains(&self, (query, label): (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64 {
        let (near, evidence) = (self.near.row(query), self.of.by_label.row(label));
        let weight = weight as f32;
        for (sum, &point) in sums.iter_mut().zip(points) {
            *sum += weight * (near[point as usize] - evidence[point as usize]).max(0.0);
        }
        self.of.range[0].ln().abs().max(self.of.range[1].ln().abs())
    }

    fn between(&self, query: usize, weight: f64, _least: &mut [f64], most: &mut [f64]) {
        for ((most, near), least) in most.iter_mut().zip(self.to_bag.row(query)).zip(&self.of.least) {
            *most += weight * (near - least).max(0.0);
        }
    }
}
