//! Rounding bounds in f32: numbers that are certainly below or above their exact value, and scores up to a relative
//! error.

use pulp::Arch;

use crate::device::cpu::elementwise::{exp, ln};

/// The largest exponent that f32 keeps here. Numbers beyond `exp(±MAX_EXPONENT)` are bounded on one side only.
pub(super) const MAX_EXPONENT: f64 = 43.0;
/// The relative error of scores in f32.
pub(super) const SCORE_ERROR: f64 = 1e-5;
/// Log odds below -MIN_ODDS have score 0 in f32; their exact score is below [`SCORE_FLOOR`].
const MIN_ODDS: f32 = 80.0;
/// The absolute error of scores near 0 in f32.
pub(super) const SCORE_FLOOR: f32 = 2e-35;

/// Returns f32 numbers below and above a value that is known up to `room`, for
/// [`Bounds::settle`](crate::posterior::bounds::Bounds::settle).
pub(super) fn interval(value: f64, room: f64) -> [f32; 2] {
    let (least, most) = ((-MAX_EXPONENT).exp(), MAX_EXPONENT.exp());
    let low = if value >= least { (value.min(most) - room).max(0.0) as f32 } else { 0.0 };
    let high = if value <= most { (value.max(least) + room) as f32 } else { f32::INFINITY };
    [low, high]
}

/// Returns a number that is at most `exp x`, and 0 where that is too small for f32.
pub(super) fn exp_below(x: f64) -> f32 {
    if x < -MAX_EXPONENT || x.is_nan() { 0.0 } else { (x.min(MAX_EXPONENT).exp() * (1.0 - 1e-6)) as f32 }
}

/// Returns a number that is at least `exp x`, and infinity where that is too large for f32.
pub(super) fn exp_above(x: f64) -> f32 {
    if x > MAX_EXPONENT || x.is_nan() {
        f32::INFINITY
    } else {
        (x.max(-MAX_EXPONENT).exp() * (1.0 + 1e-6)) as f32
    }
}

/// Replaces log odds x by the score `ln(1 + exp x)`, up to the errors [`SCORE_ERROR`] and [`SCORE_FLOOR`].
pub(super) fn to_scores(odds: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for x in odds {
                let far = exp(-x.abs().min(MIN_ODDS));
                // The series of ln(1 + t), where 1 + t would lose the digits of t.
                let series = far * (1.0 - far * (0.5 - far * (1.0 / 3.0 - 0.25 * far)));
                let below = if *x < -MIN_ODDS { 0.0 } else { series };
                let score = if *x < -3.0 { below } else { x.max(0.0) + ln(1.0 + far) };
                *x = if x.is_nan() { f32::NAN } else { score };
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posterior::link::softplus;

    #[test]
    fn scores_in_f32_are_near_the_formula() {
        let odds: Vec<f32> = (-9000..9000).map(|at| at as f32 * 0.011).collect();
        let mut scores = odds.clone();
        to_scores(&mut scores);
        for (&x, &score) in odds.iter().zip(&scores) {
            let expected = softplus(f64::from(x));
            let room = SCORE_ERROR * expected + f64::from(SCORE_FLOOR);
            assert!((f64::from(score) - expected).abs() < room, "{x}: {score} for {expected}");
        }
        let mut odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        to_scores(&mut odd);
        assert!(odd[0].is_nan() && odd[1] == f32::INFINITY && odd[2] == 0.0);
    }
}
