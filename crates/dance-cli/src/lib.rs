//! The command line `dance`: parses arguments, runs a command and returns an exit status.
//!
//! Results go to stdout, everything else to stderr. The exit status is 0 for success, 1 for a failed check or rows that
//! could not be answered, 2 for an error, and 128 + the signal for an interruption.
//!
//! This is a library only so that fuzz targets reach the binary's readers ([`fuzz`]). Programs use `dance-conformal`
//! instead.

mod answers;
mod args;
mod bulk;
mod closed_stdout;
mod commands;
mod config_file;
mod data;
#[cfg(feature = "embed")]
mod encoding;
mod evaluation;
mod flags;
mod inputs;
mod interrupt;
mod json_lines;
mod output;
mod parse;
mod path_conflicts;
mod plan;
mod progress;
mod replies;
mod settings;

#[doc(hidden)]
pub mod fuzz;

use std::io;
use std::process::ExitCode;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    #[cfg(feature = "parquet")]
    dance::data::io::silence_caught_panics();
    let arguments = interrupt::install().and_then(|()| config_file::arguments());
    match arguments.and_then(|arguments| closed_stdout::check().and_then(|()| commands::run(arguments))) {
        Ok(commands::Outcome::Fine) => ExitCode::SUCCESS,
        Ok(commands::Outcome::CheckFailed) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            progress::print_line(&format!("dance: {}", message(&error)));
            ExitCode::from(2)
        }
    }
}

/// Returns an error and its causes on one line. A cause that is part of the text already is not repeated.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    flags::with_flags(&text.replace('\n', " "))
}

/// Returns whether the reader of stdout has closed it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
