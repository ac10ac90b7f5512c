//! What to label next, and what those labels may be used for.

use dance::data::RawLabels;
use dance::device::Cpu;
use dance::model::SelectOptions;
use dance::numeric::random::Random;
use dance::{Dance, Dataset, Fitted, Matrix, PredictOptions, Sampling, Table};

use crate::{CONTEXT, FUSE, config};

/// Six classes: three far from everything, three on top of each other.
fn points(n: usize, random: &mut Random) -> Dataset {
    let labels: Vec<i64> = (0..n).map(|_| random.below(6) as i64).collect();
    let values = labels.iter().flat_map(|&label| {
        let center = |at: i64| if label == at { 6.0 } else { 0.0 };
        let shift = if label >= 3 { 0.7 * (label - 4) as f64 } else { 0.0 };
        let at = [center(0), center(1), center(2), 2.0 + shift];
        at.map(|at| (at + random.normal()) as f32)
    });
    let mut table = Table::new("points", Matrix::new(values.collect(), n, 4).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers(labels));
    table.into_dataset().unwrap()
}

fn small() -> dance::Config {
    let mut config = config(FUSE);
    config.normalize = dance::data::Normalize::None;
    config.tune.evaluations = 1;
    config = config.rounds(1);
    config
}

fn model(random: &mut Random) -> Dance {
    let fitted = Fitted::fit(&Cpu, &points(120, random), &small(), &CONTEXT).unwrap();
    fitted.calibrate(&Cpu, &points(80, random), &CONTEXT).unwrap()
}

fn coverage(model: &Dance, test: &Dataset) -> f64 {
    let scored = model.score(&test.embeddings, PredictOptions::default(), &CONTEXT).unwrap();
    let sets = model.predict(&scored, &model.decide(0.1).unwrap()).sets;
    let truth = model.class_ids(test);
    let held = |row: &usize| truth[*row].is_some_and(|label| sets.contains(*row, label));
    (0..test.len()).filter(held).count() as f64 / test.len() as f64
}

#[test]
fn random_points_calibrate_and_picked_ones_must_not() {
    let mut random = Random::new(11, 2);
    let model = model(&mut random);
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for seed in 0..20 {
        let (pool, test) = (points(800, &mut random), points(1500, &mut random));
        let options = SelectOptions { picked: 300, random: 150, seed };
        let chosen = model.select(&Cpu, &pool.embeddings, options, &CONTEXT).unwrap();
        assert_eq!((chosen.picked.len(), chosen.random.len(), chosen.seen), (300, 150, 0));
        assert!(chosen.random.iter().all(|row| !chosen.picked.contains(row)));
        // What the model is unsure of: the classes on top of each other.
        let hard = chosen.picked.iter().filter(|&&row| pool.labels[row] >= 3).count();
        assert!(hard * 4 > 300 * 3, "{hard} of 300 picked points are hard");
        let left: Vec<usize> = (0..pool.len()).filter(|row| !chosen.picked.contains(row)).collect();
        for (place, rows) in [&chosen.random, &chosen.picked, &left].into_iter().enumerate() {
            let other = model.recalibrate(&Cpu, &pool.select(rows), Sampling::Random, None, &CONTEXT).unwrap();
            all[place].push(coverage(&other, &test));
        }
    }
    let summary = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, (variance / n).sqrt())
    };
    let [(drawn, error), (picked, _), (left, _)] = all.each_ref().map(|values| summary(values));
    // Exact: between 1 - alpha and that plus 1/(n+1), and four standard errors of these draws.
    assert!(drawn > 0.9 - 4.0 * error && drawn < 0.907 + 4.0 * error, "{drawn} ± {error}");
    assert!(picked > 0.93, "calibrated on picked points: {picked}");
    assert!(left < 0.87, "calibrated on what picking left: {left}");
}

#[test]
fn points_that_were_picked_are_refused_as_calibration_points_and_may_fit() {
    let mut random = Random::new(5, 2);
    let mut data = points(120, &mut random);
    data.picked = Some((0..120).map(|row| row % 10 == 0).collect());
    let fitted = Fitted::fit(&Cpu, &data, &small(), &CONTEXT).unwrap();
    let mut more = points(80, &mut random);
    more.picked = Some((0..80).map(|row| row == 7).collect());
    let refused = fitted.clone().calibrate(&Cpu, &more, &CONTEXT).unwrap_err().to_string();
    assert!(refused.contains("1 of the 80 calibration points were picked"), "{refused}");
    let (picked, drawn) = more.by_provenance();
    assert_eq!((picked, drawn.len()), (vec![7], 79));
    fitted.calibrate(&Cpu, &more.select(&drawn), &CONTEXT).unwrap();
}

#[test]
fn what_the_model_has_seen_is_not_chosen() {
    let mut random = Random::new(6, 2);
    // Wide enough that a point is known again.
    let wide = |n: usize, random: &mut Random| {
        let values = (0..n * 20).map(|_| random.normal() as f32).collect();
        let mut table = Table::new("wide", Matrix::new(values, n, 20).unwrap()).unwrap();
        table.labels = Some(RawLabels::Integers((0..n as i64).map(|row| row % 2).collect()));
        table.into_dataset().unwrap()
    };
    let (fit, calibration, fresh) = (wide(40, &mut random), wide(40, &mut random), wide(30, &mut random));
    let fitted = Fitted::fit(&Cpu, &fit, &small(), &CONTEXT).unwrap();
    let model = fitted.calibrate(&Cpu, &calibration, &CONTEXT).unwrap();
    let mut pool = fit.embeddings.clone();
    pool.append(&calibration.embeddings).unwrap();
    pool.append(&fresh.embeddings).unwrap();
    let options = SelectOptions { picked: 20, random: 10, seed: 3 };
    let chosen = model.select(&Cpu, &pool, options, &CONTEXT).unwrap();
    assert_eq!(chosen.seen, 80);
    let mut rows = [chosen.picked, chosen.random].concat();
    rows.sort_unstable();
    assert_eq!(rows, (80..110).collect::<Vec<_>>());
    let more = SelectOptions { picked: 31, ..SelectOptions::default() };
    let refused = model.select(&Cpu, &pool, more, &CONTEXT).unwrap_err().to_string();
    assert!(refused.contains("the pool has 30 that the model has not seen"), "{refused}");
}
