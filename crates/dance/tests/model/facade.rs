//! Fit, calibrate, predict.

use std::sync::atomic::{AtomicUsize, Ordering};

use dance::conformal::share;
use dance::conformal::{Calibration, MethodName, Mix};
use dance::data::{Normalize, Normalizer};
use dance::device::Cpu;
use dance::evaluation::metrics::Metrics;
use dance::kernel::Kernel;
use dance::machine::{Classifier, OutputScale, Rfm};
use dance::model::SeenAs;
use dance::numeric::random::Random;
use dance::scores::EmptySets;
use dance::{Dance, Error, Event, Matrix, Observer, PredictOptions, Rows, Sampling};

use crate::{CONTEXT, DEVICES, Warnings, blobs, config, fitted, model, model_on};

#[test]
fn covers_and_explains() {
    let modes = [Calibration::Reuse, Calibration::Split, Calibration::Full];
    for (device, mode) in DEVICES.into_iter().flat_map(|device| modes.map(|mode| (device, mode))) {
        let model = model_on(device, &config(mode, Mix::Auto));
        let test = blobs(200, 5, 0, 3);
        let options = PredictOptions::default().support(3);
        let scored = model.score(&test.embeddings, options, &CONTEXT).unwrap();
        let p_values = &scored.counts;
        for alpha in [0.05, 0.1, 0.2] {
            let prediction = model.predict(&scored, &model.decide(alpha).unwrap());
            let best = scored.classified.as_ref().unwrap();
            let metrics = Metrics::new(&prediction.sets, &test.labels, 5, alpha, Some(&best.labels)).unwrap();
            assert!(metrics.coverage > 1.0 - alpha - 0.1, "{mode:?} {metrics:?}");
            assert!(metrics.size < 4.0 && metrics.accuracy.unwrap() > 0.6, "{metrics:?}");
            // Membership and p-values are the same fact.
            let (rank, contrast) = share(alpha, prediction.decision.mix.unwrap());
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
                    ids.len() <= 3
                        && ids.iter().all(|&id| model.predictor().reference_labels()[id as usize] == *label)
                );
            }
        }
        assert!(scored.nearest.iter().all(|distance| distance.is_finite() && *distance >= 0.0));
        assert!(model.guarantee().contains(if mode == Calibration::Reuse {
            "heuristic"
        } else {
            "finite samples"
        }));
    }
}

#[test]
fn one_query_or_many_give_the_same() {
    let mut fused = config(Calibration::Full, Mix::Auto);
    fused.conformal.method = MethodName::Fuse;
    let test = blobs(65, 5, 0, 4);
    let options = PredictOptions::default().best(false);
    let configs = [config(Calibration::Reuse, Mix::Auto), fused];
    for (device, config) in
        DEVICES.into_iter().flat_map(|device| configs.iter().map(move |config| (device, config)))
    {
        let model = model_on(device, config);
        let together = model.score(&test.embeddings, options, &CONTEXT).unwrap();
        for query in 0..test.len() {
            let point = test.embeddings.select(&[query]);
            let alone = model.score(&point, options, &CONTEXT).unwrap();
            assert_eq!(alone.scores, together.scores.select(&[query]));
            assert_eq!(alone.nearest[0], together.nearest[query]);
            assert_eq!(alone.counts.row(0), together.counts.row(query));
        }
    }
    let model = model(&config(Calibration::Reuse, Mix::Auto));
    let none = model.score(&Matrix::zeros(0, 6), options, &CONTEXT).unwrap();
    assert!(none.scores.is_empty());
    assert!(model.predict(&none, &model.decide(0.1).unwrap()).sets.is_empty());
}

/// Wide points and many classes, where the last tile of a product has one row.
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
    let scale = OutputScale::clamp(1e-3);
    let classifier = Classifier::open(&Cpu, &rfm, &Normalizer::None, scale, &CONTEXT).unwrap();
    let mapped = classifier.transform(&queries, &CONTEXT).unwrap();
    let classified = classifier.classify(&queries, &CONTEXT).unwrap();
    for rows in [1, 2, 17, 65, 129, 1025, 2049] {
        let some = Rows::new(&queries.as_slice()[(2049 - rows) * d..], d);
        let last: Vec<usize> = (2049 - rows..2049).collect();
        assert_eq!(classifier.transform(some, &CONTEXT).unwrap(), mapped.select(&last), "{rows}");
        let found = classifier.classify(some, &CONTEXT).unwrap().probabilities;
        assert_eq!(found, classified.probabilities.select(&last), "{rows}");
    }
}

/// What selects the mix in exact mode is the fit points alone: other calibration points, and other classes among them,
/// change nothing.
#[test]
fn the_mix_of_exact_mode_does_not_depend_on_calibration_points() {
    for combine in [MethodName::Dance, MethodName::Joint] {
        let mut config = config(Calibration::Full, Mix::Auto);
        config.conformal.method = combine;
        let fitted = fitted(&Cpu, &config);
        let trials = |calibration: &dance::Dataset| {
            let model = fitted.clone().calibrate(&Cpu, calibration, &CONTEXT).unwrap();
            let decision = model.decide(0.1).unwrap();
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
    let model = model(&config(Calibration::Reuse, Mix::Fixed(0.5)));
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

/// One rule for what a single answer is: the most probable label of the set, of all labels where there is none.
#[test]
fn the_best_label_is_the_most_probable_of_the_set() {
    let test = blobs(300, 5, 0, 5);
    let mut outside = 0;
    for combine in [MethodName::Dance, MethodName::Joint, MethodName::Fuse] {
        for empty in [EmptySets::Keep, EmptySets::Top1] {
            let mut config = config(Calibration::Full, Mix::Auto);
            config.conformal.method = combine;
            let model = model(&config);
            let options = PredictOptions::default().empty(empty);
            let scored = model.score(&test.embeddings, options, &CONTEXT).unwrap();
            let classified = scored.classified.as_ref().unwrap();
            for alpha in [0.02, 0.1, 0.3, 0.7] {
                let prediction = model.predict(&scored, &model.decide(alpha).unwrap());
                let best = prediction.best.unwrap();
                for (row, set) in prediction.sets.iter().enumerate() {
                    let p = |label: u32| classified.probabilities.row(row)[label as usize];
                    let of: Vec<u32> = if set.is_empty() { (0..5).collect() } else { set.to_vec() };
                    let most = of.iter().map(|&label| p(label)).fold(0.0, f32::max);
                    assert!(of.contains(&best.labels[row]) && p(best.labels[row]) == most);
                    assert_eq!(best.probabilities[row], most);
                    outside += usize::from(!set.is_empty() && best.labels[row] != classified.labels[row]);
                    assert!(empty == EmptySets::Keep || !set.is_empty());
                }
            }
        }
    }
    assert!(outside > 0, "the test needs sets without the classifier's own label");
}

#[test]
fn recalibrates_without_refitting() {
    let model = model(&config(Calibration::Reuse, Mix::Auto));
    let other = blobs(90, 5, 0, 6);
    let mut settings = model.fitted().config.conformal;
    settings.calibration = Calibration::Split;
    settings.mix = Mix::Fixed(0.0);
    let again = model.recalibrate(&Cpu, &other, Sampling::Random, Some(settings), &CONTEXT).unwrap();
    assert_eq!(again.predictor().calibration_points(), 90);
    assert_eq!(again.fitted().rfm, model.fitted().rfm);
    let directly = model.fitted().clone().calibrate(&Cpu, &other, &CONTEXT).unwrap();
    let again = model.recalibrate(&Cpu, &other, Sampling::Random, None, &CONTEXT).unwrap();
    assert_eq!(directly.to_bytes().unwrap(), again.to_bytes().unwrap());
}

#[test]
fn classes_that_only_one_side_knows_are_said() {
    let warnings = Warnings::default();
    let context = CONTEXT.with_observer(&warnings);
    let fitted = fitted(&Cpu, &config(Calibration::Reuse, Mix::Auto));
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
    let model = model(&config(Calibration::Reuse, Mix::Auto));
    let few = model
        .recalibrate(&Cpu, &blobs(4, 2, 0, 2), Sampling::Random, None, &CONTEXT.with_observer(&warnings))
        .unwrap();
    assert!(warnings.0.lock().unwrap().join("\n").contains("too few to select the mix"));
    let decision = few.decide(0.1).unwrap();
    assert_eq!(decision.mix, Some(0.0));
    assert!(decision.warnings()[0].contains("4 calibration points support no alpha below 2.000e-1"));
}

#[test]
fn bad_queries_and_levels() {
    let model = model(&config(Calibration::Reuse, Mix::Auto));
    let options = PredictOptions::default();
    assert!(matches!(model.score(&Matrix::zeros(2, 5), options, &CONTEXT), Err(Error::Shape { .. })));
    let mut broken = blobs(5, 5, 0, 1).embeddings;
    broken.row_mut(3)[2] = f32::NAN;
    assert!(matches!(
        model.score(&broken, options, &CONTEXT),
        Err(Error::NotFinite { row: 3, column: 2, .. })
    ));
    assert!(matches!(model.score(&Matrix::zeros(1, 6), options, &CONTEXT), Err(Error::Data(_))));
    for alpha in [0.0, 1.0, f64::NAN] {
        assert!(matches!(model.decide(alpha), Err(Error::Config { .. })));
    }
    let mut raw = config(Calibration::Reuse, Mix::Auto);
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
    let mut config = config(Calibration::Full, Mix::Auto);
    config.conformal.method = MethodName::Fuse;
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

/// The model holds its points: it knows when it is judged by them, in every mode and after a file.
#[test]
fn points_seen_before_are_known() {
    for mode in [Calibration::Reuse, Calibration::Split, Calibration::Full] {
        let model = model(&config(mode, Mix::Auto));
        let model = Dance::from_bytes(&Cpu, &model.to_bytes().unwrap(), "test", &CONTEXT).unwrap();
        let of = |data: dance::Dataset| model.seen(&data.embeddings).unwrap();
        assert!(of(blobs(80, 5, 0, 1)).iter().all(|seen| *seen == Some(SeenAs::FitPoint)), "{mode:?}");
        assert!(
            of(blobs(120, 5, 0, 2)).iter().all(|seen| *seen == Some(SeenAs::CalibrationPoint)),
            "{mode:?}"
        );
        assert!(of(blobs(200, 5, 0, 3)).iter().all(Option::is_none), "{mode:?}");
    }
}
