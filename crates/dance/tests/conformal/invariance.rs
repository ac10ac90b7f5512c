//! What must not matter: the number of threads, the order of points, the names of classes, the size of a batch.

use dance::Matrix;
use dance::backend::{Backend, Cpu};
use dance::kernel::Kernel;
use dance::methods::dance::{Calibration, CalibrationMode, Combine, DanceConfig};
use dance::neighbors::Reference;
use dance::random::Random;
use dance::sets::Sets;

use crate::calibrated::{COMBINES, Calibrated, MODES};
use crate::reference::{Data, blobs, lattice};

const CLASSES: usize = 8;

fn sets(
    backend: &Cpu,
    fit: &Data,
    calibration: &Data,
    test: &Data,
    (mode, combine): (CalibrationMode, Combine),
) -> (Calibration, Sets) {
    let config = DanceConfig {
        rank_neighbors: 20,
        contrast_neighbors: 30,
        calibration: mode,
        combine,
        ..DanceConfig::default()
    };
    let kernel = Kernel::new(5.0, 1.0).unwrap();
    let calibrated = Calibrated::new(backend, fit, calibration, CLASSES, kernel, &config).unwrap();
    let decision = calibrated.calibration.decide(0.1).unwrap();
    let sets = calibrated.answer(backend, &test.points).p_values.sets(decision.cut, CLASSES);
    (calibrated.calibration, sets)
}

/// Every way of calibrating and combining.
fn ways() -> impl Iterator<Item = (CalibrationMode, Combine)> {
    MODES.into_iter().flat_map(|mode| COMBINES.map(|combine| (mode, combine)))
}

fn parts() -> [Data; 3] {
    [blobs(300, 5, 8, 0.7, 1), blobs(400, 5, 8, 0.7, 2), blobs(150, 5, 8, 0.7, 3)]
}

#[test]
fn threads_change_no_bit() {
    let [fit, calibration, test] = parts();
    let ties = lattice(600, 4, 8, 3, 4);
    for mode in ways() {
        for (fit, calibration, test) in [(&fit, &calibration, &test), (&ties, &ties, &ties)] {
            let one = sets(&Cpu::new(1).unwrap(), fit, calibration, test, mode);
            let two = sets(&Cpu::new(2).unwrap(), fit, calibration, test, mode);
            assert_eq!(one, two);
        }
    }
}

#[test]
fn the_order_of_calibration_points_does_not_matter() {
    let [fit, calibration, test] = parts();
    let mut order: Vec<usize> = (0..calibration.len()).collect();
    Random::new(5, 0).shuffle(&mut order);
    let permuted = calibration.select(&order);
    let backend = Cpu::new(2).unwrap();
    for mode in ways() {
        let (before, sets_before) = sets(&backend, &fit, &calibration, &test, mode);
        let (after, sets_after) = sets(&backend, &fit, &permuted, &test, mode);
        assert_eq!(sets_before, sets_after);
        assert_eq!((before.rank, before.contrast), (after.rank, after.contrast));
    }
}

#[test]
fn the_names_of_classes_do_not_matter() {
    let parts = parts();
    let rename = [5u32, 2, 7, 0, 1, 6, 3, 4];
    let renamed = parts.clone().map(|data| Data {
        labels: data.labels.iter().map(|&label| rename[label as usize]).collect(),
        ..data
    });
    let backend = Cpu::new(2).unwrap();
    for mode in ways() {
        let (_, before) = sets(&backend, &parts[0], &parts[1], &parts[2], mode);
        let (_, after) = sets(&backend, &renamed[0], &renamed[1], &renamed[2], mode);
        for query in 0..before.len() {
            let mut expected: Vec<u32> =
                before.get(query).iter().map(|&label| rename[label as usize]).collect();
            expected.sort_unstable();
            assert_eq!(after.get(query), expected);
        }
    }
}

#[test]
fn the_size_of_a_batch_does_not_matter() {
    let data = blobs(700, 64, 5, 1.0, 6);
    let backend = Cpu::new(2).unwrap();
    let reference = Reference::new(data.points.clone());
    let together = backend.neighbors(&reference, &data.points, 25, None).unwrap();
    for query in (0..700).step_by(41) {
        let alone = Matrix::new(data.points.row(query).to_vec(), 1, 64).unwrap();
        let found = backend.neighbors(&reference, &alone, 25, None).unwrap();
        assert_eq!(found.ids(0), together.ids(query));
        assert_eq!(found.squared(0), together.squared(query));
    }
}

/// What the model relies on when it maps queries: a row of a product does not depend on its company, from 16 rows on.
#[test]
fn mapping_does_not_depend_on_the_batch() {
    for d in [7, 64, 384] {
        let data = blobs(900, d, 5, 1.0, 7);
        let root = blobs(d, d, 5, 1.0, 8).points;
        let backend = Cpu::new(2).unwrap();
        let together = backend.project(&data.points, &root).unwrap();
        for (start, rows) in [(0, 16), (3, 17), (50, 100), (11, 127), (400, 128), (200, 600)] {
            let some: Vec<usize> = (start..start + rows).collect();
            assert_eq!(
                backend.project(&data.points.select(&some), &root).unwrap(),
                together.select(&some),
                "{d} {rows}"
            );
        }
    }
}
