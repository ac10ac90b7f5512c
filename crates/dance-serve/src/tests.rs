//! Tests of explanations and coverage with models of every method.

use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName};
use dance::data::{Kind, RawLabels};
use dance::device::Cpu;
use dance::numeric::random::Random;
use dance::{Config, Context, Fitted, Matrix, PredictOptions, Table};

use crate::Reviewable;
use crate::explain;
use crate::level;
use crate::served::ServedModel;

const DIMENSIONS: usize = 6;
const ALPHA: f64 = 0.1;

/// Returns points around four directions, with the labels of the directions; every fifth point has a label of its own.
fn points(count: usize, seed: u64) -> (Vec<f32>, Vec<String>) {
    let mut random = Random::new(seed, 1);
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for row in 0..count {
        let class = row % 4;
        let is_single = row % 5 == 0;
        let spread = if is_single { 3.0 } else { 1.0 };
        let center = |axis: usize| if axis == class { 1.0 } else { 0.0 };
        values.extend((0..DIMENSIONS).map(|axis| center(axis) + spread * (random.uniform() as f32 - 0.5)));
        labels.push(if is_single { format!("{seed}-{row}") } else { ["a", "b", "c", "d"][class].into() });
    }
    (values, labels)
}

/// Fits a model on such points, and serves it with other points.
fn served(conformal: ConformalConfig, context: &Context<'_>) -> ServedModel {
    let data = |count, seed| {
        let (values, labels) = points(count, seed);
        let matrix = Matrix::new(values, count, DIMENSIONS).unwrap();
        let mut table = Table::new("points", matrix).unwrap();
        table.labels = Some(RawLabels::Names(labels));
        table.into_dataset().unwrap()
    };
    let mut config = Config::default().conformal(conformal);
    config.tune.evaluations = 2;
    let fitted = Fitted::fit(&Cpu, &data(120, 1), &config, context).unwrap();
    let model = fitted.calibrate(&Cpu, &data(120, 2), context).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    model.save(&path).unwrap();
    let (values, labels) = points(60, 3);
    let matrix = Matrix::new(values, 60, DIMENSIONS).unwrap();
    let page = Reviewable::new("page".into(), matrix, None, Kind::Text, Some(labels));
    ServedModel::load(&Cpu, &path, "model", Some(&page), context).unwrap()
}

#[test]
fn explanations_and_coverage_agree_with_the_sets_of_every_method() {
    let context = Context::new(1).unwrap();
    let posterior = ConformalConfig::default();
    let mut new_label_sets = 0;
    for (config, method) in [
        (posterior, MethodName::Posterior),
        (posterior.with_calibration(Calibration::Split), MethodName::Posterior),
        (posterior.new_labels(true).by_class(ByClass::Balanced), MethodName::Posterior),
        (posterior.with_method(MethodName::Fuse), MethodName::Fuse),
        (posterior.with_method(MethodName::Dance), MethodName::Dance),
    ] {
        let served = served(config, &context);
        let model = &served.model;
        assert_eq!(model.predictor().method().name(), method);
        let (values, labels) = points(60, 3);
        let matrix = Matrix::new(values, 60, DIMENSIONS).unwrap();
        let scored = model.score(&matrix, PredictOptions::default(), &context).unwrap();
        let prediction = model.predict(&scored, &model.decide(ALPHA).unwrap());
        let class = |name: &str| model.classes().iter().position(|class| class == name);

        // The explanation of a point has its set, as p-values and as levels.
        for row in 0..20 {
            let point = matrix.select(&[row]);
            let found = explain::explanation(&served, &point, ALPHA, true, &context).unwrap();
            let found = serde_json::to_value(found).unwrap();
            let reasons = found["labels"].as_array().unwrap();
            assert_eq!(reasons.len(), model.classes().len());
            assert!(reasons.is_sorted_by_key(|one| -one["p_value"].as_f64().unwrap()));
            for one in reasons {
                let label = class(one["label"].as_str().unwrap()).unwrap() as u32;
                let in_set = prediction.sets.contains(row, label);
                assert_eq!(one["in_set"], in_set);
                assert_eq!(one["p_value"].as_f64() > Some(ALPHA), in_set);
                assert_eq!(holds(&one["level"]), in_set);
                assert!(!in_set || one["alpha_max"].as_f64() >= Some(ALPHA));
                assert_eq!(one["rank_p_value"].is_number(), method == MethodName::Dance);
                assert_eq!(one["contrast_p_value"].is_number(), method == MethodName::Dance);
            }
            let new_label = Some(&found["new_label_level"]).filter(|level| !level.is_null()).map(holds);
            let expected = prediction.new_label.as_ref().map(|all| all[row]);
            assert_eq!((new_label, found["new_label"].as_bool()), (expected, expected));
        }

        // A set covers a label that the model does not know if it holds a new label.
        let is_covered = |row: usize| match class(&labels[row]) {
            Some(label) => prediction.sets.contains(row, label as u32),
            None => prediction.new_label.as_ref().is_some_and(|all| all[row]),
        };
        let covered = (0..60).filter(|&row| is_covered(row)).count();
        let curve = &served.page.as_ref().unwrap().curve;
        let at = &curve[level::nearest(ALPHA) - 1];
        assert_eq!((at.alpha, at.coverage), (ALPHA, covered as f64 / 60.0));
        new_label_sets += prediction.new_label.iter().flatten().filter(|holds| **holds).count();
    }
    assert!(new_label_sets > 0);
}

/// Returns whether the JSON of a level holds at [`ALPHA`].
fn holds(level: &serde_json::Value) -> bool {
    let level: level::Level = serde_json::from_value(level.clone()).unwrap();
    level.holds(level::nearest(ALPHA))
}
