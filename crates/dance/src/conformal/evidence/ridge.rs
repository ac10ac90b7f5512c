//! **Kernel ridge** regression on fit points and bag, every point of the bag judged by a fit without it.
//!
//! With B = (K+ρI)⁻¹ over all points and one-hot Y, the output at i without i is `Y_i - (BY)_i / B_ii`. A query with kernel column k
//! and label l makes of it, with `v = Bk`, `σ = K(q,q)+ρ - kᵀv`, `f = kᵀBY`:
//! `Y_i - [(BY)_i + v_i(f - e_l)/σ] / [B_ii + v_i²/σ]`; the query's own output is f.
//!
//! That takes N² numbers and 2N² operations per query. Beyond 2,048 points the kernel is spanned by fit points instead
//! (landmarks m, `K ≈ ΦΦᵀ` with `Φ = K_Nm L⁻ᵀ`, `LLᵀ = K_mm`): then `B = (I - ΦAΦᵀ)/ρ` with `A = (ΦᵀΦ+ρI)⁻¹`, so `v = ΦAφ` and
//! `σ = ρ(1 + φᵀAφ)`, which are products with the m numbers `k_m(q)`: 2m(n+m+c) operations.

use super::expert::{Asked, Block, Expert, Shifts, Support};
use super::settings::Space;
use super::wide::{Targets, Wide, dot};
use crate::context::Context;
use crate::device::cpu::linalg;
use crate::device::cpu::packed::Packed;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::random::Random;

/// Most points whose kernel is inverted as it is.
pub(super) const WHOLE: usize = 2048;
/// Landmarks beyond that.
pub(super) const LANDMARKS: usize = 1024;
/// Added to the diagonal of the landmarks' kernel, which may hold one point twice.
const JITTER: f64 = 1e-8;
/// The stream of random numbers that picks landmarks.
const LANDMARK_PURPOSE: u64 = 0x1a4d;

/// A kernel ridge regression's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RidgeSettings {
    pub(super) space: Space,
    pub(super) kernel: Kernel,
    pub(super) ridge: f64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Ridge {
    settings: RidgeSettings,
    /// Points that kernel columns are taken at.
    centers: Targets,
    /// From a kernel column to v over the bag (the columns `bag`) and to `Qk` (the columns `own`).
    influence: Packed<f64>,
    bag_columns: usize,
    own_columns: usize,
    /// `σ = base + sign·kᵀQk`.
    base: f64,
    sign: f64,
    /// From a kernel column to f.
    outputs: Packed<f64>,
    /// `B_ii` of the bag.
    diagonal: Vec<f64>,
    labels: Vec<u32>,
    bag: Wide,
}

impl Ridge {
    pub(super) fn open(
        support: &Support<'_>,
        settings: RidgeSettings,
        (whole, seed): (usize, u64),
        context: &Context<'_>,
    ) -> Result<Self> {
        let points = support.points.get(settings.space);
        if points.rows() <= whole || support.fit == 0 {
            Self::whole(support, settings, points, context)
        } else {
            let mut rows: Vec<usize> = (0..support.fit).collect();
            Random::new(seed, LANDMARK_PURPOSE).shuffle(&mut rows);
            rows.truncate(LANDMARKS);
            rows.sort_unstable();
            Self::spanned(support, settings, points, &points.select(&rows), context)
        }
    }

    /// The kernel of all points, inverted.
    fn whole(
        support: &Support<'_>,
        settings: RidgeSettings,
        points: &Wide,
        context: &Context<'_>,
    ) -> Result<Self> {
        let (n, fit) = (points.rows(), support.fit);
        let centers = Targets::new(points);
        let mut matrix = kernel_of(settings.kernel, centers.squared(points, context), context);
        for row in 0..n {
            matrix.row_mut(row)[row] += settings.ridge;
        }
        let inverse = context.run(|| linalg::inverse(matrix.as_mut_slice(), n)).map_err(singular)?;
        let inverse = |row: usize, column: usize| inverse[row * n + column];
        // BY, column by class.
        let mut by = Wide::zeros(n, support.classes);
        for row in 0..n {
            for (column, &label) in support.labels.iter().enumerate() {
                by.row_mut(row)[label as usize] += inverse(row, column);
            }
        }
        let diagonal: Vec<f64> = (fit..n).map(|row| inverse(row, row)).collect();
        let labels = support.bag_labels().to_vec();
        let mut bag = Wide::zeros(n - fit, support.classes);
        for (at, &label) in labels.iter().enumerate() {
            for (out, &by) in bag.row_mut(at).iter_mut().zip(by.row(fit + at)) {
                *out = -by / diagonal[at];
            }
            bag.row_mut(at)[label as usize] += 1.0;
        }
        Ok(Self {
            settings,
            influence: Packed::new(n, n, inverse),
            bag_columns: fit,
            own_columns: 0,
            base: 1.0 + settings.ridge,
            sign: -1.0,
            outputs: Packed::new(n, support.classes, |depth, class| by.row(depth)[class]),
            centers,
            diagonal,
            labels,
            bag,
        })
    }

    /// The kernel spanned by landmarks.
    fn spanned(
        support: &Support<'_>,
        settings: RidgeSettings,
        points: &Wide,
        landmarks: &Wide,
        context: &Context<'_>,
    ) -> Result<Self> {
        let (m, n, ridge) = (landmarks.rows(), points.rows(), settings.ridge);
        let centers = Targets::new(landmarks);
        let mut factor = kernel_of(settings.kernel, centers.squared(landmarks, context), context);
        for row in 0..m {
            factor.row_mut(row)[row] += JITTER;
        }
        context.run(|| linalg::cholesky(factor.as_mut_slice(), m)).map_err(singular)?;
        // Φ = K_Nm L⁻ᵀ, a row per point.
        let mut features = kernel_of(settings.kernel, centers.squared(points, context), context);
        context.run(|| linalg::solve_rows(factor.as_slice(), m, features.as_mut_slice(), false));
        let mut gram = Wide::zeros(m, m);
        context.run(|| {
            let phi = linalg::row_major(features.as_slice(), n, m);
            linalg::product(linalg::row_major_mut(gram.as_mut_slice(), m, m), phi.transpose(), phi);
        });
        for row in 0..m {
            gram.row_mut(row)[row] += ridge;
        }
        let inverse = context.run(|| linalg::inverse(gram.as_mut_slice(), m)).map_err(singular)?;
        // ΦA, a row per point; then the leverages and the coefficients.
        let mut solved = Wide::zeros(n, m);
        context.run(|| {
            linalg::product(
                linalg::row_major_mut(solved.as_mut_slice(), n, m),
                linalg::row_major(features.as_slice(), n, m),
                linalg::row_major(&inverse, m, m),
            );
        });
        let mut coefficients = Wide::zeros(support.classes, m);
        for (row, &label) in support.labels.iter().enumerate() {
            for (sum, &value) in coefficients.row_mut(label as usize).iter_mut().zip(solved.row(row)) {
                *sum += value;
            }
        }
        let labels = support.bag_labels().to_vec();
        let own: Vec<usize> = (support.fit..n).collect();
        let mut bag = features.select(&own).times(&coefficients.packed(), context);
        let mut diagonal = Vec::with_capacity(labels.len());
        for (at, &label) in labels.iter().enumerate() {
            let row = support.fit + at;
            let rest = (1.0 - dot(solved.row(row), features.row(row))).max(1e-12);
            diagonal.push(rest / ridge);
            for (class, out) in bag.row_mut(at).iter_mut().enumerate() {
                let target = f64::from(u8::from(class == label as usize));
                *out = target - (target - *out) / rest;
            }
        }
        // Everything a query brings is its kernel column: fold L⁻¹ into what it is multiplied with.
        let mut influence = solved.select(&own);
        let mut quadratic = Wide::zeros(m, m);
        quadratic.as_mut_slice().copy_from_slice(&inverse);
        context.run(|| {
            for rows in [&mut influence, &mut coefficients, &mut quadratic] {
                linalg::solve_rows(factor.as_slice(), m, rows.as_mut_slice(), true);
            }
        });
        // L⁻ᵀAL⁻¹: once more from the other side, of a symmetric matrix.
        let mut turned = Wide::zeros(m, m);
        for row in 0..m {
            for column in 0..m {
                turned.row_mut(row)[column] = quadratic.row(column)[row];
            }
        }
        context.run(|| linalg::solve_rows(factor.as_slice(), m, turned.as_mut_slice(), true));
        let bag_points = influence.rows();
        let influence = influence.above(&turned);
        Ok(Self {
            settings,
            influence: influence.packed(),
            bag_columns: 0,
            own_columns: bag_points,
            base: ridge,
            sign: ridge,
            outputs: coefficients.packed(),
            centers,
            diagonal,
            labels,
            bag,
        })
    }
}

fn singular(row: usize) -> Error {
    Error::Data(format!(
        "the kernel of the points is singular (at point {row}); a larger ridge is needed, or points are not numbers"
    ))
}

/// Kernel values of squared distances.
fn kernel_of(kernel: Kernel, mut squared: Wide, context: &Context<'_>) -> Wide {
    use rayon::prelude::*;
    let width = squared.cols().max(1);
    context.run(|| {
        squared.as_mut_slice().par_chunks_mut(width).for_each(|row| {
            for value in row {
                *value = kernel.value(*value);
            }
        });
    });
    squared
}

impl Expert for Ridge {
    fn bag(&self) -> &Wide {
        &self.bag
    }

    fn ask<'a>(&'a self, block: &Block, context: &Context<'_>) -> Box<dyn Asked + 'a> {
        let queries = block.get(self.settings.space);
        let columns = kernel_of(self.settings.kernel, self.centers.squared(queries, context), context);
        let evidence = columns.times(&self.outputs, context);
        let influence = columns.times(&self.influence, context);
        let (bag, centers) = (self.labels.len(), self.centers.len());
        let mut joined = Wide::zeros(queries.rows(), bag);
        let mut shrunk = Wide::zeros(queries.rows(), bag);
        for query in 0..queries.rows() {
            let found = influence.row(query);
            let quadratic = dot(columns.row(query), &found[self.own_columns..][..centers]);
            let rest = (self.base + self.sign * quadratic).max(1e-12);
            let each = joined.row_mut(query).iter_mut().zip(shrunk.row_mut(query));
            for ((joined, shrunk), (&v, &own)) in
                each.zip(found[self.bag_columns..][..bag].iter().zip(&self.diagonal))
            {
                let after = own + v * v / rest;
                *joined = v / (rest * after);
                *shrunk = -(v * v / rest) / after;
            }
        }
        Box::new(Asking { of: self, evidence, joined, shrunk })
    }
}

struct Asking<'a> {
    of: &'a Ridge,
    evidence: Wide,
    /// What the query's label gains at every point of the bag: `v/(σ·(B_ii + v²/σ))`.
    joined: Wide,
    /// `B_ii/(B_ii + v²/σ) - 1`.
    shrunk: Wide,
}

impl Asked for Asking<'_> {
    fn evidence(&self, query: usize) -> &[f64] {
        self.evidence.row(query)
    }

    fn shift(&self, query: usize, point: usize, weight: f64, row: &mut [f64]) {
        let shrunk = weight * self.shrunk.row(query)[point];
        let joined = weight * self.joined.row(query)[point];
        let each = self.of.bag.row(point).iter().zip(self.evidence.row(query));
        for (row, (&out, &output)) in row.iter_mut().zip(each) {
            *row += shrunk * out - joined * output;
        }
        row[self.of.labels[point] as usize] -= shrunk;
    }

    fn shifts(&self, query: usize) -> Option<Shifts<'_>> {
        Some(Shifts { shrunk: self.shrunk.row(query), joined: self.joined.row(query) })
    }

    fn join(&self, query: usize, point: usize, _label: usize) -> f64 {
        self.joined.row(query)[point]
    }
}
