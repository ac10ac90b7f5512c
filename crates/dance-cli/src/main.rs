//! The binary `dance`: all of it is in the library beside it, where fuzz targets reach its readers.

use std::process::ExitCode;

fn main() -> ExitCode {
    dance_cli::main()
}
