//! Fit, calibrate, predict.

use dance::embeddings::Normalizer;
use dance::kernel::Kernel;
use dance::methods::dance::{CalibrationMode, Combine};
use dance::metrics::Metrics;
use dance::mix::Mix;
use dance::observe::Silent;
use dance::random::Random;
use dance::rfm::{Rfm, Score};
use dance::sets::EmptySets;
use dance::{Config, Dance, Error, Fitted, Matrix, Normalize, PredictOptions};

use crate::{BACKEND, Warnings, blobs, config, model};

#[test]
fn covers_and_explains() {
    for mode in [CalibrationMode::Reuse, CalibrationMode::Disjoint, CalibrationMode::Exact] {
        let model = model(&config(mode, Mix::Auto));
        let test = blobs(200, 5, 0, 3);
        let options = PredictOptions { support: 3, ..PredictOptions::default() };
        let scored = model.score(&*BACKEND, &test.embeddings, options).unwrap();
        let p_values = &scored.p_values;
        for alpha in [0.05, 0.1, 0.2] {
            let prediction = model.decide(&scored, alpha).unwrap();
            let best = scored.best.as_ref().unwrap();
            let metrics = Metrics::new(&prediction.sets, &test.labels, 5, alpha, Some(&best.labels)).unwrap();
            assert!(metrics.coverage > 1.0 - alpha - 0.1, "{mode:?} {metrics:?}");
            assert!(metrics.size < 4.0 && metrics.accuracy.unwrap() > 0.6, "{metrics:?}");
            // Membership and p-values are the same fact.
            let (rank, contrast) = dance::mix::share(alpha, prediction.decision.mix.unwrap());
            for query in 0..test.len() {
                for label in 0..5 {
                    let counts = p_values.get(query, label);
                    let passes = |count, share| p_values.p_value(count) > share + 1e-12;
                    let inside = passes(counts.rank, rank) && passes(counts.contrast, contrast);
                    assert_eq!(prediction.sets.contains(query, label), inside);
                }
            }
            // Support carries the label it supports.
            let support = prediction.support.unwrap();
            assert_eq!(support.len(), prediction.sets.labels.len());
            for (label, ids) in prediction.sets.labels.iter().zip(&support) {
                assert!(
                    ids.len() <= 3 && ids.iter().all(|&id| model.reference_labels()[id as usize] == *label)
                );
            }
        }
        assert!(scored.nearest.iter().all(|distance| distance.is_finite() && *distance >= 0.0));
        assert!(model.guarantee().contains(if mode == CalibrationMode::Reuse {
            "heuristic"
        } else {
            "finite samples"
        }));
    }
}

#[test]
fn one_query_or_many_give_the_same() {
    let mut fused = config(CalibrationMode::Exact, Mix::Auto);
    fused.dance.combine = Combine::Fuse;
    let test = blobs(65, 5, 0, 4);
    let options = PredictOptions { best: false, ..PredictOptions::default() };
    for config in [config(CalibrationMode::Reuse, Mix::Auto), fused] {
        let model = model(&config);
        let together = model.score(&*BACKEND, &test.embeddings, options).unwrap();
        for query in 0..test.len() {
            let point = test.embeddings.select(&[query]);
            let alone = model.score_from(&*BACKEND, &point, query, options).unwrap();
            assert_eq!(alone.scores, together.scores.select(&[query]));
            assert_eq!(alone.nearest[0], together.nearest[query]);
            assert_eq!(alone.p_values.row(0), together.p_values.row(query));
        }
    }
    let model = model(&config(CalibrationMode::Reuse, Mix::Auto));
    let none = model.score(&*BACKEND, &Matrix::zeros(0, 6), options).unwrap();
    assert!(none.scores.is_empty());
    assert!(model.decide(&none, 0.1).unwrap().sets.is_empty());
}

/// Wide points and many classes, where the last tile of a product has one row.
#[test]
fn a_row_is_mapped_and_classified_the_same_in_every_batch() {
    let (d, n, classes) = (768, 70, 40);
    let mut random = Random::new(3, 3);
    let mut matrix = |rows: usize, cols: usize| {
        Matrix::new((0..rows * cols).map(|_| random.normal() as f32 / 28.0).collect(), rows, cols).unwrap()
    };
    let fitted = Fitted {
        config: Config { normalize: Normalize::None, ..Config::default() },
        classes: (0..classes).map(|class| class.to_string()).collect(),
        normalizer: Normalizer::None,
        rfm: Rfm {
            kernel: Kernel::new(2.0, 1.0).unwrap(),
            metric_root: matrix(d, d),
            train: matrix(n, d),
            beta: matrix(n, classes),
            rounds: 1,
        },
        train_labels: (0..n as u32).map(|row| row % classes as u32).collect(),
        validation: Score { accuracy: 1.0, loss: 0.0 },
        fidelity: String::new(),
        data_hash: String::new(),
    };
    let queries = matrix(2049, d);
    let (mapped, classified) = (
        fitted.transform(&*BACKEND, queries.as_slice(), d).unwrap(),
        fitted.classify(&*BACKEND, queries.as_slice(), d).unwrap(),
    );
    for rows in [1, 2, 17, 65, 129, 1025, 2049] {
        let some = &queries.as_slice()[(2049 - rows) * d..];
        let last: Vec<usize> = (2049 - rows..2049).collect();
        assert_eq!(fitted.transform(&*BACKEND, some, d).unwrap(), mapped.select(&last), "{rows}");
        let found = fitted.classify(&*BACKEND, some, d).unwrap().probabilities;
        assert_eq!(found, classified.probabilities.select(&last), "{rows}");
    }
}

/// What selects the mix in exact mode is the fit points alone: other calibration points, and other classes among them,
/// change nothing.
#[test]
fn the_mix_of_exact_mode_does_not_depend_on_calibration_points() {
    for combine in [Combine::Union, Combine::Joint] {
        let mut config = config(CalibrationMode::Exact, Mix::Auto);
        config.dance.combine = combine;
        let fitted = Dance::fit(&*BACKEND, &blobs(80, 5, 0, 1), &config, &Silent).unwrap();
        let trials = |calibration: &dance::Dataset| {
            let model = fitted.clone().calibrate(&*BACKEND, calibration, &Silent).unwrap();
            let decision = model.calibration().decide(0.1).unwrap();
            assert!(!decision.trials.is_empty());
            (decision.mix, decision.trials)
        };
        let first = trials(&blobs(120, 5, 0, 2));
        assert_eq!(trials(&blobs(60, 5, 0, 3)), first);
        assert_eq!(trials(&blobs(60, 5, 3, 4)), first);
    }
}

#[test]
fn empty_sets_may_get_the_best_label() {
    let model = model(&config(CalibrationMode::Reuse, Mix::Fixed(0.5)));
    let test = blobs(200, 5, 0, 5);
    let kept = model.predict(&*BACKEND, &test.embeddings, 0.6, PredictOptions::default()).unwrap().1;
    assert!(kept.empty > 0.0, "the test needs empty sets");
    let options = PredictOptions { best: false, empty: EmptySets::Top1, ..PredictOptions::default() };
    let (scored, filled) = model.predict(&*BACKEND, &test.embeddings, 0.6, options).unwrap();
    assert_eq!(filled.empty, kept.empty);
    for (query, (before, after)) in kept.sets.iter().zip(filled.sets.iter()).enumerate() {
        let best = [scored.best.as_ref().unwrap().labels[query]];
        assert_eq!(after, if before.is_empty() { &best } else { before });
    }
}

#[test]
fn the_points_that_fitted_the_kernel_guarantee_nothing() {
    let fitted =
        Dance::fit(&*BACKEND, &blobs(80, 5, 0, 1), &config(CalibrationMode::Exact, Mix::Auto), &Silent)
            .unwrap();
    let warnings = Warnings::default();
    let model = fitted.calibrate(&*BACKEND, &blobs(80, 5, 0, 1), &warnings).unwrap();
    assert!(model.guarantee().starts_with("none"));
    // Nor is it overlooked when other points are among them.
    assert!(warnings.0.lock().unwrap().join("\n").contains("80 of the 80 calibration points"));
    let others = Warnings::default();
    model.recalibrate(&*BACKEND, &blobs(80, 5, 0, 2), None, &others).unwrap();
    assert!(others.0.lock().unwrap().is_empty());
}

#[test]
fn recalibrates_without_refitting() {
    let model = model(&config(CalibrationMode::Reuse, Mix::Auto));
    let other = blobs(90, 5, 0, 6);
    let mut settings = model.fitted().config.dance;
    settings.calibration = CalibrationMode::Disjoint;
    settings.mix = Mix::Fixed(0.0);
    let again = model.recalibrate(&*BACKEND, &other, Some(settings), &Warnings::default()).unwrap();
    assert_eq!(again.calibration().rank.len(), 90);
    assert_eq!(again.fitted().rfm, model.fitted().rfm);
    let directly = model.fitted().clone().calibrate(&*BACKEND, &other, &Warnings::default()).unwrap();
    assert_eq!(
        directly.calibration(),
        model.recalibrate(&*BACKEND, &other, None, &Warnings::default()).unwrap().calibration()
    );
}

#[test]
fn classes_that_only_one_side_knows_are_said() {
    let warnings = Warnings::default();
    let fitted =
        Dance::fit(&*BACKEND, &blobs(80, 5, 0, 1), &config(CalibrationMode::Reuse, Mix::Auto), &warnings)
            .unwrap();
    // Names 3…7: two are known, three are new, and 0, 1, 2 have no calibration point.
    let model = fitted.calibrate(&*BACKEND, &blobs(60, 5, 3, 2), &warnings).unwrap();
    assert_eq!(model.classes().len(), 8);
    let said = warnings.0.lock().unwrap().join("\n");
    assert!(said.contains("3 of the calibration points' classes were not among the fit data"), "{said}");
    assert!(said.contains("3 classes have no calibration point"), "{said}");
    assert_eq!(model.class_ids(&blobs(5, 5, 6, 3)), [Some(6), Some(7), None, None, None]);
}

#[test]
fn too_few_points_to_select_a_mix_are_said() {
    let warnings = Warnings::default();
    let model = model(&config(CalibrationMode::Reuse, Mix::Auto));
    let few = model.recalibrate(&*BACKEND, &blobs(4, 2, 0, 2), None, &warnings).unwrap();
    assert!(warnings.0.lock().unwrap().join("\n").contains("too few to select the mix"));
    let decision = few.calibration().decide(0.1).unwrap();
    assert_eq!(decision.mix, Some(0.0));
    assert!(decision.warnings()[0].contains("4 calibration points support no alpha below 2.000e-1"));
}

#[test]
fn bad_queries_and_levels() {
    let model = model(&config(CalibrationMode::Reuse, Mix::Auto));
    let options = PredictOptions::default();
    assert!(matches!(model.score(&*BACKEND, &Matrix::zeros(2, 5), options), Err(Error::Shape { .. })));
    let mut broken = blobs(5, 5, 0, 1).embeddings;
    broken.row_mut(3)[2] = f32::NAN;
    assert!(matches!(
        model.score(&*BACKEND, &broken, options),
        Err(Error::NotFinite { row: 3, column: 2, .. })
    ));
    assert!(matches!(model.score(&*BACKEND, &Matrix::zeros(1, 6), options), Err(Error::Data(_))));
    let scored = model.score(&*BACKEND, &blobs(5, 5, 0, 1).embeddings, options).unwrap();
    for alpha in [0.0, 1.0, f64::NAN] {
        assert!(matches!(model.decide(&scored, alpha), Err(Error::Config { .. })));
    }
    let mut raw = config(CalibrationMode::Reuse, Mix::Auto);
    raw.normalize = Normalize::None;
    let raw = crate::model(&raw);
    let mut huge = blobs(5, 5, 0, 1).embeddings;
    huge.row_mut(0).fill(f32::MAX);
    // Beyond what f32 can map, or merely far: an error or an answer, never a panic.
    let _ = raw.score(&*BACKEND, &huge, options);
}
