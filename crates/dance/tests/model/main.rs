//! The model from fit to file: what it predicts, what survives a file, and what a bad file or bad input gives.

#![allow(clippy::unwrap_used)] // a test may panic

mod facade;
mod file;

use std::sync::{LazyLock, Mutex};

use dance::backend::Cpu;
use dance::methods::dance::{CalibrationMode, Combine};
use dance::mix::Mix;
use dance::observe::{Event, Observer, Silent};
use dance::random::Random;
use dance::{Config, Dance, Dataset, Matrix, RawLabels, Table};

static BACKEND: LazyLock<Cpu> = LazyLock::new(|| Cpu::new(2).unwrap());

/// Blobs, one a class; class names are numbers from `first_class` on.
fn blobs(n: usize, classes: usize, first_class: i64, seed: u64) -> Dataset {
    let (d, mut random) = (6, Random::new(seed, 4));
    let centers: Vec<f64> =
        (0..classes * d).map(|at| dance::random::uniform_of(&[at as u64]) * 2.0).collect();
    let labels: Vec<i64> = (0..n).map(|row| (row % classes) as i64).collect();
    let values = labels.iter().flat_map(|&label| {
        let center = &centers[label as usize * d..][..d];
        center.iter().map(|center| (center + 0.5 * random.normal()) as f32).collect::<Vec<_>>()
    });
    let table = Table {
        origin: "blobs".into(),
        embeddings: Matrix::new(values.collect(), n, d).unwrap(),
        labels: Some(RawLabels::Integers(labels.iter().map(|label| label + first_class).collect())),
        class_names: None,
        ids: None,
        prototypes: None,
    };
    table.into_dataset().unwrap()
}

fn config(calibration: CalibrationMode, mix: Mix) -> Config {
    let mut config = Config::default();
    config.tune.evaluations = 3;
    config.rfm.rounds = 2;
    config.dance.rank_neighbors = 20;
    config.dance.contrast_neighbors = 10;
    config.dance.calibration = calibration;
    config.dance.combine = Combine::Union;
    config.dance.mix = mix;
    config
}

fn model(config: &Config) -> Dance {
    let fitted = Dance::fit(&*BACKEND, &blobs(80, 5, 0, 1), config, &Silent).unwrap();
    fitted.calibrate(&*BACKEND, &blobs(120, 5, 0, 2), &Silent).unwrap()
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
