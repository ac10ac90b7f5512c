//! Weighted k-means (Lloyd, from k-means++): the best of fifty seeded starts by the sum of squares.

use dance::numeric::random::Random;

const PURPOSE: u64 = 0x6b6d;
const STARTS: usize = 50;
const ROUNDS: usize = 300;

/// Returns the cluster, below `count`, of every point. Weights are positive, and there are at least `count` points.
pub(super) fn clusters(points: &[Vec<f64>], weights: &[f64], count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed, PURPOSE);
    let mut best: Option<(f64, Vec<usize>)> = None;
    for _ in 0..STARTS {
        let (spread, clusters) = run(points, weights, start(points, weights, count, &mut random));
        if best.as_ref().is_none_or(|(least, _)| spread < *least) {
            best = Some((spread, clusters));
        }
    }
    best.map_or_else(Vec::new, |(_, clusters)| clusters)
}

/// Returns centers far from each other. Each is a point, drawn in proportion to its weight times its squared distance
/// from the centers before it.
fn start(points: &[Vec<f64>], weights: &[f64], count: usize, random: &mut Random) -> Vec<Vec<f64>> {
    let mut centers: Vec<Vec<f64>> = Vec::with_capacity(count);
    for _ in 0..count {
        let chances: Vec<f64> = points
            .iter()
            .zip(weights)
            .map(|(point, weight)| weight * nearest(point, &centers).map_or(1.0, |(_, squared)| squared))
            .collect();
        let mut left = random.uniform() * chances.iter().sum::<f64>();
        let drawn = chances.iter().position(|chance| {
            left -= chance;
            left < 0.0
        });
        // Where all points lie on centers already, any point will do.
        centers.push(points[drawn.unwrap_or(0)].clone());
    }
    centers
}

/// Runs Lloyd's rounds until nothing moves. Returns the weighted sum of squares, and the cluster of every point.
fn run(points: &[Vec<f64>], weights: &[f64], mut centers: Vec<Vec<f64>>) -> (f64, Vec<usize>) {
    let mut clusters: Vec<usize> = Vec::new();
    for _ in 0..ROUNDS {
        let found: Vec<usize> =
            points.iter().map(|point| nearest(point, &centers).map_or(0, |(center, _)| center)).collect();
        if found == clusters {
            break;
        }
        clusters = found;
        for (cluster, center) in centers.iter_mut().enumerate() {
            let own = || (0..points.len()).filter(|&at| clusters[at] == cluster);
            let total: f64 = own().map(|at| weights[at]).sum();
            // A center that lost its points stays where it is.
            if total > 0.0 {
                for (side, value) in center.iter_mut().enumerate() {
                    *value = own().map(|at| weights[at] * points[at][side]).sum::<f64>() / total;
                }
            }
        }
    }
    let squares = points.iter().zip(&clusters).map(|(point, &cluster)| squared(point, &centers[cluster]));
    (squares.zip(weights).map(|(squared, weight)| weight * squared).sum(), clusters)
}

/// Returns the nearest center, the first of equals, and its squared distance.
fn nearest(point: &[f64], centers: &[Vec<f64>]) -> Option<(usize, f64)> {
    let distances = centers.iter().map(|center| squared(point, center)).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the least weighted sum of squares over all assignments of points to clusters.
    fn least_of_all(points: &[Vec<f64>], weights: &[f64], count: usize) -> f64 {
        let ways = count.pow(points.len() as u32);
        let spread = |way: usize| {
            let cluster: Vec<usize> = (0..points.len()).map(|at| way / count.pow(at as u32) % count).collect();
            spread_of(points, weights, &cluster, count)
        };
        (0..ways).map(spread).fold(f64::INFINITY, f64::min)
    }

    fn spread_of(points: &[Vec<f64>], weights: &[f64], cluster: &[usize], count: usize) -> f64 {
        let mut sum = 0.0;
        for at in 0..count {
            let own: Vec<usize> = (0..points.len()).filter(|&point| cluster[point] == at).collect();
            let total: f64 = own.iter().map(|&point| weights[point]).sum();
            let mean = |side: usize| own.iter().map(|&point| weights[point] * points[point][side]).sum::<f64>() / total;
            let center = [mean(0), mean(1)];
            sum += own.iter().map(|&point| weights[point] * squared(&points[point], &center)).sum::<f64>();
        }
        sum
    }

    #[test]
    fn small_problems_are_solved_to_the_optimum() {
        for seed in 0..20 {
            let mut random = Random::new(seed, 1);
            let points: Vec<Vec<f64>> = (0..9).map(|_| vec![random.normal(), random.normal()]).collect();
            let weights: Vec<f64> = (0..9).map(|_| 0.5 + random.uniform()).collect();
            let found = clusters(&points, &weights, 3, seed);
            let least = least_of_all(&points, &weights, 3);
            let spread = spread_of(&points, &weights, &found, 3);
            assert!(spread <= 1.05 * least, "{seed}: {spread} {least}");
            assert_eq!(found, clusters(&points, &weights, 3, seed));
        }
        // Points that are all the same leave clusters empty.
        assert_eq!(clusters(&vec![vec![1.0]; 4], &[1.0; 4], 2, 0), [0; 4]);
    }
}
