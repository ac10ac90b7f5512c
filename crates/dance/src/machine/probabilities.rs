//! Class probabilities from the outputs of a kernel machine.

use crate::matrix::Matrix;

/// The floor under class probabilities: xRFM's 1e-3, lower where many classes would let it swamp the tail.
pub fn default_floor(classes: usize) -> f32 {
    1e-3f32.min(0.1 / classes.max(1) as f32)
}

/// Outputs clamped to [floor, 1 - floor] and normalised; no softmax.
pub fn probabilities(mut outputs: Matrix, floor: f32) -> Matrix {
    for row in 0..outputs.rows() {
        let values = outputs.row_mut(row);
        let mut sum = 0.0f64;
        for value in values.iter_mut() {
            *value = value.clamp(floor, 1.0 - floor);
            sum += f64::from(*value);
        }
        for value in values {
            *value = (f64::from(*value) / sum) as f32;
        }
    }
    outputs
}
