//! Calibration for points that are not like all of the points at hand: the latest of them, or some of them in proportion to weights.
//!
//! **Weights** are likelihood ratios, up to a factor: how much more often a point like this one comes now than it came then. Point i stays with
//! probability `w_i / w_max`; what stays is a draw from the law of the points that come now (von Neumann's rejection), so that every
//! mode of calibration promises for those what it promises without weights. The price is points, `Σw / (n·w_max)` of which stay on average, where
//! weighted quantiles would keep all; in return exact mode stays exact, and nobody has to know the weights of new points. The largest
//! weight is taken from the points themselves, so the point that has it is left out: given its weight the others are draws from
//! what weighs no more. New points that weigh more are the ones the promise does not cover.
//!
//! **Label shift**: proportions of classes have changed, and points of a class are what they were. The new proportions are those under
//! which the kernel machine's posteriors are most likely on points without labels (expectation and maximisation; Saerens, Latinne and
//! Decaestecker), with a weak pull to the old ones. A class weighs the ratio of its proportions.

use super::dance::Dance;
use crate::context::Context;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::numeric::matrix::{Matrix, Rows};
use crate::numeric::random::Random;

/// Steps of expectation and maximisation.
const STEPS: usize = 200;
/// The stream of random numbers that decides who stays.
const PURPOSE: u64 = 0x7417;

/// Places of the points that stay in proportion to `weights`, ascending. See the module.
pub fn rejection_sample(weights: &[f64], seed: u64) -> Result<Vec<usize>> {
    if let Some(row) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
        return Err(Error::Data(format!(
            "the weight at row {row} is {}; weights are numbers from 0 on",
            weights[row]
        )));
    }
    let largest =
        weights.iter().enumerate().fold(None, |best: Option<(usize, f64)>, (row, &weight)| match best {
            Some((_, most)) if most >= weight => best,
            _ => Some((row, weight)),
        });
    let Some((out, most)) = largest.filter(|&(_, most)| most > 0.0) else {
        return Err(Error::Data("no weight is above 0, so no point would stay".into()));
    };
    Ok(stay(weights, most, seed).into_iter().filter(|&row| row != out).collect())
}

/// Places of the points that stay, where no weight exceeds `most`.
fn stay(weights: &[f64], most: f64, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed, PURPOSE);
    // Every point draws, so that one weight changes nothing for the others.
    (0..weights.len()).filter(|&row| random.uniform() * most < weights[row]).collect()
}

impl Dance {
    /// Places of the points of `data` that stay so that classes have the proportions that points without labels, as they come from the
    /// encoder, speak for.
    pub fn label_shift<'q>(
        &self,
        data: &Dataset,
        unlabelled: impl Into<Rows<'q>>,
        seed: u64,
        context: &Context<'_>,
    ) -> Result<Vec<usize>> {
        let classified = self.classifier.classify(unlabelled, context)?;
        let known = classified.probabilities.cols();
        let mut before = vec![0.0; known];
        for &label in &self.fitted.rfm.labels {
            before[label as usize] += 1.0 / self.fitted.rfm.labels.len() as f64;
        }
        let now = proportions(&classified.probabilities, &before);
        let mut here = vec![0.0; known];
        let ids = self.class_ids(data);
        let known_id = |id: &Option<u32>| id.filter(|&id| (id as usize) < known).map(|id| id as usize);
        for id in ids.iter().filter_map(known_id) {
            here[id] += 1.0 / data.len() as f64;
        }
        // Classes that the kernel does not know stay as frequent as they are.
        let weight = |id: &Option<u32>| known_id(id).map_or(1.0, |id| now[id] / here[id]);
        let weights: Vec<f64> = ids.iter().map(weight).collect();
        let most = weights.iter().copied().fold(0.0, f64::max);
        Ok(stay(&weights, most, seed))
    }
}

/// Proportions of classes among points with these posteriors, which hold under the proportions `before`.
fn proportions(posteriors: &Matrix, before: &[f64]) -> Vec<f64> {
    let (points, classes) = (posteriors.rows(), before.len());
    let mut now = before.to_vec();
    for _ in 0..STEPS {
        // As many points as there are classes speak for the old proportions.
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

    /// Two classes on a line, seen through a posterior that is right: proportions come out as they were drawn.
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

    /// Uniform numbers that weigh what they are, thinned, have the mean of the density 2x: two thirds.
    #[test]
    fn what_stays_has_the_law_of_the_weights() {
        let mut random = Random::new(1, 9);
        let weights: Vec<f64> = (0..20_000).map(|_| random.uniform()).collect();
        let stay = rejection_sample(&weights, 7).unwrap();
        let mean = stay.iter().map(|&row| weights[row]).sum::<f64>() / stay.len() as f64;
        assert!((mean - 2.0 / 3.0).abs() < 0.01 && (9_700..10_300).contains(&stay.len()), "{mean}");
        assert_eq!(rejection_sample(&weights, 7).unwrap(), stay);
        // The point that sets the scale is left out.
        assert_eq!(rejection_sample(&[0.0, 3.0, 3.0], 1).unwrap(), [2]);
        for bad in [&[1.0, -1.0][..], &[f64::NAN], &[0.0, 0.0], &[]] {
            assert!(rejection_sample(bad, 0).is_err(), "{bad:?}");
        }
    }
}
