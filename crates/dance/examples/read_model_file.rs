//! What a model file holds: saved, loaded, inspected; then opened as what it is, a safetensors file, without this library.
//!
//! `docs/format.md` says what every tensor and every key of the metadata means.
//!
//! `cargo run -p dance-conformal --example read_model_file`

use dance::conformal::{ConformalConfig, MethodName};
use dance::data::{RawLabels, Table};
use dance::device::Cpu;
use dance::machine::TuneConfig;
use dance::numeric::random::Random;
use dance::{Config, Context, Dance, Dataset, Fitted, Matrix};
use safetensors::SafeTensors;

/// Points of three classes around three directions.
fn points(count: usize, seed: u64) -> dance::Result<Dataset> {
    let mut random = Random::new(seed, 1);
    let mut embeddings = Matrix::zeros(count, 3);
    for row in 0..count {
        let values = embeddings.row_mut(row);
        for value in values.iter_mut() {
            *value = 0.5 * random.normal() as f32;
        }
        values[row % 3] += 1.0;
    }
    let mut table = Table::new("points", embeddings)?;
    let names = ["red", "green", "blue"];
    table.labels = Some(RawLabels::Names((0..count).map(|row| names[row % 3].to_owned()).collect()));
    table.into_dataset()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = Context::new(0)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("colors.dance");
    let config = Config::default()
        .tune(TuneConfig::default().evaluations(5))
        .conformal(ConformalConfig::default().with_method(MethodName::Dance));
    let fitted = Fitted::fit(&Cpu, &points(600, 1)?, &config, &context)?;
    fitted.calibrate(&Cpu, &points(300, 2)?, &context)?.save(&path)?;

    println!("Loaded:");
    let model = Dance::load(&Cpu, &path, &context)?;
    let kernel = model.fitted().kernel();
    println!("  classes    {}", model.classes().join(", "));
    println!("  guarantee  {}", model.guarantee());
    println!("  kernel     bandwidth {:.3}, shape {:.3}", kernel.bandwidth(), kernel.shape());
    println!("  fit        {}", model.fitted().fidelity);
    let decision = model.decide(0.1)?;
    println!("  at alpha 0.1, from {} calibration points:", decision.calibration_points);
    if let (Some(mix), Some([rank, contrast])) = (decision.mix, decision.thresholds) {
        println!("    a share of {mix} of alpha goes to the contrastive score");
        println!("    labels pass up to rank {} and contrastive score {:.3}", rank.value, contrast.value);
    }

    println!("As a safetensors file:");
    let bytes = std::fs::read(&path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let mut tensors: Vec<_> = file.iter().collect();
    tensors.sort_by_key(|(name, _)| *name);
    for (name, tensor) in tensors {
        println!("  {name:30} {:?} {:?}", tensor.dtype(), tensor.shape());
    }
    // The metadata are strings; the longer ones hold JSON.
    let (_, header) = SafeTensors::read_metadata(&bytes)?;
    let metadata = header.metadata().as_ref().ok_or("the file has no metadata")?;
    for key in ["format", "bandwidth", "method", "calibration", "guarantee"] {
        println!("  {key:12} {}", metadata.get(key).ok_or("a key is missing")?);
    }
    let classes: Vec<String> = serde_json::from_str(metadata.get("classes").ok_or("no classes")?)?;
    let mix: serde_json::Value = serde_json::from_str(metadata.get("mix").ok_or("no mix")?)?;
    println!("  classes      {classes:?}");
    println!("  mix by alpha {mix}");
    Ok(())
}
