//! The binary `dance`: arguments, then a command, then an exit code.
//!
//! Results go to stdout, everything else to stderr. 0 is fine, 1 a check the user asked for failed, 2 an error.

mod args;
mod commands;
mod progress;

use std::io;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::run(args::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dance: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
