//! Ctrl-C: remove what is half written, then end.
//!
//! The `ctrlc` crate runs the handler on a thread of its own, so it may lock and delete, which a raw signal handler must
//! not, and it works while the main thread waits for stdin or sits in a matrix product. Files are finished under the lock
//! that the handler holds until the end: a file under its final name is whole.

use dance::whole_file;

use crate::progress::tell;

/// Listens for SIGINT, SIGTERM and SIGHUP from here on.
pub(crate) fn install() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        whole_file::abandon_all(|| {
            tell("\ndance: interrupted; no partial file was left");
            std::process::exit(2)
        });
    })?;
    Ok(())
}
