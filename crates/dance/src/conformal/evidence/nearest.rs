//! **Nearest**: how far the nearest point of every class is, in the metric that the kernel learned: `e(y) = -ln min_j ‖x-x_j‖²`, j of
//! class y.
//!
//! What the rank of a label says, without ranks: those of the whole bag would move with every query, a distance moves only when the
//! query is nearer. The logarithm makes it a matter of ratios, as ranks are. Squared distances are held between a floor and a
//! ceiling from the fit part; the ceiling also stands for a class without points.
//!
//! Cost of a query: `2Nd`. Memory: n·c and N·d numbers.

use super::expert::{Asked, Block, Expert, Support};
use super::settings::Space;
use super::wide::{Targets, Wide};
use crate::context::Context;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    range: [f64; 2],
    points: Targets,
    labels: Vec<u32>,
    /// Points before the bag.
    fit: usize,
    bag: Wide,
}

impl Nearest {
    /// `range` holds squared distances.
    pub(super) fn open(support: &Support<'_>, range: [f64; 2], context: &Context<'_>) -> Self {
        let points = support.points.get(Space::Learned);
        let own: Vec<usize> = (support.fit..support.labels.len()).collect();
        let own = points.select(&own);
        let (points, labels) = (Targets::new(points), support.labels.to_vec());
        let mut opened =
            Self { range, points, labels, fit: support.fit, bag: Wide::zeros(own.rows(), support.classes) };
        let mut bag = std::mem::take(&mut opened.bag);
        let mut squared = opened.points.squared(&own, context);
        for row in 0..own.rows() {
            squared.row_mut(row)[support.fit + row] = f64::INFINITY;
            opened.of_classes(squared.row(row), bag.row_mut(row));
        }
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
        Box::new(Asking { bag: &self.bag, evidence, to_bag })
    }
}

struct Asking<'a> {
    bag: &'a Wide,
    evidence: Wide,
    /// What a class would have if the query were its nearest point.
    to_bag: Wide,
}

impl Asked for Asking<'_> {
    fn evidence(&self, query: usize) -> &[f64] {
        self.evidence.row(query)
    }

    fn join(&self, query: usize, point: usize, weight: f64, joined: &mut [f64]) {
        let near = self.to_bag.row(query)[point];
        for (joined, &evidence) in joined.iter_mut().zip(self.bag.row(point)) {
            *joined += weight * (near - evidence).max(0.0);
        }
    }
}
