//! The generalised Laplace kernel `K(a,b) = exp(-(r/L)^(1/ξ))` of two points a and b (the paper, §2.3), with the
//! distance `r = ‖(a-b)R‖₂`, the root R of the metric, the bandwidth L and the shape ξ.
//!
//! All formulas start from squared distances, so that `r` itself is never computed. With `u = (r²/L²)^(q/2)`,
//! `q = 1/ξ`, the kernel is `exp(-u)`. Its gradient at a is `w·(a-b)RRᵀ` with the gradient weight
//! `w = -(q/L^q)·K·r^(q-2) = -q·K·u/r²`, or 0 at distance 0.
//!
//! This module holds the two parameters L and ξ, and the formula in f64. Every device has its own code for many pairs
//! at once.
//!
//! ```
//! let kernel = dance::kernel::Kernel::new(2.0, 1.0)?; // exp(-r/2)
//! assert!((kernel.value(9.0) - (-1.5f64).exp()).abs() < 1e-12); // at the squared distance 9
//! # Ok::<(), dance::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The bandwidth and shape of the kernel. The kernel holds no metric: callers pass distances under the metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    bandwidth: f64,
    shape: f64,
}

impl Kernel {
    /// Creates the kernel with bandwidth L, a distance, and shape ξ: 1/2 is the Gaussian kernel, 1 the Laplace kernel,
    /// and larger values have heavier tails.
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

    /// Returns the kernel at a squared distance, in f64.
    pub fn value(&self, squared_distance: f64) -> f64 {
        (-self.exponent_of(squared_distance)).exp()
    }

    /// Returns `1 - K` at a squared distance, in f64 and without cancellation.
    pub fn one_minus_value(&self, squared_distance: f64) -> f64 {
        -(-self.exponent_of(squared_distance)).exp_m1()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_parameters_outside_their_range() {
        for (bandwidth, shape) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, 0.49), (1.0, f64::INFINITY)] {
            assert!(matches!(Kernel::new(bandwidth, shape), Err(Error::Config { .. })));
        }
    }
}
