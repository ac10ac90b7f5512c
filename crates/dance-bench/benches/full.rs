//! The cost of full conformal prediction (method fuse) beside the paper's reuse (method dance). The goal is at most 3×.
//!
//! `cargo bench -p dance-bench --bench full -- [calibration points] [fit points] [d] [queries] [part of a source's name]`.
//! Times are the best of three. `DANCE_THREADS` sets the threads; the default is one per core. There are three sources of
//! 1000 classes, from neighbors that agree to neighbors that do not.

use std::hint::black_box;
use std::time::Instant;

use dance::conformal::{ConformalConfig, Method, MethodName, Mix, PredictOptions, Predictor, QueryBlock, Setup};
use dance::device::{Cpu, Device, MachineParts};
use dance::kernel::Kernel;
use dance::machine::{Classified, Part};
use dance::numeric::random::Random;
use dance::{Context, Matrix};

const CLASSES: usize = 1000;

struct Points {
    part: Part,
    /// Class probabilities, a row a point.
    probabilities: Matrix,
}

/// Class centers with noise around them, and probabilities that are right more often than not.
fn points(rows: usize, d: usize, noise: f32, seed: u64) -> Points {
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
    Points { part: Part { embeddings, labels }, probabilities }
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
    for (name, noise) in [("neighbors agree", 1.5), ("neighbors often agree", 2.2), ("neighbors disagree", 4.0)] {
        if asked.as_ref().is_some_and(|asked| !name.contains(asked.as_str())) {
            continue;
        }
        let own = points(n, d, noise, 2);
        let new = points(queries, d, noise, 3);
        let others = points(fit, d, noise, 4).part;
        let labels = own.part.labels.iter().enumerate();
        let of_own: Vec<f32> = labels.map(|(row, &y)| own.probabilities.row(row)[y as usize]).collect();
        println!("{name}:");
        let setup = Setup { device: &Cpu, classes: CLASSES, kernel, context: &context };
        let mut reuse = f64::NAN;
        for name in [MethodName::Dance, MethodName::Fuse] {
            let mut config = ConformalConfig::default().with_method(name);
            if name == MethodName::Dance {
                config.mix = Mix::Fixed(0.2);
            }
            let predictor = match config.method()? {
                Method::Dance(method) => Predictor::dance(method, own.part.clone(), || Ok(others.clone()), setup)?,
                Method::Fuse(method) => Predictor::fuse(method, own.part.clone(), &others, of_own.clone(), setup)?,
                Method::Posterior(_) => continue,
            };
            let decision = predictor.decide(0.1)?;
            let mut labels = 0;
            let seconds = best(|| -> dance::Result<()> {
                let mapped = &machine.map(&new.part.embeddings, &context)?;
                let classify =
                    || Ok(Classified { labels: vec![0; mapped.rows()], probabilities: new.probabilities.clone() });
                let block = QueryBlock { normalised: mapped, mapped, classify: &classify };
                let options = PredictOptions::default().best(false);
                let scored = predictor.score(block, options, &context)?;
                labels = scored.counts.sets(decision.cut, CLASSES).labels().len();
                Ok(())
            });
            if name == MethodName::Dance {
                reuse = seconds;
            }
            println!(
                "  {name:?}: {seconds:.3} s, {:.2}× reuse; {:.2} labels a set",
                seconds / reuse,
                labels as f64 / queries as f64
            );
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    println!("peak memory {peak}, of which the points and probabilities of this program are most");
    Ok(())
}
