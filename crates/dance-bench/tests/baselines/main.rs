//! Baselines against straightforward versions of their formulas, and their coverage against the theory.

#![allow(clippy::unwrap_used)] // a test may panic

mod methods;
mod peers;

use dance::numeric::random::Random;
use dance::{Context, Matrix};

/// Two workers, the same for every test.
fn context() -> Context<'static> {
    static CONTEXT: std::sync::LazyLock<Context<'static>> = std::sync::LazyLock::new(|| Context::new(2).unwrap());
    CONTEXT.clone()
}

/// Rows of probabilities that favour a label drawn from them, and those labels.
fn simulated(rows: usize, classes: usize, sharpness: f64, seed: u64) -> (Matrix, Vec<u32>) {
    let mut random = Random::new(seed, 77);
    let (mut values, mut labels) = (Vec::with_capacity(rows * classes), Vec::with_capacity(rows));
    for _ in 0..rows {
        let weights: Vec<f64> = (0..classes).map(|_| (sharpness * random.normal()).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut left = random.uniform() * total;
        let label = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        labels.push(label.unwrap_or(classes - 1) as u32);
        values.extend(weights.iter().map(|weight| (weight / total) as f32));
    }
    (Matrix::new(values, rows, classes).unwrap(), labels)
}
