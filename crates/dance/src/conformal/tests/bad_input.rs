//! Bad input gives a clear error or a stated result.

use crate::Context;
use crate::conformal::{Calibration, ConformalConfig, MethodName, Mix, Predictor, Setup};
use crate::device::Cpu;
use crate::kernel::Kernel;
use crate::machine::{Classified, Part};
use crate::method::Method;
use crate::neighbors::Index;
use crate::{Error, Matrix};

use super::calibrated::{Calibrated, WAYS, score};
use super::reference::blobs;

fn reuse(
    embeddings: Matrix,
    labels: Vec<u32>,
    classes: usize,
    config: &ConformalConfig,
    context: &Context<'_>,
) -> Result<Predictor, Error> {
    let kernel = Kernel::new(1.0, 1.0).unwrap();
    let setup = Setup { device: &Cpu, classes, kernel, context };
    let Method::Dance(method) = config.method()? else { panic!("dance") };
    let no_fit_points = || panic!("reuse asks for no fit points");
    Predictor::dance(method, Part { embeddings, labels }, no_fit_points, setup)
}

#[test]
fn searches_that_make_no_sense() {
    let context = Context::new(1).unwrap();
    let index = Index::open(&Cpu, Matrix::zeros(4, 3), &context).unwrap();
    let search = |queries: &Matrix, k, skip: Option<&[Option<u32>]>| index.search_without(queries, k, skip, &context);
    assert!(matches!(search(&Matrix::zeros(2, 5), 1, None), Err(Error::Shape { .. })));
    assert!(matches!(search(&Matrix::zeros(2, 3), 0, None), Err(Error::Config { .. })));
    assert!(matches!(search(&Matrix::zeros(2, 3), 1, Some(&[None])), Err(Error::Shape { .. })));
    assert!(search(&Matrix::zeros(0, 3), 1, None).unwrap().is_empty());
    assert!(matches!(Index::open(&Cpu, Matrix::zeros(0, 3), &context), Err(Error::Data(_))));
    let both = index.search_both_ways(&Matrix::zeros(1, 3), 1, &context);
    assert!(matches!(both, Err(Error::Data(_)))); // the points have no reach yet
}

#[test]
fn settings_outside_their_range() {
    let context = Context::new(1).unwrap();
    let good = ConformalConfig::paper();
    for bad in [
        good.rank_neighbors(0),
        good.contrast_neighbors(0),
        good.temperature(0.0),
        good.temperature(f64::NAN),
        good.tie_noise(1.0),
        good.mix(Mix::Fixed(1.1)),
        good.mix(Mix::Fixed(f64::NAN)),
    ] {
        let data = blobs(10, 3, 3, 0.5, 1);
        let outcome = reuse(data.points, data.labels, 3, &bad, &context);
        assert!(matches!(outcome, Err(Error::Config { .. })), "{bad:?}");
    }
    let points = blobs(10, 3, 3, 0.5, 1).points;
    let outcome = reuse(points.clone(), vec![9; 10], 3, &good, &context);
    assert!(matches!(outcome, Err(Error::Label { .. })));
    assert!(matches!(reuse(points, vec![0; 9], 3, &good, &context), Err(Error::Shape { .. })));
}

#[test]
fn levels_outside_their_range() {
    let context = Context::new(1).unwrap();
    let config = ConformalConfig::paper();
    let data = blobs(30, 3, 3, 0.5, 1);
    let calibrated = reuse(data.points, data.labels, 3, &config, &context).unwrap();
    for alpha in [0.0, 1.0, -0.1, 7.0, f64::NAN] {
        assert!(matches!(calibrated.decide(alpha, Mix::Auto), Err(Error::Config { .. })), "{alpha}");
    }
}

#[test]
fn too_few_calibration_points() {
    let context = Context::new(1).unwrap();
    for n in 0..12 {
        for (mode, method) in WAYS {
            for mix in [Mix::Auto, Mix::Fixed(0.5)] {
                let mix = if method == MethodName::Dance { mix } else { Mix::Auto };
                let config = ConformalConfig::default().with_method(method).with_calibration(mode).mix(mix);
                let (fit, few) = (blobs(20, 3, 3, 0.5, 1), blobs(n, 3, 3, 0.5, 2));
                let kernel = Kernel::new(1.0, 1.0).unwrap();
                let outcome = Calibrated::new(&context, &fit, &few, 3, kernel, &config);
                match outcome {
                    Err(Error::Data(_)) => {
                        assert!(n == 0 || n == 1 && mode != Calibration::Full, "{n} {mode:?} {mix:?}");
                    }
                    Err(other) => panic!("{other}"),
                    // So few points support no α of 0.05: every label passes, and a warning says so.
                    Ok(calibrated) => {
                        let decision = calibrated.predictor.decide(0.05, Mix::Auto).unwrap();
                        let sets = calibrated.score(&context, &fit.points).counts.sets(decision.cut, 3);
                        assert!(sets.iter().all(|set| set == [0, 1, 2]));
                        assert!(decision.warnings()[0].contains("support no alpha below"));
                    }
                }
            }
        }
    }
}

#[test]
fn one_class_one_point_each_and_classes_that_nobody_has() {
    let context = Context::new(1).unwrap();
    let points = blobs(40, 3, 3, 0.5, 3).points;
    for labels in [vec![2; 40], (0..40).collect::<Vec<u32>>()] {
        let config = ConformalConfig::paper();
        let calibrated = reuse(points.clone(), labels.clone(), 50, &config, &context).unwrap();
        let none = || Ok(Classified::default());
        let scored = score(&calibrated, &context, &points, &none);
        let sets = scored.counts.sets(calibrated.decide(0.2, Mix::Auto).unwrap().cut, 50);
        assert_eq!(sets.len(), 40);
        // With one class, no set holds a class that no point has. With one point a class, no neighbor settles anything.
        let foreign = sets.iter().flatten().filter(|&&label| labels[0] == 2 && label != 2).count();
        assert_eq!(foreign, 0, "{sets:?}");
    }
}
