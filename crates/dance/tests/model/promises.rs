//! What a model says about itself, held against points that were never drawn.

use dance::data::{RawLabels, split};
use dance::device::Cpu;
use dance::evaluation::ProbabilityMetrics;
use dance::machine::Probabilities;
use dance::numeric::random::Random;
use dance::{Config, Dance, Dataset, Fitted, Matrix, PredictOptions, Sampling, Table};

use crate::{CONTEXT, FUSE, config};

const CLASSES: usize = 40;
const DIMENSIONS: usize = 6;

/// Points of 40 classes around centers of their own; class k comes with weight 1/k.
fn long_tail(n: usize, random: &mut Random) -> Dataset {
    let weights: Vec<f64> = (1..=CLASSES).map(|rank| 1.0 / rank as f64).collect();
    let total: f64 = weights.iter().sum();
    let mut labels = Vec::new();
    let mut values = Vec::new();
    for _ in 0..n {
        let mut left = random.uniform() * total;
        let label = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let label = label.unwrap_or(CLASSES - 1);
        labels.push(label as i64);
        values.extend((0..DIMENSIONS).map(|d| {
            let center = 3.0 * dance::numeric::random::uniform_of(&[label as u64, d as u64]);
            (center + 0.5 * random.normal()) as f32
        }));
    }
    let mut table = Table::new("long tail", Matrix::new(values, n, DIMENSIONS).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers(labels));
    table.into_dataset().unwrap()
}

/// Mean and standard error.
fn summary(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

fn coverage(model: &Dance, points: &Dataset) -> f64 {
    let scored = model.score(&points.embeddings, PredictOptions::default(), &CONTEXT).unwrap();
    let sets = model.predict(&scored, &model.decide(0.1).unwrap()).sets;
    let truth = model.class_ids(points);
    let held = |row: &usize| truth[*row].is_some_and(|label| sets.contains(*row, label));
    (0..points.len()).filter(held).count() as f64 / points.len() as f64
}

/// Coverage reported on the part kept aside against coverage of new points, and the estimated share of unseen labels
/// against the real one, over many draws: parts drawn at random tell the truth, parts dealt out by class do not.
#[test]
fn what_a_fit_reports_is_what_new_points_get() {
    let mut config = config(FUSE);
    config.tune = config.tune.bandwidth((1.0, 1.0)).shape((1.0, 1.0));
    config = config.rounds(0);
    let mut random = Random::new(3, 9);
    let (mut drawn, mut dealt, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    for trial in 0..150 {
        let data = long_tail(120, &mut random);
        let fresh = long_tail(300, &mut random);
        let shares = [0.4, 0.4, 0.2];
        for sampling in [Sampling::Random, Sampling::Stratified] {
            let stratified = sampling == Sampling::Stratified;
            let parts = if stratified {
                split::stratified(&data.labels, &shares, trial).unwrap()
            } else {
                split::uniform(data.len(), &shares, trial).unwrap()
            };
            let [fit, calibration, test] = [0, 1, 2].map(|part| data.select(&parts[part]));
            let fitted = Fitted::fit(&Cpu, &fit, &config.clone().sampling(sampling), &CONTEXT).unwrap();
            let model = fitted.calibrate(&Cpu, &calibration, &CONTEXT).unwrap();
            let gap = coverage(&model, &test) - coverage(&model, &fresh);
            if stratified { &mut dealt } else { &mut drawn }.push(gap);
            if let Some((share, _)) = model.new_label_share() {
                let unknown = model.class_ids(&fresh).iter().filter(|label| label.is_none()).count();
                unseen.push(share - unknown as f64 / fresh.len() as f64);
            }
        }
    }
    let (gap, error) = summary(&drawn);
    assert!(gap.abs() < 3.3 * error, "reported - real = {gap:.4} ± {error:.4}");
    let (gap, error) = summary(&dealt);
    assert!(gap > 5.0 * error, "the test must notice: {gap:.4} ± {error:.4}");
    let (gap, error) = summary(&unseen);
    assert_eq!(unseen.len(), 150);
    assert!(gap.abs() < 3.3 * error, "unseen: estimated - real = {gap:.4} ± {error:.4}");
}

/// A probability of 0.8 is right 80 times in 100, on points that were never drawn; clamped outputs are far from it.
#[test]
fn probabilities_are_what_they_say() {
    let mut random = Random::new(4, 9);
    let errors = [Probabilities::Calibrated, Probabilities::Clamp].map(|kind| {
        let mut all = ProbabilityMetrics::default();
        for _ in 0..6 {
            let mut config = Config::default().probabilities(kind);
            config.tune.evaluations = 6;
            config = config.rounds(1);
            let fitted = Fitted::fit(&Cpu, &long_tail(500, &mut random), &config, &CONTEXT).unwrap();
            let fresh = long_tail(1500, &mut random);
            let known: Vec<usize> = (0..fresh.len())
                .filter(|&row| fitted.classes.contains(&fresh.classes[fresh.labels[row] as usize]))
                .collect();
            let fresh = fresh.select(&known);
            let id = |name: &String| fitted.classes.iter().position(|other| other == name).unwrap() as u32;
            let labels: Vec<u32> = fresh.labels.iter().map(|&label| id(&fresh.classes[label as usize])).collect();
            let classifier = fitted.classifier(&Cpu, &CONTEXT).unwrap();
            let found = classifier.classify(&fresh.embeddings, &CONTEXT).unwrap().probabilities;
            all.merge(&ProbabilityMetrics::new(&found, &labels).unwrap());
        }
        all.calibration_error()
    });
    // Some 9,000 points: chance alone gives about 0.01.
    assert!(errors[0] < 0.03 && errors[1] > 0.1, "{errors:?}");
}
