//! The cost of the methods side by side, in one run: calibration, prediction in bulk, one query at a time. The method dance
//! reuses its calibration points and has a given mix. The goal is that full conformal prediction by the method fuse takes at
//! most 3 times as long.
//!
//! `cargo bench -p dance-bench --bench methods -- [calibration points] [fit points] [classes] [queries]`.
//! Without numbers, the shapes of pets and of SUN397 are measured. The points are made up and have 512 dimensions. The kernel
//! is given and evaluated once, so that the times are those of calibration and prediction.

mod made_up;

use std::time::Instant;

use dance::conformal::{ConformalConfig, MethodName, Mix};
use dance::data::{RawLabels, Table};
use dance::device::Cpu;
use dance::machine::TuneConfig;
use dance::{Config, Context, Dance, Fitted, Matrix, PredictOptions};

const DIMENSIONS: usize = 512;

fn seconds<T>(work: impl FnOnce() -> dance::Result<T>) -> dance::Result<(T, f64)> {
    let start = Instant::now();
    Ok((work()?, start.elapsed().as_secs_f64()))
}

fn measure(name: &str, fit: usize, calibration: usize, classes: usize, queries: usize) -> dance::Result<()> {
    let context = Context::new(0)?;
    println!(
        "{name}: {fit} fit points, {calibration} calibration points, {classes} classes, {queries} queries, {} threads",
        context.threads()
    );
    let (points, labels) = made_up::clusters(fit + calibration + queries, DIMENSIONS, classes, 7);
    let mut table = Table::new("clusters", points)?;
    table.labels = Some(RawLabels::Integers(labels.into_iter().map(i64::from).collect()));
    let data = table.into_dataset()?;
    let ends = [0, fit, fit + calibration, fit + calibration + queries];
    let [given, held, asked] = [0, 1, 2].map(|part| data.select(&(ends[part]..ends[part + 1]).collect::<Vec<_>>()));
    let mut rates = Vec::new();
    for method in [MethodName::Dance, MethodName::Fuse, MethodName::Posterior] {
        let mix = if method == MethodName::Dance { Mix::Fixed(0.2) } else { Mix::Auto };
        let tune = TuneConfig::default().bandwidth((1.0, 1.0)).shape((1.0, 1.0));
        let config = Config::default().tune(tune).conformal(ConformalConfig::default().with_method(method).mix(mix));
        let fitted = Fitted::fit(&Cpu, &given, &config, &context)?;
        let (dance, calibrating): (Dance, f64) = seconds(|| fitted.calibrate(&Cpu, &held, &context))?;
        let predict = |rows: &Matrix| dance.score(rows, PredictOptions::default(), &context);
        predict(&asked.embeddings.select(&[0]))?;
        let (_, bulk) = seconds(|| predict(&asked.embeddings))?;
        let alone = queries.min(100);
        let single = || (0..alone).try_for_each(|row| predict(&asked.embeddings.select(&[row])).map(|_| ()));
        let ((), single) = seconds(single)?;
        rates.push(queries as f64 / bulk);
        println!(
            "  {method:?}: calibration {calibrating:.2} s; {:.0} points a second in bulk; one at a time {:.2} ms",
            queries as f64 / bulk,
            1e3 * single / alone as f64
        );
    }
    println!("  the method fuse takes {:.2}× the time of the method dance", rates[0] / rates[1]);
    println!("  the method posterior takes {:.2}× the time of the method fuse", rates[1] / rates[2]);
    Ok(())
}

fn main() -> dance::Result<()> {
    let sizes: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    if let [calibration, fit, classes, queries] = sizes[..] {
        return measure("as asked", fit, calibration, classes, queries);
    }
    measure("the shape of pets", 1470, 1470, 37, 1024)?;
    measure("the shape of SUN397", 1600, 3200, 397, 1024)
}
