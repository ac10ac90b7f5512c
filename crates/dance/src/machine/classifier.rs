//! The kernel machine as a plain classifier: it maps queries and predicts their classes, without calibration.
//!
//! A machine is loaded onto a device once. With n training points, d dimensions and c classes, mapping takes `2·d²`
//! flops per query, and class probabilities take `2·n·(d + c)`.
//!
//! **Probabilities.** The class probabilities are `p_y ∝ max(f_y, floor)^power`, with the output `f_y` of class y. The
//! outputs of a regression on one-hot labels order the classes well, but they are shrunk towards 0, and half of them
//! lie below 0. [`Clamp`](Probabilities::Clamp) (from xRFM and the paper) has a fixed floor and power 1; with many
//! classes the floors alone then outweigh the best class. [`Calibrated`](Probabilities::Calibrated) selects floor and
//! power by the log loss on the points that validated the kernel's settings, never on calibration points.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::rfm::Rfm;
use crate::context::{Context, Event};
use crate::data::Normalizer;
use crate::device::{ClassifierHandle, Device, MachineParts};
use crate::error::{Error, Result};
use crate::numeric::argmax;
use crate::numeric::matrix::{Matrix, Rows, check_finite, check_finite_rows};

/// The number of queries that are computed at a time. It bounds the memory that a call uses beside its result.
const BLOCK: usize = 2048;

/// The predicted classes of queries, with all class probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classified {
    /// The class with the largest output, for every query.
    pub labels: Vec<u32>,
    /// The class probabilities, one row per query and one column per class. Clamping may make the largest probabilities
    /// of a query equal. `labels` do not depend on this, because they follow from the outputs before clamping.
    pub probabilities: Matrix,
}

impl Classified {
    /// Returns the classes of queries from their class probabilities. The class is the most probable one, the first on
    /// a tie.
    pub(crate) fn most_probable(probabilities: Matrix) -> Self {
        let labels = (0..probabilities.rows()).map(|row| argmax(probabilities.row(row)) as u32).collect();
        Self { labels, probabilities }
    }

    /// Returns the probability that the query with the index `row` has `label`. It is 0 for a class that calibration
    /// points have and no training point has.
    pub fn probability(&self, row: usize, label: u32) -> f32 {
        self.probabilities.row(row).get(label as usize).copied().unwrap_or(0.0)
    }
}

/// A fitted kernel machine on a device, which maps queries and predicts their classes.
#[derive(Clone)]
pub struct Classifier {
    handle: Arc<dyn ClassifierHandle>,
    normalizer: Normalizer,
    /// The number of dimensions of the embeddings.
    dimensions: usize,
    scale: OutputScale,
}

impl std::fmt::Debug for Classifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Classifier").field("dimensions", &self.dimensions).finish_non_exhaustive()
    }
}

impl Classifier {
    /// Loads a machine onto a device. `normalizer` must be the one that normalised the machine's training points.
    /// `scale` maps the machine's outputs to class probabilities.
    pub(crate) fn open(
        device: &dyn Device,
        rfm: &Rfm,
        normalizer: &Normalizer,
        scale: OutputScale,
        context: &Context<'_>,
    ) -> Result<Self> {
        let parts = MachineParts { root: &rfm.metric_root, train: &rfm.train, kernel: rfm.kernel, beta: &rfm.beta };
        let handle = device.open_classifier(parts, context)?;
        Ok(Self { handle, normalizer: normalizer.clone(), dimensions: rfm.train.cols(), scale })
    }

    /// Normalises queries, which are rows of embeddings as the encoder made them, and maps them by the root of the
    /// learned metric. The distance of two points under the metric is the distance of the mapped points.
    pub fn transform<'q>(&self, queries: impl Into<Rows<'q>>, context: &Context<'_>) -> Result<Matrix> {
        let queries = queries.into();
        let mut mapped = Matrix::with_columns(self.dimensions);
        self.in_blocks(queries, context, |block| mapped.append(&self.map_queries(block, context)?))?;
        Ok(mapped)
    }

    /// Returns the predicted classes and the class probabilities of queries, which are rows of embeddings as the
    /// encoder made them.
    pub fn classify<'q>(&self, queries: impl Into<Rows<'q>>, context: &Context<'_>) -> Result<Classified> {
        let mut all = Classified::default();
        self.in_blocks(queries.into(), context, |block| {
            let Classified { labels, probabilities } =
                self.classify_mapped(&self.map_queries(block, context)?, context)?;
            all.labels.extend(labels);
            all.probabilities.append(&probabilities)
        })?;
        Ok(all)
    }

    /// Checks the queries, then calls `work` on one block of them after the other. The observer can interrupt between
    /// blocks.
    pub(crate) fn in_blocks(
        &self,
        queries: Rows<'_>,
        context: &Context<'_>,
        mut work: impl FnMut(Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check(queries)?;
        let count = queries.len();
        for first in (0..count).step_by(BLOCK) {
            context.check()?;
            let last = count.min(first + BLOCK);
            work(queries.slice(first..last))?;
            if count > BLOCK {
                context.notice(&Event::Answered { done: last, of: count });
            }
        }
        Ok(())
    }

    /// Returns [`Error::Shape`] if queries have another number of dimensions or an incomplete row, and
    /// [`Error::NotFinite`] if a number is not finite.
    fn check(&self, queries: Rows<'_>) -> Result<()> {
        if queries.cols() != self.dimensions || !queries.values().len().is_multiple_of(self.dimensions.max(1)) {
            return Err(Error::Shape {
                what: "dimensions of the queries (those of the encoder the model was fitted with)".into(),
                expected: self.dimensions.to_string(),
                found: queries.cols().to_string(),
            });
        }
        check_finite_rows("queries", queries.values(), self.dimensions)
    }

    /// Normalises a block of queries and maps it by the root of the metric.
    pub(crate) fn map_queries(&self, queries: Rows<'_>, context: &Context<'_>) -> Result<Matrix> {
        self.map(&self.normalise(queries)?, context)
    }

    /// Normalises queries in the way in which the training points were normalised.
    pub(crate) fn normalise(&self, queries: Rows<'_>) -> Result<Matrix> {
        let mut block = queries.to_matrix()?;
        self.normalizer.apply("queries", &mut block)?;
        Ok(block)
    }

    /// Maps normalised points by the root of the metric. The result for a point does not depend on the other points.
    pub(crate) fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        let mapped = self.handle.map(points, context)?;
        check_finite("mapped points (scale the embeddings down, or normalise them)", &mapped)?;
        Ok(mapped)
    }

    /// Returns the predicted classes and the class probabilities of mapped points.
    pub(crate) fn classify_mapped(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Classified> {
        let outputs = self.outputs(mapped, context)?;
        let labels = (0..outputs.rows()).map(|row| argmax(outputs.row(row)) as u32).collect();
        Ok(Classified { labels, probabilities: self.scale.probabilities(outputs) })
    }

    /// Returns the outputs of the regression at mapped points, one row per point and one column per class.
    pub(super) fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        self.handle.outputs(mapped, context)
    }

    /// Returns for every mapped point the probability of its own label, which `labels` holds. The probability is 0 for
    /// a class that no training point has.
    pub(crate) fn own_probabilities(&self, mapped: &Matrix, labels: &[u32], context: &Context<'_>) -> Result<Vec<f32>> {
        let mut own = Vec::with_capacity(labels.len());
        for (block, labels) in labels.chunks(BLOCK).enumerate() {
            context.check()?;
            let rows: Vec<usize> = (block * BLOCK..block * BLOCK + labels.len()).collect();
            let classified = self.classify_mapped(&mapped.select(&rows), context)?;
            own.extend(labels.iter().enumerate().map(|(row, &label)| classified.probability(row, label)));
        }
        Ok(own)
    }
}

/// The way in which class probabilities are computed from the outputs of the kernel machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Probabilities {
    /// Clamps outputs between a fixed floor and one minus the floor, and divides by their sum.
    Clamp,
    /// Raises outputs to a floor, takes a power of them, and divides by their sum. Floor and power are fitted to
    /// held-out points.
    #[default]
    Calibrated,
}

/// The map from a machine's outputs to class probabilities: `p_y ∝ min(max(f_y, floor), ceiling)^power`, with the
/// output `f_y` of class y.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutputScale {
    /// The floor to which smaller outputs are raised.
    pub(crate) floor: f32,
    /// The ceiling to which larger outputs are lowered, if any.
    pub(crate) ceiling: Option<f32>,
    /// The power that is taken of the outputs; 1 keeps proportions, and larger powers favour large outputs.
    pub(crate) power: f64,
}

/// Returns the floor of clamped probabilities: 1e-3 as in xRFM, and less with more than 100 classes, whose floors would
/// add up.
pub(crate) fn default_floor(classes: usize) -> f32 {
    1e-3f32.min(0.1 / classes.max(1) as f32)
}

/// The floors among which [`OutputScale::calibrated`] selects.
const FLOORS: [f32; 7] = [1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1];
/// The range in which [`OutputScale::calibrated`] searches for the power.
const POWERS: (f64, f64) = (0.25, 16.0);
/// The mode of the prior on the power of an [`OutputScale`]. The prior is Gaussian in the logarithm of the power. It
/// keeps probabilities from becoming extreme if the held-out points are few and all classified correctly.
const USUAL_POWER: f64 = 3.0;
/// The strength of the prior on the power of an [`OutputScale`]. A difference of 1 in the logarithm of the power adds
/// this number to the total log loss.
const FIRMNESS: f64 = 2.0;
/// The number of steps of the golden-section search for the power. Each step keeps 0.618 of the range, and all steps
/// together keep about 5e-7.
const STEPS: usize = 30;
/// The number of points in one parallel task.
const PART: usize = 128;

impl OutputScale {
    /// Returns a scale that clamps outputs between `floor` and `1 - floor`.
    pub(crate) fn clamp(floor: f32) -> Self {
        Self { floor, ceiling: Some(1.0 - floor), power: 1.0 }
    }

    /// Returns whether the scale maps all outputs to probabilities. The scale in a damaged model file may not.
    pub(crate) fn is_valid(&self) -> bool {
        let floor = self.floor.is_finite() && self.floor >= 0.0;
        let ceiling = self.ceiling.is_none_or(|ceiling| ceiling >= self.floor && ceiling > 0.0);
        floor && ceiling && (self.power == 1.0 || (self.floor > 0.0 && self.power > 0.0 && self.power <= 100.0))
    }

    /// Fits floor and power to held-out points by log loss. `outputs` has one row per point, and `labels` one class
    /// index per point.
    pub(crate) fn calibrated(outputs: &Matrix, labels: &[u32], context: &Context<'_>) -> Self {
        context.run(|| Self::of_least_loss(outputs, labels))
    }

    fn of_least_loss(outputs: &Matrix, labels: &[u32]) -> Self {
        let candidates = FLOORS.map(|floor| {
            let above = LogOutputs::new(outputs, labels, floor);
            let loss = |log_power: f64| {
                let away = log_power - USUAL_POWER.ln();
                above.log_loss(log_power.exp()) + FIRMNESS * away * away
            };
            let (log_power, loss) = least(loss, POWERS.0.ln(), POWERS.1.ln());
            (loss, Self { floor, ceiling: None, power: log_power.exp() })
        });
        let mut best = candidates[0];
        for candidate in candidates {
            if candidate.0 < best.0 {
                best = candidate;
            }
        }
        best.1
    }

    /// Returns the log loss on points: the mean of `-ln p`, with the probability p of a point's label.
    #[cfg(test)]
    fn log_loss(&self, outputs: &Matrix, labels: &[u32]) -> f64 {
        let mut weights = Vec::new();
        let of = |(row, &label): (usize, &u32)| {
            let sum = self.weights(outputs.row(row), &mut weights);
            (sum / weights[label as usize]).ln()
        };
        labels.iter().enumerate().map(of).sum::<f64>() / labels.len().max(1) as f64
    }

    /// Writes one number per class to `weights`, and returns the sum of the numbers. They are at most 1, and
    /// proportional to the class probabilities of the point with these `outputs`.
    fn weights(&self, outputs: &[f32], weights: &mut Vec<f64>) -> f64 {
        let clamp = |output: f32| output.max(self.floor).min(self.ceiling.unwrap_or(f32::MAX).min(f32::MAX));
        // Powers of numbers up to 1 do not overflow.
        let most = if self.power == 1.0 {
            1.0
        } else {
            outputs.iter().fold(self.floor, |most, &output| most.max(clamp(output)))
        };
        let weight = |output: f32| (f64::from(output) / f64::from(most)).powf(self.power);
        let least = weight(self.floor); // the value of most classes
        weights.clear();
        weights.extend(outputs.iter().map(|&output| if output <= self.floor { least } else { weight(clamp(output)) }));
        weights.iter().sum()
    }

    /// Maps outputs, one row per point, to class probabilities.
    pub(crate) fn probabilities(&self, mut outputs: Matrix) -> Matrix {
        let mut weights = Vec::new();
        for row in 0..outputs.rows() {
            let values = outputs.row_mut(row);
            let sum = self.weights(values, &mut weights);
            let equal = 1.0 / values.len().max(1) as f32; // without a floor all weights may be 0
            for (value, weight) in values.iter_mut().zip(&weights) {
                *value = if sum > 0.0 { (weight / sum) as f32 } else { equal };
            }
        }
        outputs
    }
}

/// The logarithms of the outputs of held-out points. With logarithms, taking a power is a multiplication. So the
/// search, which tries more than 200 pairs of floor and power, is fast.
struct LogOutputs {
    /// The points, in parts of [`PART`] points. The sums over the parts are added in order, so the number of threads
    /// changes no bit.
    parts: Vec<Vec<LogRow>>,
}

/// The logarithms of the outputs of one point, after all its outputs were divided by the largest.
struct LogRow {
    /// The logarithms of the point's outputs that are above the floor.
    above: Vec<f64>,
    /// The logarithm of the floor to which smaller outputs are raised.
    floor: f64,
    /// The number of the point's outputs at or below the floor.
    others: f64,
    /// The logarithm of the output for the point's own label.
    own: f64,
}

impl LogOutputs {
    fn new(outputs: &Matrix, labels: &[u32], floor: f32) -> Self {
        let of = |(row, label): (usize, u32)| {
            let row = outputs.row(row);
            let most = row.iter().fold(floor, |most, &output| most.max(output.min(f32::MAX)));
            let log = |output: f32| (f64::from(output.max(floor).min(f32::MAX)) / f64::from(most)).ln();
            let above: Vec<f64> = row.iter().filter(|output| **output > floor).map(|&output| log(output)).collect();
            let others = (row.len() - above.len()) as f64;
            LogRow { above, floor: log(floor), others, own: log(row[label as usize]) }
        };
        let rows: Vec<(usize, u32)> = labels.iter().copied().enumerate().collect();
        let part = |rows: &[(usize, u32)]| rows.iter().map(|&row| of(row)).collect();
        Self { parts: rows.par_chunks(PART).map(part).collect() }
    }

    /// Returns the log loss at this `power`: the sum over all points of `-ln p`, with the probability p of a point's
    /// own label.
    fn log_loss(&self, power: f64) -> f64 {
        let of = |row: &LogRow| {
            let above: f64 = row.above.iter().map(|log| (power * log).exp()).sum();
            (above + row.others * (power * row.floor).exp()).ln() - power * row.own
        };
        let sums: Vec<f64> = self.parts.par_iter().map(|rows| rows.iter().map(of).sum()).collect();
        sums.iter().sum()
    }
}

/// Minimises a unimodal function between two numbers by golden section. Returns the minimiser and the minimum.
fn least(function: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> (f64, f64) {
    let golden = (5.0f64.sqrt() - 1.0) / 2.0;
    let inner = |low: f64, high: f64| (high - golden * (high - low), low + golden * (high - low));
    let (mut left, mut right) = inner(low, high);
    let (mut at_left, mut at_right) = (function(left), function(right));
    for _ in 0..STEPS {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = inner(low, high).0;
            at_left = function(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = inner(low, high).1;
            at_right = function(right);
        }
    }
    if at_left <= at_right { (left, at_left) } else { (right, at_right) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    #[test]
    fn clamping_divides_by_the_sum() {
        let outputs = Matrix::new(vec![0.5, -0.2, 1.7], 1, 3).unwrap();
        let found = OutputScale::clamp(0.1).probabilities(outputs);
        for (found, expected) in found.row(0).iter().zip([0.5 / 1.5, 0.1 / 1.5, 0.9 / 1.5]) {
            assert!((found - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn every_valid_scale_makes_probabilities() {
        let outputs = || Matrix::new(vec![-1.0, f32::INFINITY, -0.5, -2.0, 0.0, -1e-30, 3.0, 3.0, 3.0], 3, 3).unwrap();
        for floor in [-1.0, 0.0, 1e-30, 0.1, 2.0, f32::INFINITY] {
            for ceiling in [None, Some(0.0), Some(0.5), Some(f32::INFINITY)] {
                for power in [-1.0, 0.0, 1e-3, 1.0, 3.0, 100.0, 1e6] {
                    let scale = OutputScale { floor, ceiling, power };
                    if scale.is_valid() {
                        let found = scale.probabilities(outputs());
                        for row in 0..3 {
                            let sum: f32 = found.row(row).iter().sum();
                            assert!((sum - 1.0).abs() < 1e-5, "{scale:?}: {:?}", found.row(row));
                        }
                    }
                }
            }
        }
        assert!(OutputScale::clamp(0.0).is_valid() && OutputScale::clamp(1e-3).is_valid());
    }

    #[test]
    fn a_power_makes_the_large_larger() {
        let outputs = Matrix::new(vec![0.2, 0.1, -3.0, 0.001], 1, 4).unwrap();
        let scale = OutputScale { floor: 0.01, ceiling: None, power: 2.0 };
        let sum: f64 = 0.04 + 0.01 + 1e-4 + 1e-4;
        let expected = [0.04 / sum, 0.01 / sum, 1e-4 / sum, 1e-4 / sum];
        assert!((scale.log_loss(&outputs, &[1]) + expected[1].ln()).abs() < 1e-6);
        for (found, expected) in scale.probabilities(outputs).row(0).iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6);
        }
    }

    /// The log loss from logarithms of outputs equals the log loss by its definition.
    #[test]
    fn logarithms_give_the_loss_of_the_formula() {
        let (outputs, labels) = drawn(300, 5);
        for floor in FLOORS {
            let above = LogOutputs::new(&outputs, &labels, floor);
            for power in [0.3, 1.0, 2.5, 16.0] {
                let scale = OutputScale { floor, ceiling: None, power };
                let expected = scale.log_loss(&outputs, &labels) * 300.0;
                assert!((above.log_loss(power) - expected).abs() < 1e-9 * expected.abs().max(1.0));
            }
        }
    }

    /// Draws outputs f, and labels with the probabilities `p ∝ max(f, 0.02)^4`. A fit to them should find the floor
    /// 0.02 and the power 4.
    fn drawn(n: usize, seed: u64) -> (Matrix, Vec<u32>) {
        let mut random = Random::new(seed, 3);
        let classes = 5;
        let outputs: Vec<f32> = (0..n * classes).map(|_| (0.5 * random.uniform() - 0.2) as f32).collect();
        let outputs = Matrix::new(outputs, n, classes).unwrap();
        let labels = (0..n).map(|row| {
            let weights: Vec<f64> = outputs.row(row).iter().map(|&f| f64::from(f.max(0.02)).powi(4)).collect();
            let mut left = random.uniform() * weights.iter().sum::<f64>();
            let mut label = 0;
            while label + 1 < classes && left >= weights[label] {
                left -= weights[label];
                label += 1;
            }
            label as u32
        });
        let labels = labels.collect();
        (outputs, labels)
    }

    #[test]
    fn finds_the_scale_that_drew_the_labels() {
        let (outputs, labels) = drawn(4000, 1);
        let found = OutputScale::calibrated(&outputs, &labels, &Context::new(2).unwrap());
        assert!((found.power - 4.0).abs() < 0.4 && (found.floor - 0.02).abs() <= 0.011, "{found:?}");
        // No scale on a fine grid is better, by the definition in plain loops.
        let loss = |floor: f64, power: f64| {
            let each = labels.iter().enumerate().map(|(row, &label)| {
                let weight = |f: f32| f64::from(f).max(floor).powf(power);
                let sum: f64 = outputs.row(row).iter().map(|&f| weight(f)).sum();
                -(weight(outputs.row(row)[label as usize]) / sum).ln()
            });
            each.sum::<f64>() + FIRMNESS * (power / USUAL_POWER).ln().powi(2)
        };
        let reached = loss(f64::from(found.floor), found.power);
        for floor in FLOORS {
            for step in 0..200 {
                let power = 0.25 * (64.0f64).powf(f64::from(step) / 199.0);
                assert!(reached <= loss(f64::from(floor), power) + 1e-6, "{floor} {power}");
            }
        }
    }

    #[test]
    fn a_few_correct_points_do_not_make_probabilities_extreme() {
        let outputs = Matrix::new([0.6, 0.1, -0.1].repeat(5), 5, 3).unwrap();
        let found = OutputScale::calibrated(&outputs, &[0; 5], &Context::new(1).unwrap());
        assert!(found.power > 1.0 && found.power < 6.0, "{found:?}");
    }
}
