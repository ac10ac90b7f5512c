//! Interruption by Ctrl-C and other signals: unfinished files are removed, and the exit status is 128 + the signal.
//!
//! The handler runs on a thread of its own, so that it may lock and delete, even while the main thread waits for stdin
//! or computes. Files are finished under a lock that the handler holds until the end, so a file under its final name is
//! complete. A signal that was ignored when the program began (`nohup`) stays ignored. A server takes the first signal
//! itself, to shut down in order.

use dance::whole_file;

use crate::progress::print_line;

/// A function that takes a signal instead: its argument is whether to reload (otherwise to end), its result whether it
/// took it.
#[cfg(feature = "serve")]
type Handler = Box<dyn FnMut(bool) -> bool + Send>;

#[cfg(feature = "serve")]
static HANDLER: std::sync::Mutex<Option<Handler>> = std::sync::Mutex::new(None);

/// Passes signals to `handler`: every hangup, as a reload, and the first other signal. The next one ends the program.
#[cfg(feature = "serve")]
pub(crate) fn hand_over(handler: impl FnMut(bool) -> bool + Send + 'static) {
    *HANDLER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Box::new(handler));
}

/// Returns whether the handler took a signal.
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

/// Starts to handle SIGINT, SIGTERM and SIGHUP.
#[cfg(unix)]
pub(crate) fn install() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let handled = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(handled.collect::<Vec<_>>())?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if !taken(signal == SIGHUP) {
                end(128 + signal);
            }
        }
    })?;
    Ok(())
}

/// Returns the signals that the process was started to ignore: bit s - 1 is signal s. Only Linux has a file that lists
/// them.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Starts to handle Ctrl-C and the end of the session.
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
        print_line("\ndance: interrupted; no partial file was left");
        std::process::exit(status)
    });
}
