//! How much the covariance within classes is shrunk: γ by halves, as everything that labels made is judged.
//!
//! Prototypes of the kind that will speak, with their prior, judge points that the covariance has not seen.
//!
//! Cost: an eigendecomposition (10d³) and a turn of the points for each half, then `2ndc` for every γ and prior.

use crate::context::Context;
use crate::error::Result;
use crate::posterior::expert::{Block, Expert, Support};
use crate::posterior::prototypes::Prototypes;
use crate::posterior::weights::Evidences;
use crate::posterior::whitening::Scatter;
use crate::posterior::wide::Wide;

/// What is tried.
const SHRINKAGES: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.85, 0.95];
/// Priors of the prototypes that judge: the better one counts.
const PRIORS: [f64; 2] = [1.0, 4.0];
/// Most points of a half.
const HALF: usize = 600;

/// The γ with the least log loss of prototypes that are set by the first rows of `halves` and judge the others, for every pair of them.
pub(super) fn shrinkage(
    points: &Wide,
    labels: &[u32],
    classes: usize,
    halves: [[&[usize]; 2]; 2],
    context: &Context<'_>,
) -> Result<f64> {
    let tried: Vec<[f64; 2]> =
        SHRINKAGES.iter().flat_map(|&shrinkage| PRIORS.map(|prior| [shrinkage, prior])).collect();
    let (mut tables, mut truth) = (vec![Wide::default(); tried.len()], Vec::new());
    for half in halves {
        let [taught, judged] = half.map(|rows| &rows[..rows.len().min(HALF)]);
        let of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<u32>>();
        let scatter = Scatter::new(&points.select(taught), &of(taught), classes, context);
        let rows = [taught, judged].concat();
        let (turned, labels) = (scatter.turn(&points.select(&rows), context), of(&rows));
        for (table, &[shrinkage, prior]) in tables.iter_mut().zip(&tried) {
            context.check()?;
            let points = Block { white: scatter.white(&turned, shrinkage), ..Block::default() };
            let support = Support { points: &points, labels: &labels, fit: taught.len(), classes };
            let prototypes = Prototypes::open(&support, prior, [0.0; 2], context);
            *table = std::mem::take(table).above(prototypes.bag());
        }
        truth.extend(of(judged));
    }
    let loss = |table: &Wide| Evidences { tables: vec![table], labels: &truth, context }.fit(&[0]).loss;
    let losses = tables.iter().map(loss).zip(&tried);
    Ok(losses.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(SHRINKAGES[0], |(_, &[shrinkage, _])| shrinkage))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::numeric::random::Random;

    /// Classes of `each` points in 12 dimensions; points scatter around their means by `wide` in the first half of the dimensions.
    fn chosen(each: usize, wide: f64) -> f64 {
        let mut random = Random::new(3, 9);
        let (classes, d) = (5, 12);
        let mut means = Wide::zeros(classes, d);
        means.as_mut_slice().iter_mut().for_each(|value| *value = random.normal());
        let labels: Vec<u32> = (0..classes * each).map(|row| (row % classes) as u32).collect();
        let mut points = Wide::zeros(labels.len(), d);
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

    /// A round scatter is what the shrunken covariance tends to; a long one that many points show should stay as it is.
    #[test]
    fn few_points_of_a_round_scatter_are_shrunk_and_many_of_a_long_one_are_not() {
        assert!(chosen(6, 1.0) >= 0.85, "{}", chosen(6, 1.0));
        assert!(chosen(120, 6.0) <= 0.1, "{}", chosen(120, 6.0));
    }
}
