//! Tests that neighbors, scores, thresholds and sets equal those of a brute-force reference, on random and on
//! adversarial data.

use crate::Context;
use crate::Matrix;
use crate::conformal::{Calibration, ConformalConfig, Mix, Predictor, Setup};
use crate::device::Cpu;
use crate::kernel::Kernel;
use crate::machine::Classified;
use crate::method::Method;
use crate::neighbors::Index;

use super::calibrated::{part, score};
use super::reference::{self, Data, Settings, blobs, lattice};

/// Returns the data sets on which the library is compared with the reference, by name. Each holds at least 60 points.
fn data_sets() -> Vec<(&'static str, Data)> {
    let mut far = blobs(150, 6, 4, 0.5, 3);
    for value in far.points.as_mut_slice() {
        *value += 1000.0;
    }
    let few = blobs(50, 5, 4, 0.6, 4);
    let copies: Vec<usize> = (0..150).map(|at| at * 7 % 50).collect();
    let mut identical = blobs(80, 3, 3, 0.5, 5);
    identical.points = Matrix::new(vec![1.25; 80 * 3], 80, 3).unwrap();
    vec![
        ("blobs", blobs(200, 8, 5, 0.6, 1)),
        ("one dimension", blobs(120, 1, 3, 0.4, 2)),
        ("far from the origin", far),
        ("every point three times", few.select(&copies)),
        ("all points the same", identical),
        ("lattice", lattice(160, 3, 6, 3, 6)),
        ("wide lattice", lattice(160, 17, 30, 2, 7)),
    ]
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-300
}

#[test]
fn neighbors_agree() {
    let context = Context::new(2).unwrap();
    for (name, data) in data_sets() {
        let index = Index::open(&Cpu, data.points.clone(), &context).unwrap();
        let itself: Vec<_> = (0..data.len() as u32).map(Some).collect();
        for k in [1, 7, 100, 1000] {
            for skip in [None, Some(&itself[..])] {
                let found = index.search_without(&data.points, k, skip, &context).unwrap();
                for query in 0..data.len() {
                    let expected = reference::neighbors(&data.points, data.points.row(query), skip.map(|_| query), k);
                    let ids: Vec<usize> = found.ids(query).iter().map(|&id| id as usize).collect();
                    assert_eq!(ids, expected.iter().map(|pair| pair.1).collect::<Vec<_>>(), "{name} {k} {query}");
                    let pairs = found.squared(query).iter().zip(&expected);
                    assert!(pairs.clone().all(|(a, b)| close(*a, b.0)), "{name} {k} {query}");
                }
            }
        }
    }
}

#[test]
fn neighbors_agree_where_products_overflow_or_vanish() {
    let context = Context::new(1).unwrap();
    for factor in [1e25f32, 1e19, 1e-22, 1e-30] {
        let mut data = blobs(90, 4, 3, 0.5, 8);
        data.points.as_mut_slice().iter_mut().for_each(|value| *value *= factor);
        let index = Index::open(&Cpu, data.points.clone(), &context).unwrap();
        let found = index.search(&data.points, 9, &context).unwrap();
        for query in 0..data.len() {
            let expected = reference::neighbors(&data.points, data.points.row(query), None, 9);
            let ids: Vec<usize> = found.ids(query).iter().map(|&id| id as usize).collect();
            assert_eq!(ids, expected.iter().map(|pair| pair.1).collect::<Vec<_>>(), "{factor} {query}");
        }
    }
}

/// Neighbors agree on a reference so large that the search works in many tiles. Only some queries are checked.
#[test]
fn neighbors_agree_across_tiles() {
    let data = blobs(5000, 33, 10, 1.0, 9);
    let queries = blobs(700, 33, 10, 1.0, 10);
    let context = Context::new(2).unwrap();
    let index = Index::open(&Cpu, data.points, &context).unwrap();
    let found = index.search(&queries.points, 100, &context).unwrap();
    for query in (0..700).step_by(13) {
        let expected = reference::neighbors(index.points(), queries.points.row(query), None, 100);
        let ids: Vec<usize> = found.ids(query).iter().map(|&id| id as usize).collect();
        assert_eq!(ids, expected.iter().map(|pair| pair.1).collect::<Vec<_>>());
    }
}

struct Case {
    settings: Settings,
    config: ConformalConfig,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (rank_neighbors, contrast_neighbors) in [(10, 5), (5, 12), (1, 1), (500, 500)] {
        for (bandwidth, shape) in [(1.5, 1.0), (0.2, 0.5), (20.0, 1.7)] {
            let settings = Settings { rank_neighbors, contrast_neighbors, temperature: 0.01, bandwidth, shape };
            let config = ConformalConfig::paper().rank_neighbors(rank_neighbors).contrast_neighbors(contrast_neighbors);
            cases.push(Case { settings, config });
        }
    }
    cases
}

/// Returns the expected rank and contrastive scores of every class for every query. If `itself` is true, the queries
/// are the points of `data`, and no point is its own neighbor.
fn all_scores(data: &Data, queries: &Data, itself: bool, classes: usize, s: Settings) -> Vec<(Vec<f64>, Vec<f64>)> {
    (0..queries.len())
        .map(|row| {
            let (query, skip) = (queries.points.row(row), itself.then_some(row));
            (
                reference::rank_scores(data, query, skip, classes, s),
                reference::contrast_scores(data, query, skip, classes, s),
            )
        })
        .collect()
}

fn true_scores(scores: &[(Vec<f64>, Vec<f64>)], labels: &[u32]) -> (Vec<f64>, Vec<f64>) {
    scores.iter().zip(labels).map(|((rank, contrast), &y)| (rank[y as usize], contrast[y as usize])).unzip()
}

#[test]
fn scores_thresholds_and_sets_agree() {
    let context = Context::new(2).unwrap();
    // Two classes more than the data has: they are absent from every reference.
    for (name, data) in data_sets() {
        let classes = *data.labels.iter().max().unwrap() as usize + 3;
        let n = data.len();
        let (fit, calibration, test) = (data.range(0..n / 3), data.range(n / 3..n - 20), data.range(n - 20..n));
        for case in cases() {
            let kernel = Kernel::new(case.settings.bandwidth, case.settings.shape).unwrap();
            for mode in [Calibration::Reuse, Calibration::Split] {
                let reuse = mode == Calibration::Reuse;
                let source = if reuse { &calibration } else { &fit };
                for (mix, mix_tenths) in [(0.0, 0), (0.3, 3), (1.0, 10)] {
                    let config = case.config.with_calibration(mode).mix(Mix::Fixed(mix));
                    let setup = Setup { device: &Cpu, classes, kernel, context: &context };
                    let Method::Dance(method) = config.method().unwrap() else { panic!("dance") };
                    let calibrated = Predictor::dance(method, part(&calibration), || Ok(part(&fit)), setup).unwrap();
                    let none = || Ok(Classified::default());
                    let answers = score(&calibrated, &context, &test.points, &none);
                    let expected = all_scores(source, &test, false, classes, case.settings);
                    for (query, (rank, contrast)) in expected.iter().enumerate() {
                        for class in 0..classes {
                            let (r, c) = answers.neighbor_scores(query, class as u32).unwrap();
                            assert_eq!(r, rank[class], "{name}");
                            assert!(close(c, contrast[class]), "{name} {c} {}", contrast[class]);
                        }
                    }
                    let own = all_scores(source, &calibration, reuse, classes, case.settings);
                    let (rank, contrast) = true_scores(&own, &calibration.labels);
                    for thousandths in [10, 50, 100, 200, 500] {
                        let ours = calibrated.decide(thousandths as f64 / 1000.0, Mix::Auto).unwrap();
                        // In units of 1/10000, so that shares of the mix are whole numbers.
                        let share = |part: usize, scores: &[f64]| reference::threshold(scores, thousandths * part);
                        let (q_rank, q_contrast) = (share(10 - mix_tenths, &rank), share(mix_tenths, &contrast));
                        let [ours_rank, ours_contrast] = ours.thresholds.unwrap();
                        assert_eq!(ours_rank.value, q_rank, "{name} {thousandths}");
                        assert!(close(ours_contrast.value, q_contrast), "{name} {thousandths}");
                        let sets = answers.counts.sets(ours.cut, classes);
                        for (query, (rank, contrast)) in expected.iter().enumerate() {
                            let expected = reference::set(rank, contrast, q_rank, q_contrast);
                            assert_eq!(sets.get(query), expected, "{name} {mode:?} {mix} {thousandths}");
                        }
                    }
                }
            }
        }
    }
}

/// The mix that is selected with reuse is the best one by brute force over the same 80/20 split. The thresholds are
/// those of all calibration points.
#[test]
fn the_selected_mix_agrees() {
    let context = Context::new(2).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let data = blobs(160, 4, 6, 0.75, 100 + seed);
        let (classes, n) = (6, data.len());
        let settings =
            Settings { rank_neighbors: 30, contrast_neighbors: 15, temperature: 0.01, bandwidth: 8.0, shape: 1.0 };
        let config = ConformalConfig::paper().rank_neighbors(30).contrast_neighbors(15).seed(seed);
        let kernel = Kernel::new(settings.bandwidth, settings.shape).unwrap();
        let setup = Setup { device: &Cpu, classes, kernel, context: &context };
        let Method::Dance(method) = config.method().unwrap() else { panic!("dance") };
        let calibrated = Predictor::dance(method, part(&data), || panic!("reuse"), setup).unwrap();

        // The brute force measures every mix of the grid on the same split.
        let (given, judged) = parts_of(&data, seed);
        assert_eq!(given.len() + judged.len(), n);
        let (given, judged) = (data.select(&given), data.select(&judged));
        let (rank, contrast) = true_scores(&all_scores(&given, &given, true, classes, settings), &given.labels);
        let scores = all_scores(&given, &judged, false, classes, settings);
        for thousandths in [50, 100, 200] {
            let alpha = thousandths as f64 / 1000.0;
            let columns: Vec<(f64, f64)> = (0..=10)
                .map(|tenths| {
                    let q_rank = reference::threshold(&rank, thousandths * (10 - tenths));
                    let q_contrast = reference::threshold(&contrast, thousandths * tenths);
                    size_and_violation(&scores, &judged.labels, classes, alpha, q_rank, q_contrast)
                })
                .collect();
            let objective = |at: usize| 0.8 * z(&columns, at, |c| c.0) + 0.2 * z(&columns, at, |c| c.1);
            let mut best = 0;
            for at in 1..=10 {
                if objective(at) < objective(best) - 1e-9 {
                    best = at;
                }
            }
            let ours = calibrated.decide(alpha, Mix::Auto).unwrap();
            assert_eq!(ours.mix.unwrap(), best as f64 / 10.0, "seed {seed} alpha {alpha}");
            seen.insert(best);
            let (rank, contrast) = true_scores(&all_scores(&data, &data, true, classes, settings), &data.labels);
            let [ours_rank, ours_contrast] = ours.thresholds.unwrap();
            assert_eq!(ours_rank.value, reference::threshold(&rank, thousandths * (10 - best)));
            assert!(close(ours_contrast.value, reference::threshold(&contrast, thousandths * best)));
        }
    }
    assert!(seen.len() > 2, "the test should see several mixes, not {seen:?}");
}

/// Returns the expected 80/20 split for the selection of a mix. The library splits the points in the order of their
/// coordinates, with classes numbered as they appear.
fn parts_of(data: &Data, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..data.len()).collect();
    order.sort_by(|&a, &b| data.points.row(a).partial_cmp(data.points.row(b)).unwrap());
    let mut names = Vec::new();
    let labels: Vec<u32> = order
        .iter()
        .map(|&row| {
            let label = data.labels[row];
            names.iter().position(|&name| name == label).unwrap_or_else(|| {
                names.push(label);
                names.len() - 1
            }) as u32
        })
        .collect();
    let parts = crate::data::split::stratified(&labels, &[0.8, 0.2], seed).unwrap();
    let sorted = |part: &Vec<usize>| {
        let mut rows: Vec<usize> = part.iter().map(|&place| order[place]).collect();
        rows.sort_unstable();
        rows
    };
    (sorted(&parts[0]), sorted(&parts[1]))
}

fn size_and_violation(
    scores: &[(Vec<f64>, Vec<f64>)],
    labels: &[u32],
    classes: usize,
    alpha: f64,
    q_rank: f64,
    q_contrast: f64,
) -> (f64, f64) {
    let sets: Vec<Vec<u32>> =
        scores.iter().map(|(rank, contrast)| reference::set(rank, contrast, q_rank, q_contrast)).collect();
    let size = sets.iter().map(Vec::len).sum::<usize>() as f64 / sets.len() as f64;
    let gaps: Vec<f64> = (0..classes as u32)
        .filter_map(|class| {
            let rows: Vec<usize> = (0..labels.len()).filter(|&row| labels[row] == class).collect();
            let hits = rows.iter().filter(|&&row| sets[row].contains(&class)).count();
            (!rows.is_empty()).then(|| (hits as f64 / rows.len() as f64 - (1.0 - alpha)).abs())
        })
        .collect();
    (size, 100.0 * gaps.iter().sum::<f64>() / gaps.len() as f64)
}

fn z(columns: &[(f64, f64)], at: usize, value: impl Fn(&(f64, f64)) -> f64) -> f64 {
    let n = columns.len() as f64;
    let mean = columns.iter().map(&value).sum::<f64>() / n;
    let deviation = (columns.iter().map(|c| (value(c) - mean).powi(2)).sum::<f64>() / n).sqrt();
    if deviation < 1e-10 { 0.0 } else { (value(&columns[at]) - mean) / deviation }
}
