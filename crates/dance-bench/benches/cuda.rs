//! What a graphics processor takes for each step, with the operations it counts: `benchmarks/gpu.py` puts them beside peers and
//! the roofline of the same run.
//!
//! ```text
//! cargo bench -p dance-bench --bench cuda -- fit POINTS DIMENSIONS CLASSES ROUNDS [AGOP_POINTS]
//! cargo bench -p dance-bench --bench cuda -- evaluations COUNT POINTS DIMENSIONS CLASSES ROUNDS
//! cargo bench -p dance-bench --bench cuda -- file POINTS.npz MODEL.dance
//! cargo bench -p dance-bench --bench cuda -- search QUERIES POINTS DIMENSIONS NEIGHBORS
//! cargo bench -p dance-bench --bench cuda -- classify QUERIES POINTS DIMENSIONS CLASSES
//! ```
//!
//! One line per step: its name, seconds, operations. On the CPU with `DANCE_DEVICE=cpu`, for a look at the twin.

#![allow(clippy::unwrap_used)] // a benchmark may panic

use std::path::Path;
use std::time::Instant;

use dance::data::{io, split};
use dance::device::cpu::agop_flops;
use dance::device::{Device, DeviceChoice, FitPoints, MachineParts};
use dance::kernel::Kernel;
use dance::neighbors::Index;
use dance::numeric::random::Random;
use dance::{Config, Context, Event, Fitted, Matrix, Observer};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let sizes: Vec<usize> = arguments.iter().skip(1).filter_map(|text| text.parse().ok()).collect();
    let choice = std::env::var("DANCE_DEVICE").unwrap_or_else(|_| "cuda".into());
    let begin = Instant::now();
    let device = match choice.parse::<DeviceChoice>().and_then(DeviceChoice::open) {
        Ok((device, _)) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    said("open", begin, 0.0);
    let context = Context::new(0).unwrap();
    match (arguments.first().map(String::as_str), &sizes[..]) {
        (Some("fit"), &[n, d, c, rounds]) => fit(&*device, [n, d, c, rounds], None, &context),
        (Some("fit"), &[n, d, c, rounds, agop]) => fit(&*device, [n, d, c, rounds], Some(agop), &context),
        (Some("evaluations"), &[count, n, d, c, rounds]) => {
            evaluations(&*device, count, [n, d, c, rounds], &context);
        }
        (Some("file"), _) => from_file(&*device, &arguments[1], &arguments[2], &context),
        (Some("search"), &[queries, n, d, k]) => search(&*device, [queries, n, d, k], &context),
        (Some("classify"), &[queries, n, d, c]) => classify(&*device, [queries, n, d, c], &context),
        (None, _) => {
            fit(&*device, [4000, 512, 100, 2], None, &context);
            search(&*device, [2000, 4000, 512, 100], &context);
            classify(&*device, [2000, 4000, 512, 100], &context);
        }
        _ => println!(
            "fit N D C ROUNDS [AGOP], evaluations COUNT N D C ROUNDS, search QUERIES N D K or classify QUERIES N D C"
        ),
    }
}

fn said(step: &str, begin: Instant, operations: f64) {
    println!("{step} {:.6} {operations:.4e}", begin.elapsed().as_secs_f64());
}

/// Clusters of unit vectors, as embeddings are.
fn points(rows: usize, d: usize, classes: usize, seed: u64) -> Matrix {
    let mut random = Random::new(7, 1);
    let centers: Vec<f32> = (0..classes * d).map(|_| random.normal() as f32).collect();
    let mut random = Random::new(seed, 2);
    let mut out = Matrix::zeros(rows, d);
    for row in 0..rows {
        let center = &centers[row % classes * d..][..d];
        let to = out.row_mut(row);
        for (value, center) in to.iter_mut().zip(center) {
            *value = 0.5 + center + 1.5 * random.normal() as f32;
        }
        let length = to.iter().map(|value| value * value).sum::<f32>().sqrt();
        for value in to {
            *value /= length;
        }
    }
    out
}

fn labels(rows: usize, classes: usize) -> Vec<u32> {
    (0..rows).map(|row| (row % classes) as u32).collect()
}

fn fit(device: &dyn Device, [n, d, c, rounds]: [usize; 4], agop: Option<usize>, context: &Context<'_>) {
    let (train, held_out) = (points(n, d, c, 1), points(n / 8, d, c, 2));
    let (labels, held_out_labels) = (labels(n, c), labels(n / 8, c));
    let given = FitPoints {
        train: &train,
        labels: &labels,
        classes: c,
        held_out: &held_out,
        held_out_labels: &held_out_labels,
        basis: None,
        several: false,
    };
    let kernel = Kernel::new(1.0, 1.0).unwrap();
    let sample: Option<Vec<usize>> = agop.map(|points| (0..n).step_by(n.div_ceil(points)).collect());
    let s = sample.as_ref().map_or(n, Vec::len);
    let sizes = (n as f64, held_out.rows() as f64, d as f64, c as f64);
    let solve = {
        let (n, m, d, c) = sizes;
        // Distances, factor, two solutions for one refinement, its residual, held-out outputs.
        2.0 * n * n * d + n.powi(3) / 3.0 + 4.0 * n * n * c + 2.0 * n * n * c + 2.0 * m * n * (d + c)
    };
    let learn = agop_flops(n, s, c, d);
    for run in ["warm-up", "fit"] {
        let rounds = if run == "fit" { rounds } else { 1 };
        let begin = Instant::now();
        let mut session = device.open_fit(given, context).unwrap();
        said(&format!("{run}-upload"), begin, 0.0);
        session.begin(None, context).unwrap();
        for round in 0..=rounds {
            let step = Instant::now();
            let solved = session.solve(kernel, 1e-3, context).unwrap();
            said(&format!("{run}-solve"), step, solve);
            println!("# {solved:?}");
            session.keep().unwrap();
            if round < rounds {
                let step = Instant::now();
                assert!(session.learn(sample.as_deref(), context).unwrap());
                said(&format!("{run}-learn"), step, learn);
            }
        }
        session.choose().unwrap();
        let step = Instant::now();
        session.chosen().unwrap();
        said(&format!("{run}-download"), step, 0.0);
        said(run, begin, (rounds as f64 + 1.0) * solve + rounds as f64 * learn);
    }
}

/// A search as long as it can be: every evaluation on all points, every round, the AGOP over all points.
fn evaluations(device: &dyn Device, count: usize, [n, d, c, rounds]: [usize; 4], context: &Context<'_>) {
    let (train, held_out) = (points(n, d, c, 1), points(n / 4, d, c, 2));
    let (labels, held_out_labels) = (labels(n, c), labels(n / 4, c));
    let given = FitPoints {
        train: &train,
        labels: &labels,
        classes: c,
        held_out: &held_out,
        held_out_labels: &held_out_labels,
        basis: None,
        several: true,
    };
    let begin = Instant::now();
    let mut session = device.open_fit(given, context).unwrap();
    for evaluation in 0..count {
        let (step, shape) = (Instant::now(), 0.5 + 1.5 * evaluation as f64 / count as f64);
        let kernel = Kernel::new(0.5 + 0.1 * evaluation as f64, shape).unwrap();
        session.begin(None, context).unwrap();
        for round in 0..=rounds {
            session.solve(kernel, 1e-3, context).unwrap();
            session.keep().unwrap();
            if round < rounds && !session.learn(None, context).unwrap() {
                break;
            }
        }
        session.choose().unwrap();
        said("evaluation", step, 0.0);
    }
    session.chosen().unwrap();
    said("evaluations", begin, 0.0);
}

/// Says when things happen.
struct Clock(Instant);

impl Observer for Clock {
    fn notice(&self, event: &Event) {
        let words: String = format!("{event:?}").chars().take(100).collect();
        println!("# {:.3} s: {words}", self.0.elapsed().as_secs_f64());
    }
}

/// What `dance fit` does with its defaults, half of the points for the kernel and half for calibration.
fn from_file(device: &dyn Device, points: &str, model: &str, context: &Context<'_>) {
    let begin = Instant::now();
    let clock = Clock(begin);
    let context = &context.with_observer(&clock);
    let data = io::read(Path::new(points), &io::ReadOptions::default()).unwrap().into_dataset().unwrap();
    let parts = split::uniform(data.len(), &[0.5, 0.5], 0).unwrap();
    let [kernel, calibration] = [0, 1].map(|part: usize| data.select(&parts[part]));
    said("file-read", begin, 0.0);
    let step = Instant::now();
    let fitted = Fitted::fit(device, &kernel, &Config::default(), context).unwrap();
    said("file-fit", step, 0.0);
    println!("# validation {:?}; {}", fitted.validation, fitted.fidelity);
    let step = Instant::now();
    let calibrated = fitted.calibrate(device, &calibration, context).unwrap();
    said("file-calibrate", step, 0.0);
    let step = Instant::now();
    calibrated.save(model).unwrap();
    said("file-write", step, 0.0);
    said("file", begin, 0.0);
}

fn search(device: &dyn Device, [count, n, d, k]: [usize; 4], context: &Context<'_>) {
    let (queries, all) = (points(count, d, 100, 3), points(n, d, 100, 4));
    let operations = 2.0 * (count * n * d) as f64;
    let handle = device.open_index(&all, context).unwrap();
    let index = Index::open(device, all, context).unwrap();
    for _ in 0..5 {
        let begin = Instant::now();
        let asked = handle.open_queries(&queries, context).unwrap();
        said("queries-up", begin, 0.0);
        let begin = Instant::now();
        let found = asked.candidates(k, false, context).unwrap();
        said("candidates", begin, operations);
        let listed: usize = (0..count).map(|query| found.get(query).len()).sum();
        println!("# {:.2} candidates per query", listed as f64 / count as f64);
        let begin = Instant::now();
        asked.distances(&found).unwrap();
        said("distances", begin, 3.0 * (listed * d) as f64);
        let begin = Instant::now();
        index.search(&queries, k, context).unwrap();
        said("search", begin, operations);
    }
}

fn classify(device: &dyn Device, [count, n, d, c]: [usize; 4], context: &Context<'_>) {
    let (queries, train) = (points(count, d, c, 3), points(n, d, c, 4));
    let mut random = Random::new(1, 1);
    let beta = Matrix::new((0..n * c).map(|_| random.normal() as f32).collect(), n, c).unwrap();
    let mut root = Matrix::zeros(d, d);
    (0..d).for_each(|at| root.row_mut(at)[at] = 1.0);
    let machine = MachineParts { root: &root, train: &train, kernel: Kernel::new(1.0, 1.0).unwrap(), beta: &beta };
    let handle = device.open_classifier(machine, context).unwrap();
    for _ in 0..3 {
        let begin = Instant::now();
        let mapped = handle.map(&queries, context).unwrap();
        said("map", begin, 2.0 * (count * d * d) as f64);
        let begin = Instant::now();
        handle.outputs(&mapped, context).unwrap();
        said("outputs", begin, 2.0 * (count * n * (d + c)) as f64);
        let (begin, one) = (Instant::now(), mapped.select(&[0]));
        handle.outputs(&one, context).unwrap();
        said("outputs-of-one", begin, 2.0 * (n * (d + c)) as f64);
    }
}
