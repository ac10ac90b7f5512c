//! Experiments: methods × data sets × seeds × error levels (the paper, §4).
//!
//! Every data set and seed is a [`Case`]: a random 40/40/20 split, **one** fit, and all methods and levels on it.
//! [`Plan::paper`] stratifies the split, and [`Plan::zipf`] first draws a long tail. After each case `results.json` is
//! written whole, so a run that was killed can continue: [`run`] skips the cases that the results hold. A data set that
//! cannot be used is recorded as a failure, and the others go on.
//!
//! ```no_run
//! use dance::{Context, data::io::ReadOptions, device::Cpu};
//! use dance_bench::experiment::{self, Plan, Results};
//! let plan = Plan { seeds: 1, ..Plan::default() };
//! let mut results = Results::new(plan);
//! let data = ["pets.npz".into(), "dtd.npz".into()];
//! experiment::run(&Cpu, &data, &ReadOptions::default(), &mut results, None, &|_, _| (), &Context::new(0)?)?;
//! println!("{}", dance_bench::report::tables::main(&results).to_markdown());
//! # Ok::<(), dance::Error>(())
//! ```

pub mod ablate;
mod case;
mod components;
mod long_tail;
pub mod method;
mod peers;
pub mod picture;
pub mod plan;
pub mod record;
mod regression;
mod runner;

use std::path::{Path, PathBuf};

pub use ablate::Ablation;
pub use method::Method;
pub use plan::Plan;
pub use record::{Case, Failure, Posterior, Record, Results};

use dance::data::io::{self, ReadOptions};
use dance::device::Device;
use dance::{Context, Dataset, Error, Result};

/// Runs the cases of `files` that `results` lack. `begins` is called with the name and the seed of every case before it
/// runs. Results are written to `keep` after every case.
pub fn run(
    device: &dyn Device,
    files: &[PathBuf],
    options: &ReadOptions,
    results: &mut Results,
    keep: Option<&Path>,
    begins: &dyn Fn(&str, u64),
    context: &Context<'_>,
) -> Result<()> {
    results.plan.check()?;
    for (place, name) in names(files).iter().enumerate() {
        results.failures.retain(|failure| failure.data != *name);
        let data = read(&files[place], options, context);
        match data.and_then(|data| run_dataset(device, &data, name, results, keep, begins, context)) {
            Ok(()) => {}
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                results.failures.push(Failure { data: name.clone(), problem: error.to_string() });
                keep.map_or(Ok(()), |path| results.write(path))?;
            }
        }
    }
    Ok(())
}

/// Reads labeled points, and warns of rows that are left out because they have no label.
fn read(file: &Path, options: &ReadOptions, context: &Context<'_>) -> Result<Dataset> {
    let (table, out) = io::read_labelled(file, options)?;
    if out > 0 {
        context.warn(format!("{}: {out} rows have no label and are left out", table.origin()));
    }
    table.into_dataset()
}

/// Runs the cases of one data set in memory that `results` lack.
pub fn run_dataset(
    device: &dyn Device,
    data: &Dataset,
    name: &str,
    results: &mut Results,
    keep: Option<&Path>,
    begins: &dyn Fn(&str, u64),
    context: &Context<'_>,
) -> Result<()> {
    let hash = key_of(data);
    // Results of another version of the data set are dropped.
    results.cases.retain(|case| case.data != name || case.data_hash == hash);
    let plan = results.plan.clone();
    for seed in (0..plan.seeds as u64).map(|offset| plan.seed + offset) {
        context.check()?;
        if results.case(name, &hash, seed).is_some() {
            continue;
        }
        begins(name, seed);
        let case =
            case::run(device, data, name, &hash, seed, &plan, context).map_err(|error| case::about(name, error))?;
        results.cases.push(case);
        keep.map_or(Ok(()), |path| results.write(path))?;
    }
    Ok(())
}

/// Returns the SHA-256 of all data that enter a result: points and labels and, if there are any, prototypes.
fn key_of(data: &Dataset) -> String {
    let own = dance::model::hash_of(data);
    let Some(prototypes) = &data.prototypes else { return own };
    let labels: Vec<u32> = (0..prototypes.rows() as u32).collect();
    let prototypes = Dataset { embeddings: prototypes.clone(), rows: labels.clone(), labels, ..data.clone() };
    format!("{own}+{}", dance::model::hash_of(&prototypes))
}

/// Returns a name for every file: its stem, with a number where two are equal.
pub fn names(files: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for file in files {
        let stem = file.file_stem().map_or_else(|| "data".into(), |stem| stem.to_string_lossy().into_owned());
        let mut name = stem.clone();
        let mut count = 2;
        while names.contains(&name) {
            name = format!("{stem}-{count}");
            count += 1;
        }
        names.push(name);
    }
    names
}
