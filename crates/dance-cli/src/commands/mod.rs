//! The commands, one per file.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
#[cfg(feature = "embed")]
pub(crate) mod embed;
pub(crate) mod evaluate;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod inspect;
pub(crate) mod man;
pub(crate) mod monitor;
pub(crate) mod predict;
pub(crate) mod recalibrate;
pub(crate) mod select;
#[cfg(feature = "serve")]
pub(crate) mod serve;

use crate::args::{Arguments, Command};

/// The outcome of a command that ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fine,
    /// A check failed, or a row could not be answered.
    CheckFailed,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let shared = &arguments.shared;
    match arguments.command {
        Command::Demo(command) => command.run(shared)?,
        #[cfg(feature = "embed")]
        Command::Embed(command) => command.run(shared)?,
        Command::Doctor(_) => doctor::Doctor::run(shared)?,
        Command::Fit(command) => command.run(shared)?,
        Command::Predict(command) => return command.run(shared),
        Command::Evaluate(command) => return command.run(shared),
        Command::Compare(command) => command.run(shared)?,
        Command::Audit(command) => command.run(shared)?,
        Command::Monitor(command) => return command.run(shared),
        Command::Recalibrate(command) => command.run(shared)?,
        Command::Select(command) => command.run(shared)?,
        Command::Inspect(command) => command.run(shared)?,
        Command::Explain(command) => command.run(shared)?,
        Command::Bench(command) => command.run(shared)?,
        #[cfg(feature = "serve")]
        Command::Serve(command) => command.run(shared)?,
        Command::Completions(command) => command.run()?,
        Command::Man(command) => command.run()?,
    }
    Ok(Outcome::Fine)
}
