//! The command line: the commands, and the options that all of them share. Each command's own options are in its file.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::{Args, CommandFactory, Parser, Subcommand};
use dance::device::{Device, DeviceChoice};
use dance::{Context, Event, Observer};

#[cfg(feature = "embed")]
use crate::commands::embed;
#[cfg(feature = "serve")]
use crate::commands::serve;
use crate::commands::{
    audit, bench, compare, completions, demo, doctor, evaluate, explain, fit, inspect, man, monitor, predict,
    recalibrate, select,
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

`dance COMMAND -h` shows what most people need, `--help` everything.
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
    #[arg(long, global = true, default_value_t = 0, value_name = "N", hide_short_help = true)]
    pub(crate) threads: usize,
    /// Device for heavy work: auto (cuda if possible), cpu, cuda, or cuda:1 for the second graphics processor
    #[arg(long, global = true, default_value_t = DeviceChoice::Auto, value_name = "DEVICE", hide_short_help = true)]
    pub(crate) device: DeviceChoice,
    /// Read options from a TOML file (`evaluations = 10`, or under `[fit]` for one command). The command line wins
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
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

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run fit, calibration and evaluation on the data set that ships with dance, explained step by step
    #[command(after_help = demo::EXAMPLE)]
    Demo(demo::Demo),
    /// Embed pictures or texts into a file of embeddings
    #[cfg(feature = "embed")]
    #[command(after_help = embed::EXAMPLE)]
    Embed(embed::Embed),
    /// Show the contents of a file of embeddings or of a model
    #[command(after_help = inspect::EXAMPLE)]
    Inspect(inspect::Inspect),
    /// Show what this machine offers, what is missing, and how to get it
    #[command(after_help = doctor::EXAMPLE)]
    Doctor(doctor::Doctor),
    /// Fit a kernel to embeddings, calibrate it and write a model
    #[command(after_help = fit::EXAMPLE)]
    Fit(Box<fit::Fit>),
    /// Compare coverage, set size and time of all methods on your points
    #[command(after_help = compare::EXAMPLE)]
    Compare(compare::Compare),
    /// Measure coverage and size of the sets on labelled embeddings
    #[command(after_help = evaluate::EXAMPLE)]
    Evaluate(evaluate::Evaluate),
    /// Predict sets of labels for new embeddings
    #[command(after_help = predict::EXAMPLE)]
    Predict(predict::Predict),
    /// Show why each label is, or is not, in the set of one point
    #[command(after_help = explain::EXAMPLE)]
    Explain(explain::Explain),
    /// Serve a model over HTTP: an API for programs and a page for people
    #[cfg(feature = "serve")]
    #[command(after_help = serve::EXAMPLE)]
    Serve(Box<serve::Serve>),
    /// Raise an alarm if the points or labels of a stream change their distribution
    #[command(after_help = monitor::EXAMPLE)]
    Monitor(monitor::MonitorStream),
    /// Calibrate a model on other points or with another method, with the same kernel
    #[command(after_help = recalibrate::EXAMPLE)]
    Recalibrate(recalibrate::Recalibrate),
    /// Select the points of a pool to label next
    #[command(after_help = select::EXAMPLE)]
    Select(select::Select),
    /// Find label errors, copies, outliers and other faults in labelled embeddings
    #[command(after_help = audit::EXAMPLE)]
    Audit(audit::Audit),
    /// Benchmark methods on data sets: the paper's tables, ablations and a report
    #[command(after_help = bench::EXAMPLE)]
    Bench(bench::Bench),
    /// Print completions for a shell
    #[command(after_help = completions::EXAMPLE)]
    Completions(completions::Completions),
    /// Print the manual page
    #[command(after_help = man::EXAMPLE)]
    Man(man::Man),
}

/// The groups of commands in `dance --help`.
pub(crate) const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["demo", "embed", "inspect", "doctor"]),
    ("Build", &["fit", "compare", "evaluate"]),
    ("Use", &["predict", "explain", "serve"]),
    ("Watch", &["monitor", "recalibrate", "select", "audit"]),
    ("Research", &["bench"]),
    ("Shell", &["completions", "man"]),
];

/// Returns the command line with the commands in groups.
pub(crate) fn command_line() -> clap::Command {
    let root = Arguments::command();
    let shared = Shared::augment_args(clap::Command::new("dance")).help_template("{all-args}");
    let shared = shared.disable_help_flag(true);
    let mut groups = String::new();
    for (group, names) in GROUPS {
        groups += &format!("{group}:\n");
        for name in names {
            // A command that this program was built without is not listed.
            if let Some(command) = root.find_subcommand(name) {
                groups += &format!("  {name:<13}{}\n", command.get_about().cloned().unwrap_or_default());
            }
        }
    }
    let template = |shared: String| {
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\n{shared}\n{{after-help}}")
    };
    let help = template(shared.clone().render_help().to_string());
    root.help_template(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options of a command itself: neither shared by all commands nor `--help`.
    fn own_options(command: &clap::Command) -> Vec<&clap::Arg> {
        let is_own = |arg: &&clap::Arg| {
            !arg.is_positional() && !arg.is_global_set() && !matches!(arg.get_id().as_str(), "help" | "version")
        };
        command.get_arguments().filter(is_own).collect()
    }

    /// A list of commands that a person can hold in mind: every command is in one group, and options stay few.
    #[test]
    fn commands_are_grouped_and_options_few() {
        let mut root = command_line();
        root.build();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.1).copied().collect();
        let mut names: Vec<&str> =
            root.get_subcommands().map(clap::Command::get_name).filter(|&name| name != "help").collect();
        grouped.retain(|name| root.find_subcommand(name).is_some());
        grouped.sort_unstable();
        names.sort_unstable();
        assert_eq!(grouped, names);
        let counts: Vec<(&str, usize)> =
            root.get_subcommands().map(|command| (command.get_name(), own_options(command).len())).collect();
        let all: usize = counts.iter().map(|count| count.1).sum();
        assert!(all < 140, "{all}: {counts:?}");
        let fit = root.find_subcommand("fit").expect("fit");
        let short: Vec<&str> = own_options(fit)
            .iter()
            .filter(|arg| !arg.is_hide_short_help_set())
            .filter_map(|arg| arg.get_long())
            .collect();
        assert!(short.len() <= 14, "{short:?}");
    }

    /// An option says what it does, and an optional one its default or when to give it.
    #[test]
    fn options_explain_themselves() {
        let mut root = command_line();
        root.build();
        for command in root.get_subcommands() {
            for arg in command.get_arguments() {
                let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
                assert!(help.len() > 3, "{} {}", command.get_name(), arg.get_id());
                assert!(!help.ends_with('.'), "{} {}: {help}", command.get_name(), arg.get_id());
            }
        }
    }
}
