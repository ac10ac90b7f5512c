//! The command line: the commands, and the options that all of them share. Each command's own options are in its file.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::{Args, Parser, Subcommand};
use dance::device::{Device, DeviceChoice};
use dance::{Context, Event, Observer};

#[cfg(feature = "embed")]
use crate::commands::embed;
#[cfg(feature = "serve")]
use crate::commands::serve;
use crate::commands::{
    audit, bench, compare, completions, demo, evaluate, explain, fit, inspect, man, monitor, predict, recalibrate,
    select,
};
use crate::progress::print_line;

/// Conformal prediction sets for any classifier built on embeddings
#[derive(Debug, Parser)]
#[command(
    name = "dance",
    version,
    arg_required_else_help = true,
    after_help = "Example:
  dance demo
  dance fit embeddings.npz -o model.dance --split 0.4,0.4,0.2 --test-out test.npz
  dance evaluate model.dance test.npz --alpha 0.1,0.05
  dance predict model.dance new.npz -o sets.jsonl

Exit status: 0 success; 1 a check failed or a row could not be answered; 2 an error; 128 + the signal an interruption."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Shared options")]
pub(crate) struct Shared {
    /// Print the result as one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Seed of every random choice; the same seed gives the same result
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Number of threads; 0 is one per core. The result does not depend on it
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub(crate) threads: usize,
    /// Device for heavy work: auto (cuda if possible), cpu, cuda, or cuda:1 for the second graphics processor
    #[arg(long, global = true, default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub(crate) device: DeviceChoice,
    /// Read options from a TOML file (`evaluations = 10`, or under `[fit]` for one command). The command line wins
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print details on stderr
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Print only errors on stderr
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl Shared {
    /// Returns the device, which is opened once.
    pub(crate) fn device(&self) -> dance::Result<&'static dyn Device> {
        static OPENED: OnceLock<Arc<dyn Device>> = OnceLock::new();
        if let Some(device) = OPENED.get() {
            return Ok(&**device);
        }
        let (device, why_not_cuda) = self.device.open()?;
        if self.verbose {
            let why = why_not_cuda.map(|why| format!(", because {why}")).unwrap_or_default();
            print_line(&format!("on {}{why}", device.name()));
        }
        Ok(&**OPENED.get_or_init(|| device))
    }

    /// Returns the context with the given number of threads and an observer.
    pub(crate) fn context<'a>(&self, observer: &'a dyn Observer) -> dance::Result<Context<'a>> {
        let context = Context::new(self.threads)?.with_observer(observer);
        if self.threads > context.threads() {
            let threads = context.threads();
            observer.notice(&Event::Warning(format!("--threads {}: {threads} threads is the most", self.threads)));
        }
        Ok(context)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run fit, calibration and evaluation on the data set that ships with dance, explained step by step
    #[command(after_help = demo::EXAMPLE)]
    Demo(demo::Demo),
    /// Embed pictures or texts into a file of embeddings
    #[cfg(feature = "embed")]
    #[command(after_help = embed::EXAMPLE)]
    Embed(embed::Embed),
    /// Fit a kernel to embeddings, calibrate it and write a model
    #[command(after_help = fit::EXAMPLE)]
    Fit(Box<fit::Fit>),
    /// Predict sets of labels for new embeddings
    #[command(after_help = predict::EXAMPLE)]
    Predict(predict::Predict),
    /// Measure coverage and size of the sets on labelled embeddings
    #[command(after_help = evaluate::EXAMPLE)]
    Evaluate(evaluate::Evaluate),
    /// Compare coverage, set size and time of all methods on your points
    #[command(after_help = compare::EXAMPLE)]
    Compare(compare::Compare),
    /// Find label errors, copies, outliers and other faults in labelled embeddings
    #[command(after_help = audit::EXAMPLE)]
    Audit(audit::Audit),
    /// Raise an alarm if the points or labels of a stream change their distribution
    #[command(after_help = monitor::EXAMPLE)]
    Monitor(monitor::MonitorStream),
    /// Calibrate a model on other points or with another method, with the same kernel
    #[command(after_help = recalibrate::EXAMPLE)]
    Recalibrate(recalibrate::Recalibrate),
    /// Select the points of a pool to label next
    #[command(after_help = select::EXAMPLE)]
    Select(select::Select),
    /// Show the contents of a file of embeddings or of a model
    #[command(after_help = inspect::EXAMPLE)]
    Inspect(inspect::Inspect),
    /// Show why each label is, or is not, in the set of one point
    #[command(after_help = explain::EXAMPLE)]
    Explain(explain::Explain),
    /// Benchmark methods on data sets: the paper's tables, ablations and a report
    #[command(after_help = bench::EXAMPLE)]
    Bench(bench::Bench),
    /// Serve a model over HTTP: an API for programs and a page for people
    #[cfg(feature = "serve")]
    #[command(after_help = serve::EXAMPLE)]
    Serve(Box<serve::Serve>),
    /// Print completions for a shell
    #[command(after_help = completions::EXAMPLE)]
    Completions(completions::Completions),
    /// Print the manual page
    #[command(after_help = man::EXAMPLE)]
    Man(man::Man),
}
