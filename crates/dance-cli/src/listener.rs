//! Whether anybody can hear the results: a stdout that was closed (`>&-`) is an error, not a place where they vanish.
//!
//! Rust puts /dev/null in the place of a closed stdout before `main` begins, and from then on nobody can tell. So it is
//! looked at before that.

use anyhow::bail;

/// Refuses to work for nobody, before any work is done.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_closed() {
        bail!("stdout is closed, and results go there; send them to /dev/null if nobody wants them");
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
    fn look() {
        // Without the folder nothing is known.
        let closed = std::fs::metadata("/dev/fd").is_ok() && std::fs::metadata("/dev/fd/1").is_err();
        CLOSED.store(closed, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(not(unix))]
fn is_closed() -> bool {
    false
}
