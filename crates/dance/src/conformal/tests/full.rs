//! Tests that full calibration gives the counts of a brute force, which rebuilds the whole bag for every query and
//! label. The guarantee holds for all points together or for every class by itself.

use crate::Context;
use crate::Matrix;
use crate::conformal::{ByClass, ConformalConfig, MethodName, Predictor, Setup};
use crate::device::Cpu;
use crate::kernel::Kernel;
use crate::machine::Classified;
use crate::method::Method;
use crate::numeric::random::{Random, uniform_of};
use crate::scores::Counts;

use super::calibrated::{part, score};
use super::reference::{Data, Settings, blobs, contrast_of, lattice, squared};

/// A calibration point, query or fit point, written out for the brute force.
#[derive(Clone)]
struct Point {
    at: Vec<f32>,
    label: u32,
    /// The random key that orders points at equal distances.
    key: f64,
    /// The class probability of the point's own label.
    probability: f64,
}

/// Returns the rank, the contrastive and the probability score of point `i` of the bag for its own label. Its neighbors
/// are found among all other points of the bag and the fit points.
fn scores(bag: &[Point], fit: &[Point], i: usize, s: Settings) -> [f64; 3] {
    let others = bag.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, point)| point).chain(fit);
    let mut near: Vec<(f64, f64, &Point)> =
        others.map(|point| (squared(&bag[i].at, &point.at), point.key, point)).collect();
    near.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).unwrap());
    let rank = near
        .iter()
        .take(s.rank_neighbors)
        .find(|(_, _, point)| point.label == bag[i].label)
        .map_or(f64::INFINITY, |first| 1.0 + near.iter().filter(|other| other.0 < first.0).count() as f64);
    near.truncate(s.contrast_neighbors);
    let list: Vec<(&[f32], u32)> = near.iter().map(|(_, _, point)| (&point.at[..], point.label)).collect();
    let contrast = contrast_of(&list, bag[i].label, s);
    let unlikely = 1.0 - bag[i].probability;
    [rank + 0.99 * unlikely, contrast, unlikely]
}

/// Returns the expected count of the query, which is the last point of the bag, for its label. Everything is computed
/// anew.
fn brute_force(bag: &[Point], fit: &[Point], s: Settings, by_class: ByClass) -> u32 {
    let all: Vec<[f64; 3]> = (0..bag.len()).map(|i| scores(bag, fit, i, s)).collect();
    let level = |of: [f64; 3], which: usize| all.iter().filter(|other| other[which] >= of[which]).count() as u64;
    let conformity = |of: [f64; 3]| level(of, 0).pow(2) * level(of, 1) * level(of, 2).pow(2);
    let query = bag.len() - 1;
    let compared = |i: &usize| by_class == ByClass::All || bag[*i].label == bag[query].label;
    let members: Vec<usize> = (0..bag.len()).filter(compared).collect();
    let own = conformity(all[query]);
    let count = members.iter().filter(|&&i| conformity(all[i]) <= own).count();
    (count * bag.len()).div_ceil(members.len()) as u32
}

struct Case {
    name: &'static str,
    calibration: Data,
    fit: Data,
    test: Data,
}

fn cases() -> Vec<Case> {
    let cut = |name, data: Data, n: usize, fit: usize| Case {
        name,
        calibration: data.range(0..n),
        fit: data.range(n..n + fit),
        test: data.range(n + fit..data.len()),
    };
    let mut again = cut("queries that are calibration points", blobs(60, 3, 4, 0.7, 31), 30, 20);
    again.test = again.calibration.range(0..8);
    let mut alone = cut("a label with one point", blobs(60, 3, 4, 0.7, 32), 30, 20);
    alone.calibration.labels[7] = 4;
    let few = blobs(12, 3, 3, 0.6, 33);
    let copies: Vec<usize> = (0..70).map(|at| at * 5 % 12).collect();
    let mut doubted = few.select(&copies);
    for (at, label) in doubted.labels.iter_mut().enumerate() {
        *label = (*label + u32::from(at % 3 == 0)) % 3;
    }
    let mut identical = blobs(50, 2, 3, 0.5, 34);
    identical.points = Matrix::new(vec![0.5; 100], 50, 2).unwrap();
    vec![
        cut("blobs", blobs(90, 4, 5, 0.8, 30), 50, 30),
        cut("few points", blobs(17, 2, 3, 0.8, 35), 6, 3),
        cut("one calibration point", blobs(12, 2, 3, 0.8, 36), 1, 5),
        again,
        alone,
        cut("copies with different labels", doubted, 36, 24),
        cut("all points the same", identical, 30, 12),
        cut("lattice", lattice(80, 2, 4, 3, 37), 44, 26),
        cut("line of whole numbers", lattice(60, 1, 3, 6, 38), 30, 20),
    ]
}

const CLASSES: usize = 6;
const SEED: u64 = 5;

/// Returns the expected random key of a point, as `docs/method.md` describes it.
fn key(part: u64, name: u64) -> f64 {
    uniform_of(&[SEED, 0x0b46, part, name])
}

/// Returns the expected hash of a query, as `docs/method.md` describes it: its numbers in pairs, each through the
/// finaliser of `SplitMix64`.
fn name_of(query: &[f32]) -> u64 {
    query.chunks(2).fold(0, |state: u64, pair| {
        let bits = pair.iter().rev().fold(0, |bits, value| bits << 32 | u64::from(value.to_bits()));
        let mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ bits;
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

/// Returns random class probabilities in tenths, so that many tie. The last class has no column, because the classifier
/// does not know it.
fn probabilities(rows: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed, 3);
    let values = (0..rows * (CLASSES - 1)).map(|_| random.below(11) as f32 / 10.0).collect();
    Matrix::new(values, rows, CLASSES - 1).unwrap()
}

fn compare(case: &Case, s: Settings, by_class: ByClass) {
    let context = Context::new(2).unwrap();
    let config = ConformalConfig::default()
        .with_method(MethodName::Fuse)
        .by_class(by_class)
        .rank_neighbors(s.rank_neighbors)
        .contrast_neighbors(s.contrast_neighbors)
        .temperature(s.temperature)
        .seed(SEED);
    let Method::Fuse(method) = config.method().unwrap() else { panic!("fuse") };
    let Case { name, calibration, fit, test } = case;
    let n = calibration.len();
    let (own, of_queries) = (probabilities(n, 1), probabilities(test.len(), 2));
    let probability = |row: &[f32], label: u32| row.get(label as usize).copied().unwrap_or(0.0);

    let kernel = Kernel::new(s.bandwidth, s.shape).unwrap();
    let setup = Setup { device: &Cpu, classes: CLASSES, kernel, context: &context };
    let of_own = (0..n).map(|row| probability(own.row(row), calibration.labels[row])).collect();
    let predictor = Predictor::fuse(method, part(calibration), &part(fit), of_own, setup).unwrap();
    let classify = || Ok(Classified { labels: vec![0; test.len()], probabilities: of_queries.clone() });
    let scored = score(&predictor, &context, &test.points, &classify);

    // The bag and the fit points, written out.
    let point = |data: &Data, row: usize, label: u32, key: f64, probability: f32| Point {
        at: data.points.row(row).to_vec(),
        label,
        key,
        probability: f64::from(probability),
    };
    let behind: Vec<Point> =
        (0..fit.len()).map(|row| point(fit, row, fit.labels[row], key(2, row as u64), 1.0)).collect();
    let mut bag: Vec<Point> = (0..n)
        .map(|row| {
            let label = calibration.labels[row];
            point(calibration, row, label, key(0, row as u64), probability(own.row(row), label))
        })
        .collect();
    for query in 0..test.len().min(8) {
        for label in 0..CLASSES as u32 {
            let drawn = key(1, name_of(test.points.row(query)));
            bag.push(point(test, query, label, drawn, probability(of_queries.row(query), label)));
            assert_eq!(
                scored.counts.get(query, label),
                Counts::One(brute_force(&bag, &behind, s, by_class)),
                "{name}, {by_class:?}, m {} and {}, query {query}, label {label}",
                s.rank_neighbors,
                s.contrast_neighbors
            );
            bag.pop();
        }
    }
}

/// Returns a test case in which some classes have only calibration points, and others only fit points.
fn classes_of_one_part() -> Case {
    let data = blobs(110, 3, 4, 0.8, 39);
    let (mut calibration, mut fit) = (data.range(0..60), data.range(60..95));
    calibration.labels.iter_mut().step_by(9).for_each(|label| *label = 5);
    calibration.labels.iter_mut().filter(|label| **label == 3).for_each(|label| *label = 0);
    fit.labels.iter_mut().step_by(5).for_each(|label| *label = 4);
    Case { name: "classes of one part", calibration, fit, test: data.range(95..110) }
}

#[test]
fn p_values_are_those_of_the_brute_force() {
    for case in cases().into_iter().chain([classes_of_one_part()]) {
        for (rank_neighbors, contrast_neighbors) in [(10, 6), (4, 9), (1, 1), (500, 500)] {
            let s = Settings { rank_neighbors, contrast_neighbors, temperature: 0.01, bandwidth: 1.5, shape: 1.0 };
            for by_class in [ByClass::All, ByClass::Each] {
                compare(&case, s, by_class);
            }
        }
    }
}

/// Counts are right with wide and narrow kernels. With these kernels, some losses almost vanish and others almost tie.
#[test]
fn kernels_make_no_difference() {
    for case in cases().into_iter().take(3) {
        for (bandwidth, shape) in [(0.2, 0.5), (20.0, 1.7), (300.0, 1.0)] {
            let s = Settings { rank_neighbors: 8, contrast_neighbors: 6, temperature: 0.01, bandwidth, shape };
            compare(&case, s, ByClass::All);
        }
    }
}

/// A query that is near many points (a hub) changes their scores all at once. The points carry one label and are far
/// from each other, each amid points of another label. The query is the nearest point of their label for all of them.
/// Counts then move by as much as they can.
#[test]
fn a_query_that_changes_many_points_at_once() {
    let d = 12;
    for seed in 0..10 {
        let mut random = Random::new(seed, 98);
        let axis = |at: usize, length: f32| (0..d).map(move |column| if column == at { length } else { 0.0 });
        let (mut own, mut fit) = (Data::empty(d), Data::empty(d));
        for at in 0..d {
            own.push(axis(at, 1.0), 0);
            for step in 0..3u8 {
                fit.push(axis(at, 0.95 - 0.01 * f32::from(step)), 1);
            }
        }
        for far in 0..30 {
            let point: Vec<f32> = (0..d).map(|_| 5.0 + random.normal() as f32).collect();
            let data = if far % 3 == 0 { &mut fit } else { &mut own };
            data.push(point.into_iter(), random.below(3) as u32);
        }
        let mut test = Data::empty(d);
        for _ in 0..6 {
            let point: Vec<f32> = (0..d).map(|_| 1.0 / 12.0 + 0.01 * random.normal() as f32).collect();
            test.push(point.into_iter(), 0);
        }
        let case = Case { name: "hub", calibration: own, fit, test };
        for (rank_neighbors, contrast_neighbors) in [(4, 4), (4, 6), (5, 4)] {
            let s = Settings { rank_neighbors, contrast_neighbors, temperature: 0.02, bandwidth: 30.0, shape: 1.0 };
            compare(&case, s, ByClass::All);
        }
    }
}
