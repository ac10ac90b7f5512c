//! Exact squared distances in f64.

use pulp::{Arch, Simd, WithSimd};

/// Returns `‖a-b‖²` in f64. The differences are summed in the same order on every machine.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    Arch::new().dispatch(SquaredDifference { a, b })
}

/// The work of [`squared_distance`]. A type, since a closure would be compiled without the vector instructions.
struct SquaredDifference<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl WithSimd for SquaredDifference<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        const LANES: usize = 32;
        let mut sums = [0.0f64; LANES];
        let (a, b) = (self.a.chunks_exact(LANES), self.b.chunks_exact(LANES));
        let rest = a.remainder().iter().zip(b.remainder());
        let rest = rest.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>();
        for (a, b) in a.zip(b) {
            for lane in 0..LANES {
                let difference = f64::from(a[lane]) - f64::from(b[lane]);
                sums[lane] += difference * difference;
            }
        }
        // Sum by halves, so that additions do not depend on each other.
        for half in [16, 8, 4, 2, 1] {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
        }
        sums[0] + rest
    }
}
