//! Experiments: methods × data sets × seeds × error levels (the paper, §4).
//!
//! Every data set and seed is a [`Case`]: a 40/40/20 split at random (`Plan::paper`: stratified), **one** fit, and all methods and levels on it (`Plan::zipf`: on a long tail drawn from it). After
//! each case `results.json` is written whole, so a run that was killed continues where it was: [`run`] skips the cases that
//! the results already hold. A data set that cannot be used is noted and the others go on.
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

use dance::Context;
use dance::Dataset;
use dance::data::io::{self, ReadOptions};
use dance::device::Device;
use dance::{Error, Result};

/// Runs what `results` lack for `files`, read with these options. `begins` hears of every case before it runs; `keep` is where results are written
/// after each.
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

/// Labelled points; says how many were left out because they have no label.
fn read(file: &Path, options: &ReadOptions, context: &Context<'_>) -> Result<Dataset> {
    let (table, out) = io::read_labelled(file, options)?;
    if out > 0 {
        context.warn(format!("{}: {out} rows have no label and are left out", table.origin()));
    }
    table.into_dataset()
}

/// Runs what `results` lack for one data set that is in memory.
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
    // The file has changed since: what is known about it is about something else.
    results.cases.retain(|case| case.data != name || case.data_hash == hash);
    let plan = results.plan.clone();
    for seed in (0..plan.seeds as u64).map(|offset| plan.seed + offset) {
        context.check()?;
        if results.case(name, &hash, seed).is_some() {
            continue;
        }
        begins(name, seed);
        let case = case::run(device, data, name, &hash, seed, &plan, context)
            .map_err(|error| case::about(name, error))?;
        results.cases.push(case);
        keep.map_or(Ok(()), |path| results.write(path))?;
    }
    Ok(())
}

/// SHA-256 of everything of a data set that enters a result: its points and labels and, where there are any, its prototypes.
fn key_of(data: &Dataset) -> String {
    let own = dance::model::hash_of(data);
    let Some(prototypes) = &data.prototypes else { return own };
    let labels: Vec<u32> = (0..prototypes.rows() as u32).collect();
    let prototypes = Dataset { embeddings: prototypes.clone(), rows: labels.clone(), labels, ..data.clone() };
    format!("{own}+{}", dance::model::hash_of(&prototypes))
}

/// A name for every file: without its folder and ending, numbered where two are the same.
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
