//! Tests of new labels: their counts equal those of a brute force, and sets cover queries with a new label.

use std::collections::BTreeMap;

use crate::conformal::{ConformalConfig, MethodName, Mix};
use crate::kernel::Kernel;
use crate::numeric::random::Random;
use crate::scores::least_count;
use crate::{Context, Matrix};

use super::calibrated::Calibrated;
use super::reference::Data;

const DIMENSIONS: usize = 4;
const KINDS: usize = 400;

/// A random source of test points with 400 kinds of labels, some frequent and many rare, by Zipf's law. Points lie
/// around the center of their kind.
struct Source {
    centers: Vec<[f64; DIMENSIONS]>,
    /// The sums of 1/1, 1/2, … up to every kind. Kinds are drawn in proportion to these terms.
    sums: Vec<f64>,
    random: Random,
}

impl Source {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 6);
        let mut sum = 0.0;
        let sums = (0..KINDS).map(|rank| {
            sum += 1.0 / (rank + 1) as f64;
            sum
        });
        let sums = sums.collect();
        let centers = (0..KINDS).map(|_| std::array::from_fn(|_| 4.0 * random.normal())).collect();
        Self { centers, sums, random }
    }

    fn draw(&mut self, count: usize) -> Vec<(Vec<f32>, usize)> {
        let draw = |_| {
            let place = self.random.uniform() * self.sums[KINDS - 1];
            let kind = self.sums.partition_point(|&sum| sum < place);
            let point = self.centers[kind].map(|center| (center + self.random.normal()) as f32);
            (point.to_vec(), kind)
        };
        (0..count).map(draw).collect()
    }
}

fn matrix(points: &[(Vec<f32>, usize)]) -> Matrix {
    let values = points.iter().flat_map(|(point, _)| point.clone()).collect();
    Matrix::new(values, points.len(), DIMENSIONS).unwrap()
}

/// The class ids that the kinds of points get, numbered as they first appear. With them, the test turns drawn points
/// into data; a kind that is not listed is a new label.
struct Known(BTreeMap<usize, u32>);

impl Known {
    fn data(&mut self, points: &[(Vec<f32>, usize)]) -> Data {
        let label = |(_, kind): &(Vec<f32>, usize)| {
            let next = self.0.len() as u32;
            *self.0.entry(*kind).or_insert(next)
        };
        let labels = points.iter().map(label).collect();
        Data { points: matrix(points), labels }
    }
}

fn calibrated(fit: &Data, bag: &Data, classes: usize, new_labels: bool, context: &Context<'_>) -> Calibrated {
    let config = ConformalConfig::default()
        .with_method(MethodName::Fuse)
        .rank_neighbors(10)
        .contrast_neighbors(5)
        .new_labels(new_labels);
    Calibrated::new(context, fit, bag, classes, Kernel::new(3.0, 1.0).unwrap(), &config).unwrap()
}

fn squared(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum()
}

#[test]
fn counts_are_those_of_a_brute_force() {
    let context = Context::new(1).unwrap();
    let source = &mut Source::new(1);
    for _ in 0..20 {
        let (fit, bag, queries) = (source.draw(20), source.draw(25), source.draw(6));
        let mut known = Known(BTreeMap::new());
        let (fit_data, bag_data) = (known.data(&fit), known.data(&bag));
        let calibrated = calibrated(&fit_data, &bag_data, known.0.len(), true, &context);
        let found = calibrated.score(&context, &matrix(&queries)).new_label_counts.unwrap();
        for (query, &found) in queries.iter().zip(&found) {
            // Everyone in the bag, the query with a kind of its own; the nearest of the others decides among those
            // alone of their kind.
            let mut all = bag.clone();
            all.push((query.0.clone(), usize::MAX));
            let far = |at: usize| {
                let others = fit.iter().chain(all.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, p)| p));
                others.map(|(other, _)| squared(other, &all[at].0)).fold(f64::INFINITY, f64::min)
            };
            let alone = |at: usize| fit.iter().chain(&all).filter(|(_, kind)| *kind == all[at].1).count() == 1;
            let last = all.len() - 1;
            let expected = (0..all.len()).filter(|&at| alone(at) && far(at) >= far(last)).count();
            assert_eq!(found as usize, expected);
        }
    }
}

#[test]
fn sets_cover_new_labels() {
    let context = Context::new(2).unwrap();
    let source = &mut Source::new(2);
    let (n, draws) = (60, 500);
    let alphas = [0.1, 0.2, 0.4];
    let (mut covered, mut without, mut new) = ([0usize; 3], [0usize; 3], 0);
    let mut missed = [0usize; 3];
    for _ in 0..draws {
        let (fit, bag, query) = (source.draw(80), source.draw(n), source.draw(1));
        let mut known = Known(BTreeMap::new());
        let (fit, bag) = (known.data(&fit), known.data(&bag));
        let label = known.0.get(&query[0].1).copied();
        new += usize::from(label.is_none());
        for new_labels in [true, false] {
            let calibrated = calibrated(&fit, &bag, known.0.len(), new_labels, &context);
            let scored = calibrated.score(&context, &matrix(&query));
            for (at, &alpha) in alphas.iter().enumerate() {
                let decision = calibrated.predictor.decide(alpha, Mix::Auto).unwrap();
                let sets = scored.counts.sets(decision.cut, known.0.len());
                let hit = label.map(|label| sets.contains(0, label));
                if !new_labels {
                    without[at] += usize::from(hit == Some(true));
                    continue;
                }
                let count = scored.new_label_counts.as_ref().unwrap()[0];
                let none = count >= least_count(decision.new_label_alpha.unwrap(), n);
                covered[at] += usize::from(hit.unwrap_or(none));
                missed[at] += usize::from(label.is_none() && count < least_count(alpha, n));
            }
        }
    }
    assert!(new > draws / 6, "{new} new labels: too few to tell");
    for (at, &alpha) in alphas.iter().enumerate() {
        let share = |count: usize| count as f64 / draws as f64;
        let error = 4.0 * (alpha * (1.0 - alpha) / draws as f64).sqrt();
        assert!(share(covered[at]) >= 1.0 - alpha - error, "alpha {alpha}: {}", share(covered[at]));
        // New labels that are missed at a level by themselves are at most that many.
        assert!(share(missed[at]) <= alpha + error, "alpha {alpha}: missed {}", share(missed[at]));
        // Sets that cannot say so cannot cover them.
        assert!(share(without[at]) <= 1.0 - share(new), "alpha {alpha}");
    }
    assert!(share_of(without[0], draws) < 0.86, "the source has too few new labels to tell");
}

fn share_of(count: usize, of: usize) -> f64 {
    count as f64 / of as f64
}
