//! `dance man`: the manual pages.

use std::io::{self, Write};

use anyhow::bail;
use clap::Args;

use crate::args::command_line;

pub(crate) const EXAMPLE: &str = "Example:
  dance man > dance.1
  dance man fit | man -l -";

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Command to describe [default: dance itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Man {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut root = command_line();
        root.build();
        let page = match &self.command {
            None => root,
            Some(name) => match root.find_subcommand(name) {
                Some(command) => command.clone(),
                None => bail!("there is no command `{name}`; see dance --help"),
            },
        };
        let mut text = Vec::new();
        // The page has every option with its text, those that the short help leaves out too.
        let page = page.mut_args(|arg| arg.hide_short_help(false));
        clap_mangen::Man::new(page).render(&mut text)?;
        io::stdout().write_all(&text)?;
        Ok(())
    }
}
