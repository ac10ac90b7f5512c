//! The shrinkage γ of the covariance within classes, chosen by cross-fitting on two halves of the fit points.
//!
//! Prototypes whose covariance comes from one half predict the points of the other half. The class means are shrunk by
//! priors, as in the stack.
//!
//! Cost for n points in d dimensions and c classes: an eigendecomposition (10d³ operations) and a rotation of the
//! points for each half, then `2ndc` for every shrinkage and prior.

use crate::context::Context;
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::posterior::expert::{Expert, MappedPoints, TrainingSet};
use crate::posterior::prototypes::Prototypes;
use crate::posterior::weights::ConditionalLogit;
use crate::posterior::whitening::Scatter;

/// Values of the shrinkage γ that are compared.
const SHRINKAGES: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.85, 0.95];
/// Prior weights κ of the prototypes. Every shrinkage is tried with both, and the smaller log loss counts.
const PRIORS: [f64; 2] = [1.0, 4.0];
/// The largest number of points per half.
const HALF: usize = 600;

/// Returns the shrinkage with the least log loss. For every pair in `halves`, prototypes with the covariance of the
/// first rows predict the second rows.
pub(super) fn shrinkage(
    points: &Matrix<f64>,
    labels: &[u32],
    classes: usize,
    halves: [[&[usize]; 2]; 2],
    context: &Context<'_>,
) -> Result<f64> {
    let tried: Vec<[f64; 2]> =
        SHRINKAGES.iter().flat_map(|&shrinkage| PRIORS.map(|prior| [shrinkage, prior])).collect();
    let (mut tables, mut truth) = (vec![Matrix::<f64>::default(); tried.len()], Vec::new());
    for half in halves {
        let [trained, held_out] = half.map(|rows| &rows[..rows.len().min(HALF)]);
        let of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<u32>>();
        let scatter = Scatter::new(&points.select(trained), &of(trained), classes, context);
        let rows = [trained, held_out].concat();
        let (rotated, labels) = (scatter.rotate(&points.select(&rows), context), of(&rows));
        for (table, &[shrinkage, prior]) in tables.iter_mut().zip(&tried) {
            context.check()?;
            let points = MappedPoints { white: scatter.white(&rotated, shrinkage), ..MappedPoints::default() };
            let training = TrainingSet { points: &points, labels: &labels, fit: trained.len(), classes };
            let prototypes = Prototypes::open(&training, prior, context);
            *table = std::mem::take(table).concat(prototypes.bag());
        }
        truth.extend(of(held_out));
    }
    let loss = |table: &Matrix<f64>| ConditionalLogit { tables: vec![table], labels: &truth, context }.fit(&[0]).loss;
    let losses = tables.iter().map(loss).zip(&tried);
    Ok(losses.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(SHRINKAGES[0], |(_, &[shrinkage, _])| shrinkage))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::numeric::random::Random;

    /// Returns the shrinkage for 5 random classes of `each` points in 12 dimensions. Points have the standard deviation
    /// `wide` in the first 6 dimensions, and 1 in the others.
    fn chosen(each: usize, wide: f64) -> f64 {
        let mut random = Random::new(3, 9);
        let (classes, d) = (5, 12);
        let mut means = Matrix::<f64>::zeros(classes, d);
        means.as_mut_slice().iter_mut().for_each(|value| *value = random.normal());
        let labels: Vec<u32> = (0..classes * each).map(|row| (row % classes) as u32).collect();
        let mut points = Matrix::<f64>::zeros(labels.len(), d);
        for (row, &label) in labels.iter().enumerate() {
            for at in 0..d {
                let scatter = if at < d / 2 { wide } else { 1.0 };
                points.row_mut(row)[at] = means.row(label as usize)[at] + scatter * random.normal();
            }
        }
        let rows: Vec<usize> = (0..labels.len()).collect();
        let (first, second) = rows.split_at(rows.len() / 2);
        let context = Context::new(2).unwrap();
        shrinkage(&points, &labels, classes, [[first, second], [second, first]], &context).unwrap()
    }

    /// Shrinkage makes a covariance rounder. Many points determine an elongated scatter well, which then needs no
    /// shrinkage.
    #[test]
    fn few_points_of_a_round_scatter_are_shrunk_and_many_of_a_long_one_are_not() {
        assert!(chosen(6, 1.0) >= 0.85, "{}", chosen(6, 1.0));
        assert!(chosen(120, 6.0) <= 0.1, "{}", chosen(120, 6.0));
    }
}
