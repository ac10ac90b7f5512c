//! The distance that decides.

use pulp::{Arch, Simd, WithSimd};

/// `‖a-b‖²` from the differences, in f64 and in an order that no machine changes.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    Arch::new().dispatch(SquaredDifference { a, b })
}

/// A type of its own and not a closure: a closure that could run twice is called through a function that is compiled
/// without the vector instructions.
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
        // By halves: additions that do not wait for each other.
        for half in [16, 8, 4, 2, 1] {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
        }
        sums[0] + rest
    }
}
