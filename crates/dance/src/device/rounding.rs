//! Rounding bounds for searches on any device. A search ranks points r for a query q by `‖r‖² - 2·q·r` in f32; the
//! bounds limit the difference of this number from its exact value. The reach of a point r, `reach_r`, is the largest
//! squared distance at which a query counts as near it.

use rayon::prelude::*;

use super::cpu::{centered, mean, squared_norm};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The largest squared norm whose products cannot overflow f32. Beyond it every point is a candidate.
const LARGEST_NORM: f64 = 1e36;

/// The norms and reaches of an index's points after centering, from which bounds on rounding errors follow. The bounds
/// hold for any order of summation.
pub(super) struct RoundingBound {
    pub(super) dimensions: usize,
    /// The mean that was subtracted from the points; `None` if their norms would hardly shrink. Rounding errors grow
    /// with norms.
    pub(super) center: Option<Vec<f32>>,
    /// The squared norms of the centered points.
    pub(super) norms: Vec<f32>,
    largest_norm: f64,
    pub(super) reach: Option<Reach>,
}

/// The reaches of the points: the largest squared distances at which a query counts as near a point.
pub(super) struct Reach {
    /// The largest finite reach.
    largest: f64,
    /// `‖r‖² - reach_r` for every point r; -∞ for an infinite reach, +∞ for a negative one, which no query is within.
    pub(super) offsets: Vec<f32>,
}

impl RoundingBound {
    /// Returns the bounds for points, and the centered points if they differ.
    pub(super) fn of(points: &Matrix) -> (Self, Option<Matrix>) {
        let center = mean(points);
        let rows = (0..points.rows()).into_par_iter();
        let average = rows.map(|row| squared_norm(points.row(row))).collect::<Vec<_>>().iter().sum::<f64>()
            / points.rows().max(1) as f64;
        let center = (squared_norm(&center) > 0.25 * average && average.is_finite()).then_some(center);
        let centered = center.as_ref().map(|center| centered(points, center));
        let used = centered.as_ref().unwrap_or(points);
        let norms: Vec<f64> = (0..used.rows()).into_par_iter().map(|row| squared_norm(used.row(row))).collect();
        let rounding = Self {
            dimensions: points.cols(),
            largest_norm: norms.iter().copied().fold(0.0, f64::max),
            norms: norms.iter().map(|&norm| norm as f32).collect(),
            center,
            reach: None,
        };
        (rounding, centered)
    }

    /// Sets the reach of every point: the largest squared distance at which a query counts as near the point.
    pub(super) fn set_reach(&mut self, squared: &[f64]) -> Result<()> {
        if squared.len() != self.norms.len() {
            return Err(Error::Shape {
                what: "reaches (one per point)".into(),
                expected: self.norms.len().to_string(),
                found: squared.len().to_string(),
            });
        }
        let offset = |(&norm, &reach): (&f32, &f64)| {
            if reach < 0.0 { f32::INFINITY } else { (f64::from(norm) - reach) as f32 }
        };
        let largest = squared.iter().copied().filter(|reach| reach.is_finite()).fold(0.0, f64::max);
        self.reach = Some(Reach { largest, offsets: self.norms.iter().zip(squared).map(offset).collect() });
        Ok(())
    }

    /// Returns an error if a search is by reach (`reaching`) and [`set_reach`](Self::set_reach) was not called before.
    pub(super) fn check_reach(&self, reaching: bool) -> Result<()> {
        if reaching && self.reach.is_none() {
            return Err(Error::Data("the reaches of the index's points were not set".into()));
        }
        Ok(())
    }

    /// Returns an upper bound on twice the error of `‖r‖² - 2·q·r` in f32 over all points r, for a query q with this
    /// squared norm after centering. In d dimensions with unit roundoff u, its terms are the inner product
    /// (`d·u·‖q‖‖r‖`, doubled), the centering of both points, and the last roundings. `None` if products may overflow.
    pub(super) fn slack(&self, query_norm: f64) -> Option<f32> {
        (query_norm.max(self.largest_norm) < LARGEST_NORM).then(|| self.error(query_norm) as f32)
    }

    fn error(&self, query_norm: f64) -> f64 {
        let unit = f64::from(f32::EPSILON) / 2.0;
        let (query, point) = (query_norm.sqrt(), self.largest_norm.sqrt());
        let d = self.dimensions as f64;
        let error = unit * (2.1 * d * query * point + 8.0 * (query + point).powi(2));
        2.0 * error + d * f64::from(f32::MIN_POSITIVE)
    }

    /// Returns the largest `(‖r‖² - reach_r) - 2·q·r` in f32 of a point r that has the query q within its reach; `norm`
    /// is the query's squared norm after centering. `None` if products may overflow.
    pub(super) fn reaching_limit(&self, norm: f64) -> Option<f32> {
        let largest = self.reach.as_ref().map_or(0.0, |reach| reach.largest);
        if norm.max(self.largest_norm).max(largest) >= LARGEST_NORM {
            return None;
        }
        let roundings = 4.0 * f64::from(f32::EPSILON) * (norm + self.largest_norm + largest);
        Some((self.error(norm) + roundings - norm) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// The inner product by halves, each computed in the same way.
    fn halves(a: &[f32], b: &[f32]) -> f32 {
        match a.len() {
            0 => 0.0,
            1 => a[0] * b[0],
            n => halves(&a[..n / 2], &b[..n / 2]) + halves(&a[n / 2..], &b[n / 2..]),
        }
    }

    /// Returns an inner product in f32 by four orders of summation, as devices may choose them.
    fn products(a: &[f32], b: &[f32]) -> [f32; 4] {
        let forward = a.iter().zip(b).fold(0.0f32, |sum, (x, y)| sum + x * y);
        let backward = a.iter().zip(b).rev().fold(0.0f32, |sum, (x, y)| sum + x * y);
        let fused = a.iter().zip(b).fold(0.0f32, |sum, (x, y)| x.mul_add(*y, sum));
        [forward, backward, fused, halves(a, b)]
    }

    /// Draws points that make rounding errors large: far from the origin, aligned with each other, or of alternating
    /// signs.
    fn nasty(kind: usize, rows: usize, d: usize, scale: f32, offset: f32, random: &mut Random) -> Matrix {
        let value = |at: usize, random: &mut Random| match kind {
            0 => random.normal() as f32,
            // Aligned: every product has the same sign, and no term cancels another.
            1 => 1.0 + 1.0 / 4096.0 + 1e-3 * random.uniform() as f32,
            // Products of alternating signs, which cancel almost entirely.
            _ => (if at.is_multiple_of(2) { 1.0 } else { -1.0 }) * (1.0 + 1e-4 * random.normal() as f32),
        };
        let values = (0..rows * d).map(|at| offset + scale * value(at % d, random)).collect();
        Matrix::new(values, rows, d).unwrap()
    }

    fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum()
    }

    /// The computed values of points are within half the slack of the exact ones, and no point whose reach is exactly
    /// its squared distance to the query is lost.
    #[test]
    fn rounding_errors_stay_within_the_bounds() {
        let mut random = Random::new(8, 8);
        let mut largest_share: f64 = 0.0;
        for (d, scale, offset) in [1, 3, 64, 700]
            .into_iter()
            .flat_map(|d| [1e-3f32, 1.0, 1e6].map(|scale| (d, scale)))
            .flat_map(|(d, scale)| [0.0f32, 1.0, 300.0].map(|far| (d, scale, far * scale)))
        {
            for kind in 0..3 {
                let points = nasty(kind, 24, d, scale, offset, &mut random);
                let queries = nasty(kind, 6, d, scale, offset, &mut random);
                let (mut rounding, moved) = RoundingBound::of(&points);
                let origin = rounding.center.clone().unwrap_or_else(|| vec![0.0; d]);
                let used = moved.as_ref().unwrap_or(&points);
                for query in 0..queries.rows() {
                    let exact: Vec<f64> =
                        (0..24).map(|row| squared_distance(points.row(row), queries.row(query))).collect();
                    rounding.set_reach(&exact).unwrap();
                    let mut own = queries.row(query).to_vec();
                    own.iter_mut().zip(&origin).for_each(|(value, center)| *value -= center);
                    let norm = squared_norm(&own);
                    let (slack, limit) = (rounding.slack(norm).unwrap(), rounding.reaching_limit(norm).unwrap());
                    let constant = squared_distance(queries.row(query), &origin);
                    for (row, exact) in exact.iter().enumerate() {
                        for product in products(used.row(row), &own) {
                            let error = f64::from(rounding.norms[row] - 2.0 * product) - (exact - constant);
                            let share = 2.0 * error.abs() / f64::from(slack);
                            largest_share = largest_share.max(share);
                            assert!(share <= 1.0, "d {d}, scale {scale}, offset {offset}, kind {kind}: {share}");
                            let reach = rounding.reach.as_ref().unwrap().offsets[row];
                            assert!(reach - 2.0 * product <= limit, "d {d}, scale {scale}, offset {offset}");
                        }
                    }
                }
            }
        }
        // The cases are hard enough to come near the bound, and a bound ten times smaller would fail.
        assert!(largest_share > 0.1, "{largest_share}");
    }
}
