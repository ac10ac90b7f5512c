//! One command a file.

pub(crate) mod bench;
mod demo;

use crate::args::{Arguments, Command};

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Command::Bench(command) => command.run(&arguments.shared),
        Command::Demo(demo) => demo::run(&demo, &arguments.shared),
    }
}
