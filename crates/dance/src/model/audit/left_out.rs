//! Log posteriors of every label at every point by experts that were trained without this point (leave-one-out), for
//! the audit of labels.
//!
//! Two experts have leave-one-out outputs in closed form. One is prototypes in the whitened space ([`leave_one_out`]).
//! The other is kernel ridge regression in the given space, with a Laplace kernel whose bandwidth is the median
//! distance of points. Let K be the kernel matrix, ρ the ridge, `B = (K+ρI)⁻¹`, and Y the one-hot labels. Then the
//! regression's output at point i after training without i is `Y_i - (BY)_i / B_ii`. A conditional logit weighs the two
//! experts. The only search is over the shrinkage of the covariance, from which whitening is computed.
//!
//! Cost, for n points with d dimensions and c classes: an eigendecomposition (10d³), products of points with means
//! (2nd(d+c)), and 2m³/3 for every regression on m ≤ [`MOST`] points.

use crate::context::Context;
use crate::device::{Device, cpu};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::machine::{OutputScale, Part};
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;
use crate::posterior::{ConditionalLogit, leave_one_out, log_sum};

/// The largest number of points of one regression. More points are divided at random among several regressions.
const MOST: usize = 4000;
/// The ridge ρ of the regression. It is large, since labels may be wrong and the regression must not reproduce them.
const RIDGE: f64 = 0.1;
/// The smallest output of a regression. Smaller outputs are raised to it before outputs become probabilities.
const FLOOR: f32 = 1e-3;
/// The number that keeps the random division of points among regressions apart from draws for other purposes under one
/// seed.
const DEAL_PURPOSE: u64 = 0xf01d;

/// Returns the log posterior of every label at every point, as a table of points × classes. The experts for a point are
/// trained on all other points. `points` are scaled to length 1.
pub(crate) fn left_out(
    device: &dyn Device,
    points: &Part,
    classes: usize,
    seed: u64,
    context: &Context<'_>,
) -> Result<Vec<f64>> {
    let prototypes = leave_one_out(&Matrix::<f64>::from_f32(&points.embeddings), &points.labels, classes, context);
    let regression = regression(device, points, classes, seed, context)?;
    let tables = vec![&prototypes, &regression];
    let logit = ConditionalLogit { tables, labels: &points.labels, context };
    let mut logs = logit.weighted(&logit.fit(&[0, 1]).weights);
    for row in 0..logs.rows() {
        let total = log_sum(logs.row(row));
        logs.row_mut(row).iter_mut().for_each(|log| *log -= total);
    }
    Ok(logs.as_slice().to_vec())
}

/// Returns the logarithms of class probabilities by kernel ridge regression, as a table of points × classes. The
/// regression for a point is trained on other points.
fn regression(
    device: &dyn Device,
    points: &Part,
    classes: usize,
    seed: u64,
    context: &Context<'_>,
) -> Result<Matrix<f64>> {
    let n = points.labels.len();
    let mut logs = Matrix::<f64>::zeros(n, classes);
    let unit = cpu::median_distance(&points.embeddings, context);
    if unit <= 0.0 {
        return Ok(logs); // most points are equal: all labels are equally probable
    }
    let kernel = Kernel::new(unit, 1.0)?;
    let mut order: Vec<usize> = (0..n).collect();
    let parts = n.div_ceil(MOST);
    if parts > 1 {
        Random::new(seed, DEAL_PURPOSE).shuffle(&mut order);
    }
    for part in 0..parts {
        context.check()?;
        let mut rows: Vec<usize> = order.iter().copied().skip(part).step_by(parts).collect();
        rows.sort_unstable();
        let outputs = outputs(device, &points.select(&rows), classes, kernel, context)?;
        let found = OutputScale::clamp(FLOOR).probabilities(outputs);
        for (place, &row) in rows.iter().enumerate() {
            for (log, &probability) in logs.row_mut(row).iter_mut().zip(found.row(place)) {
                *log = f64::from(probability).max(1e-12).ln();
            }
        }
    }
    Ok(logs)
}

/// Returns the outputs of one regression at each of its `points`, after training without this point.
fn outputs(
    device: &dyn Device,
    points: &Part,
    classes: usize,
    kernel: Kernel,
    context: &Context<'_>,
) -> Result<Matrix> {
    let none = Part::none(points.embeddings.cols());
    let mut session = device.open_fit(points.fit_points(classes, &none, None, false), context)?;
    session.begin(None, context)?;
    session.solve(kernel, RIDGE, context)?;
    session.leave_one_out(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Cpu;
    use crate::posterior::solve;

    /// For tests: draws `n` points of three classes around three corners. Two of them have a wrong label.
    fn points(n: usize) -> Part {
        let mut random = Random::new(3, 1);
        let mut embeddings = Matrix::zeros(n, 3);
        for row in 0..n {
            let values = embeddings.row_mut(row);
            for value in values.iter_mut() {
                *value = 0.1 * random.normal() as f32;
            }
            values[row % 3] += 1.0;
        }
        let wrong = |row: usize| usize::from(row == 4 || row == 11);
        Part { embeddings, labels: (0..n).map(|row| ((row + wrong(row)) % 3) as u32).collect() }
    }

    /// Tests that the closed form equals a regression that is fitted again without the point.
    #[test]
    fn outputs_are_those_of_a_regression_without_the_point() {
        let (n, classes) = (30, 4); // one class without points
        let (points, context) = (points(n), Context::new(2).unwrap());
        let found = regression(&Cpu, &points, classes, 1, &context).unwrap();
        let unit = cpu::median_distance(&points.embeddings, &context);
        let kernel = |a: usize, b: usize| -> f64 {
            let pairs = points.embeddings.row(a).iter().zip(points.embeddings.row(b));
            let squared: f64 = pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
            (-squared.sqrt() / unit).exp()
        };
        for left_out in 0..n {
            let rows: Vec<usize> = (0..n).filter(|&row| row != left_out).collect();
            let line = |&a: &usize| -> Vec<f64> {
                rows.iter().map(|&b| kernel(a, b) + if a == b { RIDGE } else { 0.0 }).collect()
            };
            let system: Vec<Vec<f64>> = rows.iter().map(line).collect();
            let output = |class: usize| -> f64 {
                let is = |&row: &usize| f64::from(u8::from(points.labels[row] as usize == class));
                let beta = solve(system.clone(), rows.iter().map(is).collect());
                rows.iter().zip(beta).map(|(&row, beta)| kernel(left_out, row) * beta).sum()
            };
            let floor = f64::from(FLOOR);
            let outputs: Vec<f64> = (0..classes).map(|class| output(class).clamp(floor, 1.0 - floor)).collect();
            let total: f64 = outputs.iter().sum();
            for (class, output) in outputs.iter().enumerate() {
                let (found, expected) = (found.row(left_out)[class], (output / total).ln());
                assert!((found.exp() - expected.exp()).abs() < 1e-5, "{found} is not {expected}");
            }
        }
    }

    #[test]
    fn a_wrong_label_is_improbable_and_rows_are_probabilities() {
        let (points, context) = (points(30), Context::new(2).unwrap());
        let logs = left_out(&Cpu, &points, 3, 1, &context).unwrap();
        assert_eq!(logs, left_out(&Cpu, &points, 3, 1, &Context::new(1).unwrap()).unwrap());
        for (row, (logs, &label)) in logs.chunks_exact(3).zip(&points.labels).enumerate() {
            let total: f64 = logs.iter().map(|log| log.exp()).sum();
            assert!((total - 1.0).abs() < 1e-12, "{total} at {row}");
            let own = logs[label as usize].exp();
            assert_eq!(own < 0.5, row == 4 || row == 11, "{own} at {row}");
        }
    }
}
