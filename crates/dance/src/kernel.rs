//! The generalised Laplace kernel `K(a,b) = exp(-(r/L)^(1/ξ))`, `r = ‖(a-b)R‖₂` (the paper, §2.3).
//!
//! Everything starts from squared distances, so that `r` itself is never formed: with `u = (r²/L²)^(q/2)`, `q = 1/ξ`,
//! the kernel is `exp(-u)` and the weight of its gradient is
//! `w = -(q/L^q)·K·r^(q-2) = -q·K·u/r²`, 0 where `r = 0`.
//!
//! The two parameters and the formula in f64 are here; a device evaluates it for many pairs at once in its own way.
//!
//! ```
//! let kernel = dance::kernel::Kernel::new(2.0, 1.0)?; // exp(-r/2)
//! assert!((kernel.value(9.0) - (-1.5f64).exp()).abs() < 1e-12); // of the squared distance 9
//! # Ok::<(), dance::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A kernel's two parameters. The metric is applied to the points beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    bandwidth: f64,
    shape: f64,
}

impl Kernel {
    /// `bandwidth` (L) is a distance; `shape` (ξ) of 1/2 is the Gaussian, 1 the Laplace kernel, more is heavier-tailed.
    pub fn new(bandwidth: f64, shape: f64) -> Result<Self> {
        if !(bandwidth.is_finite() && bandwidth > 0.0) {
            return Err(Error::config("bandwidth", bandwidth, "a positive number"));
        }
        if !(shape.is_finite() && shape >= 0.5) {
            return Err(Error::config(
                "shape",
                shape,
                "at least 0.5 (below it the kernel is not positive definite)",
            ));
        }
        Ok(Self { bandwidth, shape })
    }

    /// L.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// ξ.
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// The kernel of one squared distance, in f64.
    pub fn value(&self, squared_distance: f64) -> f64 {
        (-self.exponent_of(squared_distance)).exp()
    }

    /// `1 - K` of one squared distance, in f64 and without cancellation.
    pub fn one_minus_value(&self, squared_distance: f64) -> f64 {
        -(-self.exponent_of(squared_distance)).exp_m1()
    }

    fn exponent_of(&self, squared_distance: f64) -> f64 {
        let (relative, power) = (squared_distance / (self.bandwidth * self.bandwidth), 0.5 / self.shape);
        // The Gaussian and the Laplace kernel without a logarithm.
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
        for (bandwidth, shape) in
            [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, 0.49), (1.0, f64::INFINITY)]
        {
            assert!(matches!(Kernel::new(bandwidth, shape), Err(Error::Config { .. })));
        }
    }
}
