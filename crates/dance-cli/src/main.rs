//! The binary `dance`, whose code is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    dance_cli::main()
}
