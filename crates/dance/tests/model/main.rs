//! The model from fit to file: what it predicts, what survives a file, and what a bad file or bad input gives.

#![allow(clippy::unwrap_used)] // a test may panic

mod audit;
mod devices;
mod facade;
mod file;
mod invariance;
mod kinds;
#[path = "../../examples/custom_device/naive.rs"]
mod naive;
mod points;
mod promises;
mod select;
mod watch;

use std::sync::{LazyLock, Mutex};

use dance::conformal::{Calibration, MethodName};
use dance::data::RawLabels;
use dance::device::{Cpu, Device};
use dance::numeric::random::Random;
use dance::{Config, Context, Dance, Dataset, Event, Fitted, Matrix, Observer, Table};

static CONTEXT: LazyLock<Context<'static>> = LazyLock::new(|| Context::new(2).unwrap());
/// Tests that need no device of their own run on both of these.
const DEVICES: [&dyn Device; 2] = [&Cpu, &naive::Naive];

/// Blobs, one per class; class names are numbers from `first_class` on.
fn blobs(n: usize, classes: usize, first_class: i64, seed: u64) -> Dataset {
    let (d, mut random) = (6, Random::new(seed, 4));
    let centers: Vec<f64> = (0..classes * d).map(|at| dance::numeric::random::uniform_of(&[at as u64]) * 2.0).collect();
    let labels: Vec<i64> = (0..n).map(|row| (row % classes) as i64).collect();
    let values = labels.iter().flat_map(|&label| {
        let center = &centers[label as usize * d..][..d];
        center.iter().map(|center| (center + 0.5 * random.normal()) as f32).collect::<Vec<_>>()
    });
    let mut table = Table::new("blobs", Matrix::new(values.collect(), n, d).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers(labels.iter().map(|label| label + first_class).collect()));
    table.into_dataset().unwrap()
}

/// A method with the use that it makes of calibration points.
type Way = (MethodName, Calibration);
const POSTERIOR: Way = (MethodName::Posterior, Calibration::Full);
const POSTERIOR_SPLIT: Way = (MethodName::Posterior, Calibration::Split);
const FUSE: Way = (MethodName::Fuse, Calibration::Full);
const REUSE: Way = (MethodName::Dance, Calibration::Reuse);
const SPLIT: Way = (MethodName::Dance, Calibration::Split);
/// Every method with every use of calibration points that it allows.
const WAYS: [Way; 5] = [POSTERIOR, POSTERIOR_SPLIT, FUSE, REUSE, SPLIT];

fn config((method, calibration): Way) -> Config {
    let mut config = Config::default();
    config.tune.evaluations = 3;
    config = config.rounds(2);
    config.conformal.rank_neighbors = 20;
    config.conformal.contrast_neighbors = 10;
    config.conformal.method = Some(method);
    config.conformal.calibration = Some(calibration);
    config
}

fn fitted(device: &dyn Device, config: &Config) -> Fitted {
    Fitted::fit(device, &blobs(80, 5, 0, 1), config, &CONTEXT).unwrap()
}

fn model_on(device: &dyn Device, config: &Config) -> Dance {
    fitted(device, config).calibrate(device, &blobs(120, 5, 0, 2), &CONTEXT).unwrap()
}

fn model(config: &Config) -> Dance {
    model_on(&Cpu, config)
}

/// Keeps the warnings.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn notice(&self, event: &Event) {
        if let Event::Warning(text) = event {
            self.0.lock().unwrap().push(text.clone());
        }
    }
}
