//! The generalised Laplace kernel `K(a,b) = exp(-(r/L)^(1/ξ))` of two points a and b (the paper, §2.3), with the
//! distance `r = ‖(a-b)R‖₂`, the root R of the metric, the bandwidth L and the shape ξ.
//!
//! All formulas start from squared distances, so that `r` itself is never computed. With `q = 1/ξ` and
//! `u = (r²/L²)^(q/2)`, the kernel is `exp(-u)`. Its gradient at a is `w·(a-b)RRᵀ` with the **gradient weight**
//! `w = -(q/L^q)·K·r^(q-2) = -q·K·u/r²`, or 0 at distance 0.
//!
//! In f64 the formula is computed for one distance at a time. On the CPU in f32, it is computed for many distances at
//! once. There exp and ln are polynomials of our own, which compilers vectorise for the instruction set that is
//! detected at runtime. With other functions, the n² exponentials and logarithms of a fit on n points would take longer
//! than the matrix products of the fit. The relative error of `u` in f32 is below `1e-6 + 1e-7·|ln(r²/L²)|`, checked in
//! the tests.
//!
//! ```
//! let kernel = dance::kernel::Kernel::new(2.0, 1.0)?; // exp(-r/2)
//! assert!((kernel.value(9.0) - (-1.5f64).exp()).abs() < 1e-12); // at the squared distance 9
//! # Ok::<(), dance::Error>(())
//! ```

use std::iter::zip;

use pulp::Arch;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The bandwidth and shape of the kernel in the [module](self). The kernel holds no metric: callers pass distances
/// under their metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    bandwidth: f64,
    shape: f64,
}

impl Kernel {
    /// Creates the kernel with the bandwidth L, which is a distance, and the shape ξ. Shape 1/2 is the Gaussian kernel,
    /// 1 the Laplace kernel, and larger shapes have heavier tails. Fails with [`Error::Config`] unless L is positive
    /// and ξ at least 1/2.
    pub fn new(bandwidth: f64, shape: f64) -> Result<Self> {
        if !(bandwidth.is_finite() && bandwidth > 0.0) {
            return Err(Error::config("bandwidth", bandwidth, "a positive number"));
        }
        if !(shape.is_finite() && shape >= 0.5) {
            return Err(Error::config("shape", shape, "at least 0.5 (below it the kernel is not positive definite)"));
        }
        Ok(Self { bandwidth, shape })
    }

    /// Returns the bandwidth L.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// Returns the shape ξ.
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// Returns the kernel's value for two points at this squared distance under the metric, in f64.
    pub fn value(&self, squared_distance: f64) -> f64 {
        (-self.exponent_of(squared_distance)).exp()
    }

    /// Returns one minus the kernel's value for two points at this squared distance, in f64. Small results lose no
    /// digits to cancellation.
    pub fn one_minus_value(&self, squared_distance: f64) -> f64 {
        -(-self.exponent_of(squared_distance)).exp_m1()
    }

    /// Returns the exponent u of the kernel `exp(-u)` for two points at this squared distance.
    fn exponent_of(&self, squared_distance: f64) -> f64 {
        let (relative, power) = (squared_distance / (self.bandwidth * self.bandwidth), 0.5 / self.shape);
        // The Gaussian and the Laplace kernel need no logarithm.
        if power == 1.0 {
            relative
        } else if power == 0.5 {
            relative.sqrt()
        } else {
            relative.powf(power)
        }
    }
}

/// The squared distance below which two points count as equal. Their kernel value is then 1, and their [gradient
/// weight](self) 0.
const SAME_POINT: f32 = 1e-30;

impl Kernel {
    /// Replaces every squared distance in `values` by the kernel's value at this distance.
    pub(crate) fn values_in_place(&self, values: &mut [f32]) {
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

    /// Writes the kernel's value at every squared distance in `squared` to `out`.
    pub(crate) fn values(&self, squared: &[f32], out: &mut [f32]) {
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

    /// Writes the gradient weight w, which the [module](self) defines, at every squared distance in `squared` to `out`.
    pub(crate) fn weights(&self, squared: &[f32], out: &mut [f32]) {
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

/// The exponent `u = (x/L²)^(q/2)` of the kernel `exp(-u)`, as a function of the squared distance x in f32. L is the
/// bandwidth, and q is 1/shape. The exponent u is capped where `exp(-u)` reaches the smallest normal number.
#[derive(Clone, Copy)]
struct Power {
    /// The factor 1/L², with the kernel's bandwidth L.
    inverse: f32,
    /// The power q/2, with q = 1/shape of the kernel.
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

/// Returns eˣ for -87 ≤ x ≤ 87 in a form that compilers vectorise. With the integer k nearest to x/ln 2, and r = x -
/// k·ln 2, the result is 2ᵏ·eʳ. The Taylor polynomial of degree 7 replaces eʳ, with a remainder below 6e-9.
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

/// Returns ln x for normal x > 0 in a form that compilers vectorise. With x = 2ᵉ·m and m in [√½, √2), the result is
/// e·ln 2 + ln m. The series of 2·artanh((m-1)/(m+1)) up to the 9th power replaces ln m.
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

    #[test]
    fn refuses_parameters_outside_their_range() {
        for (bandwidth, shape) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, 0.49), (1.0, f64::INFINITY)] {
            assert!(matches!(Kernel::new(bandwidth, shape), Err(Error::Config { .. })));
        }
    }

    /// Returns the kernel's value and gradient weight in f64, by their formulas: the expected numbers of a test.
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
