//! Fit, calibrate, predict.

use std::sync::atomic::{AtomicUsize, Ordering};

use dance::conformal::{Calibration, Mix};
use dance::data::Normalize;
use dance::device::Cpu;
use dance::evaluation::metrics::Metrics;
use dance::model::ModelPart;
use dance::scores::EmptySets;
use dance::{Dance, Error, Event, Matrix, Observer, PredictOptions, Sampling};

use crate::{CONTEXT, DEVICES, FUSE, REUSE, WAYS, Warnings, blobs, config, fitted, model, model_on};

#[test]
fn sets_cover_and_support_carries_its_label() {
    for (device, way) in DEVICES.into_iter().flat_map(|device| WAYS.map(|way| (device, way))) {
        let mut config = config(way);
        config.conformal.new_labels = way.1 == Calibration::Full;
        let model = model_on(device, &config);
        let test = blobs(200, 5, 0, 3);
        let options = PredictOptions::default().support(3);
        let scored = model.score(&test.embeddings, options, &CONTEXT).unwrap();
        for alpha in [0.05, 0.1, 0.2] {
            let decision = model.decide(alpha).unwrap();
            let prediction = model.predict(&scored, &decision);
            let best = scored.classified.as_ref().unwrap();
            let metrics = Metrics::new(&prediction.sets, &test.labels, 5, alpha, Some(&best.labels)).unwrap();
            assert!(metrics.coverage > 1.0 - alpha - 0.1, "{way:?} {metrics:?}");
            assert!(metrics.size < 4.0 && metrics.accuracy.unwrap() > 0.6, "{metrics:?}");
            // A label is in the set if and only if the p-value that decides exceeds alpha.
            for query in 0..test.len() {
                for label in 0..5 {
                    let p_value = decision.p_value(&scored.counts, scored.counts.get(query, label));
                    assert_eq!(prediction.sets.contains(query, label), p_value > alpha, "{way:?} {alpha} {p_value}");
                }
            }
            let support = prediction.support.unwrap();
            assert_eq!(support.len(), prediction.sets.labels().len());
            for (label, ids) in prediction.sets.labels().iter().zip(support.iter()) {
                let labels = model.reference_labels();
                assert!(ids.len() <= 3 && ids.iter().all(|&id| labels[id as usize] == *label));
            }
        }
        assert!(scored.nearest.iter().all(|distance| distance.is_finite() && *distance >= 0.0));
        let promise = if way == REUSE { "heuristic" } else { "finite samples" };
        assert!(model.guarantee().contains(promise), "{way:?} {}", model.guarantee());
    }
}

#[test]
fn one_query_or_many_give_the_same() {
    let test = blobs(65, 5, 0, 4);
    let options = PredictOptions::default().support(2).probabilities(true);
    for (device, way) in DEVICES.into_iter().flat_map(|device| WAYS.map(|way| (device, way))) {
        let model = model_on(device, &config(way));
        let together = model.score(&test.embeddings, options, &CONTEXT).unwrap();
        for query in 0..test.len() {
            let point = test.embeddings.select(&[query]);
            let alone = model.score(&point, options, &CONTEXT).unwrap();
            assert_eq!(alone, together.select(&[query]), "{way:?} {query}");
        }
    }
    for way in WAYS {
        let model = model(&config(way));
        let none = model.score(&Matrix::zeros(0, 6), options, &CONTEXT).unwrap();
        assert!(none.is_empty());
        assert!(model.predict(&none, &model.decide(0.1).unwrap()).sets.is_empty());
    }
}

/// The label that a model predicts is the most probable one, by the probabilities that it shows.
#[test]
fn the_prediction_is_the_most_probable_label() {
    let test = blobs(200, 5, 0, 5);
    for way in WAYS {
        let model = model(&config(way));
        let options = PredictOptions::default().probabilities(true);
        let scored = model.score(&test.embeddings, options, &CONTEXT).unwrap();
        let classified = scored.classified.as_ref().unwrap();
        for (row, &label) in classified.labels.iter().enumerate() {
            let probabilities = classified.probabilities.row(row);
            let most = probabilities.iter().copied().fold(0.0, f32::max);
            let sum: f32 = probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-4, "{way:?} {sum}");
            assert_eq!(probabilities[label as usize], most, "{way:?}");
        }
    }
}

#[test]
fn empty_sets_may_get_the_best_label() {
    let mut config = config(REUSE);
    config.conformal.mix = Mix::Fixed(0.5);
    let model = model(&config);
    let test = blobs(200, 5, 0, 5);
    let decision = model.decide(0.6).unwrap();
    let scored = model.score(&test.embeddings, PredictOptions::default(), &CONTEXT).unwrap();
    let kept = model.predict(&scored, &decision);
    assert!(kept.empty > 0.0, "the test needs empty sets");
    let options = PredictOptions::default().best(false).empty(EmptySets::Top1);
    let scored = model.score(&test.embeddings, options, &CONTEXT).unwrap();
    let filled = model.predict(&scored, &decision);
    assert_eq!(filled.empty, kept.empty);
    for (query, (before, after)) in kept.sets.iter().zip(filled.sets.iter()).enumerate() {
        let best = [scored.classified.as_ref().unwrap().labels[query]];
        assert_eq!(after, if before.is_empty() { &best } else { before });
    }
}

#[test]
fn recalibrates_without_refitting() {
    let model = model(&config(REUSE));
    let other = blobs(90, 5, 0, 6);
    let mut settings = model.fitted().config.conformal;
    settings.calibration = Some(Calibration::Split);
    settings.mix = Mix::Fixed(0.0);
    let again = model.recalibrate(&Cpu, &other, Sampling::Random, Some(settings), &CONTEXT).unwrap();
    assert_eq!(again.calibration_points(), 90);
    let machine = |model: &Dance| {
        let fitted = model.fitted();
        (fitted.kernel(), fitted.points().clone(), fitted.metric_root().clone())
    };
    assert_eq!(machine(&again), machine(&model));
    let directly = model.fitted().clone().calibrate(&Cpu, &other, &CONTEXT).unwrap();
    let again = model.recalibrate(&Cpu, &other, Sampling::Random, None, &CONTEXT).unwrap();
    assert_eq!(directly.to_bytes().unwrap(), again.to_bytes().unwrap());
}

#[test]
fn classes_that_only_one_side_knows_are_said() {
    let warnings = Warnings::default();
    let context = CONTEXT.with_observer(&warnings);
    let fitted = fitted(&Cpu, &config(REUSE));
    // Names 3…7: two are known, three are new, and 0, 1, 2 have no calibration point.
    let model = fitted.calibrate(&Cpu, &blobs(60, 5, 3, 2), &context).unwrap();
    assert_eq!(model.classes().len(), 8);
    let said = warnings.0.lock().unwrap().join("\n");
    assert!(said.contains("3 of the calibration points' classes were not among the fit data"), "{said}");
    assert!(said.contains("3 classes have no calibration point"), "{said}");
    assert_eq!(model.class_ids(&blobs(5, 5, 6, 3)), [Some(6), Some(7), None, None, None]);
}

#[test]
fn too_few_points_to_select_a_mix_are_said() {
    let warnings = Warnings::default();
    let model = model(&config(REUSE));
    let few =
        model.recalibrate(&Cpu, &blobs(4, 2, 0, 2), Sampling::Random, None, &CONTEXT.with_observer(&warnings)).unwrap();
    assert!(warnings.0.lock().unwrap().join("\n").contains("too few to select the mix"));
    let decision = few.decide(0.1).unwrap();
    assert_eq!(decision.mix, Some(0.0));
    assert!(decision.warnings()[0].contains("4 calibration points support no alpha below 2.000e-1"));
}

#[test]
fn bad_queries_and_levels() {
    let model = model(&config(REUSE));
    let options = PredictOptions::default();
    assert!(matches!(model.score(&Matrix::zeros(2, 5), options, &CONTEXT), Err(Error::Shape { .. })));
    let mut broken = blobs(5, 5, 0, 1).embeddings;
    broken.row_mut(3)[2] = f32::NAN;
    assert!(matches!(model.score(&broken, options, &CONTEXT), Err(Error::NotFinite { row: 3, column: 2, .. })));
    assert!(matches!(model.score(&Matrix::zeros(1, 6), options, &CONTEXT), Err(Error::Data(_))));
    for alpha in [0.0, 1.0, f64::NAN] {
        assert!(matches!(model.decide(alpha), Err(Error::Config { .. })));
    }
    let mut raw = config(REUSE);
    raw.normalize = Normalize::None;
    let raw = crate::model(&raw);
    let mut huge = blobs(5, 5, 0, 1).embeddings;
    huge.row_mut(0).fill(f32::MAX);
    // Beyond what f32 can map, or merely far: an error or an answer, never a panic.
    let _ = raw.score(&huge, options, &CONTEXT);
}

/// Ends the job when it has been asked so many times; keeps how far answers came.
struct Impatient {
    patience: usize,
    asked: AtomicUsize,
    answered: AtomicUsize,
}

impl Observer for Impatient {
    fn notice(&self, event: &Event) {
        if let Event::Answered { done, of } = event {
            assert_eq!(*of, 5000);
            self.answered.store(*done, Ordering::Relaxed);
        }
    }

    fn interrupted(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.patience
    }
}

#[test]
fn calibration_and_prediction_ask_whether_to_go_on() {
    let config = config(FUSE);
    let fitted = fitted(&Cpu, &config);
    let many = blobs(5000, 5, 0, 8);
    let model = model(&config);
    for patience in 0..3 {
        let observer = || Impatient { patience, asked: AtomicUsize::new(0), answered: AtomicUsize::new(0) };
        let during = observer();
        let context = CONTEXT.with_observer(&during);
        assert!(matches!(fitted.clone().calibrate(&Cpu, &many, &context), Err(Error::Interrupted)));
        let during = observer();
        let context = CONTEXT.with_observer(&during);
        let outcome = model.score(&many.embeddings, PredictOptions::default(), &context);
        assert!(matches!(outcome, Err(Error::Interrupted)));
        // A block of 2,048 queries is answered between two questions.
        assert_eq!(during.answered.load(Ordering::Relaxed), 2048 * patience);
    }
}

/// A model knows its own points again, with every method and after a file.
#[test]
fn points_seen_before_are_known() {
    for way in WAYS {
        let model = model(&config(way));
        let model = Dance::from_bytes(&Cpu, &model.to_bytes().unwrap(), "test", &CONTEXT).unwrap();
        let of = |data: dance::Dataset| model.seen(&data.embeddings).unwrap();
        assert!(of(blobs(80, 5, 0, 1)).iter().all(|seen| *seen == Some(ModelPart::FitPoint)), "{way:?}");
        assert!(of(blobs(120, 5, 0, 2)).iter().all(|seen| *seen == Some(ModelPart::CalibrationPoint)), "{way:?}");
        assert!(of(blobs(200, 5, 0, 3)).iter().all(Option::is_none), "{way:?}");
    }
}
