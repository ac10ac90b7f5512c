//! stub
use clap::Args;
use crate::args::Shared;
pub(crate) const EXAMPLE: &str = "x";
#[derive(Args, Debug)]
pub(crate) struct Demo {}
impl Demo { pub(crate) fn run(&self, _: &Shared) -> anyhow::Result<()> { Ok(()) } }
