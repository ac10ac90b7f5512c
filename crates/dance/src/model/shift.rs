//! Calibration under distribution shift: of the calibration points, a sample is kept in proportion to importance
//! weights.
//!
//! **Covariate shift**: weights are likelihood ratios of new to old points, up to a common factor. Rejection sampling
//! (von Neumann) keeps point i of weight `w_i` with probability `w_i / w_max`, where `w_max` is the largest weight. The
//! kept points are a draw from the law of new points, so the guarantee of every calibration holds for new points. On
//! average the share `Σw / (n·w_max)` of n points is kept, while weighted quantiles would use all points. In return
//! full calibration remains valid, and the weights of new points need not be known. The point with the largest weight
//! is dropped, because its weight sets the scale. Given `w_max`, the other points are draws from the points with at
//! most this weight. The guarantee does not cover new points with a larger weight.
//!
//! **Label shift**: the proportions of classes change, and the law of the points of each class does not. The new
//! proportions maximise the likelihood of points without labels under the kernel machine's posteriors, with a weak
//! prior at the old proportions (EM; Saerens, Latinne and Decaestecker). The weight of a class is the ratio of its new
//! to its old proportion.

use super::dance::Dance;
use crate::context::Context;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::numeric::matrix::{Matrix, Rows};
use crate::numeric::random::Random;

/// The number of EM (expectation maximization) steps that estimate class proportions.
const STEPS: usize = 200;
/// The number that keeps the random choice of kept points apart from draws for other purposes under one seed.
const PURPOSE: u64 = 0x7417;

/// Keeps points with probabilities in proportion to their `weights`, and returns the indices of kept points, ascending.
/// The point with the largest weight is never returned, because its weight sets the scale of the probabilities. A
/// negative weight is an error.
pub fn rejection_sample(weights: &[f64], seed: u64) -> Result<Vec<usize>> {
    if let Some(row) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
        return Err(Error::Data(format!("the weight at row {row} is {}; weights are numbers from 0 on", weights[row])));
    }
    let largest = weights.iter().enumerate().fold(None, |best: Option<(usize, f64)>, (row, &weight)| match best {
        Some((_, most)) if most >= weight => best,
        _ => Some((row, weight)),
    });
    let Some((out, most)) = largest.filter(|&(_, most)| most > 0.0) else {
        return Err(Error::Data("no weight is above 0, so no point would be kept".into()));
    };
    Ok(keep(weights, most, seed).into_iter().filter(|&row| row != out).collect())
}

/// Keeps each point with probability weight / `most`, and returns the indices of kept points, ascending. No weight may
/// exceed `most`.
fn keep(weights: &[f64], most: f64, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed, PURPOSE);
    // Every point draws a number, so that one weight does not change the draws of the others.
    (0..weights.len()).filter(|&row| random.uniform() * most < weights[row]).collect()
}

impl Dance {
    /// Samples points of `data`, and returns their indices. In the sample, classes have the proportions that are
    /// estimated for the points `unlabeled`. These points are embeddings as the encoder returns them.
    pub fn label_shift<'q>(
        &self,
        data: &Dataset,
        unlabeled: impl Into<Rows<'q>>,
        seed: u64,
        context: &Context<'_>,
    ) -> Result<Vec<usize>> {
        let classified = self.classifier.classify(unlabeled, context)?;
        let known = classified.probabilities.cols();
        let mut before = vec![0.0; known];
        for &label in &self.fitted.rfm.labels {
            before[label as usize] += 1.0 / self.fitted.rfm.labels.len() as f64;
        }
        let now = proportions(&classified.probabilities, &before);
        // The proportions of the classes in `data`.
        let mut here = vec![0.0; known];
        let ids = self.class_ids(data);
        let known_id = |id: &Option<u32>| id.filter(|&id| (id as usize) < known).map(|id| id as usize);
        for id in ids.iter().filter_map(known_id) {
            here[id] += 1.0 / data.len() as f64;
        }
        // Points of classes that the kernel machine does not know get the weight 1.
        let weight = |id: &Option<u32>| known_id(id).map_or(1.0, |id| now[id] / here[id]);
        let weights: Vec<f64> = ids.iter().map(weight).collect();
        let most = weights.iter().copied().fold(0.0, f64::max);
        Ok(keep(&weights, most, seed))
    }
}

/// Estimates the proportions of classes among points from class probabilities of these points. The probabilities were
/// computed as if classes had the proportions `before`.
fn proportions(posteriors: &Matrix, before: &[f64]) -> Vec<f64> {
    let (points, classes) = (posteriors.rows(), before.len());
    let mut now = before.to_vec();
    for _ in 0..STEPS {
        // The prior weighs as much as one point per class.
        let mut sums: Vec<f64> = before.iter().map(|share| share * classes as f64).collect();
        for row in 0..points {
            let part = |class: usize| {
                let ratio = if before[class] > 0.0 { now[class] / before[class] } else { 0.0 };
                ratio * f64::from(posteriors.row(row)[class])
            };
            let total: f64 = (0..classes).map(part).sum();
            if total > 0.0 {
                sums.iter_mut().enumerate().for_each(|(class, sum)| *sum += part(class) / total);
            }
        }
        let total: f64 = sums.iter().sum();
        now = sums.iter().map(|sum| sum / total).collect();
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests two classes on a line with their true posterior: the estimated proportions are near those of the draw.
    #[test]
    fn proportions_are_found_from_posteriors_alone() {
        let mut random = Random::new(4, 9);
        let (n, share) = (4000, 0.8);
        let posteriors = (0..n).flat_map(|_| {
            let second = random.uniform() < share;
            let x = random.normal() + if second { 1.0 } else { -1.0 };
            // Under equal proportions the log odds of N(1,1) against N(-1,1) are 2x.
            let p = 1.0 / (1.0 + (-2.0 * x).exp());
            [(1.0 - p) as f32, p as f32]
        });
        let now = proportions(&Matrix::new(posteriors.collect(), n, 2).unwrap(), &[0.5, 0.5]);
        assert!((now[1] - share).abs() < 0.03, "{now:?}");
    }

    /// Tests that uniform numbers x, each kept with weight x, have the density 2x and the mean 2/3.
    #[test]
    fn kept_points_have_the_law_of_the_weights() {
        let mut random = Random::new(1, 9);
        let weights: Vec<f64> = (0..20_000).map(|_| random.uniform()).collect();
        let kept = rejection_sample(&weights, 7).unwrap();
        let mean = kept.iter().map(|&row| weights[row]).sum::<f64>() / kept.len() as f64;
        assert!((mean - 2.0 / 3.0).abs() < 0.01 && (9_700..10_300).contains(&kept.len()), "{mean}");
        assert_eq!(rejection_sample(&weights, 7).unwrap(), kept);
        // The first point of the largest weight is dropped.
        assert_eq!(rejection_sample(&[0.0, 3.0, 3.0], 1).unwrap(), [2]);
        for bad in [&[1.0, -1.0][..], &[f64::NAN], &[0.0, 0.0], &[]] {
            assert!(rejection_sample(bad, 0).is_err(), "{bad:?}");
        }
    }
}
