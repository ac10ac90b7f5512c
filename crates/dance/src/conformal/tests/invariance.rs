//! Tests that sets do not depend on the number of threads, the order of points, the names of classes or the size of a
//! batch.

use crate::Context;
use crate::Matrix;
use crate::conformal::{Calibration, ConformalConfig, MethodName, Mix, Predictor};
use crate::device::{Cpu, Device, MachineParts};
use crate::kernel::Kernel;
use crate::neighbors::Index;
use crate::numeric::random::Random;
use crate::scores::Sets;

use super::calibrated::{Calibrated, WAYS, calibration_scores};
use super::reference::{Data, blobs, lattice};

const CLASSES: usize = 8;

fn sets(
    context: &Context<'_>,
    fit: &Data,
    calibration: &Data,
    test: &Data,
    (mode, combine): (Calibration, MethodName),
) -> (Predictor, Sets) {
    let config = ConformalConfig::default()
        .rank_neighbors(20)
        .contrast_neighbors(30)
        .with_calibration(mode)
        .with_method(combine);
    let kernel = Kernel::new(5.0, 1.0).unwrap();
    let calibrated = Calibrated::new(context, fit, calibration, CLASSES, kernel, &config).unwrap();
    let decision = calibrated.predictor.decide(0.1, Mix::Auto).unwrap();
    let sets = calibrated.score(context, &test.points).counts.sets(decision.cut, CLASSES);
    (calibrated.predictor, sets)
}

fn parts() -> [Data; 3] {
    [blobs(300, 5, 8, 0.7, 1), blobs(400, 5, 8, 0.7, 2), blobs(150, 5, 8, 0.7, 3)]
}

#[test]
fn threads_change_no_bit() {
    let [fit, calibration, test] = parts();
    let ties = lattice(600, 4, 8, 3, 4);
    for mode in WAYS {
        for (fit, calibration, test) in [(&fit, &calibration, &test), (&ties, &ties, &ties)] {
            let one = sets(&Context::new(1).unwrap(), fit, calibration, test, mode);
            let two = sets(&Context::new(2).unwrap(), fit, calibration, test, mode);
            assert_eq!(calibration_scores(&one.0), calibration_scores(&two.0));
            assert_eq!(one.1, two.1);
        }
    }
}

#[test]
fn the_order_of_calibration_points_does_not_matter() {
    let [fit, calibration, test] = parts();
    let mut order: Vec<usize> = (0..calibration.len()).collect();
    Random::new(5, 0).shuffle(&mut order);
    let permuted = calibration.select(&order);
    let context = Context::new(2).unwrap();
    for mode in WAYS {
        let (before, sets_before) = sets(&context, &fit, &calibration, &test, mode);
        let (after, sets_after) = sets(&context, &fit, &permuted, &test, mode);
        assert_eq!(sets_before, sets_after);
        assert_eq!(calibration_scores(&before), calibration_scores(&after));
    }
}

#[test]
fn the_names_of_classes_do_not_matter() {
    let parts = parts();
    let rename = [5u32, 2, 7, 0, 1, 6, 3, 4];
    let renamed = parts
        .clone()
        .map(|data| Data { labels: data.labels.iter().map(|&label| rename[label as usize]).collect(), ..data });
    let context = Context::new(2).unwrap();
    for mode in WAYS {
        let (_, before) = sets(&context, &parts[0], &parts[1], &parts[2], mode);
        let (_, after) = sets(&context, &renamed[0], &renamed[1], &renamed[2], mode);
        for query in 0..before.len() {
            let mut expected: Vec<u32> = before.get(query).iter().map(|&label| rename[label as usize]).collect();
            expected.sort_unstable();
            assert_eq!(after.get(query), expected);
        }
    }
}

#[test]
fn the_size_of_a_batch_does_not_matter() {
    let data = blobs(700, 64, 5, 1.0, 6);
    let context = Context::new(2).unwrap();
    let index = Index::open(&Cpu, data.points.clone(), &context).unwrap();
    let together = index.search(&data.points, 25, &context).unwrap();
    for query in (0..700).step_by(41) {
        let alone = Matrix::new(data.points.row(query).to_vec(), 1, 64).unwrap();
        let found = index.search(&alone, 25, &context).unwrap();
        assert_eq!(found.ids(0), together.ids(query));
        assert_eq!(found.squared(0), together.squared(query));
    }
}

/// A mapped point and its outputs are the same in every batch and with any number of threads.
#[test]
fn mapping_and_outputs_do_not_depend_on_the_batch() {
    for (d, n, classes) in [(7, 50, 3), (64, 300, 17), (384, 700, 40)] {
        let data = blobs(900, d, 5, 1.0, 7);
        let (root, train) = (blobs(d, d, 5, 1.0, 8).points, blobs(n, d, 5, 1.0, 9).points);
        let beta = blobs(n, classes, 5, 1.0, 10).points;
        let kernel = Kernel::new(20.0, 1.0).unwrap();
        let machine = MachineParts { root: &root, train: &train, kernel, beta: &beta };
        let context = Context::new(2).unwrap();
        let classifier = Cpu.open_classifier(machine, &context).unwrap();
        let mapped = classifier.map(&data.points, &context).unwrap();
        let outputs = classifier.outputs(&mapped, &context).unwrap();
        let alone = Context::new(1).unwrap();
        for (start, rows) in [(0, 1), (5, 2), (9, 6), (0, 16), (3, 17), (50, 100), (11, 127), (400, 128), (200, 600)] {
            let some: Vec<usize> = (start..start + rows).collect();
            for context in [&context, &alone] {
                let found = classifier.map(&data.points.select(&some), context).unwrap();
                assert_eq!(found, mapped.select(&some), "{d} {rows}");
                assert_eq!(classifier.outputs(&found, context).unwrap(), outputs.select(&some), "{d} {rows}");
            }
        }
    }
}
