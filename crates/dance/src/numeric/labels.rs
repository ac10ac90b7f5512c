//! Operations on labels: argmax and quality of classifier outputs, and counts per class.

use crate::event::Quality;
use crate::numeric::matrix::Matrix;

impl Quality {
    /// Returns the quality of `outputs`, one row per point, for the true `labels`.
    pub fn of(outputs: &Matrix, labels: &[u32]) -> Self {
        let mut hits = 0usize;
        let mut loss = 0.0;
        for (row, &label) in labels.iter().enumerate() {
            let outputs = outputs.row(row);
            hits += usize::from(argmax(outputs) == label as usize);
            let squares: f64 = outputs.iter().map(|&value| f64::from(value).powi(2)).sum();
            loss += squares - 2.0 * f64::from(outputs[label as usize]) + 1.0;
        }
        let n = labels.len().max(1) as f64;
        Self { accuracy: hits as f64 / n, loss: loss / n }
    }
}

/// Returns how often each of `classes` labels occurs.
pub(crate) fn counts_of(labels: &[u32], classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    for &label in labels {
        counts[label as usize] += 1;
    }
    counts
}

/// Returns the index of the largest value, the first on a tie.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
        }
    }
    best
}
