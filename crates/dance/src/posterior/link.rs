//! How the outputs of a regression are told as evidence: `g(f) = ln ln(1 + exp(f/s))`.
//!
//! Outputs of a regression on one-hot labels are nearly shares: what is well above 0 is told as its logarithm, as shares ought to be, and
//! what is below 0 as it is, in units of s. Models of before tell all outputs as they are (s = 0, and g is the identity).
//!
//! g grows and is concave, so a change δ of an output changes its evidence by at most `g'(f)·δ`, and by at least that less `C·δ²/2`, with C
//! the most that -g'' is on the way.

use std::iter::zip;

use pulp::Arch;

use crate::device::cpu::elementwise::{exp, ln};

/// Above what -h'' of `h(t) = ln ln(1 + exp t)` never is; it is largest, 0.1671, at t = 0.495.
const CURVATURE: f64 = 0.1675;
/// Below this h(t) is t to the last bit, but for a few.
const STRAIGHT: f64 = -30.0;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Told {
    /// s, or 0.
    softness: f64,
}

impl Told {
    /// Outputs as they are.
    pub(super) const PLAIN: Self = Self { softness: 0.0 };

    pub(super) fn new(softness: f64) -> Self {
        Self { softness }
    }

    pub(super) fn is_plain(self) -> bool {
        self.softness == 0.0
    }

    /// g.
    pub(super) fn of(self, output: f64) -> f64 {
        if self.is_plain() {
            return output;
        }
        let t = output / self.softness;
        if t < STRAIGHT { t } else { softplus(t).ln() }
    }

    /// g', which falls.
    pub(super) fn slope(self, output: f64) -> f64 {
        if self.is_plain() {
            return 1.0;
        }
        let t = output / self.softness;
        let slope = if t < STRAIGHT { 1.0 } else { 1.0 / ((1.0 + (-t).exp()) * softplus(t)) };
        slope / self.softness
    }

    /// The most that g' is anywhere.
    pub(super) fn steepest(self) -> f64 {
        if self.is_plain() { 1.0 } else { 1.0 / self.softness }
    }

    /// The most that -g'' is above `least`.
    pub(super) fn curvature(self, least: f64) -> f64 {
        if self.is_plain() {
            return 0.0;
        }
        // Beyond 0, -h''(t) is also below 1/t².
        let everywhere = CURVATURE / (self.softness * self.softness);
        if least > 0.0 { everywhere.min(1.0 / (least * least)) } else { everywhere }
    }

    /// Adds `weight` times what outputs `from` gain in evidence when they grow by `by`, in f32. Returns what the rounding of that is a part
    /// of, as for [`Asked::gains`](crate::posterior::expert::Asked::gains).
    pub(super) fn gains(self, from: &[f32], by: &[f32], weight: f64, sums: &mut [f32]) -> f64 {
        let (inverse, weight) = ((1.0 / self.softness) as f32, weight as f32);
        let mut largest = 0.0f32;
        let most = &mut largest;
        Arch::new().dispatch(
            // `zip` takes `sums`: a closure that could be called twice would not be inlined, and nothing vectorised.
            #[inline(always)]
            move || {
                for (sum, (from, by)) in zip(sums, zip(from, by)) {
                    let [low, high] = [from * inverse, (from + by) * inverse];
                    *most = most.max(low.abs()).max(high.abs());
                    *sum += weight * (narrow(high) - narrow(low));
                }
            },
        );
        8.0 + 2.0 * f64::from(largest)
    }
}

/// `ln(1 + exp t)`.
fn softplus(t: f64) -> f64 {
    t.max(0.0) + (-t.abs()).exp().ln_1p()
}

/// h in f32, to a few units in the last place of numbers of its size.
#[inline(always)]
fn narrow(t: f32) -> f32 {
    let far = exp(-t.abs().min(60.0));
    // ln ln(1+x) by its series, where 1+x would lose x.
    let below = far.mul_add(far.mul_add(5.0 / 24.0, -0.5), t);
    let above = ln(t.max(0.0) + ln(1.0 + far));
    if t < -4.0 { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_on_a_grid() {
        let told = Told::new(0.05);
        for step in -4000..4000 {
            let (output, h) = (f64::from(step) * 5e-4, 1e-4);
            let [before, here, after] = [-h, 0.0, h].map(|by| told.of(output + by));
            let slope = (after - before) / (2.0 * h);
            assert!(
                (slope / told.slope(output) - 1.0).abs() < 1e-5,
                "{output}: {slope} {}",
                told.slope(output)
            );
            assert!(told.slope(output) <= told.steepest() && told.slope(output) > 0.0);
            let bend = (2.0 * here - before - after) / (h * h);
            assert!(bend > -1e-4 && bend < told.curvature(output - h) + 1e-6, "{output}: {bend}");
        }
        // The formula, where nothing is lost.
        for output in [-0.2f64, -0.01, 0.0, 0.03, 0.4, 1.0] {
            let expected = (1.0 + (output / 0.05).exp()).ln().ln();
            assert!((told.of(output) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn gains_in_f32_are_near_the_formula() {
        let told = Told::new(0.05);
        let from: Vec<f32> = (0..3000).map(|at| at as f32 * 1e-3 - 1.5).collect();
        for by in [-0.3f32, -1e-3, 0.0, 2e-5, 0.04, 0.7] {
            let mut sums = vec![1.0f32; from.len()];
            let magnitude = told.gains(&from, &vec![by; from.len()], 2.0, &mut sums);
            for (sum, &from) in sums.iter().zip(&from) {
                let (from, by) = (f64::from(from), f64::from(by));
                let expected = 1.0 + 2.0 * (told.of(from + by) - told.of(from));
                let room = 2.0 * 1e-6 * magnitude + 4e-6;
                assert!((f64::from(*sum) - expected).abs() < room, "{from} {by}: {sum} {expected}");
            }
        }
    }
}
