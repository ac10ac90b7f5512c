//! Fits on fewer points than dimensions, computed in the span of the points.
//!
//! Distances between points, and every metric learned from them, depend only on the span of the points. A fit on n
//! points with more than n dimensions therefore uses their coordinates in an orthonormal basis B of the span, and no
//! cost grows with the square of the dimensions d. Only the root `R_n` of the metric in these coordinates is mapped
//! back:
//! `R = Bᵀ R_n B`. If no metric is learned, the root is the identity of all d dimensions, because new points have a
//! part outside the span. The metric is divided by its largest entry in the original coordinates. That entry is on the
//! diagonal, so finding it takes `2·n²·d` flops.

use faer::Mat;

use super::rfm::Rfm;
use crate::context::Context;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;

/// Directions whose squared length is below this share of the largest are rounding errors.
const NEGLIGIBLE: f64 = 1e-13;

/// The largest number n of points that are fitted in their span; with more, the n×n eigendecomposition takes longer
/// than it saves.
const MOST_POINTS: usize = 2048;

/// An orthonormal basis of some points.
#[derive(Debug)]
pub(super) struct Span {
    /// The basis of r directions, one per row, r×d.
    pub(super) basis: Matrix,
    /// The coordinates of the points, n×r.
    pub(super) coordinates: Matrix,
}

impl Span {
    /// Returns the number of bytes that computing the basis takes at its peak: the points, their inner products and the
    /// eigenvectors, in f64.
    pub(super) fn bytes(points: &Matrix) -> u64 {
        let (n, d) = (points.rows() as u64, points.cols() as u64);
        8 * n.saturating_mul(2 * d + 5 * n)
    }

    /// Returns the span of points if they are fewer than their dimensions; `None` if it would save nothing.
    pub(super) fn of(points: &Matrix, context: &Context<'_>) -> Option<Self> {
        let (n, d) = (points.rows(), points.cols());
        if n >= d || n > MOST_POINTS {
            return None;
        }
        context.run(|| {
            let points = Mat::from_fn(n, d, |row, col| f64::from(points.row(row)[col]));
            let mut gram = Mat::<f64>::zeros(n, n);
            linalg::product(gram.as_mut(), points.as_ref(), points.transpose());
            let (values, vectors) = linalg::symmetric_eigen(gram.as_ref())?;
            let largest = values.last().copied().filter(|value| value.is_finite() && *value > 0.0)?;
            let kept: Vec<usize> = (0..n).rev().filter(|&at| values[at] > NEGLIGIBLE * largest).collect();
            let r = kept.len();
            // X = U·√Λ·B, so B = Λ^(-1/2)·Uᵀ·X and the coordinates are U·√Λ.
            let combine = Mat::from_fn(r, n, |row, col| vectors[(col, kept[row])] / values[kept[row]].sqrt());
            let mut basis = Mat::<f64>::zeros(r, d);
            linalg::product(basis.as_mut(), combine.as_ref(), points.as_ref());
            let coordinates =
                (0..n * r).map(|at| (vectors[(at / r, kept[at % r])] * values[kept[at % r]].sqrt()) as f32);
            Some(Self {
                basis: Matrix::new((0..r * d).map(|at| basis[(at / d, at % d)] as f32).collect(), r, d).ok()?,
                coordinates: Matrix::new(coordinates.collect(), n, r).ok()?,
            })
        })
    }

    /// Maps a machine that was fitted in the span back to the original dimensions; `train` holds its training points
    /// there.
    pub(super) fn expand(&self, machine: Rfm, train: Matrix, context: &Context<'_>) -> Rfm {
        let (r, d) = (self.basis.rows(), self.basis.cols());
        let metric_root = if machine.rounds == 0 {
            super::rfm::identity(d)
        } else {
            context.run(|| {
                let mut half = Matrix::zeros(r, d);
                linalg::product(
                    linalg::view_mut(&mut half),
                    linalg::view(&machine.metric_root),
                    linalg::view(&self.basis),
                );
                let mut root = Matrix::zeros(d, d);
                let basis = linalg::view(&self.basis);
                linalg::product(linalg::view_mut(&mut root), basis.transpose(), linalg::view(&half));
                root
            })
        };
        Rfm { metric_root, train, ..machine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    #[test]
    fn coordinates_keep_every_distance_and_the_basis_is_orthonormal() {
        let (n, d) = (9, 30);
        let mut random = Random::new(1, 1);
        let mut points = Matrix::new((0..n * d).map(|_| random.normal() as f32).collect(), n, d).unwrap();
        let twin = points.row(2).to_vec();
        points.row_mut(5).copy_from_slice(&twin); // one direction fewer
        let context = Context::new(2).unwrap();
        let span = Span::of(&points, &context).unwrap();
        assert_eq!((span.basis.rows(), span.coordinates.cols()), (n - 1, n - 1));
        let squared = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum() };
        for a in 0..n {
            for b in 0..n {
                let (there, here) =
                    (squared(points.row(a), points.row(b)), squared(span.coordinates.row(a), span.coordinates.row(b)));
                assert!((there - here).abs() < 1e-4, "{a} {b}: {there} {here}");
            }
        }
        for a in 0..n - 1 {
            for b in 0..n - 1 {
                let product: f32 = span.basis.row(a).iter().zip(span.basis.row(b)).map(|(a, b)| a * b).sum();
                assert!((product - f32::from(u8::from(a == b))).abs() < 1e-5);
            }
        }
        assert!(Span::of(&Matrix::zeros(5, 5), &context).is_none());
        assert!(Span::of(&Matrix::zeros(3, 5), &context).is_none(), "points at the origin span nothing");
    }
}
