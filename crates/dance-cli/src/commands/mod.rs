//! One command a file.

mod demo;

use crate::args::{Arguments, Command};

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Command::Demo(demo) => demo::run(&demo, &arguments.shared),
    }
}
