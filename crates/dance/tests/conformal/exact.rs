//! Exact calibration gives the p-values of the brute force that rebuilds the whole bag for every query and label.

use dance::Context;
use dance::Matrix;
use dance::conformal::Mix;
use dance::conformal::{Calibration, ConformalConfig, MethodName, Predictor, Setup};
use dance::device::Cpu;
use dance::kernel::Kernel;
use dance::machine::Part;
use dance::numeric::random::{Random, uniform_of};
use dance::scores::Counts;

use crate::reference::{Data, Settings, blobs, contrast_of, lattice, squared};

/// One point of a bag or behind it.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) at: Vec<f32>,
    pub(crate) label: u32,
    /// Decides between points at the same distance.
    pub(crate) key: f64,
    /// Of its own label.
    pub(crate) probability: f64,
    /// Breaks ties of its rank.
    pub(crate) noise: f64,
}

/// Rank, contrastive and probability score of the label that point `i` of the bag carries, among all others.
pub(crate) fn scores(bag: &[Point], behind: &[Point], i: usize, s: Settings, fuse: bool) -> [f64; 3] {
    let others = bag.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, point)| point).chain(behind);
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
    let tie = if fuse { 0.99 * unlikely } else { bag[i].noise };
    [rank + tie, contrast, unlikely]
}

/// The counts of one query and label: (z,y) joins the bag, everything is computed anew.
fn brute_force(bag: &[Point], behind: &[Point], s: Settings, combine: MethodName, mix_tenths: u32) -> Counts {
    let fuse = combine == MethodName::Fuse;
    let all: Vec<[f64; 3]> = (0..bag.len()).map(|i| scores(bag, behind, i, s, fuse)).collect();
    let reached = |of: [f64; 3]| -> [u64; 3] {
        std::array::from_fn(|which| all.iter().filter(|other| other[which] >= of[which]).count() as u64)
    };
    // How well a point conforms, as a whole number.
    let conformity = |of: [f64; 3]| {
        let [rank, contrast, probability] = reached(of);
        match combine {
            // min( rank/(1-mix), contrast/mix ), times mix·(1-mix)·10
            MethodName::Joint if mix_tenths == 0 => rank,
            MethodName::Joint if mix_tenths == 10 => contrast,
            MethodName::Joint => (rank * u64::from(mix_tenths)).min(contrast * u64::from(10 - mix_tenths)),
            _ => rank.pow(2) * contrast * probability.pow(2),
        }
    };
    let newcomer = all[bag.len() - 1];
    let own = reached(newcomer);
    let combined = all.iter().filter(|of| conformity(**of) <= conformity(newcomer)).count() as u32;
    Counts {
        rank: own[0] as u32,
        contrast: own[1] as u32,
        combined: if combine == MethodName::Dance { 0 } else { combined },
    }
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) calibration: Data,
    pub(crate) fit: Data,
    pub(crate) test: Data,
}

pub(crate) fn cases() -> Vec<Case> {
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

pub(crate) const CLASSES: usize = 6;
pub(crate) const SEED: u64 = 5;

/// As `docs/method.md` says.
pub(crate) fn key(part: u64, name: u64) -> f64 {
    uniform_of(&[SEED, 0x0b46, part, name])
}

/// What a query is called: its numbers in pairs, each through the finaliser of `SplitMix64`, as docs/method.md has it.
pub(crate) fn name_of(query: &[f32]) -> u64 {
    query.chunks(2).fold(0, |state: u64, pair| {
        let bits = pair.iter().rev().fold(0, |bits, value| bits << 32 | u64::from(value.to_bits()));
        let mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ bits;
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

fn noise(width: f64, part: u64, name: u64, label: u32) -> f64 {
    width * uniform_of(&[SEED, 0x71e5, part, name, u64::from(label)])
}

/// Class probabilities in tenths, so that many tie; the last class is unknown to the kernel and has none.
pub(crate) fn probabilities(rows: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed, 3);
    let values = (0..rows * (CLASSES - 1)).map(|_| random.below(11) as f32 / 10.0).collect();
    Matrix::new(values, rows, CLASSES - 1).unwrap()
}

fn compare(
    case: &Case,
    s: Settings,
    combine: MethodName,
    mix_tenths: u32,
    tie_noise: f64,
    fit_neighbors: bool,
) {
    let context = Context::new(2).unwrap();
    let config = ConformalConfig::default()
        .rank_neighbors(s.rank_neighbors)
        .contrast_neighbors(s.contrast_neighbors)
        .temperature(s.temperature)
        .mix(if combine == MethodName::Fuse { Mix::Auto } else { Mix::Fixed(f64::from(mix_tenths) / 10.0) })
        .calibration(Calibration::Full)
        .method(combine)
        .fit_neighbors(fit_neighbors)
        .tie_noise(tie_noise)
        .seed(SEED);
    let Case { name, calibration, fit, test } = case;
    let n = calibration.len();
    let fuse = combine == MethodName::Fuse;
    let (own, asked) = (probabilities(n, 1), probabilities(test.len(), 2));
    let probability = |row: &[f32], label: u32| {
        if fuse { f64::from(row.get(label as usize).copied().unwrap_or(0.0)) } else { 1.0 }
    };

    let kernel = Kernel::new(s.bandwidth, s.shape).unwrap();
    let setup = Setup { device: &Cpu, classes: CLASSES, kernel, config: &config, context: &context };
    let part = |data: &Data| Part { embeddings: data.points.clone(), labels: data.labels.clone() };
    let of_own = |row: usize| probability(own.row(row), calibration.labels[row]) as f32;
    let of_own = fuse.then(|| (0..n).map(of_own).collect());
    let predictor = Predictor::exact(part(calibration), &part(fit), of_own, setup).unwrap();
    let answers = predictor.answer(&test.points, fuse.then_some(&asked), &context).unwrap();

    let width = if fuse { 0.0 } else { tie_noise };
    let behind: Vec<Point> = (0..if fit_neighbors { fit.len() } else { 0 })
        .map(|row| Point {
            at: fit.points.row(row).to_vec(),
            label: fit.labels[row],
            key: key(2, row as u64),
            probability: 1.0,
            noise: 0.0,
        })
        .collect();
    let mut bag: Vec<Point> = (0..n)
        .map(|row| Point {
            at: calibration.points.row(row).to_vec(),
            label: calibration.labels[row],
            key: key(0, row as u64),
            probability: probability(own.row(row), calibration.labels[row]),
            noise: noise(width, 0, row as u64, calibration.labels[row]),
        })
        .collect();
    for query in 0..test.len().min(8) {
        for label in 0..CLASSES as u32 {
            bag.push(Point {
                at: test.points.row(query).to_vec(),
                label,
                key: key(1, name_of(test.points.row(query))),
                probability: probability(asked.row(query), label),
                noise: noise(width, 1, name_of(test.points.row(query)), label),
            });
            let expected = brute_force(&bag, &behind, s, combine, mix_tenths);
            assert_eq!(
                answers.counts.get(query, label),
                expected,
                "{name}, {combine:?}, mix {mix_tenths}/10, m {} and {}, fit {fit_neighbors}, query {query}, label {label}",
                s.rank_neighbors,
                s.contrast_neighbors
            );
            bag.pop();
        }
    }
}

#[test]
fn p_values_are_those_of_the_brute_force() {
    for case in cases() {
        for (rank_neighbors, contrast_neighbors) in [(10, 6), (4, 9), (1, 1), (500, 500)] {
            let s = Settings {
                rank_neighbors,
                contrast_neighbors,
                temperature: 0.01,
                bandwidth: 1.5,
                shape: 1.0,
            };
            for fit_neighbors in [true, false] {
                compare(&case, s, MethodName::Dance, 3, 0.0, fit_neighbors);
                compare(&case, s, MethodName::Dance, 3, 0.9, fit_neighbors);
                for mix_tenths in [0, 2, 5, 10] {
                    compare(&case, s, MethodName::Joint, mix_tenths, 0.0, fit_neighbors);
                }
                compare(&case, s, MethodName::Fuse, 0, 0.0, fit_neighbors);
            }
        }
    }
}

/// Wide and narrow kernels: losses that all but vanish, and losses that all but tie.
#[test]
fn kernels_make_no_difference() {
    for case in cases().into_iter().take(3) {
        for (bandwidth, shape) in [(0.2, 0.5), (20.0, 1.7), (300.0, 1.0)] {
            let s =
                Settings { rank_neighbors: 8, contrast_neighbors: 6, temperature: 0.01, bandwidth, shape };
            compare(&case, s, MethodName::Fuse, 0, 0.0, true);
            compare(&case, s, MethodName::Joint, 4, 0.0, true);
        }
    }
}

/// A hub: points of one label far from each other, each amid points of another, and the query is the next kin of all of them.
/// Counts move by as much as they can.
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
            let s = Settings {
                rank_neighbors,
                contrast_neighbors,
                temperature: 0.02,
                bandwidth: 30.0,
                shape: 1.0,
            };
            compare(&case, s, MethodName::Fuse, 0, 0.0, true);
            for mix_tenths in [0, 2, 5, 10] {
                compare(&case, s, MethodName::Joint, mix_tenths, 0.0, true);
            }
        }
    }
}
