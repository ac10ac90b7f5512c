//! Conversion of panics to errors. Some damaged files cause panics in third-party decoders.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use crate::error::{Error, Result};

thread_local! {
    /// True while this module catches panics of this thread.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs the decoder `work` and turns its panics into errors that name `path`. A decoder panics on an unknown level
/// encoding, an overflow in a page header, or a text longer than its page. Nothing uses the decoder's state after a
/// panic, so no invalid state remains.
pub(super) fn catch_panics<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(before);
    done.unwrap_or_else(|_| Err(Error::format(path, "is damaged: it cannot be decoded. Save it again")))
}

/// Installs a panic hook that prints no message for panics that this library turns into errors. The hook is global, so
/// programs should call this function, and libraries should not.
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
    fn a_panic_becomes_an_error() {
        let found = catch_panics::<()>(Path::new("x.parquet"), || panic!("of a decoder"));
        assert!(found.unwrap_err().to_string().contains("x.parquet: is damaged"));
        assert!(!CAUGHT.get());
        assert_eq!(catch_panics(Path::new("x"), || Ok(1)).unwrap(), 1);
    }
}
