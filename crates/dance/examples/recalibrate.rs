//! A fitted model meets data that differ from those it was made with: it is calibrated again, without another fit.
//!
//! Calibrating takes a search among the calibration points; fitting takes a search over kernels. So recalibrate whenever the
//! data have moved on, or to try other settings of the method.
//!
//! `cargo run -p dance-conformal --example recalibrate`

use dance::conformal::{Calibration, ConformalConfig, MethodName};
use dance::data::{RawLabels, Table};
use dance::device::Cpu;
use dance::evaluation::metrics::Metrics;
use dance::machine::TuneConfig;
use dance::numeric::random::Random;
use dance::{Config, Context, Dance, Dataset, Fitted, Matrix, PredictOptions, Result, Sampling};

const ALPHA: f64 = 0.1;

/// Points of five classes around five directions; the larger `noise`, the harder they are to tell apart.
fn points(count: usize, noise: f64, seed: u64) -> Result<Dataset> {
    let mut random = Random::new(seed, 1);
    let labels: Vec<i64> = (0..count).map(|_| random.below(5) as i64).collect();
    let mut embeddings = Matrix::zeros(count, 5);
    for (row, &label) in labels.iter().enumerate() {
        let values = embeddings.row_mut(row);
        for value in values.iter_mut() {
            *value = (noise * random.normal()) as f32;
        }
        values[label as usize] += 1.0;
    }
    let mut table = Table::new("points", embeddings)?;
    table.labels = Some(RawLabels::Integers(labels));
    table.into_dataset()
}

fn report(name: &str, model: &Dance, test: &Dataset, context: &Context<'_>) -> Result<()> {
    let scored = model.score(&test.embeddings, PredictOptions::default(), context)?;
    let prediction = model.predict(&scored, &model.decide(ALPHA)?);
    let metrics = Metrics::new(&prediction.sets, &test.labels, model.classes().len(), ALPHA, None)?;
    println!("{name:32}  coverage {:.3}, {:.2} labels in a set", metrics.coverage, metrics.size);
    Ok(())
}

fn main() -> Result<()> {
    let context = Context::new(0)?;
    let config = Config::default().tune(TuneConfig::default().evaluations(5));
    let fitted = Fitted::fit(&Cpu, &points(400, 0.3, 1)?, &config, &context)?;
    let model = fitted.calibrate(&Cpu, &points(500, 0.3, 2)?, &context)?;
    println!("The promise is a coverage of {}.", 1.0 - ALPHA);
    report("data like those of the fit", &model, &points(2000, 0.3, 3)?, &context)?;

    // The camera is dirty now. The calibration points are no longer like the queries, and the promise does not hold.
    let noisy = points(2000, 0.5, 4)?;
    report("noisy data", &model, &noisy, &context)?;

    // With new calibration points and the same kernel it does. `None` keeps the settings of the method.
    let new_points = points(500, 0.5, 5)?;
    let recalibrated = model.recalibrate(&Cpu, &new_points, Sampling::Random, None, &context)?;
    report("noisy data, recalibrated", &recalibrated, &noisy, &context)?;

    // Other settings of the method: the paper's DANCE, with split calibration.
    let settings = ConformalConfig::default().with_method(MethodName::Dance).with_calibration(Calibration::Split);
    let split = model.recalibrate(&Cpu, &new_points, Sampling::Random, Some(settings), &context)?;
    report("the same points, method dance", &split, &noisy, &context)
}
