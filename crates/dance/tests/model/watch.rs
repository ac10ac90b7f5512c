//! Streams, shifted labels and groups, without the binary: alarms come when something changes, and promises hold.

use dance::data::{RawLabels, split};
use dance::device::Cpu;
use dance::model::Monitor;
use dance::numeric::random::Random;
use dance::{Dance, Dataset, Fitted, Matrix, PredictOptions, Table};

use crate::{CONTEXT, FUSE, POSTERIOR, POSTERIOR_SPLIT, config};

const CLASSES: usize = 4;

/// Points around four centers; class k comes with weight `weights[k]`, and every point is moved by `shift`.
fn points(n: usize, weights: [f64; CLASSES], shift: f32, random: &mut Random) -> Dataset {
    let total: f64 = weights.iter().sum();
    let (mut labels, mut values) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let mut left = random.uniform() * total;
        let label = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let label = label.unwrap_or(CLASSES - 1);
        labels.push(label as i64);
        values.extend((0..5).map(|at| {
            let center = if at == label { 2.0 } else { 0.0 };
            (center + 0.7 * random.normal()) as f32 + if at == 4 { 1.0 + shift } else { 0.0 }
        }));
    }
    let mut table = Table::new("points", Matrix::new(values, n, 5).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers(labels));
    table.into_dataset().unwrap()
}

const EVEN: [f64; CLASSES] = [1.0; CLASSES];

fn model(way: crate::Way, random: &mut Random) -> Dance {
    let fitted = Fitted::fit(&Cpu, &points(120, EVEN, 0.0, random), &config(way), &CONTEXT).unwrap();
    fitted.calibrate(&Cpu, &points(150, EVEN, 0.0, random), &CONTEXT).unwrap()
}

/// No alarm in a stream like the calibration points; one for moved points, one for labels that no longer follow from points.
/// A run that is cut in two and resumed gives the same alarms as one that is not.
#[test]
fn a_monitor_finds_the_change_and_resumes() {
    let mut random = Random::new(21, 3);
    for way in [POSTERIOR, FUSE] {
        let model = model(way, &mut random);
        let calm = points(300, EVEN, 0.0, &mut random);
        let moved = points(300, EVEN, 3.0, &mut random);
        let known = |data: &Dataset| model.class_ids(data).into_iter().map(Some).collect::<Vec<_>>();
        let start = || Monitor::new(&model, &Cpu, true, 0.001, 7, &CONTEXT).unwrap();

        let mut monitor = start();
        assert!(monitor.watch(&calm.embeddings, &known(&calm), &CONTEXT).unwrap().is_empty(), "{way:?}");
        let state = monitor.state().unwrap();
        let alarms = monitor.watch(&moved.embeddings, &known(&moved), &CONTEXT).unwrap();
        assert!(alarms.iter().any(|alarm| alarm.row >= 300), "{way:?}");
        let mut resumed = start().resume(state.as_bytes()).unwrap();
        assert_eq!(resumed.watch(&moved.embeddings, &known(&moved), &CONTEXT).unwrap(), alarms);
        assert_eq!((resumed.points(), resumed.capital()), (monitor.points(), monitor.capital()));

        // The same points under the labels of their neighbors in the file: only the labels have changed.
        let mut swapped = known(&calm);
        swapped.rotate_left(1);
        let mut monitor = start();
        let alarms = monitor.watch(&calm.embeddings, &swapped, &CONTEXT).unwrap();
        assert_eq!(alarms.len(), 1, "{way:?}");
        let other = Monitor::new(&model, &Cpu, true, 0.001, 8, &CONTEXT).unwrap();
        assert!(other.resume(monitor.state().unwrap().as_bytes()).is_err(), "a state of another seed");
    }
    // Split calibration keeps no calibration points to compare labels with.
    let split = model(POSTERIOR_SPLIT, &mut random);
    assert!(Monitor::new(&split, &Cpu, false, 0.01, 0, &CONTEXT).is_ok());
    assert!(Monitor::new(&split, &Cpu, true, 0.01, 0, &CONTEXT).is_err());
    for level in [0.0, 1.0, f64::NAN] {
        assert!(Monitor::new(&split, &Cpu, false, level, 0, &CONTEXT).is_err());
    }
}

/// After `label_shift`, the classes of the points that stay have the proportions of the points without labels.
#[test]
fn label_shift_finds_the_new_proportions() {
    let mut random = Random::new(22, 3);
    let model = model(POSTERIOR, &mut random);
    let now = [6.0, 2.0, 1.0, 1.0];
    let (old, new) = (points(4000, EVEN, 0.0, &mut random), points(3000, now, 0.0, &mut random));
    let stay = model.label_shift(&old, &new.embeddings, 5, &CONTEXT).unwrap();
    assert_eq!(model.label_shift(&old, &new.embeddings, 5, &CONTEXT).unwrap(), stay);
    for (class, weight) in now.into_iter().enumerate() {
        let name = class.to_string();
        let of_class = |row: &&usize| old.classes[old.labels[**row] as usize] == name;
        let share = stay.iter().filter(of_class).count() as f64 / stay.len() as f64;
        assert!((share - weight / 10.0).abs() < 0.05, "class {class}: {share}");
    }
}

/// Points in groups of near-copies: calibrated on one point of each group, a new group's point is covered as promised;
/// calibrated on all points, new groups are covered less.
#[test]
fn one_point_of_each_group_keeps_the_promise_for_new_groups() {
    let mut random = Random::new(23, 3);
    let copies = 8;
    // The points of a group share a center of their own, which differs from the class's by more than they differ.
    let groups = |count: usize, random: &mut Random| {
        let centers = points(count, EVEN, 0.0, random);
        let rows: Vec<usize> = (0..count * copies).map(|row| row / copies).collect();
        let mut data = centers.select(&rows);
        for row in 0..data.len() {
            data.embeddings.row_mut(row).iter_mut().for_each(|value| *value += 0.05 * random.normal() as f32);
        }
        data.rows = (0..data.len() as u32).collect();
        (data, rows.into_iter().map(|group| group as u32).collect::<Vec<_>>())
    };
    let (mut honest, mut naive) = (Vec::new(), Vec::new());
    let mut config = config(FUSE);
    config.tune.evaluations = 1;
    config = config.rounds(0);
    for draw in 0..40 {
        let fit = points(100, EVEN, 0.0, &mut random);
        let (calibration, groups_of) = groups(60, &mut random);
        let fresh = points(400, EVEN, 0.0, &mut random); // one point of each of 400 new groups
        let fitted = Fitted::fit(&Cpu, &fit, &config, &CONTEXT).unwrap();
        let one = calibration.select(&split::one_of_each(&groups_of, draw));
        assert_eq!(one.len(), 60);
        for (part, all) in [(&one, &mut honest), (&calibration, &mut naive)] {
            let model = fitted.clone().calibrate(&Cpu, part, &CONTEXT).unwrap();
            let scored = model.score(&fresh.embeddings, PredictOptions::default(), &CONTEXT).unwrap();
            let sets = model.predict(&scored, &model.decide(0.1).unwrap()).sets;
            let truth = model.class_ids(&fresh);
            let held = (0..fresh.len()).filter(|&row| sets.contains(row, truth[row].unwrap())).count();
            all.push(held as f64 / fresh.len() as f64);
        }
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let variance = |all: &[f64]| all.iter().map(|x| (x - mean(all)).powi(2)).sum::<f64>() / (all.len() - 1) as f64;
    let error = (variance(&honest) / honest.len() as f64).sqrt();
    assert!(mean(&honest) > 0.9 - 3.3 * error, "{} ± {error}", mean(&honest));
    assert!(mean(&naive) < mean(&honest), "{} {}", mean(&naive), mean(&honest));
}
