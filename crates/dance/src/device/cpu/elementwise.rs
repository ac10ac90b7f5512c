//! The kernel and its gradient weights for many squared distances at once, in f32.
//!
//! The functions exp and ln are polynomials of our own, which compilers vectorise for the instruction set that is
//! detected at runtime. Otherwise the n² exponentials and logarithms of a fit on n points would cost more than its
//! matrix products.
//!
//! Cost: one logarithm and two exponentials per pair. The kernel is exp(-u) with `u = (r²/L²)^(q/2)` (see `kernel`).
//! Relative error of `u` against f64: below `1e-6 + 1e-7·|ln(r²/L²)|`, checked in the tests.

use std::iter::zip;

use pulp::Arch;

use crate::kernel::Kernel;

/// Two points with a squared distance below this count as equal: their kernel is 1, their gradient weight 0.
const SAME_POINT: f32 = 1e-30;

impl Kernel {
    /// Replaces squared distances by kernel values.
    pub(super) fn values_in_place(&self, values: &mut [f32]) {
        let power = Power::of(self);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for value in values {
                    *value = exp(-power.apply(*value));
                }
            },
        );
    }

    /// Writes the kernel values of squared distances to `out`.
    pub(super) fn values(&self, squared: &[f32], out: &mut [f32]) {
        let power = Power::of(self);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (out, &squared) in zip(out, squared) {
                    *out = exp(-power.apply(squared));
                }
            },
        );
    }

    /// Writes the gradient weights (see `kernel`) of squared distances to `out`.
    pub(super) fn weights(&self, squared: &[f32], out: &mut [f32]) {
        let power = Power::of(self);
        let minus_q = (-1.0 / self.shape()) as f32;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (out, &squared) in zip(out, squared) {
                    let u = power.apply(squared);
                    let weight = minus_q * u * exp(-u) / squared;
                    *out = if squared < SAME_POINT { 0.0 } else { weight };
                }
            },
        );
    }
}

/// The exponent `u = (x/L²)^(q/2)` of the kernel `exp(-u)`, as a function of the squared distance x, with the bandwidth
/// L and q = 1/shape. It is capped where `exp(-u)` reaches the smallest normal number.
#[derive(Clone, Copy)]
struct Power {
    inverse: f32,
    half_q: f32,
}

const LARGEST_EXPONENT: f32 = 87.0;

impl Power {
    fn of(kernel: &Kernel) -> Self {
        Self { inverse: (1.0 / kernel.bandwidth().powi(2)) as f32, half_q: (0.5 / kernel.shape()) as f32 }
    }

    #[inline(always)]
    fn apply(self, squared: f32) -> f32 {
        let scaled = (squared * self.inverse).max(f32::MIN_POSITIVE);
        let u = exp((self.half_q * ln(scaled)).min(5.0)).min(LARGEST_EXPONENT);
        if squared < SAME_POINT { 0.0 } else { u }
    }
}

/// Returns eˣ for -87 ≤ x ≤ 87 in a form that compilers vectorise: x = k·ln 2 + r with |r| ≤ ln(2)/2, and the Taylor
/// polynomial of degree 7 in r, whose remainder is below 6e-9.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5·2²³: adding it leaves the nearest integer in the low bits of the mantissa
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let k = shifted - ROUND;
    let r = k.mul_add(-LN_2_LOW, k.mul_add(-LN_2_HIGH, x));
    let series = r.mul_add(1.0 / 5040.0, 1.0 / 720.0);
    let series = r.mul_add(series, 1.0 / 120.0);
    let series = r.mul_add(series, 1.0 / 24.0);
    let series = r.mul_add(series, 1.0 / 6.0);
    let series = r.mul_add(series, 0.5);
    let series = r.mul_add(series, 1.0);
    let series = r.mul_add(series, 1.0);
    f32::from_bits(series.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// Returns ln x for normal x > 0: x = 2ᵉ·m with m in [√½, √2), ln m = 2·artanh((m-1)/(m+1)) by its series to the 9th
/// power.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let exponent = (x.to_bits().wrapping_sub(SQRT_HALF) as i32) >> 23;
    let m = f32::from_bits(x.to_bits().wrapping_sub((exponent as u32) << 23));
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let series = s2.mul_add(1.0 / 9.0, 1.0 / 7.0);
    let series = s2.mul_add(series, 1.0 / 5.0);
    let series = s2.mul_add(series, 1.0 / 3.0);
    let series = s2.mul_add(series, 1.0);
    (exponent as f32).mul_add(std::f32::consts::LN_2, 2.0 * s * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kernel and its gradient weight by their formulas in f64.
    fn reference(bandwidth: f64, shape: f64, squared: f64) -> (f64, f64) {
        let (r, q) = (squared.sqrt(), 1.0 / shape);
        let value = (-(r / bandwidth).powf(q)).exp();
        (value, if r == 0.0 { 0.0 } else { -q / bandwidth.powf(q) * value * r.powf(q - 2.0) })
    }

    #[test]
    fn matches_the_formula_over_the_whole_range() {
        for shape in [0.5, 0.6, 0.75, 1.0, 1.3, 2.0, 4.0] {
            for bandwidth in [0.01, 0.3, 1.0, 20.0, 400.0] {
                let kernel = Kernel::new(bandwidth, shape).unwrap();
                let squared: Vec<f32> = (0..4000).map(|i| 10f32.powf(-10.0 + i as f32 * 0.003)).collect();
                let (mut values, mut weights) = (vec![0.0; 4000], vec![0.0; 4000]);
                kernel.values(&squared, &mut values);
                kernel.weights(&squared, &mut weights);
                for ((&squared, &value), &weight) in squared.iter().zip(&values).zip(&weights) {
                    let (expected_value, expected_weight) = reference(bandwidth, shape, f64::from(squared));
                    assert!((kernel.value(f64::from(squared)) - expected_value).abs() < 1e-14);
                    // Relative, with the condition number of exp(-u) for large u. Values below 1e-37 count as 0.
                    let u = -expected_value.max(1e-37).ln();
                    let error = 1e-6 + 1e-7 * (f64::from(squared) / bandwidth.powi(2)).ln().abs();
                    let close = |found: f32, expected: f64, zero: f64| {
                        (f64::from(found) - expected).abs() <= error * (1.0 + u) * expected.abs() + zero
                    };
                    let context = (shape, bandwidth, squared);
                    assert!(close(value, expected_value, 1e-37), "{context:?} {value} {expected_value}");
                    let zero = 1e-37 * 2.0 * u / f64::from(squared);
                    assert!(close(weight, expected_weight, zero), "{context:?} {weight} {expected_weight}");
                }
            }
        }
    }

    #[test]
    fn a_point_and_itself() {
        for shape in [0.5, 1.0, 2.0] {
            let kernel = Kernel::new(1.0, shape).unwrap();
            let (mut value, mut weight) = ([0.0], [1.0]);
            kernel.values(&[0.0], &mut value);
            kernel.weights(&[0.0], &mut weight);
            assert_eq!((value, weight), ([1.0], [0.0]));
            let mut in_place = [0.0];
            kernel.values_in_place(&mut in_place);
            assert_eq!(in_place, [1.0]);
        }
    }
}
