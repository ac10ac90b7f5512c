//! What a point costs that comes alone: CPU time per point one line at a time, in groups of 16, and all in one call, beside
//! the time to read once what a single query must read.
//!
//! `cargo bench -p dance-bench --bench stream`. Threads are those of `DANCE_THREADS`, or one a core. CPU time is user and
//! system time of the whole process, so that threads that wait busily count. The four are measured by turns, half a second each
//! time, and the median of eleven turns is printed: whatever else the machine does meets them all alike.
//!
//! A query must read the metric's root, the centers, the coefficients and the reference points once: it is one row against
//! each, so there is nothing to use a number twice for. Reading four buffers of exactly these sizes in turn, on one thread,
//! takes the least time a query can take. Goal: one line at a time at most twice that.

mod made_up;

use std::hint::black_box;
use std::time::{Duration, Instant};

use dance::data::{RawLabels, Table, io, split};
use dance::device::Cpu;
use dance::machine::TuneConfig;
use dance::{Config, Context, Dance, Dataset, Fitted, Matrix, PredictOptions, Result, Rows};
use pulp::{Simd, WithSimd};

const ALPHA: f64 = 0.1;
/// CPU seconds of one turn, and turns: more than five seconds in all, so that a tick of 10 ms does not matter.
const SECONDS: f64 = 0.5;
const TURNS: usize = 11;
/// In which Linux counts the CPU time of a process.
const TICKS_PER_SECOND: f64 = 100.0;
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dance-cli/data/wordnet_minilm.npz");

fn main() -> Result<()> {
    let threads = std::env::var("DANCE_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let context = Context::new(threads)?;
    println!("CPU time per point, {} threads, alpha {ALPHA}", context.threads());
    for (name, (model, queries)) in
        [("WordNet, MiniLM", wordnet(&context)?), ("the shape of SUN397", sun397(&context)?)]
    {
        report(name, &measure(&model, &queries, &context)?);
    }
    Ok(())
}

/// The shipped data, 40 % for the fit and 40 % for calibration; default settings but for a short search.
fn wordnet(context: &Context<'_>) -> Result<(Dance, Matrix)> {
    let data = io::read(DATA, &io::ReadOptions::default())?.into_dataset()?;
    let parts = split::stratified(&data.labels, &[0.4, 0.4, 0.2], 0)?;
    let [fit, calibration, test] = [0, 1, 2].map(|part| data.select(&parts[part]));
    model(&fit, &calibration, test, TuneConfig::default().evaluations(2), context)
}

/// Made-up points: 1,600 fit, 3,200 calibrate, 397 classes, 512 dimensions; a given kernel.
fn sun397(context: &Context<'_>) -> Result<(Dance, Matrix)> {
    let (points, labels) = made_up::clusters(1600 + 3200 + 1600, 512, 397, 7);
    let mut table = Table::new("clusters", points)?;
    table.labels = Some(RawLabels::Integers(labels.into_iter().map(i64::from).collect()));
    let data = table.into_dataset()?;
    let [fit, calibration, test] = [0..1600, 1600..4800, 4800..6400].map(|rows| data.select(&rows.collect::<Vec<_>>()));
    let tune = TuneConfig::default().bandwidth((1.0, 1.0)).shape((1.0, 1.0));
    model(&fit, &calibration, test, tune, context)
}

fn model(
    fit: &Dataset,
    calibration: &Dataset,
    test: Dataset,
    tune: TuneConfig,
    context: &Context<'_>,
) -> Result<(Dance, Matrix)> {
    let fitted = Fitted::fit(&Cpu, fit, &Config::default().tune(tune), context)?;
    Ok((fitted.calibrate(&Cpu, calibration, context)?, test.embeddings))
}

/// CPU seconds per point, and what they are compared with.
struct Measured {
    dimensions: usize,
    centers: usize,
    classes: usize,
    reference: usize,
    queries: usize,
    /// Numbers in what a query reads: root, centers, coefficients, reference points.
    sizes: [usize; 4],
    one_line: f64,
    groups: f64,
    bulk: f64,
    reading: f64,
}

fn measure(model: &Dance, queries: &Matrix, context: &Context<'_>) -> Result<Measured> {
    let decision = model.decide(ALPHA)?;
    let all = Rows::from(queries);
    // Sets of the rows from `first` on, at most `size` of them.
    let answer = |first: usize, size: usize| {
        let rows = all.slice(first..all.len().min(first + size));
        let scored = model.score(rows, PredictOptions::default(), context)?;
        Ok(model.predict(&scored, &decision).sets)
    };
    // What is timed must be the same answer in every way of asking.
    let bulk = answer(0, all.len())?;
    for size in [1, 16] {
        for first in (0..all.len()).step_by(size) {
            let sets = answer(first, size)?;
            assert!((0..sets.len()).all(|row| sets.get(row) == bulk.get(first + row)), "sets differ");
        }
    }

    let (fitted, reference) = (model.fitted(), model.reference_points());
    let (root, points, classes) = (fitted.metric_root(), fitted.points(), fitted.classes.len());
    let [root_size, points_size, reference_size] = [root, points, reference].map(|matrix| matrix.as_slice().len());
    let sizes = [root_size, points_size, points.rows() * classes, reference_size];
    let buffers = sizes.map(|size| vec![1.0f32; size]);
    let read = |_| {
        for buffer in black_box(&buffers) {
            black_box(pulp::Arch::new().dispatch(Sum(buffer)));
        }
        Ok(1)
    };
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..TURNS {
        for (times, size) in times.iter_mut().zip([1, 16, all.len()]) {
            times.push(cpu_per_point(all.len(), size, |first| answer(first, size).map(|sets| sets.len()))?);
        }
        times[3].push(cpu_per_point(1, 1, read)?);
    }
    let [one_line, groups, bulk, reading] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[TURNS / 2]
    });
    Ok(Measured {
        dimensions: root.rows(),
        centers: points.rows(),
        classes,
        reference: reference.rows(),
        queries: all.len(),
        sizes,
        one_line,
        groups,
        bulk,
        reading,
    })
}

/// CPU seconds per point of `work`, which does the points from a given one on and says how many. It begins at 0, then
/// `step` further, and over again behind the last of `count`.
fn cpu_per_point(count: usize, step: usize, work: impl Fn(usize) -> Result<usize>) -> Result<f64> {
    const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
    let (begin, mut looked) = (cpu_seconds(), Instant::now());
    let (mut first, mut points) = (0, 0);
    loop {
        points += work(first)?;
        first = if first + step < count { first + step } else { 0 };
        if looked.elapsed() > BETWEEN_LOOKS {
            let spent = cpu_seconds() - begin;
            if spent >= SECONDS {
                return Ok(spent / points as f64);
            }
            looked = Instant::now();
        }
    }
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // The name of the program comes in parentheses and may hold anything; user time is the 12th number after it.
    let numbers = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    numbers.map(|ticks| ticks.parse::<f64>().expect("ticks")).sum::<f64>() / TICKS_PER_SECOND
}

/// Adds up numbers with the widest vectors of the machine, eight of them at a time: as fast as numbers can be read.
struct Sum<'a>(&'a [f32]);

impl WithSimd for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, rest) = S::as_simd_f32s(self.0);
        let (blocks, single) = vectors.as_chunks::<8>();
        let mut sums = [simd.splat_f32s(0.0); 8];
        for block in blocks {
            for at in 0..8 {
                sums[at] = simd.add_f32s(sums[at], block[at]);
            }
        }
        let all = sums.iter().chain(single).fold(simd.splat_f32s(0.0), |sum, &more| simd.add_f32s(sum, more));
        simd.reduce_sum_f32s(all) + rest.iter().sum::<f32>()
    }
}

fn report(name: &str, measured: &Measured) {
    let Measured { dimensions, centers, classes, reference, queries, .. } = measured;
    println!(
        "{name}: d {dimensions}, {centers} centers, {classes} classes, {reference} reference points, {queries} queries"
    );
    let bytes = 4 * measured.sizes.iter().sum::<usize>() as u64;
    let [root, centers, beta, reference] = measured.sizes.map(|size| dance::human_bytes(4 * size as u64));
    let gigabytes = bytes as f64 / measured.reading / 1e9;
    let rows = [
        ("one line at a time", measured.one_line, String::new()),
        ("in groups of 16", measured.groups, String::new()),
        ("all in one call", measured.bulk, String::new()),
        ("reading once", measured.reading, format!("  {bytes} bytes at {gigabytes:.1} GB/s")),
    ];
    for (what, seconds, note) in rows {
        println!("  {what:<20} {:9.1} µs{note}", 1e6 * seconds);
    }
    println!("  what is read: root {root}, centers {centers}, coefficients {beta}, reference points {reference}");
    println!("  one line / reading   {:6.2}  (goal: at most 2)", measured.one_line / measured.reading);
    println!("  one line / bulk      {:6.2}", measured.one_line / measured.bulk);
}
