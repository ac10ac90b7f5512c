//! The binary `dance`: arguments, then a command, then an exit code.
//!
//! Results go to stdout, everything else to stderr. 0 is fine, 1 a check the user asked for failed, 2 an error, 128 + the
//! signal an interruption.
//!
//! A library only so that fuzz targets reach what the binary reads by itself (`fuzz`); for anything else, use `dance-conformal`.

mod answers;
mod args;
mod bulk;
mod commands;
mod config_file;
mod data;
#[cfg(feature = "embed")]
mod encoding;
mod inputs;
mod interrupt;
mod judged;
mod listener;
mod output;
mod parse;
mod places;
mod plan;
mod progress;
mod replies;
mod settings;
mod stream;

#[doc(hidden)]
pub mod fuzz;

use std::io;
use std::process::ExitCode;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    #[cfg(feature = "parquet")]
    dance::data::io::silence_caught_panics();
    let arguments = interrupt::install().and_then(|()| config_file::arguments());
    match arguments.and_then(|arguments| listener::check().and_then(|()| commands::run(arguments))) {
        Ok(commands::Outcome::Fine) => ExitCode::SUCCESS,
        Ok(commands::Outcome::CheckFailed) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            progress::tell(&format!("dance: {}", told(&error)));
            ExitCode::from(2)
        }
    }
}

/// The error and what caused it, on one line; a cause that its consequence has told already is not told again.
fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text.replace('\n', " ")
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
