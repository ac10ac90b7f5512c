//! Nothing runs on threads that nobody passed. Alone in its program: rayon's own pool, which starts when work is done outside any
//! other, can be started by us only if nothing has started it before.

#![allow(clippy::unwrap_used)] // a test may panic

use dance::conformal::{Calibration, MethodName};
use dance::data::{RawLabels, Table};
use dance::device::Cpu;
use dance::model::{Audit, AuditOptions, SelectOptions};
use dance::numeric::random::Random;
use dance::{Config, Context, Dance, Dataset, Fitted, Matrix, PredictOptions};

fn blobs(n: usize, seed: u64) -> Dataset {
    let (d, classes, mut random) = (5, 4, Random::new(seed, 6));
    let labels: Vec<i64> = (0..n).map(|row| (row % classes) as i64).collect();
    let value = |at: usize, noise: f64| {
        dance::numeric::random::uniform_of(&[(at / d % classes * d + at % d) as u64]) + 0.3 * noise
    };
    let values = (0..n * d).map(|at| value(at, random.normal()) as f32).collect();
    let mut table = Table::new("blobs", Matrix::new(values, n, d).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers(labels));
    table.into_dataset().unwrap()
}

const WAYS: [(MethodName, Calibration); 5] = [
    (MethodName::Posterior, Calibration::Full),
    (MethodName::Posterior, Calibration::Split),
    (MethodName::Fuse, Calibration::Full),
    (MethodName::Dance, Calibration::Reuse),
    (MethodName::Dance, Calibration::Split),
];

#[test]
fn all_work_runs_on_the_threads_of_the_context() {
    let context = Context::new(1).unwrap();
    let (fit, points, test) = (blobs(120, 1), blobs(100, 2), blobs(60, 3));
    let mut config = Config::default();
    config.tune.evaluations = 3;
    for refit in [false, true] {
        config.tune.refit = refit;
        let fitted = Fitted::fit(&Cpu, &fit, &config, &context).unwrap();
        for (method, calibration) in WAYS {
            let mut fitted = fitted.clone();
            fitted.config.conformal = fitted.config.conformal.with_calibration(calibration).with_method(method);
            let model = fitted.calibrate(&Cpu, &points, &context).unwrap();
            let model = Dance::from_bytes(&Cpu, &model.to_bytes().unwrap(), "model", &context).unwrap();
            let options = PredictOptions::default().support(2).probabilities(true);
            let scored = model.score(&test.embeddings, options, &context).unwrap();
            assert_eq!(model.predict(&scored, &model.decide(0.1).unwrap()).sets.len(), 60);
            model.neighbors(&test.embeddings, 3, &context).unwrap();
            model.seen(&test.embeddings).unwrap();
            let audit = AuditOptions { fdr: 0.1, false_alarm: 0.01, seed: 0, parts: None };
            Audit::new(&Cpu, &points, Some(&model), audit, &context).unwrap();
            let select = SelectOptions { picked: 5, random: 5, seed: 0 };
            model.select(&Cpu, &test.embeddings, select, &context).unwrap();
        }
    }
    // So few points that each is left out in turn.
    let few = Fitted::fit(&Cpu, &blobs(12, 7), &config, &context).unwrap();
    few.calibrate(&Cpu, &points, &context).unwrap();

    assert!(
        rayon::ThreadPoolBuilder::new().build_global().is_ok(),
        "something above has run outside the context's threads"
    );
}
