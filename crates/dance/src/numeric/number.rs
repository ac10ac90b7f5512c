//! Number types of packed products, and their SIMD vectors.

use pulp::Simd;

/// The number of columns in a panel, a block of columns of a packed matrix: two AVX2 vectors of f32, or one of AVX-512.
pub(crate) const PANEL: usize = 16;

/// A number type of packed products: f32, or f64 if rounding must not change a decision.
pub(crate) trait Number: Copy + Default + Send + Sync + 'static {
    /// A SIMD vector of this type.
    type Vector<S: Simd>: Copy;

    /// Returns the number of lanes of a vector.
    fn lanes<S: Simd>() -> usize;
    /// Returns a vector with `number` in every lane.
    fn splat<S: Simd>(simd: S, number: Self) -> Self::Vector<S>;
    /// Returns `a·b + c`.
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns one row of a panel as vectors.
    fn vectors<S: Simd>(panel: &[Self; PANEL]) -> &[Self::Vector<S>];
    /// Returns one row of a panel as mutable vectors.
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
