//! Deep k-NN, CONFINE, NCP and Conf-OT against straightforward versions.

use dance::Context;
use dance::Matrix;
use dance::device::Cpu;
use dance::neighbors::Index;
use dance::numeric::random::Random;
use dance::scores::calibration::{CalibrationScores, order_index};
use dance::scores::ranked::{self, Draws, RankedScore};
use dance_bench::baselines::confine::Confine;
use dance_bench::baselines::deep_knn::DeepKnn;
use dance_bench::baselines::{conf_ot, ncp::Ncp};

/// Points around a center for every class, and their labels.
fn points(n: usize, classes: usize, d: usize, seed: u64) -> (Matrix, Vec<u32>) {
    let mut random = Random::new(seed, 5);
    let labels: Vec<u32> = (0..n).map(|_| random.below(classes) as u32).collect();
    let value = |row: usize, column: usize, noise: f64| {
        let center = dance::numeric::random::uniform_of(&[labels[row].into(), column as u64]) - 0.5;
        (center + 0.25 * noise) as f32
    };
    let values = (0..n * d).map(|at| value(at / d, at % d, random.normal())).collect();
    (Matrix::new(values, n, d).unwrap(), labels)
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum::<f64>().sqrt()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn deep_knn_is_the_share_of_other_labels() {
    let context = Context::new(2).unwrap();
    let (reference, labels) = points(90, 6, 5, 1);
    let (queries, _) = points(20, 6, 5, 2);
    let index = Index::open(&Cpu, reference.clone(), &context).unwrap();
    let neighbors = index.search(&queries, 40, &context).unwrap();
    let found = DeepKnn { neighbors: 25 }.scores(&neighbors, &labels, 6);
    for (query, scores) in found.iter().enumerate() {
        let mut order: Vec<usize> = (0..reference.rows()).collect();
        order.sort_by(|&a, &b| {
            let of = |row| distance(queries.row(query), reference.row(row));
            of(a).total_cmp(&of(b))
        });
        for label in 0..6u32 {
            let share = order[..25].iter().filter(|&&row| labels[row] != label).count() as f64 / 25.0;
            // A label that no neighbor carries is at +∞, which stands for 1.
            assert_eq!(scores[label as usize], if share == 1.0 { f64::INFINITY } else { share });
        }
    }
}

#[test]
fn confine_is_the_ratio_of_mean_distances() {
    let (reference, labels) = points(70, 5, 4, 3);
    let (k, skip): (usize, Vec<_>) = (4, (0..70u32).map(Some).collect());
    let context = Context::new(2).unwrap();
    let confine = Confine { neighbors: k };
    let found = confine.scores(&Cpu, (&reference, &labels), 5, &reference, Some(&skip), &context).unwrap();
    for query in 0..70 {
        for label in 0..5u32 {
            let nearest = |own: bool| {
                let others = (0..70).filter(|&row| row != query && (labels[row] == label) == own);
                let mut all: Vec<f64> = others.map(|row| cosine(reference.row(query), reference.row(row))).collect();
                all.sort_by(f64::total_cmp);
                all.truncate(k);
                all.iter().sum::<f64>() / all.len() as f64
            };
            let (expected, found) = (nearest(true) / nearest(false), found[query][label as usize]);
            assert!((found - expected).abs() < 1e-4 * (1.0 + expected), "{query} {label} {found} {expected}");
        }
    }
}

/// Sinkhorn as it is written down: a matrix of exponentials, its columns and rows scaled in turns.
fn sinkhorn(logits: &Matrix, labels: &[u32]) -> Vec<f64> {
    let (n, c) = (logits.rows(), logits.cols());
    let mut frequency = vec![0.0; c];
    for &label in labels {
        frequency[label as usize] += 1.0;
    }
    for count in &mut frequency {
        *count = f64::max(*count, 0.5);
    }
    let total: f64 = frequency.iter().sum();
    // One constant out of all exponents leaves every ratio as it is, and keeps them in range.
    let largest = f64::from(logits.as_slice().iter().copied().fold(f32::MIN, f32::max));
    let mut plan: Vec<f64> = logits.as_slice().iter().map(|&value| (f64::from(value) - largest).exp()).collect();
    for _ in 0..3 {
        for class in 0..c {
            let sum: f64 = (0..n).map(|row| plan[row * c + class]).sum();
            (0..n).for_each(|row| plan[row * c + class] *= frequency[class] / total / sum);
        }
        for row in plan.chunks_mut(c) {
            let sum: f64 = row.iter().sum();
            for value in row {
                *value /= sum * n as f64;
            }
        }
    }
    plan.iter().map(|value| value * n as f64).collect()
}

#[test]
fn one_bias_per_class_is_sinkhorn() {
    let (points, labels) = points(120, 9, 16, 4);
    let prototypes = Matrix::new(
        (0..9 * 16).map(|at| dance::numeric::random::uniform_of(&[at / 16, at % 16]) as f32 - 0.5).collect(),
        9,
        16,
    )
    .unwrap();
    // The last class has no calibration point.
    let labels: Vec<u32> = labels[..80].iter().map(|&label| label.min(7)).collect();
    let context = Context::new(2).unwrap();
    let logits = conf_ot::logits(&Cpu, &points, &prototypes, &context).unwrap();
    for row in 0..points.rows() {
        for class in 0..9 {
            let expected = 100.0 * (1.0 - cosine(points.row(row), prototypes.row(class)));
            assert!((f64::from(logits.row(row)[class]) - expected).abs() < 1e-3);
        }
    }
    let bias = conf_ot::biases(&logits, &labels, &context);
    let expected = sinkhorn(&logits, &labels);
    for (row, expected) in expected.chunks(9).enumerate() {
        let found = conf_ot::row_probabilities(logits.row(row), &bias);
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{row}: {found} {expected}");
        }
    }
    assert!(bias.iter().all(|value| value.is_finite()));
}

/// On real prototypes: intent names, embedded by the encoder of the points. The nearest one is right on 0.69 of them,
/// and the biases are those of Sinkhorn as it is written down.
#[test]
fn real_prototypes_are_transported_as_written_down() {
    let Some(folder) = std::env::var_os("DANCE_DATA") else {
        eprintln!("skipped: needs clinc150_minilm.npz with prototypes in the folder named by DANCE_DATA");
        return;
    };
    let path = std::path::Path::new(&folder).join("clinc150_minilm.npz");
    let data = dance::data::io::read(path, &dance::data::io::ReadOptions::default()).unwrap().into_dataset().unwrap();
    let (prototypes, context) = (data.prototypes.as_ref().unwrap(), Context::new(2).unwrap());
    let all = conf_ot::logits(&Cpu, &data.embeddings, prototypes, &context).unwrap();
    let nearest = |row: &usize| {
        let row = all.row(*row);
        (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best })
    };
    let right = (0..data.len()).filter(|row| nearest(row) == data.labels[*row] as usize).count();
    let accuracy = right as f64 / data.len() as f64;
    assert!((accuracy - 0.69).abs() < 0.005, "{accuracy}");
    // Every tenth point, the first half of them to calibrate on.
    let rows: Vec<usize> = (0..data.len()).step_by(10).collect();
    let labels: Vec<u32> = rows[..rows.len() / 2].iter().map(|&row| data.labels[row]).collect();
    let logits = all.select(&rows);
    let bias = conf_ot::biases(&logits, &labels, &context);
    for (row, expected) in sinkhorn(&logits, &labels).chunks(logits.cols()).enumerate() {
        for (found, expected) in conf_ot::row_probabilities(logits.row(row), &bias).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{row}: {found} {expected}");
        }
    }
}

/// The weighted quantile as it is written down, for one setting.
#[test]
fn ncp_thresholds_are_weighted_quantiles() {
    let context = Context::new(2).unwrap();
    let (reference, labels) = points(150, 6, 5, 6);
    let (queries, _) = points(30, 6, 5, 7);
    let (probabilities, _) = super::simulated(150, 6, 1.5, 8);
    let (query_probabilities, _) = super::simulated(30, 6, 1.5, 9);
    let index = Index::open(&Cpu, reference.clone(), &context).unwrap();
    let among = index.search_own(150, 75, &context).unwrap();
    let found = index.search(&queries, 75, &context).unwrap();
    let (seed, alpha) = (3, 0.1);
    let ncp = Ncp::new(&reference, &labels, &probabilities, among, seed, &context).unwrap();
    let setting = ncp.tune(&Cpu, alpha, &context).unwrap();
    let sets = ncp.sets(&found, &query_probabilities, setting, alpha, &context).unwrap();

    let own = ranked::ranked_labels(&probabilities, &labels, Draws::Seeded { seed, part: 0 }, &context).unwrap();
    let own = ranked::scores(setting.raps, &own);
    // Weight of the neighbors that score less, of any point and score.
    let below = |point: &[f32], skip: Option<usize>, score: f64| {
        let mut near: Vec<(f64, usize)> =
            (0..150).filter(|&row| Some(row) != skip).map(|row| (distance(point, reference.row(row)), row)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(50);
        let weight = |r: f64| (-r / setting.bandwidth).exp();
        let total: f64 = near.iter().map(|pair| weight(pair.0)).sum();
        near.iter().filter(|pair| own[pair.1] < score).map(|pair| weight(pair.0)).sum::<f64>() / total
    };
    let levels = (0..150).map(|row| below(reference.row(row), Some(row), own[row])).collect();
    let level = CalibrationScores::new(levels).unwrap().threshold(alpha).unwrap().value;
    let draws = Draws::Seeded { seed, part: 1 };
    for query in 0..30 {
        for label in 0..6u32 {
            let ranked = ranked::ranked_label(query_probabilities.row(query), label, draws.of(query));
            let score = setting.raps.score(&ranked);
            let weight = below(queries.row(query), None, score);
            if (weight - level).abs() > 1e-9 {
                assert_eq!(sets.contains(query, label), weight <= level, "{query} {label} {weight} {level}");
            }
        }
    }
    let covered = (0..150).filter(|&row| below(reference.row(row), Some(row), own[row]) <= level + 1e-12);
    assert!(covered.count() >= order_index(alpha, 150));
    assert_ne!(setting.raps, RankedScore::RAPS, "free ranks are the quantile of the ranks, plus one");
}
