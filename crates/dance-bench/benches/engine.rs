//! The kernel engine measured: rates against the matrix product of the same binary in the same run, growth with n,
//! a whole tuned fit at ImageNet's scale, and the two jobs that the peers in `benchmarks/` are compared with.
//!
//! ```text
//! cargo bench -p dance-bench --bench engine                      one round (n = 4,000) and the growth of its cost
//! cargo bench -p dance-bench --bench engine -- round 16000       one round at ImageNet's scale (d = 512, c = 1000)
//! cargo bench -p dance-bench --bench engine -- growth 16000      seconds against n up to 16,000, fitted exponent
//! cargo bench -p dance-bench --bench engine -- tuned 20000       a whole tuned fit at ImageNet's scale
//! cargo bench -p dance-bench --bench engine -- search DATA…      the default search against the full one, 3 seeds
//! cargo bench -p dance-bench --bench engine -- fit DATA L ξ ridge rounds     JSON, for benchmarks/xrfm.py
//! cargo bench -p dance-bench --bench engine -- accuracy DATA SEED            JSON, for benchmarks/accuracy.py
//! cargo bench -p dance-bench --bench engine -- split DATA SEED               JSON, for benchmarks/probabilities.py
//! ```
//! `DANCE_THREADS` sets the number of threads (default: all cores).

mod made_up;

use std::sync::Mutex;
use std::time::Instant;

use dance::data::{Normalize, Normalizer, RawLabels, Table, io, split};
use dance::device::cpu::agop_flops;
use dance::device::{Cpu, Device, FitPoints};
use dance::kernel::Kernel;
use dance::machine::TuneConfig;
use dance::neighbors::squared_distance;
use dance::numeric::random::Random;
use dance::{Config, Context, Dataset, Evaluation, Event, Fitted, Matrix, Observer, Quality, Result};
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};
use serde_json::json;

const D: usize = 512;
const C: usize = 1000;
/// Accuracy this far below the best ends the loop of a fit, as in the library.
const COLLAPSE: f64 = 1.1;
/// The AGOP is averaged over at most so many points, as in the library.
const AGOP_POINTS: usize = 8000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let threads = std::env::var("DANCE_THREADS").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let context = &Context::new(threads)?;
    let number = |word: &str| word.parse::<usize>().unwrap_or_else(|_| panic!("`{word}` is not a number"));
    match words[..] {
        [] => {
            round(context, 4000)?;
            growth(context, 4000)
        }
        ["round", n] => round(context, number(n)),
        ["growth", n] => growth(context, number(n)),
        ["tuned", n] => tuned(context, number(n)),
        ["search", ..] => search(context, &words[1..]),
        ["fit", data, bandwidth, shape, ridge, rounds] => {
            let real = |word: &str| word.parse::<f64>().unwrap_or_else(|_| panic!("`{word}` is not a number"));
            fit(context, data, real(bandwidth), real(shape), real(ridge), number(rounds))
        }
        ["accuracy", data, seed] => accuracy(context, data, number(seed) as u64),
        ["split", data, seed] => {
            let parts = split::uniform(load(data)?.len(), &[0.4, 0.4, 0.2], number(seed) as u64)?;
            println!("{}", json!({"fit": parts[0], "calibration": parts[1], "test": parts[2]}));
            Ok(())
        }
        _ => panic!("unknown arguments {words:?}; see the top of benches/engine.rs"),
    }
}

/// GFLOP/s of a large matrix product: the rate everything else is measured against.
fn gemm_rate(context: &Context<'_>) -> f64 {
    let n = 3000;
    let a = made_up::points(n, n, 1);
    let mut out = vec![0.0f32; n * n];
    let a = MatRef::from_row_major_slice(a.as_slice(), n, n);
    let par = if context.threads() == 1 { Par::Seq } else { Par::rayon(context.threads()) };
    let best = (0..5).map(|_| {
        let begin = Instant::now();
        let out = MatMut::from_row_major_slice_mut(&mut out, n, n);
        context.run(|| {
            faer::linalg::matmul::matmul(out, Accum::Replace, a, a.transpose(), 1.0f32, par);
        });
        begin.elapsed().as_secs_f64()
    });
    2.0 * (n as f64).powi(3) / best.fold(f64::INFINITY, f64::min) / 1e9
}

/// Flops of one round: distances, factorisation, solve, AGOP.
fn round_flops(n: usize, d: usize, c: usize) -> f64 {
    let agop = agop_flops(n, n, c, d);
    let (n, d, c) = (n as f64, d as f64, c as f64);
    n * n * d + n.powi(3) / 3.0 + 2.0 * n * n * c + agop
}

/// Seconds of one round (solve, then AGOP) under a learned metric, so that nothing is shared.
fn time_round(context: &Context<'_>, n: usize) -> Result<(f64, f64)> {
    let (points, labels) = made_up::clusters(n, D, C.min(n / 8), 3);
    let none = Matrix::zeros(0, D);
    let classes = C.min(n / 8);
    let fit_points = FitPoints {
        train: &points,
        labels: &labels,
        classes,
        held_out: &none,
        held_out_labels: &[],
        basis: None,
        several: false,
    };
    let kernel = Kernel::new(median_distance(&points), 1.0)?;
    let mut session = Cpu.open_fit(fit_points, context)?;
    let mut metric = Matrix::zeros(D, D);
    for at in 0..D {
        metric.row_mut(at)[at] = 1.0 - 0.5 * at as f32 / D as f32;
    }
    let begin = Instant::now();
    session.begin(Some(&metric), context)?;
    session.solve(kernel, 1e-3, context)?;
    let solved = begin.elapsed().as_secs_f64();
    session.learn(None, context)?;
    Ok((solved, begin.elapsed().as_secs_f64() - solved))
}

fn round(context: &Context<'_>, n: usize) -> Result<()> {
    let c = C.min(n / 8);
    let gemm = gemm_rate(context);
    let (solve, agop_seconds) = time_round(context, n)?;
    let total = round_flops(n, D, c);
    let agop_flops = agop_flops(n, n, c, D);
    let rate = |flops: f64, seconds: f64| flops / seconds / 1e9;
    println!("one round, n = {n}, d = {D}, c = {c}, {} threads", context.threads());
    println!("  matrix product          {gemm:7.1} GFLOP/s");
    for (name, flops, seconds) in [
        ("regression", total - agop_flops, solve),
        ("AGOP", agop_flops, agop_seconds),
        ("round", total, solve + agop_seconds),
    ] {
        let rate = rate(flops, seconds);
        println!("  {name:<12} {seconds:8.2} s  {rate:7.1} GFLOP/s  {:5.1} % of the product", 100.0 * rate / gemm);
    }
    println!("  resident at the peak    {:.2} GiB", peak_gib());
    Ok(())
}

fn growth(context: &Context<'_>, most: usize) -> Result<()> {
    println!("seconds a round against n (d = {D}, c = n/8 up to {C})");
    let mut rows: Vec<(f64, f64, f64)> = Vec::new();
    let mut n = 1000;
    while n <= most {
        let (solve, agop_seconds) = time_round(context, n)?;
        let flops = round_flops(n, D, C.min(n / 8));
        println!("  n {n:6}  {:9.3} s  {:7.1} GFLOP/s", solve + agop_seconds, flops / (solve + agop_seconds) / 1e9);
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
    println!("  exponent: {:.2} in seconds, {:.2} in counted operations", slope(|row| row.1), slope(|row| row.2));
    Ok(())
}

/// Prints the trials as they come.
struct Trials;

impl Observer for Trials {
    fn notice(&self, event: &Event) {
        match event {
            Event::Evaluated(trial) => println!(
                "  {:6} points  bandwidth {:6.3}  shape {:.3}  rounds {}  accuracy {:.4}  {:7.2} s",
                trial.points, trial.bandwidth, trial.shape, trial.rounds, trial.quality.accuracy, trial.seconds
            ),
            Event::Memory { bytes } => println!("  will take up to {}", dance::human_bytes(*bytes)),
            Event::Warning(text) => println!("  warning: {text}"),
            _ => {}
        }
    }
}

fn tuned(context: &Context<'_>, n: usize) -> Result<()> {
    let c = C.min(n / 8);
    let (embeddings, labels) = made_up::clusters(n, D, c, 5);
    let mut table = Table::new("clusters", embeddings)?;
    table.labels = Some(RawLabels::Integers(labels.into_iter().map(i64::from).collect()));
    let data = table.into_dataset()?;
    let context = &context.with_observer(&Trials);
    println!("tuned fit, {n} points (a fifth of them for validation), d = {D}, c = {c}, 25 evaluations");
    for refit in [false, true] {
        let begin = Instant::now();
        let tuned = Fitted::fit(&Cpu, &data, &config(TuneConfig::default().refit(refit)), context)?;
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
fn search(context: &Context<'_>, files: &[&str]) -> Result<()> {
    let mut differences = Vec::new();
    for file in files {
        let data = load(file)?;
        for seed in 0..3 {
            let parts = split::stratified(&data.labels, &[0.4, 0.4, 0.2], seed)?;
            let data = data.select(&parts[0]);
            let run = |search_points: Option<usize>, patience: Option<usize>| -> Result<(f64, f64, String)> {
                let begin = Instant::now();
                let tune = TuneConfig::default().seed(seed).search_points(search_points).refit(false);
                let tuned = Fitted::fit(&Cpu, &data, &config(tune).patience(patience), context)?;
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

/// One fit with given settings on the first 5/6 of the rows, the rest for validation; the best round wins.
fn fit(context: &Context<'_>, file: &str, bandwidth: f64, shape: f64, ridge: f64, rounds: usize) -> Result<()> {
    let data = io::read(file, &io::ReadOptions::default())?.into_dataset()?;
    let train = data.len() * 5 / 6;
    let (train, held_out): (Vec<usize>, Vec<usize>) = ((0..train).collect(), (train..data.len()).collect());
    let (train, held_out) = (data.select(&train), data.select(&held_out));
    let points = FitPoints {
        train: &train.embeddings,
        labels: &train.labels,
        classes: data.classes.len(),
        held_out: &held_out.embeddings,
        held_out_labels: &held_out.labels,
        basis: None,
        several: false,
    };
    let sample = agop_sample(train.len());
    let kernel = Kernel::new(bandwidth, shape)?;
    let run = || -> Result<(f64, Option<Quality>)> {
        let begin = Instant::now();
        let mut session = Cpu.open_fit(points, context)?;
        session.begin(None, context)?;
        let mut best: Option<Quality> = None;
        for round in 0..=rounds {
            let quality = session.solve(kernel, ridge, context)?.quality.unwrap_or(Quality::WORST);
            let collapsed = best.is_some_and(|best| quality.accuracy < best.accuracy / COLLAPSE);
            if best.is_none_or(|best| quality.beats(&best)) {
                session.keep()?;
                best = Some(quality);
            }
            if round == rounds || collapsed || !session.learn(sample.as_deref(), context)? {
                break;
            }
        }
        session.choose()?;
        let chosen = session.chosen()?;
        std::hint::black_box(chosen.0.as_ref().map(symmetric_root));
        Ok((begin.elapsed().as_secs_f64(), best))
    };
    let (first, quality) = run()?;
    let seconds = (0..2).map(|_| run().map(|(seconds, _)| seconds)).collect::<Result<Vec<_>>>()?;
    let best = seconds.into_iter().fold(first, f64::min);
    let accuracy = quality.map(|quality| quality.accuracy);
    println!("{}", json!({"seconds": best, "accuracy": accuracy, "threads": context.threads()}));
    Ok(())
}

/// As many points as the AGOP is averaged over by default; `None` where there are no more.
fn agop_sample(train: usize) -> Option<Vec<usize>> {
    if train <= AGOP_POINTS {
        return None;
    }
    let mut rows: Vec<usize> = (0..train).collect();
    Random::new(0, 1).shuffle(&mut rows);
    rows.truncate(AGOP_POINTS);
    rows.sort_unstable();
    Some(rows)
}

/// The root of a metric, which a model needs in the end: the last step of a fit.
fn symmetric_root(metric: &Matrix) -> Mat<f64> {
    let d = metric.rows();
    faer::set_global_parallelism(Par::Seq); // on one thread, as in the library
    let symmetric = Mat::from_fn(d, d, |row, column| f64::from(metric.row(row)[column]));
    let eigen = symmetric.self_adjoint_eigen(Side::Lower).unwrap_or_else(|error| panic!("no eigenvalues: {error:?}"));
    let (vectors, values) = (eigen.U(), eigen.S());
    let half = Mat::from_fn(d, d, |row, at| vectors[(row, at)] * values[at].max(0.0).powf(0.25));
    &half * half.transpose()
}

/// Test accuracy of a tuned fit in the 40/40/20 protocol, and the rows of every part.
fn accuracy(context: &Context<'_>, file: &str, seed: u64) -> Result<()> {
    let data = load(file)?;
    let parts = split::stratified(&data.labels, &[0.4, 0.4, 0.2], seed)?;
    let (fit, test) = (data.select(&parts[0]), data.select(&parts[2]));
    let inner = split::stratified(&fit.labels, &[0.8, 0.2], seed)?;
    let rows = |part: &[usize]| part.iter().map(|&row| parts[0][row]).collect::<Vec<_>>();
    let mut result = json!({"train": rows(&inner[0]), "validation": rows(&inner[1]), "test": parts[2]});
    for refit in [false, true] {
        let begin = Instant::now();
        let settings = Settings::default();
        let config = config(TuneConfig::default().seed(seed).refit(refit));
        let tuned = Fitted::fit(&Cpu, &fit, &config, &context.with_observer(&settings))?;
        let seconds = begin.elapsed().as_secs_f64();
        let found = tuned.classifier(&Cpu, context)?.classify(&test.embeddings, context)?.labels;
        let right = |pair: &(&u32, &u32)| tuned.classes[*pair.0 as usize] == data.classes[*pair.1 as usize];
        let hits = found.iter().zip(&test.labels).filter(right).count();
        let name = if refit { "refit" } else { "plain" };
        result[name] = json!({
            "accuracy": hits as f64 / test.len() as f64,
            "seconds": seconds,
            "rounds": tuned.rounds(),
            "bandwidth": settings.bandwidth(tuned.validation),
            "shape": tuned.kernel().shape(),
        });
    }
    println!("{result}");
    Ok(())
}

fn load(file: &str) -> Result<Dataset> {
    let mut data = io::read(file, &io::ReadOptions::default())?.into_dataset()?;
    Normalizer::fit(Normalize::L2, &data.embeddings).apply(file, &mut data.embeddings)?;
    Ok(data)
}

/// The settings of a fit on points that are normalised already.
fn config(tune: TuneConfig) -> Config {
    Config::default().normalize(Normalize::None).tune(tune)
}

/// Keeps the settings that were tried, since a kernel holds its bandwidth in the units of the points alone.
#[derive(Default)]
struct Settings(Mutex<Vec<Evaluation>>);

impl Observer for Settings {
    fn notice(&self, event: &Event) {
        if let (Event::Evaluated(trial), Ok(mut trials)) = (event, self.0.lock()) {
            trials.push(*trial);
        }
    }
}

impl Settings {
    /// The bandwidth of the last trial with this quality, in median distances.
    fn bandwidth(&self, quality: Quality) -> Option<f64> {
        let trials = self.0.lock().ok()?;
        trials.iter().rev().find(|trial| trial.quality == quality).map(|trial| trial.bandwidth)
    }
}

/// The median distance among about a thousand of the points.
fn median_distance(points: &Matrix) -> f64 {
    let chosen: Vec<usize> = (0..points.rows()).step_by(points.rows().div_ceil(1000)).collect();
    let pairs = chosen.iter().flat_map(|&a| chosen.iter().filter(move |&&b| b < a).map(move |&b| (a, b)));
    let mut squared: Vec<f64> = pairs.map(|(a, b)| squared_distance(points.row(a), points.row(b))).collect();
    let middle = squared.len() / 2;
    squared.select_nth_unstable_by(middle, f64::total_cmp).1.sqrt()
}

fn peak_gib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = kib.and_then(|text| text.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / (1024.0 * 1024.0))
}
