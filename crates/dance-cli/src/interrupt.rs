//! Ctrl-C and its like: remove what is half written, then end with the status that shells expect, 128 + the signal.
//!
//! The handler runs on a thread of its own, so it may lock and delete, which a raw signal handler must not, and it works while
//! the main thread waits for stdin or sits in a matrix product. Files are finished under the lock that it holds until the
//! end: a file under its final name is whole. A signal that was ignored when the program began (`nohup`) stays ignored.
//!
//! A server ends in its own way: it is handed the first signal.

use dance::whole_file;

use crate::progress::tell;

/// Gets a signal in place of us, and says whether it takes it: whether to reload (otherwise to end).
#[cfg(feature = "serve")]
type Handler = Box<dyn FnMut(bool) -> bool + Send>;

#[cfg(feature = "serve")]
static HANDLER: std::sync::Mutex<Option<Handler>> = std::sync::Mutex::new(None);

/// From here on signals go to `handler`: hangups as reloads, and the first of the others; the next one ends the program.
#[cfg(feature = "serve")]
pub(crate) fn hand_over(handler: impl FnMut(bool) -> bool + Send + 'static) {
    *HANDLER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Box::new(handler));
}

/// Whether somebody else takes care of a signal.
fn taken(reload: bool) -> bool {
    #[cfg(feature = "serve")]
    {
        let mut handler = HANDLER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mine = if reload {
            handler.as_mut().map(|handler| handler(true))
        } else {
            handler.take().map(|mut handler| handler(false))
        };
        mine.unwrap_or(false)
    }
    #[cfg(not(feature = "serve"))]
    {
        let _ = reload;
        false
    }
}

/// Listens for SIGINT, SIGTERM and SIGHUP from here on.
#[cfg(unix)]
pub(crate) fn install() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heard.collect::<Vec<_>>())?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if !taken(signal == SIGHUP) {
                end(128 + signal);
            }
        }
    })?;
    Ok(())
}

/// Signals that whoever started us has us ignore: bit s - 1 is signal s. Linux says it in a file; elsewhere none are known.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Listens for Ctrl-C and for the end of the session from here on.
#[cfg(not(unix))]
pub(crate) fn install() -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(|| {
        if !taken(false) {
            end(130);
        }
    })?)
}

fn end(status: i32) {
    whole_file::abandon_all(|| {
        tell("\ndance: interrupted; no partial file was left");
        std::process::exit(status)
    });
}
