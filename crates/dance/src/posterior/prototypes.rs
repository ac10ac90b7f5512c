//! **Prototypes**: how near a point is to the mean of every class, in the space in which points of a class scatter alike.
//!
//! With z = xW, `WWᵀ = ((1-γ)S + γ·tr(S)/d·I)⁻¹`, S the pooled covariance within classes of the fit points: `e(y) = -‖z-μ‖²`, where μ
//! is the mean of the k points of class y and of κ points at the mean m of all fit points, `(κm + Σz)/(κ+k)`. That is what is known of
//! the mean of a class whose points scatter around it as S says if means of classes scatter around m as `S/κ`: the fewer points a
//! class has, the less they are believed, and a class without points is at m.
//!
//! Leaving a point out and adding a query move one mean each, and with κ+k for k squared distances to a mean of means are
//! `‖z-μ'‖² = k/(k+1)·‖z-μ‖² + ‖z-q‖²/(k+1) - k/(k+1)²·‖μ-q‖²`: nothing is rebuilt.
//!
//! Models of before have κ = 0 and `e(y) = D/k - ‖z-μ‖²`, where D, the mean squared residual, takes off the noise of a mean of k points; a
//! class without points has a constant.
//!
//! Cost of a query: `2d² + 2(n+c)d`, then two operations per label and point. Memory: n·(2c+d) numbers of f64 and n·c of f32.

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::expert::{Asked, Block, Expert, Support};
use crate::posterior::settings::Space;
use crate::posterior::wide::{Targets, Wide};

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Prototypes {
    spread: f64,
    nothing: f64,
    labels: Vec<u32>,
    /// Of the bag.
    points: Targets,
    means: Targets,
    /// Points of every class, those at the mean of all among them.
    counts: Vec<f64>,
    /// Squared distances of the bag to the means, to that of its own class without itself.
    squared: Wide,
    /// The same in f32, label by label, and the largest of every label.
    by_label: Matrix,
    largest: Vec<f64>,
    /// The least and the largest squared distance of every point to a class that is not its own.
    ends: Vec<[f64; 2]>,
    bag: Wide,
}

impl Prototypes {
    /// `prior` is κ. Where it is 0, `spread` is D and `nothing` stands for the squared distance to a class without points.
    pub(super) fn open(
        support: &Support<'_>,
        prior: f64,
        [spread, nothing]: [f64; 2],
        context: &Context<'_>,
    ) -> Self {
        let (points, classes) = (support.points.get(Space::White), support.classes);
        let mut means = Wide::zeros(classes, points.cols());
        let mut counts = vec![prior; classes];
        if prior > 0.0 {
            let mut all = vec![0.0; points.cols()];
            for row in 0..support.fit {
                all.iter_mut().zip(points.row(row)).for_each(|(sum, value)| *sum += value);
            }
            let share = prior / support.fit.max(1) as f64;
            for sum in &mut all {
                *sum *= share;
            }
            (0..classes).for_each(|label| means.row_mut(label).copy_from_slice(&all));
        }
        for (row, &label) in support.labels.iter().enumerate() {
            counts[label as usize] += 1.0;
            for (sum, &value) in means.row_mut(label as usize).iter_mut().zip(points.row(row)) {
                *sum += value;
            }
        }
        for (label, &count) in counts.iter().enumerate() {
            let count = if count == 0.0 { 1.0 } else { count };
            means.row_mut(label).iter_mut().for_each(|sum| *sum /= count);
        }
        let own: Vec<usize> = (support.fit..support.labels.len()).collect();
        let (own, labels) = (points.select(&own), support.labels[support.fit..].to_vec());
        let means = Targets::new(&means, context);
        let mut squared = means.squared(&own, context);
        let mut bag = Wide::zeros(own.rows(), classes);
        let mut ends = vec![[f64::INFINITY, 0.0f64]; own.rows()];
        for (row, &label) in labels.iter().enumerate() {
            let squared = squared.row_mut(row);
            for (value, &count) in squared.iter_mut().zip(&counts) {
                if count == 0.0 {
                    *value = nothing;
                }
            }
            let (own, count) = (label as usize, counts[label as usize]);
            // A mean that holds the point itself is nearer by (k-1)/k than the mean of the others.
            squared[own] =
                if count == 1.0 { nothing } else { squared[own] * (count / (count - 1.0)).powi(2) };
            for (label, (evidence, &squared)) in bag.row_mut(row).iter_mut().zip(&*squared).enumerate() {
                let others = counts[label] - f64::from(u8::from(label == own));
                *evidence = of(squared, others, spread);
                if label != own {
                    ends[row] = [ends[row][0].min(squared), ends[row][1].max(squared)];
                }
            }
        }
        let turned = squared.turned();
        let largest =
            (0..classes).map(|label| turned.row(label).iter().copied().fold(0.0, f64::max)).collect();
        Self {
            spread,
            nothing,
            labels,
            points: Targets::new(&own, context),
            means,
            counts,
            by_label: turned.narrow(),
            largest,
            squared,
            ends,
            bag,
        }
    }
}

/// Evidence at a squared distance to the mean of `count` points.
fn of(squared: f64, count: f64, spread: f64) -> f64 {
    if count == 0.0 { -squared } else { spread / count - squared }
}

impl Expert for Prototypes {
    fn bag(&self) -> &Wide {
        &self.bag
    }

    fn ask<'a>(&'a self, block: &Block, context: &Context<'_>) -> Box<dyn Asked + 'a> {
        let queries = block.get(Space::White);
        let to_points = self.points.squared(queries, context);
        let to_means = self.means.squared(queries, context);
        let mut evidence = Wide::zeros(queries.rows(), self.counts.len());
        let mut constant = evidence.clone();
        for query in 0..queries.rows() {
            let each = evidence.row_mut(query).iter_mut().zip(constant.row_mut(query));
            for ((evidence, constant), (&squared, &count)) in
                each.zip(to_means.row(query).iter().zip(&self.counts))
            {
                *evidence = of(if count == 0.0 { self.nothing } else { squared }, count, self.spread);
                *constant = constant_of(squared, count, self.spread);
            }
        }
        let largest = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
        let farthest = (0..to_points.rows()).map(|query| largest(to_points.row(query))).collect();
        Box::new(Asking {
            of: self,
            near: to_points.narrow(),
            farthest,
            to_points,
            to_means,
            evidence,
            constant,
        })
    }
}

/// What of a change does not depend on the point: the query moves the mean of `count` points, from which it is `squared` away.
fn constant_of(squared: f64, count: f64, spread: f64) -> f64 {
    let share = 1.0 / (count + 1.0);
    let before = if count == 0.0 { 0.0 } else { spread / count };
    count * share * share * squared + spread * share - before
}

struct Asking<'a> {
    of: &'a Prototypes,
    to_points: Wide,
    to_means: Wide,
    evidence: Wide,
    constant: Wide,
    /// Squared distances to the bag in f32, and the largest of every query.
    near: Matrix,
    farthest: Vec<f64>,
}

impl Asked for Asking<'_> {
    fn evidence(&self, query: usize) -> &[f64] {
        self.evidence.row(query)
    }

    fn join(&self, query: usize, point: usize, label: usize) -> f64 {
        let near = self.to_points.row(query)[point];
        let (count, squared) = (self.of.counts[label], self.of.squared.row(point)[label]);
        if label != self.of.labels[point] as usize {
            return (squared - near) / (count + 1.0) + self.constant.row(query)[label];
        }
        // The point's own class is without the point.
        let others = count - 1.0;
        let to_mean = if others == 0.0 {
            0.0
        } else {
            let with = self.to_means.row(query)[label];
            count / others * (with - near / count + others / (count * count) * squared)
        };
        (squared - near) / count + constant_of(to_mean, others, self.of.spread)
    }

    fn gains(&self, (query, label): (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64 {
        let (near, squared) = (self.near.row(query), self.of.by_label.row(label));
        let share = 1.0 / (self.of.counts[label] + 1.0);
        let constant = self.constant.row(query)[label];
        let (factor, added) = ((weight * share) as f32, (weight * constant) as f32);
        for (sum, &point) in sums.iter_mut().zip(points) {
            *sum += factor * (squared[point as usize] - near[point as usize]) + added;
        }
        share * (self.of.largest[label] + self.farthest[query]) + constant.abs()
    }

    fn between(&self, query: usize, weight: f64, least: &mut [f64], most: &mut [f64]) {
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
