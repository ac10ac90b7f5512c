//! Decoders of others that answer some damaged files with a panic: here it becomes an error, and nothing else.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use crate::error::{Error, Result};

thread_local! {
    /// Whether a panic of this thread will be caught here.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Work by a decoder that may panic: on an unknown level encoding, an overflow in a page header, a text longer than its page.
/// Everything it was working on is dropped here, or never asked again, so nothing half-done is left behind.
pub(super) fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(before);
    done.unwrap_or_else(|_| Err(Error::format(path, "is damaged: it cannot be decoded. Save it again")))
}

/// From now on says nothing of panics that a reader catches: they are told as errors. For programs, which own the panic hook.
pub fn silence_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                hook(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let found = guarded::<()>(Path::new("x.parquet"), || panic!("of a decoder"));
        assert!(found.unwrap_err().to_string().contains("x.parquet: is damaged"));
        assert!(!CAUGHT.get());
        assert_eq!(guarded(Path::new("x"), || Ok(1)).unwrap(), 1);
    }
}
