//! `dance completions`: completions for shells.

use std::io::{self, Write};

use clap::Args;
use clap_complete::Shell;

use crate::args::command_line;

pub(crate) const EXAMPLE: &str = "Example:
  dance completions bash > ~/.local/share/bash-completion/completions/dance
  dance completions zsh > ~/.zfunc/_dance
  dance completions fish > ~/.config/fish/completions/dance.fish";

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        // Generated in memory first, because the generator panics when it cannot write.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command_line(), "dance", &mut text);
        io::stdout().write_all(&text)?;
        Ok(())
    }
}
