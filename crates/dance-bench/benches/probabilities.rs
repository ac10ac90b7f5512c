//! LAC, APS, RAPS and SAPS together: 5000 calibration and 5000 test rows of 1000 classes, thresholds and sets at one α.
//!
//! `cargo bench -p dance-bench --bench probabilities` prints one JSON line with seconds (the best of five) and what the
//! process held at its peak.

use std::time::Instant;

use dance::numeric::random::Random;
use dance::scores::{RankedScore, SplitConformal};
use dance::{Context, Matrix};

const ROWS: usize = 5000;
const CLASSES: usize = 1000;
const ALPHA: f64 = 0.1;

/// Softmax rows whose label is somewhat likelier than the rest.
fn rows(seed: u64) -> (Matrix, Vec<u32>) {
    let mut random = Random::new(seed, 1);
    let mut matrix = Matrix::zeros(ROWS, CLASSES);
    let mut labels = Vec::with_capacity(ROWS);
    for row in 0..ROWS {
        let label = random.below(CLASSES);
        labels.push(label as u32);
        let values = matrix.row_mut(row);
        for value in values.iter_mut() {
            *value = (2.0 * random.normal()).exp() as f32;
        }
        values[label] *= 3000.0;
        let total: f32 = values.iter().sum();
        for value in values {
            *value /= total;
        }
    }
    (matrix, labels)
}

fn main() -> dance::Result<()> {
    let threads = std::env::var("DANCE_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let context = Context::new(threads)?;
    let (calibration, labels) = rows(1);
    let (test, _) = rows(2);
    let scores = [RankedScore::Lac, RankedScore::Aps, RankedScore::RAPS, RankedScore::SAPS];
    let mut best = f64::INFINITY;
    let mut sizes = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let split = SplitConformal::new(&calibration, &labels, Some(0), &context)?;
        let cut = |score| Ok((score, split.threshold(score, ALPHA)?.value));
        let cuts: Vec<(RankedScore, f64)> = scores.into_iter().map(cut).collect::<dance::Result<_>>()?;
        let sets = split.sets(&test, &cuts, &context);
        best = best.min(begin.elapsed().as_secs_f64());
        sizes = sets.iter().map(|sets| sets.labels().len() as f64 / ROWS as f64).collect();
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    println!("{{\"seconds\":{best:.4},\"peak\":\"{peak}\",\"sizes\":{sizes:?}}}");
    Ok(())
}
