//! Conf-OT (Silva-Rodríguez and others, 2025): zero-shot probabilities from class prototypes, moved towards the class
//! frequencies of the calibration points by optimal transport; then plain APS or RAPS on them.
//!
//! The logits are `l_ik = 100·cos(z_i, t_k)`, with calibration and test rows stacked (N in all). Sinkhorn with ε = 1
//! runs three rounds: scale the columns of `exp(l)` to the class frequencies, then its rows to 1/N. Scaling columns
//! adds a bias to every class, and scaling rows is a softmax. So in the log domain all of it is **one bias per class**:
//! ```text
//! b_k ← log frequency_k - log Σ_i exp(a_i + l_ik)      a_i ← -log N - log Σ_k exp(l_ik + b_k)
//! p_ik = exp(l_ik + b_k) / Σ_k' exp(l_ik' + b_k')
//! ```
//! A class without calibration points counts as half a point, and so keeps a small mass. Cost: 6 exponentials per
//! logit, in f64.
//!
//! ```
//! use dance::{Context, Matrix, device::Cpu};
//! use dance_bench::baselines::conf_ot;
//! let context = Context::new(1)?;
//! let points = Matrix::new(vec![1.0, 0.0, 0.0, 1.0], 2, 2)?;
//! let logits = conf_ot::logits(&Cpu, &points, &points, &context)?; // 100·cos with each prototype
//! let probabilities = conf_ot::probabilities(&logits, &conf_ot::biases(&logits, &[0, 1], &context), &context)?;
//! assert!(probabilities.row(0)[0] > 0.999);
//! # Ok::<(), dance::Error>(())
//! ```

use dance::Context;
use dance::Matrix;
use dance::device::Device;
use dance::{Error, Result};

/// The factor of the cosines, the value of CLIP.
const SCALE: f32 = 100.0;
const ROUNDS: usize = 3;
/// The number of points that a class without calibration points counts as.
const ABSENT: f64 = 0.5;
/// Rows of a parallel task.
const TILE: usize = 64;

/// Returns `100·cos` of every point with every prototype.
pub fn logits(device: &dyn Device, points: &Matrix, prototypes: &Matrix, context: &Context<'_>) -> Result<Matrix> {
    if points.cols() != prototypes.cols() {
        return Err(Error::Shape {
            what: "dimensions of the prototypes".into(),
            expected: points.cols().to_string(),
            found: prototypes.cols().to_string(),
        });
    }
    let norms = |matrix: &Matrix| -> Vec<f32> {
        let norm = |row: usize| matrix.row(row).iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        (0..matrix.rows()).map(|row| norm(row).max(f64::from(f32::MIN_POSITIVE)) as f32).collect()
    };
    let (rows, columns) = (norms(points), norms(prototypes));
    let mut out = device.inner_products(points, prototypes, context)?;
    for (row, norm) in rows.iter().enumerate() {
        for (value, column) in out.row_mut(row).iter_mut().zip(&columns) {
            *value *= SCALE / (norm * column);
        }
    }
    Ok(out)
}

/// Returns the bias of every class. `logits` are those of all rows, `labels` those of the calibration rows.
pub fn biases(logits: &Matrix, labels: &[u32], context: &Context<'_>) -> Vec<f64> {
    let classes = logits.cols();
    let mut counts = vec![0.0f64; classes];
    for &label in labels {
        counts[label as usize] += 1.0;
    }
    for count in &mut counts {
        *count = count.max(ABSENT);
    }
    let total: f64 = counts.iter().sum();

    let n = logits.rows();
    let mut bias = vec![0.0f64; classes];
    let mut row_terms = vec![0.0f64; n];
    for _ in 0..ROUNDS {
        // Columns: one sum of exponentials each, relative to its largest term.
        let largest = fold_rows(
            n,
            classes,
            f64::NEG_INFINITY,
            |row, class| row_terms[row] + f64::from(logits.row(row)[class]),
            f64::max,
            context,
        );
        let sums = fold_rows(
            n,
            classes,
            0.0,
            |row, class| (row_terms[row] + f64::from(logits.row(row)[class]) - largest[class]).exp(),
            |a, b| a + b,
            context,
        );
        for class in 0..classes {
            bias[class] = (counts[class] / total).ln() - largest[class] - sums[class].ln();
        }
        // Rows: each is scaled to 1/N.
        let terms = context.map(n.div_ceil(TILE), |tile| {
            let rows = tile * TILE..((tile + 1) * TILE).min(n);
            rows.map(|row| -(n as f64).ln() - log_sum_exp(logits.row(row), &bias)).collect::<Vec<_>>()
        });
        row_terms = terms.concat();
    }
    bias
}

/// Combines `value(row, class)` over the rows, for every class, in an order that no number of threads changes.
fn fold_rows(
    rows: usize,
    classes: usize,
    start: f64,
    value: impl Fn(usize, usize) -> f64 + Sync,
    combine: impl Fn(f64, f64) -> f64 + Sync,
    context: &Context<'_>,
) -> Vec<f64> {
    let tiles = context.map(rows.div_ceil(TILE), |tile| {
        let mut folded = vec![start; classes];
        for row in tile * TILE..((tile + 1) * TILE).min(rows) {
            for (class, folded) in folded.iter_mut().enumerate() {
                *folded = combine(*folded, value(row, class));
            }
        }
        folded
    });
    let mut all = vec![start; classes];
    for tile in &tiles {
        all.iter_mut().zip(tile).for_each(|(all, value)| *all = combine(*all, *value));
    }
    all
}

fn log_sum_exp(logits: &[f32], bias: &[f64]) -> f64 {
    let terms = || logits.iter().zip(bias).map(|(&logit, bias)| f64::from(logit) + bias);
    let largest = terms().fold(f64::NEG_INFINITY, f64::max);
    largest + terms().map(|term| (term - largest).exp()).sum::<f64>().ln()
}

/// Returns the probabilities of one row, in f64.
pub fn row_probabilities(logits: &[f32], bias: &[f64]) -> Vec<f64> {
    let total = log_sum_exp(logits, bias);
    logits.iter().zip(bias).map(|(&logit, bias)| (f64::from(logit) + bias - total).exp()).collect()
}

/// Returns the probabilities of all rows.
pub fn probabilities(logits: &Matrix, bias: &[f64], context: &Context<'_>) -> Result<Matrix> {
    let rows = context.map(logits.rows().div_ceil(TILE), |tile| {
        let rows = tile * TILE..((tile + 1) * TILE).min(logits.rows());
        let row = |row| row_probabilities(logits.row(row), bias).into_iter().map(|p| p as f32);
        rows.flat_map(row).collect::<Vec<f32>>()
    });
    Matrix::new(rows.concat(), logits.rows(), logits.cols())
}
