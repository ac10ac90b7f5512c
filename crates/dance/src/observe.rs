//! What a long job tells while it runs, and how it is told to stop. The library prints nothing itself.

/// Something that happened during a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A job begins that will take at most `bytes` of memory at its peak.
    Memory {
        /// Bytes at the peak.
        bytes: u64,
    },
    /// A search begins.
    SearchBegins {
        /// Settings to try.
        evaluations: usize,
        /// Training points the trials use.
        points: usize,
        /// Training points there are.
        of: usize,
    },
    /// A setting was tried.
    Evaluated(crate::tune::Evaluation),
    /// The best settings are tried again on all points.
    Confirming {
        /// How many.
        candidates: usize,
    },
    /// A kernel ridge regression of the RFM was fitted and judged.
    Round(crate::rfm::Round),
    /// The kernel is fitted once more on training and validation points together.
    Refitting {
        /// Points in all.
        points: usize,
    },
    /// Something the user should know; the job goes on.
    Warning(String),
}

/// Listens to a job. Every method may be called from the thread that runs the job only.
pub trait Observer: Sync {
    /// Something happened.
    fn notice(&self, _event: &Event) {}

    /// Asked between steps; `true` ends the job with [`Error::Interrupted`](crate::Error::Interrupted).
    fn interrupted(&self) -> bool {
        false
    }
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

pub(crate) fn check(observer: &dyn Observer) -> crate::Result<()> {
    if observer.interrupted() { Err(crate::Error::Interrupted) } else { Ok(()) }
}
