//! The models of the corpus: small ones, of every method with every use of calibration points.
//!
//! `cargo test -p dance-fuzz --test models -- --ignored` writes them again, for a new file format.

use std::path::{Path, PathBuf};

use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName, Mix};
use dance::data::{Normalize, RawLabels};
use dance::device::Cpu;
use dance::numeric::random::Random;
use dance::{Config, Context, Dance, Dataset, Fitted, Matrix, Table};

const DIMENSIONS: usize = 4;
const CLASSES: usize = 3;
const FIT_POINTS: usize = 30;
const CALIBRATION_POINTS: usize = 28;

/// Every model by its name, with its settings.
fn models() -> Vec<(&'static str, Config)> {
    let with = |method, calibration| {
        ConformalConfig::default()
            .with_method(method)
            .with_calibration(calibration)
            .rank_neighbors(8)
            .contrast_neighbors(5)
    };
    let posterior = with(MethodName::Posterior, Calibration::Full);
    let fuse = with(MethodName::Fuse, Calibration::Full);
    let split = with(MethodName::Dance, Calibration::Split);
    let all = [
        ("posterior", posterior, Normalize::L2),
        ("posterior-balanced", posterior.by_class(ByClass::Balanced), Normalize::Standardize),
        ("posterior-clusters", posterior.by_class(ByClass::Clusters), Normalize::None),
        ("posterior-each", posterior.by_class(ByClass::Each), Normalize::L2),
        ("posterior-new-labels", posterior.new_labels(true), Normalize::L2),
        ("posterior-split", with(MethodName::Posterior, Calibration::Split), Normalize::L2),
        ("fuse", fuse, Normalize::L2),
        ("fuse-each", fuse.by_class(ByClass::Each), Normalize::Standardize),
        ("fuse-new-labels", fuse.new_labels(true), Normalize::None),
        ("dance", with(MethodName::Dance, Calibration::Reuse), Normalize::L2),
        ("dance-split", split, Normalize::Standardize),
        ("dance-split-mix", split.mix(Mix::Fixed(0.4)), Normalize::None),
    ];
    let config = |(name, conformal, normalize)| {
        let mut config = Config::default().conformal(conformal).normalize(normalize);
        config.tune.evaluations = 2;
        config = config.rounds(1);
        (name, config)
    };
    all.map(config).to_vec()
}

/// Points around one center for each class; the last calibration point has a class of its own.
fn points(count: usize, seed: u64, new_class: bool) -> Dataset {
    let mut random = Random::new(seed, 1);
    let mut labels: Vec<i64> = (0..count as i64).map(|row| row % CLASSES as i64).collect();
    let center = |label: i64, axis: usize| if label as usize == axis { 2.0 } else { 0.5 };
    let coordinates = labels.iter().flat_map(|&label| (0..DIMENSIONS).map(move |axis| center(label, axis)));
    let values: Vec<f32> = coordinates.map(|center| (center + 0.8 * random.normal()) as f32).collect();
    if new_class {
        labels[count - 1] = CLASSES as i64;
    }
    let mut table = Table::new("corpus", Matrix::new(values, count, DIMENSIONS).expect("a matrix")).expect("a table");
    table.labels = Some(RawLabels::Integers(labels));
    table.into_dataset().expect("points with labels")
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/model").join(format!("{name}.dance"))
}

#[test]
#[ignore = "writes the corpus"]
fn write_models() {
    let context = Context::new(1).expect("one thread");
    for (name, config) in models() {
        let fitted = Fitted::fit(&Cpu, &points(FIT_POINTS, 1, false), &config, &context).expect("a fit");
        let calibration = points(CALIBRATION_POINTS, 2, true);
        let model = fitted.calibrate(&Cpu, &calibration, &context).expect("a calibrated model");
        model.save(path(name)).expect("a file");
    }
}

/// A file of an older format would be refused at once, and no mutant of it would test anything.
#[test]
fn every_model_of_the_corpus_can_be_read() {
    let context = Context::new(1).expect("one thread");
    for (name, config) in models() {
        let model = Dance::load(&Cpu, path(name), &context).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(model.fitted().config, config, "{name}");
    }
}
