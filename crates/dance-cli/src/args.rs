//! The command line, as clap sees it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Conformal prediction sets for any classifier built on embeddings.
#[derive(Debug, Parser)]
#[command(name = "dance", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// What every command takes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// Print one JSON object in place of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Seed of every random choice; the same seed gives the same result
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Threads to use; 0 means one a core. The result does not depend on it
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub(crate) threads: usize,
    /// Say more on stderr
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare methods on data sets: tables and a report
    #[command(after_help = crate::commands::bench::EXAMPLE)]
    Bench(crate::commands::bench::Bench),
    /// Fit a kernel on the data set that ships with dance, and see what it learned
    #[command(
        after_help = "Example:\n  dance demo --seed 1\n\nThe data: 4,800 WordNet definitions of 24 lexical fields, \
                            embedded with MiniLM (data/README.md)."
    )]
    Demo(Demo),
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Data to use in place of the data set that ships with dance (.npz, .npy, .safetensors, .csv, .tsv, .parquet)
    #[arg(value_name = "DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Settings to try in the search for bandwidth and shape
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) evaluations: usize,
}
