//! **Kernel ridge** regression on fit points and bag, every point of the bag judged by a fit without it.
//!
//! With B = (K+ρI)⁻¹ over all points and one-hot Y, the output at i without i is `Y_i - (BY)_i / B_ii`. A query with kernel column k
//! and label l makes of it, with `v = Bk`, `σ = K(q,q)+ρ - kᵀv`, `f = kᵀBY`:
//! `Y_i - [(BY)_i + v_i(f - e_l)/σ] / [B_ii + v_i²/σ]`; the query's own output is f.
//!
//! That takes N² numbers and 2N² operations per query. Beyond 2,048 points the kernel is spanned by fit points instead
//! (landmarks m, `K ≈ ΦΦᵀ` with `Φ = K_Nm L⁻ᵀ`, `LLᵀ = K_mm`): then `B = (I - ΦAΦᵀ)/ρ` with `A = (ΦᵀΦ+ρI)⁻¹`, so `v = ΦAφ` and
//! `σ = ρ(1 + φᵀAφ)`, which are products with the m numbers `k_m(q)`: 2m(n+m+c) operations.
//!
//! Outputs are [told](crate::posterior::link) as evidence.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::linalg;
use crate::numeric::packed::Packed;
use crate::numeric::random::Random;
use crate::posterior::bounds::PAIRS;
use crate::posterior::expert::{Asked, Block, Expert, Shifts, Support};
use crate::posterior::link::Told;
use crate::posterior::settings::Space;
use crate::posterior::wide::{Targets, Wide, dot};

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
    pub(super) told: Told,
}

/// Outputs that may fall so far, in what the slope of evidence is measured by, have the slope that was found before.
const FALL: f64 = 0.02;

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
    to_outputs: Packed<f64>,
    /// `B_ii` of the bag.
    diagonal: Vec<f64>,
    labels: Vec<u32>,
    /// Outputs of the bag.
    outputs: Wide,
    /// What they are told as, where not as they are, and what is known of the point for that.
    told: Option<(Wide, Vec<Ends>)>,
}

/// What outputs of a point for labels but its own are.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The largest in size.
    largest: f64,
    /// The steepest that evidence is where no output falls by more than [`FALL`].
    slope: f64,
}

impl Ridge {
    pub(super) fn open(
        support: &Support<'_>,
        settings: RidgeSettings,
        (whole, seed): (usize, u64),
        context: &Context<'_>,
    ) -> Result<Self> {
        let points = support.points.get(settings.space);
        let mut opened = if points.rows() <= whole || support.fit == 0 {
            Self::whole(support, settings, points, context)?
        } else {
            let mut rows: Vec<usize> = (0..support.fit).collect();
            Random::new(seed, LANDMARK_PURPOSE).shuffle(&mut rows);
            rows.truncate(LANDMARKS);
            rows.sort_unstable();
            Self::spanned(support, settings, points, &points.select(&rows), context)?
        };
        opened.tell();
        Ok(opened)
    }

    fn tell(&mut self) {
        let told = self.settings.told;
        if told.is_plain() {
            return;
        }
        let mut bag = self.outputs.clone();
        bag.as_mut_slice().iter_mut().for_each(|output| *output = told.of(*output));
        let ends = |(row, &own): (usize, &u32)| {
            let others =
                || self.outputs.row(row).iter().enumerate().filter(|&(label, _)| label != own as usize);
            let least = others().map(|(_, &output)| output).fold(f64::INFINITY, f64::min);
            let largest = others().map(|(_, output)| output.abs()).fold(0.0, f64::max);
            Ends { largest, slope: told.slope(least - FALL) }
        };
        let ends = self.labels.iter().enumerate().map(ends).collect();
        self.told = Some((bag, ends));
    }

    /// The kernel of all points, inverted.
    fn whole(
        support: &Support<'_>,
        settings: RidgeSettings,
        points: &Wide,
        context: &Context<'_>,
    ) -> Result<Self> {
        let (n, fit) = (points.rows(), support.fit);
        let centers = Targets::new(points, context);
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
            influence: Packed::new(n, n, inverse, context),
            bag_columns: fit,
            own_columns: 0,
            base: 1.0 + settings.ridge,
            sign: -1.0,
            to_outputs: Packed::new(n, support.classes, |depth, class| by.row(depth)[class], context),
            centers,
            diagonal,
            labels,
            outputs: bag,
            told: None,
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
        let centers = Targets::new(landmarks, context);
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
        let mut bag = features.select(&own).times(&coefficients.packed(context), context);
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
            influence: influence.packed(context),
            bag_columns: 0,
            own_columns: bag_points,
            base: ridge,
            sign: ridge,
            to_outputs: coefficients.packed(context),
            centers,
            diagonal,
            labels,
            outputs: bag,
            told: None,
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
        self.told.as_ref().map_or(&self.outputs, |(bag, _)| bag)
    }

    fn outputs(&self) -> (&Wide, Told) {
        (&self.outputs, self.settings.told)
    }

    fn ask<'a>(&'a self, block: &Block, context: &Context<'_>) -> Box<dyn Asked + 'a> {
        let queries = block.get(self.settings.space);
        let columns = kernel_of(self.settings.kernel, self.centers.squared(queries, context), context);
        let outputs = columns.times(&self.to_outputs, context);
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
        let evidence = self.told.is_some().then(|| {
            let mut evidence = outputs.clone();
            evidence.as_mut_slice().iter_mut().for_each(|output| *output = self.settings.told.of(*output));
            evidence
        });
        Box::new(Asking { of: self, outputs, evidence, joined, shrunk })
    }
}

struct Asking<'a> {
    of: &'a Ridge,
    /// f.
    outputs: Wide,
    /// What they are told as, where not as they are.
    evidence: Option<Wide>,
    /// What the output for the query's label gains at every point of the bag: `v/(σ·(B_ii + v²/σ))`.
    joined: Wide,
    /// `B_ii/(B_ii + v²/σ) - 1`.
    shrunk: Wide,
}

impl Asking<'_> {
    /// A point's output for a label when the query has joined, whatever it carries.
    fn after(&self, query: usize, point: usize, label: usize) -> f64 {
        let (shrunk, joined) = (self.shrunk.row(query)[point], self.joined.row(query)[point]);
        let target = f64::from(u8::from(label == self.of.labels[point] as usize));
        let before = self.of.outputs.row(point)[label];
        before + shrunk * (before - target) - joined * self.outputs.row(query)[label]
    }
}

impl Asked for Asking<'_> {
    fn evidence(&self, query: usize) -> &[f64] {
        self.evidence.as_ref().unwrap_or(&self.outputs).row(query)
    }

    fn shift(&self, query: usize, point: usize, weight: f64, row: &mut [f64]) {
        let (told, before) = (self.of.settings.told, self.of.bag().row(point));
        for (label, (row, &before)) in row.iter_mut().zip(before).enumerate() {
            *row += weight * (told.of(self.after(query, point, label)) - before);
        }
    }

    fn shifts(&self, query: usize) -> Option<Shifts<'_>> {
        let (shrunk, joined) = (self.shrunk.row(query), self.joined.row(query));
        Some(Shifts { outputs: self.outputs.row(query), shrunk, joined })
    }

    fn join(&self, query: usize, point: usize, label: usize) -> f64 {
        let (told, joined) = (self.of.settings.told, self.joined.row(query)[point]);
        if told.is_plain() {
            return joined;
        }
        let without = self.after(query, point, label);
        told.of(without + joined) - told.of(without)
    }

    fn gains(&self, (query, label): (usize, usize), points: &[u32], weight: f64, sums: &mut [f32]) -> f64 {
        let told = self.of.settings.told;
        if told.is_plain() {
            return 0.0;
        }
        let (shrunk, joined) = (self.shrunk.row(query), self.joined.row(query));
        let own = self.outputs.row(query)[label];
        let (mut from, mut by) = ([0.0; PAIRS], [0.0; PAIRS]);
        for ((from, by), &point) in from.iter_mut().zip(&mut by).zip(points) {
            let (shrunk, joined) = (shrunk[point as usize], joined[point as usize]);
            let before = self.of.outputs.row(point as usize)[label];
            *from = (before + shrunk * before - joined * own) as f32;
            *by = joined as f32;
        }
        told.gains(&from[..points.len()], &by[..points.len()], weight, sums)
    }

    fn between(&self, query: usize, weight: f64, least: &mut [f64], most: &mut [f64]) {
        let Some((_, ends)) = &self.of.told else { return };
        let steepest = self.of.settings.told.steepest();
        let own = self.outputs.row(query).iter().map(|output| output.abs()).fold(0.0, f64::max);
        let moved = self.shrunk.row(query).iter().zip(self.joined.row(query));
        for (((least, most), ends), (shrunk, &joined)) in least.iter_mut().zip(most).zip(ends).zip(moved) {
            // The steepest that evidence is between an output after the shift and with the gain.
            let fall = shrunk.abs() * ends.largest + joined.abs() * own + (-joined).max(0.0);
            let slope = if fall <= FALL { ends.slope } else { steepest };
            *(if joined > 0.0 { most } else { least }) += weight * slope * joined;
        }
    }
}
