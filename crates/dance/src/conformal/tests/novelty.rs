//! Tests that novelty p-values equal those of a brute force, which adds the query to the calibration points. False
//! alarms are as rare as the level says.

use crate::Context;
use crate::conformal::{Calibration, ConformalConfig, MethodName, Mix};
use crate::kernel::Kernel;
use crate::scores::calibration::NOVELTY_NEIGHBORS;
use crate::stream::flagged_beyond_chance;

use super::calibrated::Calibrated;
use super::reference::{Data, blobs, lattice, squared};

/// Returns the novelty p-values of the test points by the library.
fn novelty(mode: Calibration, calibration: &Data, fit: &Data, test: &Data, neighbors: usize) -> Vec<f64> {
    let context = Context::new(2).unwrap();
    let config = ConformalConfig::default()
        .rank_neighbors(neighbors)
        .contrast_neighbors(neighbors.min(3))
        .with_calibration(mode);
    let config = match mode {
        Calibration::Full => config.with_method(MethodName::Fuse),
        Calibration::Split | Calibration::Reuse => config.with_method(MethodName::Dance).mix(Mix::Fixed(0.3)),
    };
    let kernel = Kernel::new(60.0, 1.0).unwrap();
    let calibrated = Calibrated::new(&context, fit, calibration, 6, kernel, &config).unwrap();
    calibrated.score(&context, &test.points).novelty
}

/// Returns the squared distance from `point` to its m-th nearest point among `others`, for the brute force.
fn far<'a>(point: &[f32], others: impl Iterator<Item = &'a [f32]>, m: usize) -> f64 {
    let mut all: Vec<f64> = others.map(|other| squared(point, other)).collect();
    all.sort_by(f64::total_cmp);
    all.get(m - 1).copied().unwrap_or(f64::INFINITY)
}

fn rows(data: &Data) -> Vec<&[f32]> {
    (0..data.len()).map(|row| data.points.row(row)).collect()
}

/// Returns the expected count behind a novelty p-value: the number of compared points, the query included, that are at
/// least as far away as the query.
fn count(mode: Calibration, calibration: &[&[f32]], reference: &[&[f32]], query: &[f32], m: usize) -> usize {
    let distances: Vec<f64> = match mode {
        // Every point of the bag among all others of the bag and the fit points.
        Calibration::Full => {
            let bag: Vec<&[f32]> = calibration.iter().copied().chain([query]).collect();
            let others = |i: usize| {
                let rest = bag.iter().enumerate().filter(move |&(j, _)| j != i).map(|(_, point)| *point);
                rest.chain(reference.iter().copied())
            };
            (0..bag.len()).map(|i| far(bag[i], others(i), m)).collect()
        }
        Calibration::Split => {
            calibration.iter().chain([&query]).map(|point| far(point, reference.iter().copied(), m)).collect()
        }
        Calibration::Reuse => {
            let others =
                |i: usize| calibration.iter().enumerate().filter(move |&(j, _)| j != i).map(|(_, point)| *point);
            let own = (0..calibration.len()).map(|i| far(calibration[i], others(i), m));
            own.chain([far(query, calibration.iter().copied(), m)]).collect()
        }
    };
    let query = distances[distances.len() - 1];
    distances.iter().filter(|&&distance| distance >= query).count()
}

#[test]
fn equals_the_brute_force_to_the_last_count() {
    let mut same = blobs(40, 2, 3, 0.5, 1);
    same.points = crate::Matrix::new(vec![0.5; 80], 40, 2).unwrap();
    for (name, data, n, fit) in [
        ("blobs", blobs(120, 4, 5, 0.8, 2), 60, 30),
        ("few points", blobs(14, 2, 3, 0.8, 3), 4, 3),
        ("fewer points than neighbors", blobs(9, 2, 3, 0.8, 4), 2, 1),
        ("lattice", lattice(90, 2, 4, 3, 5), 44, 26),
        ("line of whole numbers", lattice(80, 1, 3, 9, 6), 40, 20),
        ("all the same", same, 20, 10),
    ] {
        let (calibration, behind) = (data.range(0..n), data.range(n..n + fit));
        let test = data.range(n + fit..data.len());
        for mode in [Calibration::Full, Calibration::Split, Calibration::Reuse] {
            for neighbors in [20, 2, 1] {
                let found = novelty(mode, &calibration, &behind, &test, neighbors);
                let reference = rows(&behind);
                let searched = match mode {
                    Calibration::Full => n + reference.len(),
                    Calibration::Split => fit,
                    Calibration::Reuse => n,
                };
                let m = NOVELTY_NEIGHBORS.min(neighbors).min(searched);
                for (row, &p) in found.iter().enumerate() {
                    let expected = count(mode, &rows(&calibration), &reference, test.points.row(row), m);
                    let counted = p * (n + 1) as f64;
                    assert!(
                        (counted - expected as f64).abs() < 1e-9,
                        "{name} {mode:?} {neighbors} row {row}: {counted} {expected}"
                    );
                }
            }
        }
    }
}

/// False alarms are as rare as the level says. Over 200 draws of all points, the test counts flagged points from the
/// calibration points' own source, and flagged points from elsewhere.
#[test]
fn false_alarms_are_as_rare_as_asked() {
    let (n, tested, draws) = (99, 50, 200);
    for mode in [Calibration::Full, Calibration::Split, Calibration::Reuse] {
        for level in [0.01, 0.05, 0.2] {
            let (mut alarms, mut found, mut beyond) = (0, 0, 0);
            for draw in 0..draws {
                let all = blobs(60 + n + tested, 4, 5, 0.6, 5000 + draw);
                let (fit, calibration) = (all.range(0..60), all.range(60..60 + n));
                let test = all.range(60 + n..all.len());
                let mut elsewhere = test.clone();
                let moved = elsewhere.points.as_slice().iter().map(|value| value + 6.0).collect();
                elsewhere.points = crate::Matrix::new(moved, tested, 4).unwrap();
                let flagged = |test: &Data| {
                    let p = novelty(mode, &calibration, &fit, test, 20);
                    p.iter().filter(|&&p| p <= level).count()
                };
                let (here, there) = (flagged(&test), flagged(&elsewhere));
                alarms += here;
                found += there;
                beyond += usize::from(flagged_beyond_chance(here, tested, level, n));
                assert!(flagged_beyond_chance(there, tested, level, n), "{mode:?} {level}: {there}");
            }
            // k/(n+1) is exactly the level here, so the number of alarms of a draw is BetaBinomial(t, level·(n+1), …):
            // at 3.29 standard deviations of their mean, 99.9 % of all tests pass.
            let (a, b) = (level * (n + 1) as f64, (1.0 - level) * (n + 1) as f64);
            let (between, within) =
                (a * b / ((a + b).powi(2) * (a + b + 1.0)), a * b / ((a + b) * (a + b + 1.0)) / tested as f64);
            let band = 3.29 * ((between + within) / draws as f64).sqrt();
            let share = alarms as f64 / (draws * tested as u64) as f64;
            assert!(share <= level + band, "{mode:?}: {share} false alarms at {level}");
            // Judged without the query, calibration points seem farther away, and less is flagged.
            let least = if mode == Calibration::Reuse { 0.5 * level } else { level - band };
            assert!(share >= least, "{mode:?}: {share} false alarms at {level}");
            assert_eq!(found as u64, draws * tested as u64, "{mode:?} {level}");
            // Once in a thousand: more than four in 200 would be no chance.
            assert!(beyond <= 4, "{mode:?} {level}: {beyond} sets of points called beyond chance");
        }
    }
}
