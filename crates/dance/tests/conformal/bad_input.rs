//! Bad input gives a clear error or a stated result.

use dance::backend::{Backend, Cpu};
use dance::kernel::Kernel;
use dance::methods::dance::{Calibration, CalibrationMode, DanceConfig, Scorer};
use dance::mix::Mix;
use dance::neighbors::Reference;
use dance::{Error, Matrix};

use crate::calibrated::{Calibrated, MODES};
use crate::reference::blobs;

fn scorer(n: usize, config: &DanceConfig) -> Result<Scorer, Error> {
    let data = blobs(n, 3, 3, 0.5, 1);
    Scorer::new(data.points, data.labels, 3, Kernel::new(1.0, 1.0).unwrap(), config)
}

#[test]
fn searches_that_make_no_sense() {
    let backend = Cpu::new(1).unwrap();
    let reference = Reference::new(Matrix::zeros(4, 3));
    let search =
        |queries: &Matrix, k, skip: Option<&[Option<u32>]>| backend.neighbors(&reference, queries, k, skip);
    assert!(matches!(search(&Matrix::zeros(2, 5), 1, None), Err(Error::Shape { .. })));
    assert!(matches!(search(&Matrix::zeros(2, 3), 0, None), Err(Error::Config { .. })));
    assert!(matches!(search(&Matrix::zeros(2, 3), 1, Some(&[None])), Err(Error::Shape { .. })));
    assert!(search(&Matrix::zeros(0, 3), 1, None).unwrap().is_empty());
    let nothing = Reference::new(Matrix::zeros(0, 3));
    assert!(matches!(backend.neighbors(&nothing, &Matrix::zeros(1, 3), 1, None), Err(Error::Data(_))));
}

#[test]
fn settings_outside_their_range() {
    let good = DanceConfig::paper();
    for bad in [
        DanceConfig { rank_neighbors: 0, ..good },
        DanceConfig { contrast_neighbors: 0, ..good },
        DanceConfig { temperature: 0.0, ..good },
        DanceConfig { temperature: f64::NAN, ..good },
        DanceConfig { tie_noise: 1.0, ..good },
        DanceConfig { mix: Mix::Fixed(1.1), ..good },
        DanceConfig { mix: Mix::Fixed(f64::NAN), ..good },
    ] {
        assert!(matches!(scorer(10, &bad), Err(Error::Config { .. })), "{bad:?}");
    }
    let data = blobs(10, 3, 3, 0.5, 1);
    let kernel = Kernel::new(1.0, 1.0).unwrap();
    assert!(matches!(
        Scorer::new(data.points.clone(), vec![9; 10], 3, kernel, &good),
        Err(Error::Label { .. })
    ));
    assert!(matches!(Scorer::new(data.points, vec![0; 9], 3, kernel, &good), Err(Error::Shape { .. })));
}

#[test]
fn levels_outside_their_range() {
    let backend = Cpu::new(1).unwrap();
    let config = DanceConfig::paper();
    let calibrated = Calibration::reuse(&backend, &scorer(30, &config).unwrap(), None, &config).unwrap();
    for alpha in [0.0, 1.0, -0.1, 7.0, f64::NAN] {
        assert!(matches!(calibrated.decide(alpha), Err(Error::Config { .. })), "{alpha}");
    }
}

#[test]
fn too_few_calibration_points() {
    let backend = Cpu::new(1).unwrap();
    for n in 0..12 {
        for mode in MODES {
            for mix in [Mix::Auto, Mix::Fixed(0.5)] {
                let config = DanceConfig { calibration: mode, mix, ..DanceConfig::paper() };
                let (fit, few) = (blobs(20, 3, 3, 0.5, 1), blobs(n, 3, 3, 0.5, 2));
                let kernel = Kernel::new(1.0, 1.0).unwrap();
                let outcome = Calibrated::new(&backend, &fit, &few, 3, kernel, &config);
                match outcome {
                    Err(Error::Data(_)) => {
                        assert!(n == 0 || n == 1 && mode != CalibrationMode::Exact, "{n} {mode:?} {mix:?}");
                    }
                    Err(other) => panic!("{other}"),
                    // So few points support no α of 0.05: every label passes, and a warning says so.
                    Ok(calibrated) => {
                        let decision = calibrated.calibration.decide(0.05).unwrap();
                        let [rank, contrast] = decision.thresholds.unwrap();
                        assert!(rank.value == f64::INFINITY && contrast.value == f64::INFINITY);
                        assert!(decision.warnings()[0].contains("support no alpha below"));
                    }
                }
            }
        }
    }
}

#[test]
fn one_class_one_point_each_and_classes_that_nobody_has() {
    let backend = Cpu::new(1).unwrap();
    let points = blobs(40, 3, 3, 0.5, 3).points;
    for labels in [vec![2; 40], (0..40).collect::<Vec<u32>>()] {
        let config = DanceConfig::paper();
        let scorer =
            Scorer::new(points.clone(), labels, 50, Kernel::new(1.0, 1.0).unwrap(), &config).unwrap();
        let calibrated = Calibration::reuse(&backend, &scorer, None, &config).unwrap();
        let answers = calibrated.answer(&backend, &scorer, &points, 0, None).unwrap();
        let decision = calibrated.decide(0.2).unwrap();
        assert_eq!(answers.p_values.sets(decision.cut, 50).len(), 40);
    }
}
