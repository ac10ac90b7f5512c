//! The command line, as clap sees it: the commands, and what all of them take. Each command's own options are in its file.

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
    audit, bench, compare, completions, demo, evaluate, explain, fit, inspect, man, monitor, predict,
    recalibrate, select,
};
use crate::progress::tell;

/// Conformal prediction sets for any classifier built on embeddings
#[derive(Debug, Parser)]
#[command(
    name = "dance",
    version,
    arg_required_else_help = true,
    after_help = "Example:\n  dance demo\n  dance fit embeddings.npz -o model.dance --split 0.4,0.4,0.2 --test-out test.npz\n  \
                  dance evaluate model.dance test.npz --alpha 0.1,0.05\n  dance predict model.dance new.npz -o sets.jsonl\n\n\
                  Exit status: 0 fine, 1 a check you asked for failed, 2 an error, 128 + the signal interrupted."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Shared options")]
pub(crate) struct Shared {
    /// Print the result as one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Seed of every random choice; the same seed gives the same result
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Threads to use; 0 means one per core. The result does not depend on it
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub(crate) threads: usize,
    /// What heavy work runs on: auto, cpu, cuda, or cuda:1 for the second graphics processor. auto is cuda where that can be used
    #[arg(long, global = true, default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub(crate) device: DeviceChoice,
    /// Options from a TOML file (`evaluations = 10`, or under `[fit]` for one command); the command line wins
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Say more on stderr
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl Shared {
    /// What heavy work runs on, opened once.
    pub(crate) fn device(&self) -> dance::Result<&'static dyn Device> {
        static OPENED: OnceLock<Arc<dyn Device>> = OnceLock::new();
        if let Some(device) = OPENED.get() {
            return Ok(&**device);
        }
        let (device, why_not_cuda) = self.device.open()?;
        if self.verbose {
            let why = why_not_cuda.map(|why| format!(", since {why}")).unwrap_or_default();
            tell(&format!("on {}{why}", device.name()));
        }
        Ok(&**OPENED.get_or_init(|| device))
    }

    /// The threads asked for, and who listens.
    pub(crate) fn context<'a>(&self, observer: &'a dyn Observer) -> dance::Result<Context<'a>> {
        let context = Context::new(self.threads)?.with_observer(observer);
        if self.threads > context.threads() {
            let threads = context.threads();
            observer.notice(&Event::Warning(format!(
                "--threads {}: {threads} are the most that start",
                self.threads
            )));
        }
        Ok(context)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The whole story on the data set that ships with dance, explained
    #[command(after_help = demo::EXAMPLE)]
    Demo(demo::Demo),
    /// Embed pictures or texts: the file that fit reads
    #[cfg(feature = "embed")]
    #[command(after_help = embed::EXAMPLE)]
    Embed(embed::Embed),
    /// Fit a kernel to embeddings, calibrate it and write a model
    #[command(after_help = fit::EXAMPLE)]
    Fit(Box<fit::Fit>),
    /// Prediction sets for new embeddings
    #[command(after_help = predict::EXAMPLE)]
    Predict(predict::Predict),
    /// Coverage and size of the sets on labelled embeddings
    #[command(after_help = evaluate::EXAMPLE)]
    Evaluate(evaluate::Evaluate),
    /// What each way to make sets would cost on your points, before you choose one
    #[command(after_help = compare::EXAMPLE)]
    Compare(compare::Compare),
    /// What is wrong with a labelled set: labels, copies, outliers, classes, order
    #[command(after_help = audit::EXAMPLE)]
    Audit(audit::Audit),
    /// Watch a stream: an alarm when points, or labels, no longer are what they were
    #[command(after_help = monitor::EXAMPLE)]
    Monitor(monitor::MonitorStream),
    /// Calibrate a model on other points, with the same kernel
    #[command(after_help = recalibrate::EXAMPLE)]
    Recalibrate(recalibrate::Recalibrate),
    /// Points of a pool worth labelling next
    #[command(after_help = select::EXAMPLE)]
    Select(select::Select),
    /// What is in a file of embeddings or in a model
    #[command(after_help = inspect::EXAMPLE)]
    Inspect(inspect::Inspect),
    /// Why each label is, or is not, in the set of one point
    #[command(after_help = explain::EXAMPLE)]
    Explain(explain::Explain),
    /// Compare methods on data sets: the paper's tables, ablations and a report
    #[command(after_help = bench::EXAMPLE)]
    Bench(bench::Bench),
    /// Answer over HTTP: an API for machines and a page for people
    #[cfg(feature = "serve")]
    #[command(after_help = serve::EXAMPLE)]
    Serve(Box<serve::Serve>),
    /// Completions for a shell, on stdout
    #[command(after_help = completions::EXAMPLE)]
    Completions(completions::Completions),
    /// The manual page, on stdout
    #[command(after_help = man::EXAMPLE)]
    Man(man::Man),
}
