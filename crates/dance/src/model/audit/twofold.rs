//! Classes with two modes, whose points form two groups with a gap between them.
//!
//! 2-means finds two groups in any data. So a third of the points of a class finds the groups. The other points test
//! for a gap on the line through the two centres. Here the centre of a group is the mean projection of its points; each
//! point is projected on a line that is computed without this point. Three adjacent intervals of equal length lie
//! around one centre, between the centres, and around the other centre. Their length is half the distance of the
//! centres. A law with one mode gives the middle interval at least as much probability as the less probable outer one.
//! Consider the test points in these two intervals. Given their number, those in the middle interval are stochastically
//! at least as many as the heads among that number of fair coins. So, with the counts `middle` and `side` of the middle
//! and of one outer interval,
//!
//! ```text
//! p = max over both sides of P(Bin(side + middle, ½) ≤ middle)
//! ```
//!
//! is a p-value for any number of points and any law whose projections have one mode (Gaussian, heavy-tailed, skewed).
//! Twice the median of these p-values over ten random cuts of the points is also a p-value, and depends less on one
//! draw. The rule of Benjamini and Hochberg makes the list of classes. Only one point of each group of near copies is
//! used. `docs/method.md` has the proof.
//!
//! The cost is the inner products of at most 400 points of a class, and sums of these products for each of the ten
//! cuts.

use super::copies::Copies;
use crate::context::Context;
use crate::data::Dataset;
use crate::model::audit::label_errors::benjamini_hochberg;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;

/// The smallest number of points with which a class is tested.
const LEAST: usize = 20;
/// The largest number of points of a class that are used; from a larger class they are drawn at random.
const MOST: usize = 400;
/// The number of random cuts of a class into points that find the groups and points that test for a gap.
const CUTS: usize = 10;
/// The largest number of steps, both of the power iteration and of 2-means.
const UPDATES: usize = 50;
/// The number that keeps the random draws and cuts of points apart from draws for other purposes under one seed. The
/// class id is added to it.
const PURPOSE: u64 = 0x7770_f01d;

/// Finds the classes with two modes at the false discovery rate `fdr`, smallest p-value first. Returns the id of each
/// class, its p-value, and the rows of its two groups, the larger group first. `copies` holds groups of near copies;
/// one point of each is used.
pub(super) fn find(
    points: &Matrix,
    data: &Dataset,
    copies: &[Copies],
    (fdr, seed): (f64, u64),
    context: &Context<'_>,
) -> Vec<(u32, f64, [Vec<u32>; 2])> {
    // Collect the points of each class, one of each group of near copies.
    let mut is_copy = vec![false; data.len()];
    for &row in copies.iter().flat_map(|group| group.rows.iter().skip(1)) {
        is_copy[row as usize] = true;
    }
    let mut classes: Vec<(u32, Vec<usize>)> = (0..data.classes.len() as u32).map(|class| (class, Vec::new())).collect();
    for (row, &label) in data.labels.iter().enumerate().filter(|&(row, _)| !is_copy[row]) {
        classes[label as usize].1.push(row);
    }
    classes.retain(|(_, rows)| rows.len() >= LEAST);
    let test = |at: usize| {
        let (class, mut rows) = classes[at].clone();
        let mut random = Random::new(seed, PURPOSE + u64::from(class));
        random.shuffle(&mut rows);
        rows.truncate(MOST);
        let products = Products::new(points, &rows);
        let p_value = products.p_value(&mut random);
        (p_value, products.halves(&(0..rows.len()).collect::<Vec<_>>(), &mut random), rows)
    };
    let tests = context.map(classes.len(), test);
    // For each class that the rule lists, assign all points of the class to the two groups.
    let p_values: Vec<f64> = tests.iter().map(|test| test.0).collect();
    let mut found = Vec::new();
    for at in benjamini_hochberg(&p_values, fdr) {
        let (p_value, Some([one, other]), rows) = &tests[at] else { continue };
        let class = classes[at].0;
        let all = (0..data.len()).filter(|&row| data.labels[row] == class);
        let centre = |half: &[usize]| mean(points, half.iter().map(|&place| rows[place]));
        let groups = groups_around(points, all, &[centre(one), centre(other)]);
        found.push((class, *p_value, groups));
    }
    found
}

/// Returns the mean of the points at these rows.
fn mean(points: &Matrix, rows: impl ExactSizeIterator<Item = usize>) -> Vec<f64> {
    let (mut sum, count) = (vec![0.0; points.cols()], rows.len() as f64);
    for row in rows {
        for (sum, &value) in sum.iter_mut().zip(points.row(row)) {
            *sum += f64::from(value) / count;
        }
    }
    sum
}

/// Assigns each row to the nearer of two centres. Returns the two groups of rows, the larger one first. Rows of a group
/// are sorted by the distance to its centre.
fn groups_around(points: &Matrix, rows: impl Iterator<Item = usize>, centres: &[Vec<f64>; 2]) -> [Vec<u32>; 2] {
    let squared = |row: usize, centre: &[f64]| -> f64 {
        points.row(row).iter().zip(centre).map(|(&value, centre)| (f64::from(value) - centre).powi(2)).sum()
    };
    let mut groups = [Vec::new(), Vec::new()];
    for row in rows {
        let [one, other] = centres.each_ref().map(|centre| squared(row, centre));
        groups[usize::from(other < one)].push((one.min(other), row as u32));
    }
    let [one, other] = groups.map(|mut group| {
        group.sort_by(|a, b| a.0.total_cmp(&b.0));
        group.into_iter().map(|(_, row)| row).collect::<Vec<_>>()
    });
    if one.len() >= other.len() { [one, other] } else { [other, one] }
}

/// The inner products of all pairs of points of a class. Means, distances and projections are computed from them.
struct Products {
    count: usize,
    values: Vec<f64>,
}

impl Products {
    fn new(points: &Matrix, rows: &[usize]) -> Self {
        let product = |a: usize, b: usize| -> f64 {
            points.row(a).iter().zip(points.row(b)).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        let count = rows.len();
        let mut values = vec![0.0; count * count];
        for (a, &one) in rows.iter().enumerate() {
            for (b, &other) in rows[..=a].iter().enumerate() {
                values[a * count + b] = product(one, other);
                values[b * count + a] = values[a * count + b];
            }
        }
        Self { count, values }
    }

    fn of(&self, one: usize, other: usize) -> f64 {
        self.values[one * self.count + other]
    }

    /// Returns the mean of the inner products of `point` with the points `others`.
    fn mean(&self, point: usize, others: &[usize]) -> f64 {
        others.iter().map(|&other| self.of(point, other)).sum::<f64>() / others.len() as f64
    }

    /// Returns the p-value of the hypothesis that the class has one mode: twice the median of the p-values of [`CUTS`]
    /// random cuts.
    fn p_value(&self, random: &mut Random) -> f64 {
        let mut order: Vec<usize> = (0..self.count).collect();
        let mut all = [1.0; CUTS];
        for p in &mut all {
            random.shuffle(&mut order);
            let (train, test) = order.split_at(self.count / 3);
            if let Some(halves) = self.halves(train, random) {
                *p = self.gap_p_value(&halves, test);
            }
        }
        all.sort_by(f64::total_cmp);
        (2.0 * all[CUTS / 2 - 1]).min(1.0)
    }

    /// Divides points into two groups by 2-means, which starts from the two sides of the mean along the first principal
    /// component. Returns `None` if a group has fewer than two points, or if 2-means does not converge.
    fn halves(&self, points: &[usize], random: &mut Random) -> Option<[Vec<usize>; 2]> {
        let mut side = self.sides(points, random);
        for _ in 0..UPDATES {
            let halves = [true, false].map(|which| {
                let own = points.iter().zip(&side).filter(|&(_, &side)| side == which);
                own.map(|(&point, _)| point).collect::<Vec<_>>()
            });
            if halves.iter().any(|half| half.len() < 2) {
                return None;
            }
            let norms = halves
                .each_ref()
                .map(|half| half.iter().map(|&point| self.mean(point, half)).sum::<f64>() / half.len() as f64);
            // ‖x - m‖² without ‖x‖², which both distances share.
            let far = |point: usize, which: usize| norms[which] - 2.0 * self.mean(point, &halves[which]);
            let now: Vec<bool> = points.iter().map(|&point| far(point, 0) < far(point, 1)).collect();
            if now == side {
                return Some(halves);
            }
            side = now;
        }
        None
    }

    /// Returns, for every point, its side of the mean along the first principal component, which power iteration finds.
    fn sides(&self, points: &[usize], random: &mut Random) -> Vec<bool> {
        let means: Vec<f64> = points.iter().map(|&point| self.mean(point, points)).collect();
        let all = means.iter().sum::<f64>() / means.len().max(1) as f64;
        let mut weights: Vec<f64> = points.iter().map(|_| random.normal()).collect();
        for _ in 0..UPDATES {
            let next = |(a, &one): (usize, &usize)| -> f64 {
                let centred = |(b, &other): (usize, &usize)| self.of(one, other) - means[a] - means[b] + all;
                points.iter().enumerate().map(centred).zip(&weights).map(|(product, weight)| product * weight).sum()
            };
            let next: Vec<f64> = points.iter().enumerate().map(next).collect();
            let norm = next.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
            if norm == 0.0 {
                break;
            }
            weights = next.into_iter().map(|weight| weight / norm).collect();
        }
        weights.into_iter().map(|weight| weight > 0.0).collect()
    }

    /// Returns the p-value of the gap between the two groups `halves`. The points `test` must be in neither group.
    fn gap_p_value(&self, halves: &[Vec<usize>; 2], test: &[usize]) -> f64 {
        let along = |point: usize| self.mean(point, &halves[0]) - self.mean(point, &halves[1]);
        // A point pulls the mean of its group towards itself. So each point is left out of the mean of its group.
        let centre = |which: usize| {
            let half = &halves[which];
            let count = half.len() as f64;
            let without = |&point: &usize| {
                let own = (count * self.mean(point, half) - self.of(point, point)) / (count - 1.0);
                let other = self.mean(point, &halves[1 - which]);
                if which == 0 { own - other } else { other - own }
            };
            half.iter().map(without).sum::<f64>() / count
        };
        let (high, low) = (centre(0), centre(1));
        if high <= low {
            return 1.0;
        }
        // Count the test points in the three intervals.
        let (middle, width) = (f64::midpoint(low, high), 0.5 * (high - low));
        let mut counts = [0usize; 3];
        for &point in test {
            let place = (along(point) - middle) / width + 1.5;
            if (0.0..3.0).contains(&place) {
                counts[place as usize] += 1;
            }
        }
        let [one, between, other] = counts;
        fair_coins(between, one + between).max(fair_coins(between, other + between))
    }
}

/// Returns the probability that at most `few` of `all` fair coins show heads: P(Bin(all, ½) ≤ few).
fn fair_coins(few: usize, all: usize) -> f64 {
    let mut term = 0.5f64.powi(all as i32);
    let mut sum = 0.0;
    for heads in 0..=few {
        sum += term;
        term *= (all - heads) as f64 / (heads + 1) as f64;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(points: &[Vec<f64>]) -> Products {
        let values = points.iter().flatten().map(|&value| value as f32).collect();
        let matrix = Matrix::new(values, points.len(), points[0].len()).unwrap();
        Products::new(&matrix, &(0..points.len()).collect::<Vec<_>>())
    }

    /// For tests: draws points of the named law, which has one mode along every line.
    fn draw(law: &str, count: usize, dimensions: usize, random: &mut Random) -> Vec<Vec<f64>> {
        let mut point = || -> Vec<f64> {
            // The scale differs between directions.
            let scales = (0..dimensions).map(|at| 1.0 + 2.0 / (1 + at) as f64);
            // A heavy tail: a Gaussian of random width (Student's, with two degrees of freedom).
            let width = if law == "heavy" { 1.0 / (-(1.0 - random.uniform()).ln()).sqrt() } else { 1.0 };
            let value = |scale: f64| match law {
                "skewed" => -scale * (1.0 - random.uniform()).ln(),
                "flat" => scale * random.uniform(),
                _ => scale * width * random.normal(),
            };
            scales.map(value).collect()
        };
        (0..count).map(|_| point()).collect()
    }

    /// For tests: computes the p-value of a gap from its definition. It uses points and means in place of inner
    /// products, and Pascal's triangle.
    fn reference(points: &[Vec<f64>], halves: &[Vec<usize>; 2], test: &[usize]) -> f64 {
        let mean = |rows: &[usize]| -> Vec<f64> {
            let at = |at: usize| rows.iter().map(|&row| points[row][at]).sum::<f64>() / rows.len() as f64;
            (0..points[0].len()).map(at).collect()
        };
        let along = |point: &[f64], one: &[f64], other: &[f64]| -> f64 {
            point.iter().zip(one).zip(other).map(|((x, one), other)| x * (one - other)).sum()
        };
        let [one, other] = halves.each_ref().map(|half| mean(half));
        let centre = |which: usize| {
            let project = |&row: &usize| {
                let rest: Vec<usize> = halves[which].iter().copied().filter(|&point| point != row).collect();
                let rest = mean(&rest);
                if which == 0 { along(&points[row], &rest, &other) } else { along(&points[row], &one, &rest) }
            };
            halves[which].iter().map(project).sum::<f64>() / halves[which].len() as f64
        };
        let (high, low) = (centre(0), centre(1));
        let width = (high - low) / 2.0;
        if width <= 0.0 {
            return 1.0;
        }
        let count = |from: f64| {
            let inside = |&&row: &&usize| {
                let at = along(&points[row], &one, &other);
                at >= from && at < from + width
            };
            test.iter().filter(inside).count()
        };
        let start = f64::midpoint(low, high) - width / 2.0;
        let [left, between, right] = [start - width, start, start + width].map(count);
        let p = |side: usize| {
            // A row of Pascal's triangle: the number of ways to get each number of heads.
            let mut ways = vec![1.0f64];
            for _ in 0..side + between {
                let next = |at: usize| ways.get(at).unwrap_or(&0.0) + if at > 0 { ways[at - 1] } else { 0.0 };
                ways = (0..=ways.len()).map(next).collect();
            }
            ways[..=between].iter().sum::<f64>() / ways.iter().sum::<f64>()
        };
        p(left).max(p(right))
    }

    #[test]
    fn the_p_value_of_a_gap_is_that_of_the_definition() {
        let mut random = Random::new(1, 1);
        for distance in [0.0, 2.0, 5.0, 9.0] {
            let mut points = draw("normal", 90, 5, &mut random);
            for point in &mut points[50..] {
                point[2] += distance;
            }
            // Round to f32, so that both computations have the same points.
            for value in points.iter_mut().flatten() {
                *value = f64::from(*value as f32);
            }
            let products = rows(&points);
            let mut order: Vec<usize> = (0..90).collect();
            random.shuffle(&mut order);
            let (train, test) = order.split_at(30);
            let halves = products.halves(train, &mut random).unwrap();
            let (p, expected) = (products.gap_p_value(&halves, test), reference(&points, &halves, test));
            assert!((p - expected).abs() < 1e-12, "{p} is not {expected} at {distance}");
        }
    }

    /// Tests that, for laws with one mode, false alarms are at most as frequent as their level. They are more frequent
    /// if the points that found the groups also test them.
    #[test]
    fn false_alarms_are_at_most_at_their_level() {
        let mut random = Random::new(2, 1);
        for law in ["normal", "heavy", "skewed", "flat"] {
            let (mut alarms, mut of_one_cut, mut of_training) = (0, 0, 0);
            for _ in 0..400 {
                let products = rows(&draw(law, 60, 12, &mut random));
                alarms += usize::from(products.p_value(&mut random) <= 0.1);
                let mut order: Vec<usize> = (0..60).collect();
                random.shuffle(&mut order);
                let (train, test) = order.split_at(20);
                let Some(halves) = products.halves(train, &mut random) else { continue };
                of_one_cut += usize::from(products.gap_p_value(&halves, test) <= 0.1);
                let all: Vec<usize> = (0..60).collect();
                let Some(halves) = products.halves(&all, &mut random) else { continue };
                of_training += usize::from(products.gap_p_value(&halves, &all) <= 0.1);
            }
            // 0.1 of 400, and three standard deviations more.
            assert!(alarms <= 58 && of_one_cut <= 58, "{law}: {alarms}, {of_one_cut} of one cut");
            // Heavy tails give single far points and no groups.
            assert!(law == "heavy" || of_training > of_one_cut, "{law}: {of_training} by training points");
        }
    }

    #[test]
    fn two_distant_groups_are_found() {
        let mut random = Random::new(3, 1);
        for (law, share) in [("normal", 30), ("normal", 15), ("skewed", 30)] {
            let mut points = draw(law, 60, 12, &mut random);
            for point in &mut points[..share] {
                point[5] += 16.0;
            }
            let p = rows(&points).p_value(&mut random);
            assert!(p < 0.01, "{law}, {share} of 60: {p}");
        }
        // Equal points cannot be divided: the class has one mode.
        assert!(rows(&vec![vec![1.0, 2.0]; 30]).p_value(&mut random) >= 1.0);
    }
}
