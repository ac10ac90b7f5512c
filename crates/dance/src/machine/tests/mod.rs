//! Tests of tuned fits: the metrics that they learn, the data that they refuse, and that a seed decides every result.

mod few;
mod memory;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::tune::{self, Tuned};
use super::{Classifier, OutputScale, Part, Rfm, RfmConfig, TuneConfig};
use crate::context::{Context, Event, Observer, Quality};
use crate::data::Normalizer;
use crate::device::{ClassifierHandle, Cpu, Device, FitPoints, FitSession, IndexHandle, MachineParts};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::random::Random;
use crate::numeric::{Matrix, Rows};

/// Draws `n` labelled points in `d` dimensions for tests. Only the first two dimensions depend on the class, so a
/// metric has something to learn.
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
    let context = Context::new(threads)?;
    let classes = labels.iter().max().map_or(0, |&label| label as usize + 1);
    tune::fit(&Cpu, part(points, labels), classes, &RfmConfig::default(), config, &context)
}

fn part(points: &Matrix, labels: &[u32]) -> Part {
    Part { embeddings: points.clone(), labels: labels.to_vec() }
}

/// Returns the outputs at `queries` of a machine that a test has fitted.
fn outputs(rfm: &Rfm, queries: &Matrix) -> Matrix {
    let context = Context::new(2).unwrap();
    let Rfm { metric_root: root, train, kernel, beta, .. } = rfm;
    let machine = MachineParts { root, train, kernel: *kernel, beta };
    let classifier = Cpu.open_classifier(machine, &context).unwrap();
    classifier.outputs(&classifier.map(queries, &context).unwrap(), &context).unwrap()
}

#[test]
fn learns_the_directions_that_matter() {
    let (points, labels) = problem(600, 120, 5, 1);
    let tuned = fit(2, &points, &labels, &TuneConfig::default().evaluations(15)).unwrap();
    let (test, test_labels) = problem(1000, 120, 5, 2);
    let outputs = outputs(&tuned.rfm, &test);
    // Bayes: classes 2·3·sin(36°) apart under unit noise, each with two neighbors: 1 - 2Φ(-1.763) = 0.922.
    let accuracy = Quality::of(&outputs, &test_labels).accuracy;
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
    let config = TuneConfig::default().evaluations(12).seed(9);
    let [one, two] = [1, 2].map(|threads| fit(threads, &points, &labels, &config).unwrap());
    assert_eq!(one.rfm, two.rfm);
    let settings = |tuned: &Tuned| tuned.trace.iter().map(|t| (t.bandwidth, t.shape, t.quality)).collect::<Vec<_>>();
    assert_eq!(settings(&one), settings(&two));
    let other = fit(1, &points, &labels, &config.seed(10)).unwrap();
    assert_ne!(settings(&one), settings(&other));
}

#[test]
fn a_sampled_search_confirms_on_all_points() {
    let (points, labels) = problem(500, 12, 4, 4);
    let config = TuneConfig::default().evaluations(10).search_points(Some(100)).confirm(3);
    let tuned = fit(2, &points, &labels, &config).unwrap();
    let sizes: Vec<usize> = tuned.trace.iter().map(|trial| trial.points).collect();
    assert_eq!(sizes, [vec![100; 10], vec![400; 3]].concat());
    let told = "10 kernels were tried on 100 points and evaluated on 100 others, the best 3 again on 400";
    assert!(tuned.fidelity.starts_with(told), "{}", tuned.fidelity);
    // The winner is the best of those confirmed.
    let best = tuned.trace[10..].iter().map(|trial| trial.quality.accuracy).fold(0.0, f64::max);
    assert_eq!(tuned.validation.accuracy, best);
}

#[test]
fn fixed_settings_are_fitted_without_a_search() {
    let (points, labels) = problem(200, 8, 3, 5);
    let config = TuneConfig::default().bandwidth((1.5, 1.5)).shape((1.0, 1.0)).refit(false);
    let tuned = fit(1, &points, &labels, &config).unwrap();
    assert_eq!(tuned.trace.len(), 1);
    assert!((tuned.rfm.kernel.bandwidth() - 1.5 * tuned.unit).abs() < 1e-12);
    // One coordinate alone may be fixed.
    let config = TuneConfig::default().shape((1.0, 1.0)).evaluations(11);
    assert!(fit(1, &points, &labels, &config).unwrap().trace.iter().all(|trial| trial.shape == 1.0));
}

#[test]
fn the_unit_is_the_median_distance() {
    let (points, labels) = problem(75, 5, 3, 6);
    let config = TuneConfig::default().bandwidth((1.0, 1.0)).shape((1.0, 1.0)).refit(false);
    let tuned = fit(1, &points, &labels, &config).unwrap();
    // Of the points that train, before any metric.
    let points = &tuned.rfm.train;
    assert_eq!(points.rows(), 60);
    let mut distances: Vec<f64> = Vec::new();
    for a in 0..60 {
        for b in 0..a {
            let squared = points.row(a).iter().zip(points.row(b)).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>();
            distances.push(squared.sqrt());
        }
    }
    distances.sort_by(f64::total_cmp);
    let expected = distances[distances.len() / 2];
    assert!((tuned.unit / expected - 1.0).abs() < 1e-6);
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
fn an_observer_can_interrupt() {
    let (points, labels) = problem(200, 8, 3, 8);
    let watcher = Watcher { events: Mutex::default(), stop_after: 7, asked: AtomicUsize::new(0) };
    let context = Context::new(1).unwrap();
    let context = context.with_observer(&watcher);
    let (rfm, config) = (RfmConfig::default(), TuneConfig::default());
    let result = tune::fit(&Cpu, part(&points, &labels), 3, &rfm, &config, &context);
    assert!(matches!(result, Err(Error::Interrupted)));
    let evaluated = watcher.events.lock().unwrap().iter().filter(|e| matches!(e, Event::Evaluated(_))).count();
    assert!(evaluated < 5);
}

#[test]
fn bad_settings_are_named() {
    let (points, labels) = problem(100, 5, 2, 9);
    let base = TuneConfig::default();
    for (name, config) in [
        ("evaluations", base.clone().evaluations(0)),
        ("bandwidth", base.clone().bandwidth((0.0, 1.0))),
        ("bandwidth", base.clone().bandwidth((2.0, 1.0))),
        ("shape", base.clone().shape((0.4, 1.0))),
        ("validation", base.clone().validation(1.0)),
        ("search_points", base.clone().search_points(Some(1))),
    ] {
        match fit(1, &points, &labels, &config) {
            Err(Error::Config { name: found, .. }) => assert_eq!(found, name),
            other => panic!("{name}: {:?}", other.err()),
        }
    }
    let rfm = RfmConfig { ridge: -1.0, ..RfmConfig::default() };
    let outcome = tune::fit(&Cpu, part(&points, &labels), 2, &rfm, &base, &Context::new(1).unwrap());
    assert!(matches!(outcome, Err(Error::Config { name: "ridge", .. })));
}

#[test]
fn degenerate_data_is_refused_or_answered_sensibly() {
    let quick = TuneConfig::default().evaluations(9);
    // All points identical: nothing to measure.
    let same = Matrix::new(vec![0.3; 40 * 4], 40, 4).unwrap();
    let labels: Vec<u32> = (0..40).map(|row| row % 2).collect();
    assert!(matches!(fit(1, &same, &labels, &quick), Err(Error::Data(text)) if text.contains("identical")));
    // Squares of differences past what single precision holds.
    let (mut far, _) = problem(labels.len(), 4, 3, 5);
    far.as_mut_slice().iter_mut().for_each(|value| *value *= 1e30);
    assert!(matches!(fit(1, &far, &labels, &quick), Err(Error::Data(text)) if text.contains("overflow")));
    // One class only.
    let (points, _) = problem(40, 4, 2, 1);
    assert!(matches!(fit(1, &points, &[0; 40], &quick), Err(Error::Data(text)) if text.contains("same label")));
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
    let outputs = outputs(&tuned.rfm, &points);
    assert!(outputs.as_slice().iter().all(|value| value.is_finite()));
    assert!(Quality::of(&outputs, &labels).accuracy > 0.7);
}

#[test]
fn the_best_iterate_wins_and_the_first_may() {
    // Labels by cluster in every direction alike: the identity metric is right, and the loop must be able to keep it.
    let (points, labels) = problem(240, 2, 3, 11);
    let watcher = Watcher { events: Mutex::default(), stop_after: usize::MAX, asked: AtomicUsize::new(0) };
    let context = Context::new(1).unwrap();
    let context = context.with_observer(&watcher);
    let rfm = RfmConfig { rounds: 4, patience: Some(9), ..RfmConfig::default() };
    let config = TuneConfig::default().bandwidth((1.0, 1.0)).shape((1.0, 1.0)).validation(0.25).refit(false);
    let tuned = tune::fit(&Cpu, part(&points, &labels), 3, &rfm, &config, &context).unwrap();
    let events = watcher.events.lock().unwrap();
    let rounds: Vec<(usize, Quality)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Round { round, quality, .. } => Some((*round, quality.unwrap())),
            _ => None,
        })
        .collect();
    assert!(rounds.len() > 2);
    let mut best = rounds[0];
    for &round in &rounds[1..] {
        if round.1.beats(&best.1) {
            best = round;
        }
    }
    assert_eq!((tuned.rfm.rounds, tuned.validation), best);
    // What the machine says of the validation points, the rows that it does not keep, is what it was judged by.
    assert_eq!(tuned.rows.iter().map(|&row| labels[row]).collect::<Vec<_>>(), tuned.rfm.labels);
    let held_out: Vec<usize> = (0..240).filter(|row| !tuned.rows.contains(row)).collect();
    assert_eq!(held_out.len(), 60);
    let outputs = outputs(&tuned.rfm, &points.select(&held_out));
    let truth: Vec<u32> = held_out.iter().map(|&row| labels[row]).collect();
    assert_eq!(Quality::of(&outputs, &truth).accuracy, best.1.accuracy);
}

fn largest_of(outputs: &Matrix) -> Vec<u32> {
    let largest = |row: &[f32]| (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best });
    (0..outputs.rows()).map(|row| largest(outputs.row(row)) as u32).collect()
}

/// A row is mapped and classified alike in every batch. The points have many dimensions and classes, and the last tile
/// of a product has one row.
#[test]
fn a_row_is_mapped_and_classified_the_same_in_every_batch() {
    let (d, n, classes) = (768, 70, 40);
    let mut random = Random::new(3, 3);
    let mut matrix = |rows: usize, cols: usize| {
        Matrix::new((0..rows * cols).map(|_| random.normal() as f32 / 28.0).collect(), rows, cols).unwrap()
    };
    let rfm = Rfm {
        kernel: Kernel::new(2.0, 1.0).unwrap(),
        metric_root: matrix(d, d),
        train: matrix(n, d),
        labels: (0..n as u32).map(|row| row % classes as u32).collect(),
        beta: matrix(n, classes),
        rounds: 1,
    };
    let queries = matrix(2049, d);
    let (scale, context) = (OutputScale::clamp(1e-3), Context::new(2).unwrap());
    let classifier = Classifier::open(&Cpu, &rfm, &Normalizer::None, scale, &context).unwrap();
    let mapped = classifier.transform(&queries, &context).unwrap();
    let classified = classifier.classify(&queries, &context).unwrap();
    for rows in [1, 2, 17, 65, 129, 1025, 2049] {
        let some = Rows::new(&queries.as_slice()[(2049 - rows) * d..], d);
        let last: Vec<usize> = (2049 - rows..2049).collect();
        assert_eq!(classifier.transform(some, &context).unwrap(), mapped.select(&last), "{rows}");
        let found = classifier.classify(some, &context).unwrap().probabilities;
        assert_eq!(found, classified.probabilities.select(&last), "{rows}");
    }
}
