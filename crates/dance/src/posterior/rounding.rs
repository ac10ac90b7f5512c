//! Numbers in f32 that are surely below or above what they stand for, and scores in f32 up to a known share: what bounds are made of.

use pulp::Arch;

use crate::device::cpu::elementwise::{exp, ln};

/// Numbers beyond `exp(±LARGEST)` are bounded by it on one side and not at all on the other.
pub(super) const LARGEST: f64 = 43.0;
/// Relative room for the rounding of scores.
pub(super) const SCORED: f64 = 1e-5;
/// Scores of x below -LEAST are taken for 0, and are below TINY.
const LEAST: f32 = 80.0;
pub(super) const TINY: f32 = 2e-35;

/// Below and above a value that is known up to `room`, for [`Bounds::settle`](crate::posterior::bounds::Bounds::settle).
pub(super) fn around(value: f64, room: f64) -> [f32; 2] {
    let (least, most) = ((-LARGEST).exp(), LARGEST.exp());
    let low = if value >= least { (value.min(most) - room).max(0.0) as f32 } else { 0.0 };
    let high = if value <= most { (value.max(least) + room) as f32 } else { f32::INFINITY };
    [low, high]
}

/// At most `exp x`, and not too small for f32.
pub(super) fn above_zero(x: f64) -> f32 {
    if x < -LARGEST || x.is_nan() { 0.0 } else { (x.min(LARGEST).exp() * (1.0 - 1e-6)) as f32 }
}

/// At least `exp x`, and not too large for f32.
pub(super) fn below_infinity(x: f64) -> f32 {
    if x > LARGEST || x.is_nan() { f32::INFINITY } else { (x.max(-LARGEST).exp() * (1.0 + 1e-6)) as f32 }
}

/// Replaces x by the score `ln(1 + exp x)`, up to a share of [`SCORED`] and to [`TINY`].
pub(super) fn scores_of(odds: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for x in odds {
                let far = exp(-x.abs().min(LEAST));
                // By its series, where 1 + exp x would lose exp x.
                let series = far * (1.0 - far * (0.5 - far * (1.0 / 3.0 - 0.25 * far)));
                let below = if *x < -LEAST { 0.0 } else { series };
                let score = if *x < -3.0 { below } else { x.max(0.0) + ln(1.0 + far) };
                *x = if x.is_nan() { f32::NAN } else { score };
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posterior::count::softplus;

    #[test]
    fn scores_in_f32_are_near_the_formula() {
        let odds: Vec<f32> = (-9000..9000).map(|at| at as f32 * 0.011).collect();
        let mut scores = odds.clone();
        scores_of(&mut scores);
        for (&x, &score) in odds.iter().zip(&scores) {
            let expected = softplus(f64::from(x));
            let room = SCORED * expected + f64::from(TINY);
            assert!((f64::from(score) - expected).abs() < room, "{x}: {score} for {expected}");
        }
        let mut odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        scores_of(&mut odd);
        assert!(odd[0].is_nan() && odd[1] == f32::INFINITY && odd[2] == 0.0);
    }
}
