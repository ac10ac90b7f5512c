//! The kernel engine measured: rates against the matrix product of the same binary in the same run, growth with n,
//! a whole tuned fit at ImageNet's scale, and the two jobs that the peers in `benchmarks/` are compared with.
//!
//! ```text
//! cargo bench --bench engine                      one round (n = 4,000) and the growth of its cost
//! cargo bench --bench engine -- round 16000       one round at ImageNet's scale (d = 512, c = 1000)
//! cargo bench --bench engine -- growth 16000      seconds against n up to 16,000, fitted exponent
//! cargo bench --bench engine -- tuned 20000       a whole tuned fit at ImageNet's scale
//! cargo bench --bench engine -- search DATA…      the default search against the full one, 3 seeds
//! cargo bench --bench engine -- fit DATA L ξ ridge rounds     JSON, for benchmarks/xrfm.py
//! cargo bench --bench engine -- accuracy DATA SEED            JSON, for benchmarks/accuracy.py
//! ```
//! `DANCE_THREADS` sets the number of threads (default: all cores).

use std::path::Path;
use std::time::Instant;

use dance::agop::{self, AgopForm};
use dance::backend::{Backend, Cpu, FitPoints};
use dance::kernel::Kernel;
use dance::observe::{Event, Observer, Silent};
use dance::random::Random;
use dance::rfm::{Rfm, RfmConfig, Score};
use dance::tune::{self, TuneConfig};
use dance::{Dataset, Matrix, Normalize, Normalizer, Result, split};
use serde_json::json;

const D: usize = 512;
const C: usize = 1000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let threads = std::env::var("DANCE_THREADS").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let cpu = Cpu::new(threads)?;
    let number = |word: &str| word.parse::<usize>().unwrap_or_else(|_| panic!("`{word}` is not a number"));
    match words[..] {
        [] => {
            round(&cpu, 4000)?;
            growth(&cpu, 4000)
        }
        ["round", n] => round(&cpu, number(n)),
        ["growth", n] => growth(&cpu, number(n)),
        ["tuned", n] => tuned(&cpu, number(n)),
        ["search", ..] => search(&cpu, &words[1..]),
        ["fit", data, bandwidth, shape, ridge, rounds] => {
            let real =
                |word: &str| word.parse::<f64>().unwrap_or_else(|_| panic!("`{word}` is not a number"));
            fit(&cpu, data, real(bandwidth), real(shape), real(ridge), number(rounds))
        }
        ["accuracy", data, seed] => accuracy(&cpu, data, number(seed) as u64),
        _ => panic!("unknown arguments {words:?}; see the top of benches/engine.rs"),
    }
}

/// GFLOP/s of a large matrix product: the rate everything else is measured against.
fn gemm_rate(cpu: &Cpu) -> f64 {
    let n = 3000;
    let a = random_points(n, n, 1);
    let mut out = vec![0.0f32; n * n];
    let a = faer::MatRef::from_row_major_slice(a.as_slice(), n, n);
    let par =
        if cpu.threads().count() == 1 { faer::Par::Seq } else { faer::Par::rayon(cpu.threads().count()) };
    let best = (0..5).map(|_| {
        let begin = Instant::now();
        let out = faer::MatMut::from_row_major_slice_mut(&mut out, n, n);
        cpu.threads().run(|| {
            faer::linalg::matmul::matmul(out, faer::Accum::Replace, a, a.transpose(), 1.0f32, par);
        });
        begin.elapsed().as_secs_f64()
    });
    2.0 * (n as f64).powi(3) / best.fold(f64::INFINITY, f64::min) / 1e9
}

/// Flops of one round: distances, factorisation, solve, AGOP.
fn round_flops(n: usize, d: usize, c: usize) -> f64 {
    let form = agop::cheaper_form(n, n, c, d);
    let (real, d, classes) = (n as f64, d as f64, c as f64);
    real * real * d
        + real.powi(3) / 3.0
        + 2.0 * real * real * classes
        + agop::flops(form, n, n, c, d as usize)
}

/// Seconds of one round (solve, then AGOP) under a learned metric, so that nothing is shared.
fn time_round(cpu: &Cpu, n: usize) -> Result<(f64, f64)> {
    let (points, labels) = clusters(n, D, C.min(n / 8), 3);
    let none = Matrix::zeros(0, D);
    let fit_points = FitPoints { train: &points, labels: &labels, classes: C.min(n / 8), held_out: &none };
    let kernel = Kernel::new(cpu.median_distance(&points), 1.0)?;
    let mut session = cpu.open(fit_points, false)?;
    let mut metric = Matrix::zeros(D, D);
    for at in 0..D {
        metric.row_mut(at)[at] = 1.0 - 0.5 * at as f32 / D as f32;
    }
    let begin = Instant::now();
    let solution = session.solve(Some(&metric), kernel, 1e-3)?;
    let solved = begin.elapsed().as_secs_f64();
    std::hint::black_box(session.agop(&solution.beta, None, None)?);
    Ok((solved, begin.elapsed().as_secs_f64() - solved))
}

fn round(cpu: &Cpu, n: usize) -> Result<()> {
    let c = C.min(n / 8);
    let gemm = gemm_rate(cpu);
    let (solve, agop_seconds) = time_round(cpu, n)?;
    let total = round_flops(n, D, c);
    let agop_flops = agop::flops(AgopForm::Folded, n, n, c, D);
    let rate = |flops: f64, seconds: f64| flops / seconds / 1e9;
    println!("one round, n = {n}, d = {D}, c = {c}, {} threads", cpu.threads().count());
    println!("  matrix product          {gemm:7.1} GFLOP/s");
    for (name, flops, seconds) in [
        ("regression", total - agop_flops, solve),
        ("AGOP", agop_flops, agop_seconds),
        ("round", total, solve + agop_seconds),
    ] {
        let rate = rate(flops, seconds);
        println!(
            "  {name:<12} {seconds:8.2} s  {rate:7.1} GFLOP/s  {:5.1} % of the product",
            100.0 * rate / gemm
        );
    }
    println!("  resident at the peak    {:.2} GiB", peak_gib());
    Ok(())
}

fn growth(cpu: &Cpu, most: usize) -> Result<()> {
    println!("seconds a round against n (d = {D}, c = n/8 up to {C})");
    let mut rows: Vec<(f64, f64, f64)> = Vec::new();
    let mut n = 1000;
    while n <= most {
        let (solve, agop_seconds) = time_round(cpu, n)?;
        let flops = round_flops(n, D, C.min(n / 8));
        println!(
            "  n {n:6}  {:9.3} s  {:7.1} GFLOP/s",
            solve + agop_seconds,
            flops / (solve + agop_seconds) / 1e9
        );
        rows.push((n as f64, solve + agop_seconds, flops));
        n *= 2;
    }
    let slope = |value: fn(&(f64, f64, f64)) -> f64| {
        let logs: Vec<(f64, f64)> = rows.iter().map(|row| (row.0.ln(), value(row).ln())).collect();
        let mean = |pick: fn(&(f64, f64)) -> f64| logs.iter().map(pick).sum::<f64>() / logs.len() as f64;
        let (x, y) = (mean(|log| log.0), mean(|log| log.1));
        logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum::<f64>()
            / logs.iter().map(|log| (log.0 - x).powi(2)).sum::<f64>()
    };
    println!(
        "  exponent: {:.2} in seconds, {:.2} in counted operations",
        slope(|row| row.1),
        slope(|row| row.2)
    );
    Ok(())
}

/// Prints the trials as they come.
struct Trials;

impl Observer for Trials {
    fn notice(&self, event: &Event) {
        match event {
            Event::Evaluated(trial) => println!(
                "  {:6} points  bandwidth {:6.3}  shape {:.3}  rounds {}  accuracy {:.4}  {:7.2} s",
                trial.points, trial.bandwidth, trial.shape, trial.rounds, trial.score.accuracy, trial.seconds
            ),
            Event::Memory { bytes } => println!("  will take up to {}", dance::error::human_bytes(*bytes)),
            Event::Warning(text) => println!("  warning: {text}"),
            _ => {}
        }
    }
}

fn tuned(cpu: &Cpu, n: usize) -> Result<()> {
    let c = C.min(n / 8);
    let (points, labels) = clusters(n, D, c, 5);
    println!("tuned fit, {n} points (a fifth of them for validation), d = {D}, c = {c}, 25 evaluations");
    for refit in [false, true] {
        let begin = Instant::now();
        let config = TuneConfig { refit, ..TuneConfig::default() };
        let tuned = tune::fit(cpu, &points, &labels, c, &RfmConfig::default(), &config, &Trials)?;
        println!("  {}", tuned.fidelity);
        println!(
            "  {:.0} s in all, validation accuracy {:.4}, resident at the peak {:.2} GiB",
            begin.elapsed().as_secs_f64(),
            tuned.validation.accuracy,
            peak_gib()
        );
    }
    Ok(())
}

/// The default search against the full one (every trial on all training points, all rounds): validation accuracy, seconds.
fn search(cpu: &Cpu, files: &[&str]) -> Result<()> {
    let mut differences = Vec::new();
    for file in files {
        let data = load(file)?;
        for seed in 0..3 {
            let parts = split::stratified(&data.labels, &[0.4, 0.4, 0.2], seed)?;
            let data = data.select(&parts[0]);
            let run = |search_points: Option<usize>, patience: Option<usize>| -> Result<(f64, f64, String)> {
                let begin = Instant::now();
                let config = TuneConfig { seed, search_points, refit: false, ..TuneConfig::default() };
                let rfm = RfmConfig { patience, ..RfmConfig::default() };
                let tuned = tune::fit(
                    cpu,
                    &data.embeddings,
                    &data.labels,
                    data.classes.len(),
                    &rfm,
                    &config,
                    &Silent,
                )?;
                Ok((tuned.validation.accuracy, begin.elapsed().as_secs_f64(), tuned.fidelity))
            };
            let default = run(TuneConfig::default().search_points, None)?;
            let full = run(None, Some(usize::MAX))?;
            println!(
                "{file} seed {seed}: default {:.4} in {:.1} s ({}), full {:.4} in {:.1} s",
                default.0, default.1, default.2, full.0, full.1
            );
            differences.push(default.0 - full.0);
        }
    }
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    println!("mean difference of validation accuracy: {:+.2} points", 100.0 * mean);
    Ok(())
}

/// One fit with given settings on the first 5/6 of the rows, the rest for validation.
fn fit(cpu: &Cpu, file: &str, bandwidth: f64, shape: f64, ridge: f64, rounds: usize) -> Result<()> {
    let data = dance::io::read(Path::new(file), &dance::io::ReadOptions::default())?.into_dataset()?;
    let train = data.len() * 5 / 6;
    let (train, held_out): (Vec<usize>, Vec<usize>) = ((0..train).collect(), (train..data.len()).collect());
    let (train, held_out) = (data.select(&train), data.select(&held_out));
    let points = FitPoints {
        train: &train.embeddings,
        labels: &train.labels,
        classes: data.classes.len(),
        held_out: &held_out.embeddings,
    };
    let config = RfmConfig { ridge, rounds, ..RfmConfig::default() };
    let kernel = Kernel::new(bandwidth, shape)?;
    let run = || -> Result<(f64, Option<Score>)> {
        let begin = Instant::now();
        let (_, score) = Rfm::fit(cpu, points, &held_out.labels, kernel, &config, &Silent)?;
        Ok((begin.elapsed().as_secs_f64(), score))
    };
    let (first, score) = run()?;
    let seconds = (0..2).map(|_| run().map(|(seconds, _)| seconds)).collect::<Result<Vec<_>>>()?;
    let best = seconds.into_iter().fold(first, f64::min);
    let accuracy = score.map(|score| score.accuracy);
    println!("{}", json!({"seconds": best, "accuracy": accuracy, "threads": cpu.threads().count()}));
    Ok(())
}

/// Test accuracy of a tuned fit in the 40/40/20 protocol, and the rows of every part.
fn accuracy(cpu: &Cpu, file: &str, seed: u64) -> Result<()> {
    let data = load(file)?;
    let parts = split::stratified(&data.labels, &[0.4, 0.4, 0.2], seed)?;
    let (fit, test) = (data.select(&parts[0]), data.select(&parts[2]));
    let inner = split::stratified(&fit.labels, &[0.8, 0.2], seed)?;
    let rows = |part: &[usize]| part.iter().map(|&row| parts[0][row]).collect::<Vec<_>>();
    let mut result = json!({"train": rows(&inner[0]), "validation": rows(&inner[1]), "test": parts[2]});
    for refit in [false, true] {
        let begin = Instant::now();
        let config = TuneConfig { seed, refit, ..TuneConfig::default() };
        let rfm = RfmConfig::default();
        let tuned = tune::fit(cpu, &fit.embeddings, &fit.labels, data.classes.len(), &rfm, &config, &Silent)?;
        let seconds = begin.elapsed().as_secs_f64();
        let outputs = tuned.rfm.outputs(cpu, &test.embeddings)?;
        let name = if refit { "refit" } else { "plain" };
        result[name] = json!({
            "accuracy": Score::of(&outputs, &test.labels).accuracy,
            "seconds": seconds,
            "rounds": tuned.rfm.rounds,
            "bandwidth": tuned.rfm.kernel.bandwidth() / tuned.unit,
            "shape": tuned.rfm.kernel.shape(),
        });
    }
    println!("{result}");
    Ok(())
}

fn load(file: &str) -> Result<Dataset> {
    let mut data = dance::io::read(Path::new(file), &dance::io::ReadOptions::default())?.into_dataset()?;
    Normalizer::fit(Normalize::L2, &data.embeddings).apply(file, &mut data.embeddings)?;
    Ok(data)
}

fn random_points(n: usize, d: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed, 9);
    let values = (0..n * d).map(|_| random.uniform() as f32 - 0.5).collect();
    Matrix::new(values, n, d).unwrap_or_else(|error| panic!("{error}"))
}

/// Unit vectors around random class centres: labels that can be learned, though not perfectly.
fn clusters(n: usize, d: usize, classes: usize, seed: u64) -> (Matrix, Vec<u32>) {
    let centers = random_points(classes, d, seed);
    let mut points = random_points(n, d, seed + 1);
    let labels: Vec<u32> = (0..n).map(|row| (row % classes) as u32).collect();
    for (row, &label) in labels.iter().enumerate() {
        let values = points.row_mut(row);
        for (value, center) in values.iter_mut().zip(centers.row(label as usize)) {
            *value += 0.35 * center;
        }
        let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        for value in values {
            *value /= norm;
        }
    }
    (points, labels)
}

fn peak_gib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = kib.and_then(|text| text.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / (1024.0 * 1024.0))
}
