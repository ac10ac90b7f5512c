//! A small Gaussian process on the unit square, and its expected improvement.
//!
//! The kernel is Matérn-5/2 with one length scale per coordinate. Length scales and noise variance are chosen from a
//! fixed grid by the largest marginal likelihood, so nothing has to converge and nothing is random. With m
//! observations, a few dozen at most, a grid point takes `O(m³)` and a prediction `O(m²)`.

use faer::Mat;

use crate::numeric::linalg;

/// A point of the unit square.
pub(super) type Place = [f64; 2];

/// The length scales from which the fit of a [`GaussianProcess`] chooses, for each coordinate.
const LENGTHS: [f64; 5] = [0.08, 0.16, 0.32, 0.64, 1.28];
/// The noise variances from which the fit of a [`GaussianProcess`] chooses, as shares of the signal variance.
const NOISES: [f64; 4] = [1e-4, 1e-2, 5e-2, 2e-1];

/// A Gaussian process that was fitted to observations.
pub(super) struct GaussianProcess {
    /// The places in the unit square at which values were observed.
    places: Vec<Place>,
    /// The length scales of the process, one for each coordinate of the unit square.
    lengths: Place,
    /// The mean of the observed values, which is subtracted from them.
    mean: f64,
    /// The standard deviation of the observed values, by which they are divided.
    scale: f64,
    /// The signal variance of the standardised observations.
    variance: f64,
    /// The inverse of the kernel matrix of the observed places, with the noise variance added to the diagonal.
    inverse: Mat<f64>,
    /// The product of `inverse` with the standardised observations.
    weights: Vec<f64>,
}

impl GaussianProcess {
    /// Fits the process to the observations `values` at `places`. Returns `None` unless two values differ.
    pub(super) fn fit(places: &[Place], values: &[f64]) -> Option<Self> {
        let m = values.len();
        let mean = values.iter().sum::<f64>() / m as f64;
        let scale = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / m as f64).sqrt();
        if m < 2 || !(scale > 0.0) {
            return None;
        }
        let standard: Vec<f64> = values.iter().map(|value| (value - mean) / scale).collect();
        let mut best: Option<(f64, Self)> = None;
        for first in LENGTHS {
            for second in LENGTHS {
                for noise in NOISES {
                    // The inverse and the determinant come from one eigendecomposition.
                    let lengths = [first, second];
                    let gram = Mat::from_fn(m, m, |i, j| {
                        matern(&places[i], &places[j], &lengths) + if i == j { noise } else { 0.0 }
                    });
                    let Some((eigenvalues, vectors)) = linalg::symmetric_eigen(gram.as_ref()) else {
                        continue;
                    };
                    if eigenvalues[0] <= 0.0 {
                        continue;
                    }
                    let inverse = Mat::from_fn(m, m, |i, j| {
                        (0..m).map(|k| vectors[(i, k)] * vectors[(j, k)] / eigenvalues[k]).sum()
                    });
                    let weights: Vec<f64> =
                        (0..m).map(|i| (0..m).map(|j| inverse[(i, j)] * standard[j]).sum()).collect();
                    // The signal variance that maximises the likelihood has a closed form, and so has that maximum.
                    let variance = standard.iter().zip(&weights).map(|(a, b)| a * b).sum::<f64>() / m as f64;
                    let log_determinant: f64 = eigenvalues.iter().map(|value| value.ln()).sum();
                    let likelihood = -0.5 * (m as f64 * variance.ln() + log_determinant);
                    if best.as_ref().is_none_or(|(most, _)| likelihood > *most) {
                        let places = places.to_vec();
                        best = Some((likelihood, Self { places, lengths, mean, scale, variance, inverse, weights }));
                    }
                }
            }
        }
        best.map(|(_, process)| process)
    }

    /// Returns the predicted mean and standard deviation at a place, in the units of the observations.
    pub(super) fn predict(&self, place: &Place) -> (f64, f64) {
        let similar: Vec<f64> = self.places.iter().map(|other| matern(place, other, &self.lengths)).collect();
        let mean: f64 = similar.iter().zip(&self.weights).map(|(a, b)| a * b).sum();
        let mut explained = 0.0;
        for (i, a) in similar.iter().enumerate() {
            for (j, b) in similar.iter().enumerate() {
                explained += a * b * self.inverse[(i, j)];
            }
        }
        let variance = self.variance * (1.0 - explained).max(0.0);
        (self.mean + self.scale * mean, self.scale * variance.sqrt())
    }

    /// Returns the expected improvement over `best` by an observation at `place`. It is the mean amount by which the
    /// observation exceeds `best`, with 0 if it does not.
    pub(super) fn expected_improvement(&self, place: &Place, best: f64) -> f64 {
        let (mean, deviation) = self.predict(place);
        if deviation <= 0.0 {
            return (mean - best).max(0.0);
        }
        let z = (mean - best) / deviation;
        deviation * (z * normal_cumulative(z) + normal_density(z))
    }
}

/// Returns the Matérn-5/2 kernel of the places a and b, with one length scale per coordinate.
fn matern(a: &Place, b: &Place, lengths: &Place) -> f64 {
    let squared: f64 = (0..2).map(|k| ((a[k] - b[k]) / lengths[k]).powi(2)).sum();
    let r = (5.0 * squared).sqrt();
    (1.0 + r + r * r / 3.0) * (-r).exp()
}

fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

/// Returns the standard normal distribution function Φ(z) by a series or a continued fraction; the absolute error is
/// below 1e-12.
fn normal_cumulative(z: f64) -> f64 {
    if z.abs() < 4.0 {
        // Φ(z) = ½ + φ(z)·(z + z³/3 + z⁵/(3·5) + …)
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term.abs() > 1e-17 * sum.abs() && k < 400.0 {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        return 0.5 + normal_density(z) * sum;
    }
    let x = z.abs();
    // The tail φ(x)/(x + 1/(x + 2/(x + 3/(x + …)))).
    let fraction = (1..60).rev().fold(x, |fraction, k| x + f64::from(k) / fraction);
    let tail = normal_density(x) / fraction;
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulative_has_the_tabulated_values() {
        // Abramowitz and Stegun, table 26.1.
        for (z, expected) in
            [(0.0, 0.5), (1.0, 0.841_344_746_068_5), (2.0, 0.977_249_868_051_8), (-3.0, 0.001_349_898_031_6)]
        {
            assert!((normal_cumulative(z) - expected).abs() < 1e-12, "{z}");
        }
        assert!((normal_cumulative(-5.0) - 2.866_515_718_8e-7).abs() < 1e-16);
        assert!((normal_cumulative(4.0 - 1e-12) - normal_cumulative(4.0)).abs() < 1e-12);
    }

    #[test]
    fn passes_through_smooth_observations_and_is_unsure_elsewhere() {
        let places: Vec<Place> = (0..25).map(|i| [f64::from(i % 5) / 4.0, f64::from(i / 5) / 4.0]).collect();
        let surface = |p: &Place| (3.0 * p[0]).sin() + p[1] * p[1];
        let values: Vec<f64> = places.iter().map(surface).collect();
        let process = GaussianProcess::fit(&places, &values).unwrap();
        for place in &places {
            let (mean, deviation) = process.predict(place);
            assert!((mean - surface(place)).abs() < 0.02 && deviation < 0.05, "{mean} {deviation}");
        }
        let between = [0.4, 0.6];
        assert!((process.predict(&between).0 - surface(&between)).abs() < 0.05);
        assert!(process.predict(&[3.0, -2.0]).1 > process.predict(&between).1);
    }

    #[test]
    fn expected_improvement_matches_its_integral() {
        let places = [[0.1, 0.2], [0.7, 0.9], [0.4, 0.5], [0.9, 0.1]];
        let process = GaussianProcess::fit(&places, &[0.3, 0.5, 0.9, 0.2]).unwrap();
        let (place, best) = ([0.55, 0.6], 0.8);
        let (mean, deviation) = process.predict(&place);
        let steps = 200_000;
        let integral: f64 = (0..steps)
            .map(|i| {
                let z = -10.0 + 20.0 * (f64::from(i) + 0.5) / f64::from(steps);
                (mean + deviation * z - best).max(0.0) * normal_density(z) * 20.0 / f64::from(steps)
            })
            .sum();
        assert!((process.expected_improvement(&place, best) - integral).abs() < 1e-6);
    }

    #[test]
    fn nothing_to_learn_from_equal_observations() {
        assert!(GaussianProcess::fit(&[[0.0, 0.0], [1.0, 1.0]], &[0.5, 0.5]).is_none());
        assert!(GaussianProcess::fit(&[], &[]).is_none());
    }
}
