//! Detection of a closed stdout (`>&-`), which is an error, because results would be lost.
//!
//! Rust replaces a closed stdout by /dev/null before `main` begins, so a constructor checks it before that.

use anyhow::bail;

/// Refuses a closed stdout, before any work begins.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_closed() {
        bail!("stdout is closed, and results go there; redirect it to /dev/null if they are not needed");
    }
    Ok(())
}

#[cfg(unix)]
fn is_closed() -> bool {
    CLOSED.load(std::sync::atomic::Ordering::Relaxed)
}

#[cfg(unix)]
static CLOSED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[cfg(unix)]
ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn check_stdout() {
        // Systems without the folder cannot be checked.
        let closed = std::fs::metadata("/dev/fd").is_ok() && std::fs::metadata("/dev/fd/1").is_err();
        CLOSED.store(closed, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(not(unix))]
fn is_closed() -> bool {
    false
}
