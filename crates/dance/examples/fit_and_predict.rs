//! The whole way from a file to prediction sets: read, split, fit, calibrate, predict, and see whether the promise is kept.
//!
//! `cargo run -p dance-conformal --example fit_and_predict`

use dance::data::{io, split};
use dance::device::Cpu;
use dance::evaluation::metrics::Metrics;
use dance::machine::TuneConfig;
use dance::numeric::random::Random;
use dance::{Config, Context, Fitted, PredictOptions};

/// A table of points from three classes that overlap: a column with the label, and one for each of four dimensions.
fn csv_text(points: usize) -> String {
    let classes = [("cat", [1.0, 0.0, 0.3, 0.5]), ("dog", [0.6, 0.8, 0.3, 0.5]), ("fox", [0.0, 0.6, 1.0, 0.5])];
    let mut random = Random::new(1, 1);
    let mut text = "label,x0,x1,x2,x3\n".to_owned();
    for point in 0..points {
        let (label, center) = classes[point % classes.len()];
        let values = center.map(|value| value + 0.3 * random.normal());
        text += &format!("{label},{},{},{},{}\n", values[0], values[1], values[2], values[3]);
    }
    text
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("animals.csv");
    std::fs::write(&path, csv_text(1500))?;

    // A context says on how many threads to work; 0 is one per core.
    let context = Context::new(0)?;
    let data = io::read(&path, &io::ReadOptions::default())?.into_dataset()?;
    println!("{} points of the classes {}", data.len(), data.classes.join(", "));

    // One part fits the kernel machine, a second one calibrates it, and the third is for a look at how good it is.
    let parts = split::uniform(data.len(), &[0.4, 0.4, 0.2], 0)?;
    let [fit, calibration, test] = [0, 1, 2].map(|part| data.select(&parts[part]));

    // The defaults are fine; a shorter search for bandwidth and shape is enough for an example.
    let config = Config::default().tune(TuneConfig::default().evaluations(8));
    let fitted = Fitted::fit(&Cpu, &fit, &config, &context)?;
    println!("accuracy on the points held out during the fit: {:.3}", fitted.validation.accuracy);
    let model = fitted.calibrate(&Cpu, &calibration, &context)?;
    println!("guarantee: {}", model.guarantee());

    // Scores are computed once; then every error level alpha has its own sets.
    let scored = model.score(&test.embeddings, PredictOptions::default(), &context)?;
    for alpha in [0.1, 0.02] {
        let prediction = model.predict(&scored, &model.decide(alpha)?);
        let best = scored.classified.as_ref().map(|classified| &classified.labels[..]);
        let metrics = Metrics::new(&prediction.sets, &test.labels, model.classes().len(), alpha, best)?;
        println!("alpha {alpha}: coverage {:.3}, {:.2} labels in a set", metrics.coverage, metrics.size);
        for point in 0..3 {
            let names: Vec<&str> =
                prediction.sets.get(point).iter().map(|&label| model.classes()[label as usize].as_str()).collect();
            let truth = &test.classes[test.labels[point] as usize];
            println!("  test point {point} is a {truth}, its set is {{{}}}", names.join(", "));
        }
    }
    Ok(())
}
