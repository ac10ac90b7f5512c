//! A device of your own: `naive.rs` is one.
//!
//! `cargo run --example custom_device` fits and asks a model on it and on the CPU, and compares the sets. The tests use the
//! same device as a second opinion on everything a model does.

mod naive;

use dance::data::{RawLabels, Table};
use dance::device::{Cpu, Device};
use dance::numeric::random::Random;
use dance::{Config, Context, Dataset, Fitted, Matrix, PredictOptions, Result};

fn main() -> Result<()> {
    let context = Context::new(0)?;
    let mut random = Random::new(1, 1);
    let mut blobs = |n: usize| -> Result<Dataset> {
        let labels: Vec<i64> = (0..n as i64).map(|row| row % 3).collect();
        let values = labels
            .iter()
            .flat_map(|&label| [label as f64, 1.0, -label as f64].map(|c| (c + 0.6 * random.normal()) as f32));
        let mut table = Table::new("blobs", Matrix::new(values.collect(), n, 3)?)?;
        table.labels = Some(RawLabels::Integers(labels));
        table.into_dataset()
    };
    let (fit, calibration, test) = (blobs(90)?, blobs(120)?, blobs(60)?);
    let mut config = Config::default();
    config.tune.evaluations = 3;
    let mut sets = Vec::new();
    for device in [&naive::Naive as &dyn Device, &Cpu] {
        let model = Fitted::fit(device, &fit, &config, &context)?.calibrate(device, &calibration, &context)?;
        let scored = model.score(&test.embeddings, PredictOptions::default(), &context)?;
        let prediction = model.predict(&scored, &model.decide(0.1)?);
        println!("{}: {} labels in {} sets", device.name(), prediction.sets.labels().len(), prediction.sets.len());
        sets.push(prediction.sets);
    }
    println!(
        "{} of {} sets are the same",
        sets[0].iter().zip(sets[1].iter()).filter(|(a, b)| a == b).count(),
        sets[0].len()
    );
    Ok(())
}
