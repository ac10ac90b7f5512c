//! Worker threads, progress reports and interruption of a job.
//!
//! Every call that takes time gets a [`Context`]. The library does parallel work only on the threads of the context and
//! on the thread that called it. It prints nothing: an [`Observer`] receives its events.
//!
//! ```
//! use dance::{Context, Event, Observer};
//!
//! struct Impatient;
//! impl Observer for Impatient {
//!     fn notice(&self, event: &Event) {
//!         println!("{event:?}");
//!     }
//!     fn interrupted(&self) -> bool {
//!         true // for example after Ctrl-C
//!     }
//! }
//!
//! let context = Context::new(2)?.with_observer(&Impatient);
//! assert_eq!(context.run(rayon::current_num_threads), 2);
//! assert!(matches!(context.check(), Err(dance::Error::Interrupted)));
//! # Ok::<(), dance::Error>(())
//! ```

use std::sync::Arc;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::event::Event;

/// The largest number of worker threads. A larger request is probably a typing error and is reduced to this number.
const MOST_THREADS: usize = 256;

/// A receiver of a job's events. Both methods are called on the thread that called the library.
pub trait Observer: Sync {
    /// Receives an event.
    fn notice(&self, _event: &Event) {}

    /// Returns whether the job should stop; it then fails with [`Error::Interrupted`]. The library calls this method
    /// between steps, at least once every few thousand queries.
    fn interrupted(&self) -> bool {
        false
    }
}

/// An observer that ignores every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// An observer that ignores every event but can still interrupt the job.
pub struct Quiet<'a>(pub &'a dyn Observer);

impl Observer for Quiet<'_> {
    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

/// The worker threads and the observer of a job.
#[derive(Clone)]
pub struct Context<'a> {
    pool: Arc<rayon::ThreadPool>,
    observer: &'a dyn Observer,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

impl Context<'static> {
    /// Starts `threads` worker threads (0 means one per core), without an observer. Results do not depend on the number
    /// of threads.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.min(MOST_THREADS))
            .thread_name(|index| format!("dance-{index}"))
            .build()
            .map_err(|error| Error::Data(format!("could not start {threads} threads: {error}")))?;
        Ok(Self { pool: Arc::new(pool), observer: &Silent })
    }
}

impl Context<'_> {
    /// Returns a context with the same threads and another observer.
    pub fn with_observer<'b>(&self, observer: &'b dyn Observer) -> Context<'b> {
        Context { pool: Arc::clone(&self.pool), observer }
    }

    /// Returns the number of worker threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on the worker threads. Its parallel iterators use the same threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Returns `work(i)` for every i below `count`, computed in parallel. A single call of `work` runs on the calling
    /// thread, since waking a worker takes longer than one query.
    pub fn map<T: Send>(&self, count: usize, work: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
        if count <= 1 {
            return (0..count).map(work).collect();
        }
        self.run(|| (0..count).into_par_iter().with_max_len(1).map(work).collect())
    }

    /// Calls `work(i, chunk)` on the i-th chunk of `length` values for every i, in parallel like [`map`](Self::map).
    pub(crate) fn each_part<T: Send>(
        &self,
        values: &mut [T],
        length: usize,
        work: impl Fn(usize, &mut [T]) + Sync + Send,
    ) {
        if values.len() <= length {
            return work(0, values);
        }
        self.run(|| {
            values.par_chunks_mut(length).enumerate().with_max_len(1).for_each(|(at, chunk)| work(at, chunk));
        });
    }

    /// Fails with [`Error::Interrupted`] if the observer wants to stop. Must not be called inside [`run`](Self::run),
    /// since the observer may run only on the thread that called the library.
    pub fn check(&self) -> Result<()> {
        if self.observer.interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Returns the observer.
    pub fn observer(&self) -> &dyn Observer {
        self.observer
    }

    /// Sends an event to the observer.
    pub fn notice(&self, event: &Event) {
        self.observer.notice(event);
    }

    /// Sends a warning to the observer; the job continues.
    pub fn warn(&self, warning: impl Into<String>) {
        self.notice(&Event::Warning(warning.into()));
    }
}
