//! Numbers that packed products are made of, and the machine's vectors of them.

use pulp::Simd;

/// Columns of a panel: of f32 two vectors of AVX2, one of AVX-512.
pub(crate) const PANEL: usize = 16;

/// What is multiplied: f32, or f64 where a decision hangs on it.
pub(crate) trait Number: Copy + Default + Send + Sync + 'static {
    /// A vector of the machine.
    type Vector<S: Simd>: Copy;

    fn lanes<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, number: Self) -> Self::Vector<S>;
    /// `a·b + c`.
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    fn vectors<S: Simd>(panel: &[Self; PANEL]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(panel: &mut [Self; PANEL]) -> &mut [Self::Vector<S>];
}

macro_rules! number {
    ($number:ty, $vector:ident, $lanes:ident, $splat:ident, $mul_add:ident, $as_simd:ident, $as_mut_simd:ident) => {
        impl Number for $number {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, number: Self) -> S::$vector {
                simd.$splat(number)
            }

            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
                simd.$mul_add(a, b, c)
            }

            #[inline(always)]
            fn vectors<S: Simd>(panel: &[Self; PANEL]) -> &[S::$vector] {
                S::$as_simd(panel).0
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(panel: &mut [Self; PANEL]) -> &mut [S::$vector] {
                S::$as_mut_simd(panel).0
            }
        }
    };
}

number!(f32, f32s, F32_LANES, splat_f32s, mul_add_f32s, as_simd_f32s, as_mut_simd_f32s);
number!(f64, f64s, F64_LANES, splat_f64s, mul_add_f64s, as_simd_f64s, as_mut_simd_f64s);
