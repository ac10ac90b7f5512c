//! Tuned fits: what they learn, what they refuse, and that a seed decides everything.

#![allow(clippy::unwrap_used)] // tests may; clippy's own exemption misses helper functions

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dance::backend::{Backend, Cpu, FitPoints};
use dance::kernel::Kernel;
use dance::observe::{Event, Observer, Silent};
use dance::random::Random;
use dance::rfm::{Rfm, RfmConfig, Score, probabilities};
use dance::tune::{self, TuneConfig, Tuned};
use dance::{Error, Matrix, Result};

/// Two informative directions among `d`: the metric has something to learn.
fn problem(n: usize, d: usize, classes: usize, seed: u64) -> (Matrix, Vec<u32>) {
    let mut random = Random::new(seed, 3);
    let labels: Vec<u32> = (0..n).map(|row| (row % classes) as u32).collect();
    let mut points = Matrix::zeros(n, d);
    for (row, &label) in labels.iter().enumerate() {
        let angle = f64::from(label) / classes as f64 * std::f64::consts::TAU;
        for (column, value) in points.row_mut(row).iter_mut().enumerate() {
            let signal = [3.0 * angle.cos(), 3.0 * angle.sin()].get(column).copied().unwrap_or(0.0);
            *value = (signal + random.normal()) as f32;
        }
    }
    (points, labels)
}

fn fit(threads: usize, points: &Matrix, labels: &[u32], config: &TuneConfig) -> Result<Tuned> {
    let cpu = Cpu::new(threads)?;
    let classes = labels.iter().max().map_or(0, |&label| label as usize + 1);
    tune::fit(&cpu, points, labels, classes, &RfmConfig::default(), config, &Silent)
}

#[test]
fn learns_the_directions_that_matter() {
    let (points, labels) = problem(600, 120, 5, 1);
    let tuned = fit(2, &points, &labels, &TuneConfig { evaluations: 15, ..TuneConfig::default() }).unwrap();
    let (test, test_labels) = problem(1000, 120, 5, 2);
    let outputs = tuned.rfm.outputs(&Cpu::new(2).unwrap(), &test).unwrap();
    // Bayes: classes 2·3·sin(36°) apart under unit noise, each with two neighbors: 1 - 2Φ(-1.763) = 0.922.
    let accuracy = Score::of(&outputs, &test_labels).accuracy;
    assert!(accuracy > 0.86, "{accuracy}");
    assert!(tuned.rfm.rounds > 0);
    // The metric's weight on the two informative directions, against the others.
    let root = &tuned.rfm.metric_root;
    let weight = |k: usize| root.row(k).iter().map(|value| value * value).sum::<f32>();
    let others = (2..120).map(weight).fold(0.0, f32::max);
    assert!(weight(0) > 4.0 * others && weight(1) > 4.0 * others);
    assert_eq!(tuned.rfm.train.rows(), 600, "the refit takes training and validation points");
    assert_eq!(tuned.trace.len(), 15);
}

#[test]
fn a_seed_decides_everything_and_threads_nothing() {
    let (points, labels) = problem(300, 12, 4, 3);
    let config = TuneConfig { evaluations: 12, seed: 9, ..TuneConfig::default() };
    let [one, two] = [1, 2].map(|threads| fit(threads, &points, &labels, &config).unwrap());
    assert_eq!(one.rfm, two.rfm);
    let settings =
        |tuned: &Tuned| tuned.trace.iter().map(|t| (t.bandwidth, t.shape, t.score)).collect::<Vec<_>>();
    assert_eq!(settings(&one), settings(&two));
    let other = fit(1, &points, &labels, &TuneConfig { seed: 10, ..config }).unwrap();
    assert_ne!(settings(&one), settings(&other));
}

#[test]
fn a_sampled_search_confirms_on_all_points() {
    let (points, labels) = problem(500, 12, 4, 4);
    let config =
        TuneConfig { evaluations: 10, search_points: Some(100), confirm: 3, ..TuneConfig::default() };
    let tuned = fit(2, &points, &labels, &config).unwrap();
    let sizes: Vec<usize> = tuned.trace.iter().map(|trial| trial.points).collect();
    assert_eq!(sizes, [vec![100; 10], vec![400; 3]].concat());
    assert!(tuned.fidelity.contains("10 settings on 100 of 400 training points"), "{}", tuned.fidelity);
    // The winner is the best of those confirmed.
    let best = tuned.trace[10..].iter().map(|trial| trial.score.accuracy).fold(0.0, f64::max);
    assert_eq!(tuned.validation.accuracy, best);
}

#[test]
fn fixed_settings_are_fitted_without_a_search() {
    let (points, labels) = problem(200, 8, 3, 5);
    let config =
        TuneConfig { bandwidth: (1.5, 1.5), shape: (1.0, 1.0), refit: false, ..TuneConfig::default() };
    let tuned = fit(1, &points, &labels, &config).unwrap();
    assert_eq!(tuned.trace.len(), 1);
    assert!((tuned.rfm.kernel.bandwidth() - 1.5 * tuned.unit).abs() < 1e-12);
    // One coordinate alone may be fixed.
    let config = TuneConfig { shape: (1.0, 1.0), evaluations: 11, ..TuneConfig::default() };
    assert!(fit(1, &points, &labels, &config).unwrap().trace.iter().all(|trial| trial.shape == 1.0));
}

#[test]
fn the_unit_is_the_median_distance() {
    let (points, _) = problem(60, 5, 2, 6);
    let mut distances: Vec<f64> = Vec::new();
    for a in 0..60 {
        for b in 0..a {
            let squared =
                points.row(a).iter().zip(points.row(b)).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>();
            distances.push(squared.sqrt());
        }
    }
    distances.sort_by(f64::total_cmp);
    let expected = distances[distances.len() / 2];
    assert!((Cpu::new(1).unwrap().median_distance(&points) / expected - 1.0).abs() < 1e-6);
}

#[test]
fn probabilities_are_clamped_and_normalised() {
    let outputs = Matrix::new(vec![-0.5, 0.2, 1.4, 0.0], 1, 4).unwrap();
    let found = probabilities(outputs, 0.01);
    let sum = 0.01 + 0.2 + 0.99 + 0.01;
    for (found, expected) in found.row(0).iter().zip([0.01, 0.2, 0.99, 0.01]) {
        assert!((f64::from(*found) - expected / sum).abs() < 1e-7);
    }
}

struct Watcher {
    events: Mutex<Vec<Event>>,
    stop_after: usize,
    asked: AtomicUsize,
}

impl Observer for Watcher {
    fn notice(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
    }

    fn interrupted(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.stop_after
    }
}

#[test]
fn memory_is_said_before_it_is_taken_and_refused_above_the_limit() {
    let (points, labels) = problem(400, 8, 3, 7);
    let cpu = Cpu::new(1).unwrap();
    let watcher = Watcher { events: Mutex::default(), stop_after: usize::MAX, asked: AtomicUsize::new(0) };
    let config = TuneConfig { evaluations: 2, memory: Some(1 << 20), ..TuneConfig::default() };
    let result = tune::fit(&cpu, &points, &labels, 3, &RfmConfig::default(), &config, &watcher);
    let Err(error @ Error::Memory { needed, limit, .. }) = result else { panic!("{:?}", result.is_ok()) };
    assert!(needed > limit && limit == 1 << 20);
    assert!(needed >= 3 * 4 * 320 * 320, "at least three n×n matrices of f32");
    assert!(error.to_string().contains("would fit in 1.0 MiB"), "{error}");
    assert_eq!(*watcher.events.lock().unwrap(), [Event::Memory { bytes: needed }]);
    let enough = TuneConfig { memory: Some(needed), ..config };
    assert!(tune::fit(&cpu, &points, &labels, 3, &RfmConfig::default(), &enough, &watcher).is_ok());
}

#[test]
fn an_observer_can_interrupt() {
    let (points, labels) = problem(200, 8, 3, 8);
    let watcher = Watcher { events: Mutex::default(), stop_after: 7, asked: AtomicUsize::new(0) };
    let cpu = Cpu::new(1).unwrap();
    let result =
        tune::fit(&cpu, &points, &labels, 3, &RfmConfig::default(), &TuneConfig::default(), &watcher);
    assert!(matches!(result, Err(Error::Interrupted)));
    let evaluated =
        watcher.events.lock().unwrap().iter().filter(|e| matches!(e, Event::Evaluated(_))).count();
    assert!(evaluated < 5);
}

#[test]
fn bad_settings_are_named() {
    let (points, labels) = problem(100, 5, 2, 9);
    let base = TuneConfig::default();
    for (name, config) in [
        ("evaluations", TuneConfig { evaluations: 0, ..base.clone() }),
        ("bandwidth", TuneConfig { bandwidth: (0.0, 1.0), ..base.clone() }),
        ("bandwidth", TuneConfig { bandwidth: (2.0, 1.0), ..base.clone() }),
        ("shape", TuneConfig { shape: (0.4, 1.0), ..base.clone() }),
        ("validation", TuneConfig { validation: 1.0, ..base.clone() }),
        ("search_points", TuneConfig { search_points: Some(1), ..base.clone() }),
    ] {
        match fit(1, &points, &labels, &config) {
            Err(Error::Config { name: found, .. }) => assert_eq!(found, name),
            other => panic!("{name}: {:?}", other.err()),
        }
    }
    let cpu = Cpu::new(1).unwrap();
    let rfm = RfmConfig { ridge: -1.0, ..RfmConfig::default() };
    assert!(matches!(
        tune::fit(&cpu, &points, &labels, 2, &rfm, &base, &Silent),
        Err(Error::Config { name: "ridge", .. })
    ));
}

#[test]
fn degenerate_data_is_refused_or_answered_sensibly() {
    let quick = TuneConfig { evaluations: 9, ..TuneConfig::default() };
    // All points identical: nothing to measure.
    let same = Matrix::new(vec![0.3; 40 * 4], 40, 4).unwrap();
    let labels: Vec<u32> = (0..40).map(|row| row % 2).collect();
    assert!(matches!(fit(1, &same, &labels, &quick), Err(Error::Data(text)) if text.contains("identical")));
    // One class only.
    let (points, _) = problem(40, 4, 2, 1);
    assert!(
        matches!(fit(1, &points, &[0; 40], &quick), Err(Error::Data(text)) if text.contains("same label"))
    );
    // A class with a single point, a constant column, duplicates with different labels: fitted all the same.
    let (mut points, mut labels) = problem(61, 4, 2, 2);
    labels[60] = 2;
    for row in 0..61 {
        points.row_mut(row)[3] = 7.0;
    }
    for row in 0..10 {
        let copy = points.row(row).to_vec();
        points.row_mut(row + 11).copy_from_slice(&copy);
    }
    let tuned = fit(1, &points, &labels, &quick).unwrap();
    let outputs = tuned.rfm.outputs(&Cpu::new(1).unwrap(), &points).unwrap();
    assert!(outputs.as_slice().iter().all(|value| value.is_finite()));
    assert!(Score::of(&outputs, &labels).accuracy > 0.7);
}

#[test]
fn the_best_iterate_wins_and_the_first_may() {
    // Labels by cluster in every direction alike: the identity metric is right, and the loop must be able to keep it.
    let (points, labels) = problem(240, 2, 3, 11);
    let held_out: Vec<usize> = (0..60).collect();
    let train: Vec<usize> = (60..240).collect();
    let (train_points, held_out_points) = (points.select(&train), points.select(&held_out));
    let pick = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
    let fit_points =
        FitPoints { train: &train_points, labels: &pick(&train), classes: 3, held_out: &held_out_points };
    let cpu = Cpu::new(1).unwrap();
    let watcher = Watcher { events: Mutex::default(), stop_after: usize::MAX, asked: AtomicUsize::new(0) };
    let kernel = Kernel::new(2.0, 1.0).unwrap();
    let config = RfmConfig { rounds: 4, ..RfmConfig::default() };
    let (rfm, score) = Rfm::fit(&cpu, fit_points, &pick(&held_out), kernel, &config, &watcher).unwrap();
    let events = watcher.events.lock().unwrap();
    let rounds: Vec<(usize, Score)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Round(round) => Some((round.round, round.score.unwrap())),
            _ => None,
        })
        .collect();
    let mut best = rounds[0];
    for &round in &rounds[1..] {
        if round.1.beats(&best.1) {
            best = round;
        }
    }
    assert_eq!((rfm.rounds, score.unwrap()), best);
    // What the machine says of the held-out points is what it was judged by.
    let outputs = rfm.outputs(&cpu, &held_out_points).unwrap();
    assert_eq!(Score::of(&outputs, &pick(&held_out)).accuracy, best.1.accuracy);
}
