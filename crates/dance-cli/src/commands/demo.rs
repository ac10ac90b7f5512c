//! `dance demo`: the story on the data set that ships with the project.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use dance::backend::Cpu;
use dance::io::ReadOptions;
use dance::rfm::{RfmConfig, Score, default_floor, probabilities};
use dance::tune::{self, TuneConfig};
use dance::{Dataset, Matrix, Normalize, Normalizer, split};
use serde_json::json;

use crate::args::{Demo, Shared};
use crate::progress::Progress;

/// Points shown at the end.
const EXAMPLES: usize = 5;

pub(crate) fn run(demo: &Demo, shared: &Shared) -> anyhow::Result<()> {
    let path = demo.data.clone().unwrap_or_else(shipped_data);
    let mut data = dance::io::read(&path, &ReadOptions::default())?.into_dataset()?;
    let parts = split::stratified(&data.labels, &[0.8, 0.2], shared.seed)?;
    Normalizer::fit(Normalize::L2, &data.embeddings)
        .apply(&path.display().to_string(), &mut data.embeddings)?;
    let (fit, test) = (data.select(&parts[0]), data.select(&parts[1]));

    let backend = Cpu::new(shared.threads)?;
    let config = TuneConfig { evaluations: demo.evaluations, seed: shared.seed, ..TuneConfig::default() };
    let begin = Instant::now();
    let progress = Progress::new(shared);
    let tuned = tune::fit(
        &backend,
        &fit.embeddings,
        &fit.labels,
        data.classes.len(),
        &RfmConfig { seed: shared.seed, ..RfmConfig::default() },
        &config,
        &progress,
    )
    .with_context(|| format!("fitting {}", path.display()))?;
    drop(progress);
    let seconds = begin.elapsed().as_secs_f64();
    let outputs = tuned.rfm.outputs(&backend, &test.embeddings)?;
    let score = Score::of(&outputs, &test.labels);
    let probabilities = probabilities(outputs, default_floor(data.classes.len()));

    let mut out = io::stdout().lock();
    if shared.json {
        let report = json!({
            "data": path.display().to_string(),
            "points": data.len(),
            "dimensions": data.embeddings.cols(),
            "classes": data.classes.len(),
            "test_points": test.len(),
            "accuracy": score.accuracy,
            "validation_accuracy": tuned.validation.accuracy,
            "bandwidth": tuned.rfm.kernel.bandwidth(),
            "shape": tuned.rfm.kernel.shape(),
            "rounds": tuned.rfm.rounds,
            "fidelity": tuned.fidelity,
            "seconds": seconds,
            "trace": tuned.trace,
        });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {} points, {} dimensions, {} classes",
        path.display(),
        data.len(),
        data.embeddings.cols(),
        data.classes.len()
    )?;
    writeln!(out, "\nA kernel machine learned which directions of the embeddings tell the classes apart:")?;
    writeln!(out, "  search      {}", tuned.fidelity)?;
    writeln!(
        out,
        "  chosen      bandwidth {:.3} median distances, shape {:.2}, {} rounds of metric learning",
        tuned.rfm.kernel.bandwidth() / tuned.unit,
        tuned.rfm.kernel.shape(),
        tuned.rfm.rounds
    )?;
    writeln!(
        out,
        "  accuracy    {:.3} on {} points it never saw ({seconds:.1} s)",
        score.accuracy,
        test.len()
    )?;
    writeln!(out, "\nSome of them:")?;
    examples(&mut out, &test, &probabilities)?;
    Ok(())
}

/// The first few test points with their most probable classes.
fn examples(out: &mut impl Write, test: &Dataset, probabilities: &Matrix) -> io::Result<()> {
    for row in 0..EXAMPLES.min(test.len()) {
        let name = test.ids.as_ref().map_or_else(|| format!("row {row}"), |ids| ids[row].clone());
        let mut order: Vec<usize> = (0..test.classes.len()).collect();
        order.sort_by(|&a, &b| probabilities.row(row)[b].total_cmp(&probabilities.row(row)[a]));
        let best = order
            .iter()
            .take(3)
            .map(|&class| format!("{} {:.0} %", test.classes[class], 100.0 * probabilities.row(row)[class]));
        let best = best.collect::<Vec<_>>().join(", ");
        writeln!(out, "  {name}\n    true: {}; predicted: {best}", test.classes[test.labels[row] as usize])?;
    }
    Ok(())
}

fn shipped_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/wordnet_minilm.npz")
}
