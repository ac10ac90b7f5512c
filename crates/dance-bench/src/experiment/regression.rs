//! Multinomial logistic regression, the most common classifier on embeddings, as a baseline for the kernel machine.
//!
//! It minimises `(1/n)·Σ_i -ln p(y_i|x_i) + ‖W‖²/(2Cn)`, `p = softmax(Wx + b)`, by L-BFGS (ten pairs, backtracking).
//! The bias b is not penalised. C is the value of 0.1, 1 … 1000 with the least log loss on a held-out fifth of the
//! points. All points are then fitted with it.
//!
//! Cost: two products of n·d·c per step, a few hundred steps in all.

use std::collections::VecDeque;

use dance::data::split;
use dance::device::Device;
use dance::{Context, Matrix, Result};

/// Values of C to try.
const STRENGTHS: [f64; 5] = [0.1, 1.0, 10.0, 100.0, 1000.0];
/// The share of the points that chooses C.
const VALIDATION: f64 = 0.2;
/// Most steps of L-BFGS.
const STEPS: usize = 300;
/// The largest entry of the gradient at which the search ends.
const TOLERANCE: f64 = 1e-5;
/// Pairs of steps and gradient changes that L-BFGS keeps.
const PAIRS: usize = 10;
/// The share of the decrease along the slope that a step must reach (Armijo).
const GAIN: f64 = 1e-4;
/// Most halvings of a step.
const HALVINGS: usize = 20;

/// A fitted regression.
pub(crate) struct Regression {
    /// One row per class: its weights, then its bias.
    weights: Matrix,
}

/// The objective of a fit. Points have a column of ones for the bias, and are kept with their transpose.
struct Problem<'a> {
    device: &'a dyn Device,
    context: &'a Context<'a>,
    points: Matrix,
    transposed: Matrix,
    labels: &'a [u32],
    classes: usize,
    /// 1/(Cn).
    penalty: f64,
}

impl Regression {
    /// Chooses C on held-out points and fits all points with it. Labels are below `classes`.
    pub(crate) fn tuned(
        device: &dyn Device,
        points: &Matrix,
        labels: &[u32],
        classes: usize,
        seed: u64,
        context: &Context<'_>,
    ) -> Result<Self> {
        let shares = [1.0 - VALIDATION, VALIDATION];
        let parts =
            split::stratified(labels, &shares, seed).or_else(|_| split::uniform(labels.len(), &shares, seed))?;
        let select = |rows: &[usize]| -> (Matrix, Vec<u32>) {
            (points.select(rows), rows.iter().map(|&row| labels[row]).collect())
        };
        let (train, train_labels) = select(&parts[0]);
        let (validation, validation_labels) = select(&parts[1]);
        let mut weights = vec![0.0; classes * (points.cols() + 1)];
        let mut best = (f64::INFINITY, STRENGTHS[0], weights.clone());
        // From the strongest penalty to the weakest, each fit starts where the last one ended.
        for strength in STRENGTHS {
            weights = Problem::new(device, &train, &train_labels, classes, strength, context)?.solve(weights)?;
            let fitted = Self::of(&weights, classes)?;
            let probabilities = fitted.probabilities(device, &validation, context)?;
            let own = validation_labels.iter().enumerate().map(|(row, &label)| probabilities.row(row)[label as usize]);
            let loss = own.map(|p| -f64::from(p).max(1e-15).ln()).sum();
            if loss < best.0 {
                best = (loss, strength, weights.clone());
            }
        }
        Self::of(&Problem::new(device, points, labels, classes, best.1, context)?.solve(best.2)?, classes)
    }

    fn of(weights: &[f64], classes: usize) -> Result<Self> {
        let values = weights.iter().map(|&value| value as f32).collect();
        Ok(Self { weights: Matrix::new(values, classes, weights.len() / classes.max(1))? })
    }

    /// Returns class probabilities, one row per point.
    pub(crate) fn probabilities(&self, device: &dyn Device, points: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        let mut outputs = device.inner_products(&with_ones(points)?, &self.weights, context)?;
        for row in 0..outputs.rows() {
            let row = outputs.row_mut(row);
            let total = log_total(row);
            for value in row {
                *value = (f64::from(*value) - total).exp() as f32;
            }
        }
        Ok(outputs)
    }
}

impl<'a> Problem<'a> {
    fn new(
        device: &'a dyn Device,
        points: &Matrix,
        labels: &'a [u32],
        classes: usize,
        strength: f64,
        context: &'a Context<'a>,
    ) -> Result<Self> {
        let points = with_ones(points)?;
        let transposed = transposed(&points)?;
        let penalty = 1.0 / (strength * labels.len().max(1) as f64);
        Ok(Self { device, context, points, transposed, labels, classes, penalty })
    }

    /// Returns the objective and its gradient.
    fn value(&self, weights: &[f64]) -> Result<(f64, Vec<f64>)> {
        let columns = self.points.cols();
        let model = Regression::of(weights, self.classes)?;
        let mut outputs = self.device.inner_products(&self.points, &model.weights, self.context)?;
        let count = self.labels.len() as f64;
        let mut loss = 0.0;
        for (row, &label) in self.labels.iter().enumerate() {
            let row = outputs.row_mut(row);
            let total = log_total(row);
            loss += (total - f64::from(row[label as usize])) / count;
            for value in row.iter_mut() {
                *value = ((f64::from(*value) - total).exp() / count) as f32;
            }
            row[label as usize] -= (1.0 / count) as f32;
        }
        let gradient = self.device.inner_products(&transposed(&outputs)?, &self.transposed, self.context)?;
        let mut gradient: Vec<f64> = gradient.as_slice().iter().map(|&value| f64::from(value)).collect();
        // The last column is the bias, which has no penalty.
        for (at, (slope, &weight)) in gradient.iter_mut().zip(weights).enumerate() {
            if at % columns + 1 < columns {
                *slope += self.penalty * weight;
                loss += 0.5 * self.penalty * weight * weight;
            }
        }
        Ok((loss, gradient))
    }

    /// Minimises the objective by L-BFGS from `weights`.
    fn solve(&self, mut weights: Vec<f64>) -> Result<Vec<f64>> {
        let (mut loss, mut gradient) = self.value(&weights)?;
        let mut pairs: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
        for _ in 0..STEPS {
            self.context.check()?;
            if gradient.iter().all(|slope| slope.abs() <= TOLERANCE) {
                break;
            }
            let direction = descent(&gradient, &pairs);
            let slope = dot(&direction, &gradient);
            // Without earlier steps, the first direction has no scale: it begins with length 1.
            let mut step = if pairs.is_empty() { 1.0 / dot(&gradient, &gradient).sqrt() } else { 1.0 };
            let mut found = None;
            for _ in 0..HALVINGS {
                let next: Vec<f64> = weights.iter().zip(&direction).map(|(weight, way)| weight + step * way).collect();
                let (value, slopes) = self.value(&next)?;
                if value <= loss + GAIN * step * slope {
                    found = Some((next, value, slopes));
                    break;
                }
                step /= 2.0;
            }
            // No step decreases the objective any more: the rest is rounding.
            let Some((next, value, slopes)) = found else { break };
            // The step and the change of the gradient describe the curvature.
            let moved: Vec<f64> = next.iter().zip(&weights).map(|(new, old)| new - old).collect();
            let bent: Vec<f64> = slopes.iter().zip(&gradient).map(|(new, old)| new - old).collect();
            if dot(&moved, &bent) > 0.0 {
                if pairs.len() == PAIRS {
                    pairs.pop_front();
                }
                pairs.push_back((moved, bent));
            }
            (weights, loss, gradient) = (next, value, slopes);
        }
        Ok(weights)
    }
}

/// Returns the descent direction under the curvature of the last steps (the two loops of L-BFGS).
fn descent(gradient: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
    let add = |to: &mut [f64], factor: f64, values: &[f64]| {
        to.iter_mut().zip(values).for_each(|(to, value)| *to += factor * value);
    };
    let mut factors = Vec::with_capacity(pairs.len());
    for (moved, bent) in pairs.iter().rev() {
        let factor = dot(moved, &direction) / dot(moved, bent);
        add(&mut direction, -factor, bent);
        factors.push(factor);
    }
    if let Some((moved, bent)) = pairs.back() {
        let scale = dot(moved, bent) / dot(bent, bent);
        for value in &mut direction {
            *value *= scale;
        }
    }
    for ((moved, bent), factor) in pairs.iter().zip(factors.into_iter().rev()) {
        let back = dot(bent, &direction) / dot(moved, bent);
        add(&mut direction, factor - back, moved);
    }
    direction
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns `ln Σ exp` of a row.
fn log_total(row: &[f32]) -> f64 {
    let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    largest + row.iter().map(|&value| (f64::from(value) - largest).exp()).sum::<f64>().ln()
}

/// Returns the points with a last column of ones.
fn with_ones(points: &Matrix) -> Result<Matrix> {
    let rows = (0..points.rows()).flat_map(|row| points.row(row).iter().copied().chain([1.0]));
    Matrix::new(rows.collect(), points.rows(), points.cols() + 1)
}

/// Returns the transpose.
fn transposed(matrix: &Matrix) -> Result<Matrix> {
    let values = (0..matrix.cols()).flat_map(|column| (0..matrix.rows()).map(move |row| matrix.row(row)[column]));
    Matrix::new(values.collect(), matrix.cols(), matrix.rows())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dance::device::Cpu;
    use dance::numeric::random::Random;

    /// A convex function has its optimum where the gradient is 0. The gradient here follows the formula, in f64.
    #[test]
    fn the_solution_is_the_optimum() {
        let (n, d, classes, strength) = (90, 4, 3, 10.0);
        let mut random = Random::new(3, 1);
        let labels: Vec<u32> = (0..n).map(|_| random.below(classes) as u32).collect();
        let values = (0..n * d).map(|at| {
            let own = at % d == labels[at / d] as usize;
            (random.normal() + if own { 1.0 } else { 0.0 }) as f32
        });
        let points = Matrix::new(values.collect(), n, d).unwrap();
        let context = Context::new(1).unwrap();
        let problem = Problem::new(&Cpu, &points, &labels, classes, strength, &context).unwrap();
        let weights = problem.solve(vec![0.0; classes * (d + 1)]).unwrap();
        let mut gradient = vec![0.0; weights.len()];
        for (row, &label) in labels.iter().enumerate() {
            let point: Vec<f64> = points.row(row).iter().map(|&value| f64::from(value)).chain([1.0]).collect();
            let outputs: Vec<f64> = weights.chunks(d + 1).map(|own| dot(own, &point)).collect();
            let total: f64 = outputs.iter().map(|output| output.exp()).sum();
            for class in 0..classes {
                let residual = outputs[class].exp() / total - f64::from(u8::from(label as usize == class));
                for side in 0..=d {
                    gradient[class * (d + 1) + side] += residual * point[side] / n as f64;
                }
            }
        }
        for (at, slope) in gradient.iter_mut().enumerate() {
            if at % (d + 1) < d {
                *slope += weights[at] / (strength * n as f64);
            }
            assert!(slope.abs() < 2e-5, "{at}: {slope}");
        }
        let model = Regression::tuned(&Cpu, &points, &labels, classes, 0, &context).unwrap();
        let probabilities = model.probabilities(&Cpu, &points, &context).unwrap();
        assert!((0..n).all(|row| (probabilities.row(row).iter().sum::<f32>() - 1.0).abs() < 1e-5));
    }
}
