//! The link function of kernel ridge regression. It maps an output f to the log posterior `g(f) = ln ln(1 + exp(f/s))`,
//! where s is the softness.
//!
//! The outputs of a regression on one-hot labels approximate probabilities. For f well above 0, g is close to the
//! logarithm of f/s. For f below 0, g is close to f/s itself.
//!
//! The link g is increasing and concave. A change δ of an output changes its log posterior by at most `g'(f)·δ`, and by
//! at least `g'(f)·δ - C·δ²/2`, where C is the largest -g'' between the two outputs.

use std::iter::zip;

use pulp::Arch;

use crate::kernel::{exp, ln};

/// An upper bound on -h'' for `h(t) = ln ln(1 + exp t)`. The maximum of -h'' is 0.1671, at t = 0.495.
const CURVATURE: f64 = 0.1675;
/// Below this t, `h(t) = ln ln(1 + exp t)` equals t up to a few units in the last place.
const STRAIGHT: f64 = -30.0;

/// The link function `g(f) = ln ln(1 + exp(f/s))`, which maps an output f of kernel ridge regression to a log
/// posterior; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// The softness s, above 0.
    softness: f64,
}

impl Link {
    pub(super) fn new(softness: f64) -> Self {
        Self { softness }
    }

    /// Returns the log posterior g(output).
    pub(super) fn apply(self, output: f64) -> f64 {
        let t = output / self.softness;
        if t < STRAIGHT { t } else { softplus(t).ln() }
    }

    /// Returns the slope g'(output), which falls as the output grows.
    pub(super) fn slope(self, output: f64) -> f64 {
        let t = output / self.softness;
        let slope = if t < STRAIGHT { 1.0 } else { 1.0 / ((1.0 + (-t).exp()) * softplus(t)) };
        slope / self.softness
    }

    /// Returns the supremum of the link's slope g'.
    pub(super) fn max_slope(self) -> f64 {
        1.0 / self.softness
    }

    /// Returns an upper bound on -g'' of the link g for outputs above `least`.
    pub(super) fn curvature(self, least: f64) -> f64 {
        // For t > 0, -h''(t) is also below 1/t².
        let everywhere = CURVATURE / (self.softness * self.softness);
        if least > 0.0 { everywhere.min(1.0 / (least * least)) } else { everywhere }
    }

    /// Adds to every entry of `sums` `weight` times the change of the log posterior when the output in `from` grows by
    /// the number in `by`. Returns the scale of the rounding error, as
    /// [`Predictions::add_gains`](crate::posterior::expert::Predictions::add_gains) does.
    pub(super) fn add_gains(self, from: &[f32], by: &[f32], weight: f64, sums: &mut [f32]) -> f64 {
        let (inverse, weight) = ((1.0 / self.softness) as f32, weight as f32);
        let mut largest = 0.0f32;
        let most = &mut largest;
        Arch::new().dispatch(
            // `zip` moves `sums` into the closure: a closure that can be called twice is not inlined or vectorised.
            #[inline(always)]
            move || {
                for (sum, (from, by)) in zip(sums, zip(from, by)) {
                    let [low, high] = [from * inverse, (from + by) * inverse];
                    *most = most.max(low.abs()).max(high.abs());
                    *sum += weight * (link_f32(high) - link_f32(low));
                }
            },
        );
        8.0 + 2.0 * f64::from(largest)
    }
}

/// Statistics of the outputs b of a calibration point for labels but its own, under the link g.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputStats {
    /// The mean of `g'(b)·b` over all labels but the point's own, weighted by their probabilities.
    pub(super) mean: f64,
    /// The largest less the least `g'(b)·b` over all labels but the point's own.
    pub(super) range: f64,
    /// The largest slope `g'(b)` over all labels but the point's own.
    pub(super) slope: f64,
    /// The largest absolute output over all labels but the point's own.
    pub(super) largest: f64,
    /// The slope `g'(b)` at the output b for the point's own label.
    pub(super) own_slope: f64,
}

impl OutputStats {
    /// Computes the statistics of a point. `log_posterior` holds the stack's log posteriors of the point, and `total`
    /// their log sum over all labels but `own`.
    pub(super) fn new(outputs: &[f64], own: usize, log_posterior: &[f64], total: f64, link: Link) -> Self {
        let (mut mean, mut least, mut most) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        let (mut slope, mut largest) = (0.0f64, 0.0f64);
        for (label, (&output, value)) in zip(outputs, log_posterior).enumerate() {
            if label == own {
                continue;
            }
            let sloping = link.slope(output) * output;
            mean += (value - total).exp() * sloping;
            [least, most] = [least.min(sloping), most.max(sloping)];
            slope = slope.max(link.slope(output));
            largest = largest.max(output.abs());
        }
        Self { mean, range: (most - least).max(0.0), slope, largest, own_slope: link.slope(outputs[own]) }
    }
}

/// Returns `ln Σ exp(value)` over `values`.
pub(crate) fn log_sum(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + values.iter().map(|value| (value - most).exp()).sum::<f64>().ln()
}

/// Returns `ln(1 + exp t)`.
pub(super) fn softplus(t: f64) -> f64 {
    t.max(0.0) + (-t.abs()).exp().ln_1p()
}

/// Returns `h(t) = ln ln(1 + exp t)` in f32, up to a few units in the last place.
#[inline(always)]
fn link_f32(t: f32) -> f32 {
    let far = exp(-t.abs().min(60.0));
    // A series gives ln ln(1 + x) for small x = exp(-|t|), because 1 + x loses the digits of x.
    let below = far.mul_add(far.mul_add(5.0 / 24.0, -0.5), t);
    let above = ln(t.max(0.0) + ln(1.0 + far));
    if t < -4.0 { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_on_a_grid() {
        let link = Link::new(0.05);
        for step in -4000..4000 {
            let (output, h) = (f64::from(step) * 5e-4, 1e-4);
            let [before, here, after] = [-h, 0.0, h].map(|by| link.apply(output + by));
            let slope = (after - before) / (2.0 * h);
            assert!((slope / link.slope(output) - 1.0).abs() < 1e-5, "{output}: {slope} {}", link.slope(output));
            assert!(link.slope(output) <= link.max_slope() && link.slope(output) > 0.0);
            let bend = (2.0 * here - before - after) / (h * h);
            assert!(bend > -1e-4 && bend < link.curvature(output - h) + 1e-6, "{output}: {bend}");
        }
        // The outputs of these cases are compared with the formula, whose rounding is harmless for them.
        for output in [-0.2f64, -0.01, 0.0, 0.03, 0.4, 1.0] {
            let expected = (1.0 + (output / 0.05).exp()).ln().ln();
            assert!((link.apply(output) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn gains_in_f32_are_near_the_formula() {
        let link = Link::new(0.05);
        let from: Vec<f32> = (0..3000).map(|at| at as f32 * 1e-3 - 1.5).collect();
        for by in [-0.3f32, -1e-3, 0.0, 2e-5, 0.04, 0.7] {
            let mut sums = vec![1.0f32; from.len()];
            let magnitude = link.add_gains(&from, &vec![by; from.len()], 2.0, &mut sums);
            for (sum, &from) in sums.iter().zip(&from) {
                let (from, by) = (f64::from(from), f64::from(by));
                let expected = 1.0 + 2.0 * (link.apply(from + by) - link.apply(from));
                let room = 2.0 * 1e-6 * magnitude + 4e-6;
                assert!((f64::from(*sum) - expected).abs() < room, "{from} {by}: {sum} {expected}");
            }
        }
    }
}
