//! What exact prediction costs beside reuse: the goal is 3×, with all the calibration points in the bag.
//!
//! `cargo bench -p dance-conformal --bench exact -- [calibration points] [fit points] [d] [queries] [part of a source's name]`. Times are the best of three; the threads
//! are those of `DANCE_THREADS`, or one a core. Three sources of 1000 classes, from neighbors that agree to neighbors that do not.

use std::hint::black_box;
use std::time::Instant;

use dance::conformal::{Calibration, ConformalConfig, MethodName, Mix, Predictor, Setup};
use dance::device::{Cpu, Device, MachineParts};
use dance::kernel::Kernel;
use dance::machine::Part;
use dance::numeric::random::Random;
use dance::{Context, Matrix};

const CLASSES: usize = 1000;

struct Labelled {
    part: Part,
    /// Class probabilities, a row a point.
    probabilities: Matrix,
}

/// Class centers with noise around them, and probabilities that are right more often than not.
fn points(rows: usize, d: usize, noise: f32, seed: u64) -> Labelled {
    let mut random = Random::new(1, 0);
    let centers: Vec<f32> = (0..CLASSES * d).map(|_| random.normal() as f32).collect();
    let mut random = Random::new(seed, 1);
    let mut data = Vec::with_capacity(rows * d);
    let labels: Vec<u32> = (0..rows).map(|_| random.below(CLASSES) as u32).collect();
    let mut probabilities = Matrix::zeros(rows, CLASSES);
    for (row, &label) in labels.iter().enumerate() {
        let center = &centers[label as usize * d..][..d];
        data.extend(center.iter().map(|center| center + noise * random.normal() as f32));
        // A kernel machine's outputs: small numbers around 0 that a floor cuts off, and the label's.
        let values = probabilities.row_mut(row);
        for value in values.iter_mut() {
            *value = (0.01 * random.normal() as f32).max(1e-4);
        }
        values[label as usize] += (0.5 + 0.4 * random.normal() as f32).max(0.0);
        let sum: f32 = values.iter().sum();
        for value in values {
            *value /= sum;
        }
    }
    let embeddings = Matrix::new(data, rows, d).expect("sizes agree");
    Labelled { part: Part { embeddings, labels }, probabilities }
}

fn best<T>(mut work: impl FnMut() -> T) -> f64 {
    let time = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..3).map(time).fold(f64::INFINITY, f64::min)
}

fn main() -> dance::Result<()> {
    let sizes: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let size = |at: usize, default| sizes.get(at).copied().unwrap_or(default);
    let (n, fit, d, queries) = (size(0, 20_000), size(1, 20_000), size(2, 512), size(3, 2000));
    let threads = std::env::var("DANCE_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let context = Context::new(threads)?;
    println!(
        "{n} calibration and {fit} fit points, {queries} queries, d {d}, {CLASSES} classes, {} threads",
        context.threads()
    );
    let kernel = Kernel::new((d as f64).sqrt() * 2.0, 1.0)?;
    let mut identity = Matrix::zeros(d, d);
    (0..d).for_each(|at| identity.row_mut(at)[at] = 1.0);
    let (center, beta) = (Matrix::zeros(1, d), Matrix::zeros(1, CLASSES));
    let machine = MachineParts { root: &identity, train: &center, kernel, beta: &beta };
    let machine = Cpu.open_classifier(machine, &context)?;

    let asked = std::env::args().skip(1).find(|arg| arg.parse::<usize>().is_err() && !arg.starts_with('-'));
    for (name, noise) in
        [("neighbors agree", 1.5), ("neighbors often agree", 2.2), ("neighbors disagree", 4.0)]
    {
        if asked.as_ref().is_some_and(|asked| !name.contains(asked.as_str())) {
            continue;
        }
        let own = points(n, d, noise, 2);
        let new = points(queries, d, noise, 3);
        let others = points(fit, d, noise, 4).part;
        let labels = own.part.labels.iter().enumerate();
        let of_own: Vec<f32> = labels.map(|(row, &y)| own.probabilities.row(row)[y as usize]).collect();
        println!("{name}:");
        let mut reuse = [f64::NAN; 3];
        for (calibration, fit_neighbors) in
            [(Calibration::Reuse, false), (Calibration::Full, false), (Calibration::Full, true)]
        {
            for (which, combine) in
                [MethodName::Dance, MethodName::Joint, MethodName::Fuse].into_iter().enumerate()
            {
                let fused = combine == MethodName::Fuse;
                let mix = if fused { Mix::Auto } else { Mix::Fixed(0.2) };
                let config = ConformalConfig::default()
                    .calibration(calibration)
                    .method(combine)
                    .fit_neighbors(fit_neighbors)
                    .mix(mix);
                let setup =
                    Setup { device: &Cpu, classes: CLASSES, kernel, config: &config, context: &context };
                let probabilities = fused.then(|| of_own.clone());
                let predictor = if calibration == Calibration::Reuse {
                    Predictor::reuse(own.part.clone(), probabilities.as_deref(), setup)?
                } else {
                    Predictor::exact(own.part.clone(), &others, probabilities, setup)?
                };
                let decision = predictor.decide(0.1)?;
                let asked = fused.then_some(&new.probabilities);
                let mut labels = 0;
                let seconds = best(|| -> dance::Result<()> {
                    let mapped = machine.map(&new.part.embeddings, &context)?;
                    let answers = predictor.answer(&mapped, asked, &context)?;
                    labels = answers.counts.sets(decision.cut, CLASSES).labels.len();
                    Ok(())
                });
                if calibration == Calibration::Reuse {
                    reuse[which] = seconds;
                }
                let reference =
                    if fit_neighbors { "calibration and fit points" } else { "calibration points" };
                println!(
                    "  {calibration:?}, {combine:?}, {reference}: {seconds:.3} s, {:.2}× reuse; {:.2} labels a set",
                    seconds / reuse[which],
                    labels as f64 / queries as f64
                );
            }
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    println!("peak memory {peak}, of which the points and probabilities of this program are most");
    Ok(())
}
