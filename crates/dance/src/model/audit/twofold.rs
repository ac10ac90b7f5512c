//! Classes that are two: their points fall apart into groups with a gap between them that chance does not explain.
//!
//! Two means always find two groups, whatever there is. So a third of a class finds them, and the others judge, along the line through
//! the two centres. Of three intervals of the same length w side by side, one around each centre and one between (w is half the distance of the centres, every
//! point that found them seen from centres without it), a law with one mode gives the middle one at least as much as the lesser of its
//! neighbors. Given how many points fall into two of them, the count of the middle one then is at least that of fair coins, so
//!
//! ```text
//! p = max over both sides of P(Bin(side + middle, ½) ≤ middle)
//! ```
//!
//! holds for any number of points and any law whose projections have one mode (Gaussian, heavy-tailed, skewed). Twice the median over ten
//! such cuts is a p-value again, which does not hang on one draw; Benjamini and Hochberg's rule makes the list of classes. Of near copies one
//! counts. `docs/method.md` has the proof.
//!
//! Cost: the products of a class's points, at most 400 of them, and ten times some sums of those.

use serde::Serialize;

use super::copies::Copies;
use crate::context::Context;
use crate::data::Dataset;
use crate::model::audit::label_errors::benjamini_hochberg;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;

/// Fewer points of a class cannot show that it is two.
const LEAST: usize = 20;
/// Most points of a class that are looked at.
const MOST: usize = 400;
/// How often a class is cut into points that find and points that judge.
const CUTS: usize = 10;
/// Updates until a direction, or two means, stay.
const UPDATES: usize = 50;
/// The stream of random numbers that cuts.
const PURPOSE: u64 = 0x7770_f01d;

/// A class that is two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Twofold {
    /// The class.
    pub class: u32,
    /// For "its points have one mode along every line".
    pub p_value: f64,
    /// The points of the two, the larger one first; each begins with those nearest to its centre.
    pub groups: [Vec<u32>; 2],
}

/// Finds the classes that are two among points as given, of which no more than the share `fdr` is one on average.
pub(super) fn find(
    points: &Matrix,
    data: &Dataset,
    copies: &[Copies],
    (fdr, seed): (f64, u64),
    context: &Context<'_>,
) -> Vec<Twofold> {
    let mut again = vec![false; data.len()];
    for &row in copies.iter().flat_map(|group| group.rows.iter().skip(1)) {
        again[row as usize] = true;
    }
    let mut classes: Vec<(u32, Vec<usize>)> =
        (0..data.classes.len() as u32).map(|class| (class, Vec::new())).collect();
    for (row, &label) in data.labels.iter().enumerate().filter(|&(row, _)| !again[row]) {
        classes[label as usize].1.push(row);
    }
    classes.retain(|(_, rows)| rows.len() >= LEAST);
    let judge = |at: usize| {
        let (class, mut rows) = classes[at].clone();
        let mut random = Random::new(seed, PURPOSE + u64::from(class));
        random.shuffle(&mut rows);
        rows.truncate(MOST);
        let products = Products::new(points, &rows);
        let p_value = products.p_value(&mut random);
        (p_value, products.halves(&(0..rows.len()).collect::<Vec<_>>(), &mut random), rows)
    };
    let judged = context.map(classes.len(), judge);
    let p_values: Vec<f64> = judged.iter().map(|judged| judged.0).collect();
    let mut found = Vec::new();
    for at in benjamini_hochberg(&p_values, fdr) {
        let (p_value, Some([one, other]), rows) = &judged[at] else { continue };
        let class = classes[at].0;
        let all = (0..data.len()).filter(|&row| data.labels[row] == class);
        let centre = |half: &[usize]| mean(points, half.iter().map(|&place| rows[place]));
        found.push(Twofold {
            class,
            p_value: *p_value,
            groups: around(points, all, &[centre(one), centre(other)]),
        });
    }
    found
}

fn mean(points: &Matrix, rows: impl ExactSizeIterator<Item = usize>) -> Vec<f64> {
    let (mut sum, count) = (vec![0.0; points.cols()], rows.len() as f64);
    for row in rows {
        for (sum, &value) in sum.iter_mut().zip(points.row(row)) {
            *sum += f64::from(value) / count;
        }
    }
    sum
}

/// All rows with the nearer of two centres, the nearest first; the larger group first.
fn around(points: &Matrix, rows: impl Iterator<Item = usize>, centres: &[Vec<f64>; 2]) -> [Vec<u32>; 2] {
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

/// Products of all points of a class with each other: every mean, distance and projection is a sum of those.
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

    /// The mean product of a point with `others`.
    fn mean(&self, point: usize, others: &[usize]) -> f64 {
        others.iter().map(|&other| self.of(point, other)).sum::<f64>() / others.len() as f64
    }

    /// A p-value for one mode: twice the median over several cuts.
    fn p_value(&self, random: &mut Random) -> f64 {
        let mut order: Vec<usize> = (0..self.count).collect();
        let mut all = [1.0; CUTS];
        for p in &mut all {
            random.shuffle(&mut order);
            let (finders, judges) = order.split_at(self.count / 3);
            if let Some(halves) = self.halves(finders, random) {
                *p = self.judged(&halves, judges);
            }
        }
        all.sort_by(f64::total_cmp);
        (2.0 * all[CUTS / 2 - 1]).min(1.0)
    }

    /// Two groups of points by two means, from the two sides of their first principal component on; `None` where a point is alone.
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
            let norms = halves.each_ref().map(|half| {
                half.iter().map(|&point| self.mean(point, half)).sum::<f64>() / half.len() as f64
            });
            // ‖x - m‖² without ‖x‖², which both have.
            let far = |point: usize, which: usize| norms[which] - 2.0 * self.mean(point, &halves[which]);
            let now: Vec<bool> = points.iter().map(|&point| far(point, 0) < far(point, 1)).collect();
            if now == side {
                return Some(halves);
            }
            side = now;
        }
        None
    }

    /// On which side of the mean every point is, along the first principal component.
    fn sides(&self, points: &[usize], random: &mut Random) -> Vec<bool> {
        let means: Vec<f64> = points.iter().map(|&point| self.mean(point, points)).collect();
        let all = means.iter().sum::<f64>() / means.len().max(1) as f64;
        let mut weights: Vec<f64> = points.iter().map(|_| random.normal()).collect();
        for _ in 0..UPDATES {
            let next = |(a, &one): (usize, &usize)| -> f64 {
                let centred = |(b, &other): (usize, &usize)| self.of(one, other) - means[a] - means[b] + all;
                points
                    .iter()
                    .enumerate()
                    .map(centred)
                    .zip(&weights)
                    .map(|(product, weight)| product * weight)
                    .sum()
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

    /// The p-value that `judges` give to the gap between two groups of others.
    fn judged(&self, halves: &[Vec<usize>; 2], judges: &[usize]) -> f64 {
        let along = |point: usize| self.mean(point, &halves[0]) - self.mean(point, &halves[1]);
        // A point pulls the mean of its group towards itself: without it, groups are as far apart as they are to others.
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
        let (middle, width) = (f64::midpoint(low, high), 0.5 * (high - low));
        let mut counts = [0usize; 3];
        for &point in judges {
            let place = (along(point) - middle) / width + 1.5;
            if (0.0..3.0).contains(&place) {
                counts[place as usize] += 1;
            }
        }
        let [one, between, other] = counts;
        at_most(between, one + between).max(at_most(between, other + between))
    }
}

/// The probability that of `all` fair coins at most `few` fall heads.
fn at_most(few: usize, all: usize) -> f64 {
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

    /// Points of a law with one mode: along every line, whatever its shape.
    fn draw(law: &str, count: usize, dimensions: usize, random: &mut Random) -> Vec<Vec<f64>> {
        let mut point = || -> Vec<f64> {
            // Some directions are wider than others.
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

    /// The definition, with points and means in place of products; fair coins counted one by one.
    fn reference(points: &[Vec<f64>], halves: &[Vec<usize>; 2], judges: &[usize]) -> f64 {
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
            judges.iter().filter(inside).count()
        };
        let start = f64::midpoint(low, high) - width / 2.0;
        let [left, between, right] = [start - width, start, start + width].map(count);
        let p = |side: usize| {
            // Pascal's triangle: ways for so many coins to fall so many heads.
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
    fn judges_count_as_the_definition_has_it() {
        let mut random = Random::new(1, 1);
        for apart in [0.0, 2.0, 5.0, 9.0] {
            let mut points = draw("normal", 90, 5, &mut random);
            for point in &mut points[50..] {
                point[2] += apart;
            }
            // Numbers that an f32 holds, so that both see the same points.
            for value in points.iter_mut().flatten() {
                *value = f64::from(*value as f32);
            }
            let products = rows(&points);
            let mut order: Vec<usize> = (0..90).collect();
            random.shuffle(&mut order);
            let (finders, judges) = order.split_at(30);
            let halves = products.halves(finders, &mut random).unwrap();
            let (p, expected) = (products.judged(&halves, judges), reference(&points, &halves, judges));
            assert!((p - expected).abs() < 1e-12, "{p} is not {expected} at {apart}");
        }
    }

    /// Whatever has one mode is called two no more often than asked for; judged by the points that found the halves, nearly always.
    #[test]
    fn false_alarms_are_as_rare_as_asked_for() {
        let mut random = Random::new(2, 1);
        for law in ["normal", "heavy", "skewed", "flat"] {
            let (mut alarms, mut of_one_cut, mut of_finders) = (0, 0, 0);
            for _ in 0..400 {
                let products = rows(&draw(law, 60, 12, &mut random));
                alarms += usize::from(products.p_value(&mut random) <= 0.1);
                let mut order: Vec<usize> = (0..60).collect();
                random.shuffle(&mut order);
                let (finders, judges) = order.split_at(20);
                let Some(halves) = products.halves(finders, &mut random) else { continue };
                of_one_cut += usize::from(products.judged(&halves, judges) <= 0.1);
                let all: Vec<usize> = (0..60).collect();
                let Some(halves) = products.halves(&all, &mut random) else { continue };
                of_finders += usize::from(products.judged(&halves, &all) <= 0.1);
            }
            // 0.1 of 400, and three standard deviations of that.
            assert!(alarms <= 58 && of_one_cut <= 58, "{law}: {alarms}, {of_one_cut} of one cut");
            // Heavy tails set single points apart, in no group.
            assert!(law == "heavy" || of_finders > of_one_cut, "{law}: {of_finders} if finders judge");
        }
    }

    #[test]
    fn two_groups_are_found_when_they_are_apart() {
        let mut random = Random::new(3, 1);
        for (law, share) in [("normal", 30), ("normal", 15), ("skewed", 30)] {
            let mut points = draw(law, 60, 12, &mut random);
            for point in &mut points[..share] {
                point[5] += 16.0;
            }
            let p = rows(&points).p_value(&mut random);
            assert!(p < 0.01, "{law}, {share} of 60: {p}");
        }
        // Equal points have no halves, and are one.
        assert!(rows(&vec![vec![1.0, 2.0]; 30]).p_value(&mut random) >= 1.0);
    }
}
