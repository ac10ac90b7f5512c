//! Random numbers from one generator. All distributions are defined here, so that a seed always gives the same numbers.
//!
//! ```
//! use dance::numeric::random::{Random, uniform_of};
//! assert_eq!(Random::new(7, 1).below(100), Random::new(7, 1).below(100));
//! assert_ne!(uniform_of(&[7, 1]), uniform_of(&[7, 2])); // depends on its keys alone
//! ```

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// A generator of random numbers, by the algorithm PCG XSL 128/64 (LCG).
#[derive(Clone, Debug)]
pub struct Random {
    generator: Pcg64,
}

impl Random {
    /// Creates the generator of a `seed`. Every seed has independent streams of numbers, and `purpose` is the number of
    /// the stream. Code that draws for different purposes passes different numbers.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self { generator: Pcg64::new(u128::from(seed), u128::from(purpose)) }
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Returns a uniform integer below `bound`, which must not be 0. Random bits that would favour small integers are
    /// drawn again.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        let excess = (u64::MAX % bound + 1) % bound;
        loop {
            let bits = self.bits();
            if bits <= u64::MAX - excess {
                return (bits % bound) as usize;
            }
        }
    }

    /// Returns a uniform number in [0, 1), a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a standard normal number by the Box–Muller transform.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Shuffles `items` by the algorithm of Fisher and Yates, from the end.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Returns a uniform number in [0, 1) that depends on the `keys` alone, and on no other draw.
pub fn uniform_of(keys: &[u64]) -> f64 {
    (bits_of(keys.iter().copied()) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a hash of the `keys` in 64 bits, computed with the last step of the generator `SplitMix64`.
pub(crate) fn bits_of(keys: impl IntoIterator<Item = u64>) -> u64 {
    let mut state = 0u64;
    for key in keys {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ key;
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_outputs_are_those_of_pcg64() {
        // The first outputs of the reference implementation of pcg64 for state 42, stream 54.
        let mut random = Random::new(42, 54);
        let expected = [0x86b1_da1d_7206_2b68, 0x1304_aa46_c985_3d39, 0xa367_0e9e_0dd5_0358];
        assert_eq!([random.bits(), random.bits(), random.bits()], expected);
    }

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let mut random = Random::new(5, 0);
        let n = 200_000;
        let (mut uniform, mut normal, mut square, mut below) = (0.0, 0.0, 0.0, [0usize; 5]);
        for _ in 0..n {
            uniform += random.uniform();
            let draw = random.normal();
            normal += draw;
            square += draw * draw;
            below[random.below(5)] += 1;
        }
        let n = f64::from(n);
        // Five standard errors each.
        assert!((uniform / n - 0.5).abs() < 5.0 * (1.0 / 12.0 / n).sqrt());
        assert!((normal / n).abs() < 5.0 / n.sqrt());
        assert!((square / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!(below.iter().all(|&count| (count as f64 / n - 0.2).abs() < 5.0 * (0.16 / n).sqrt()));
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        let mut items: Vec<usize> = (0..100).collect();
        Random::new(0, 0).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
