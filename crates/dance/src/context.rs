//! How a job runs: on which worker threads, who hears of its progress, and how it is told to stop.
//!
//! Every call that takes time gets a [`Context`]. Parallelism is something you pass, not something that is around: no work
//! of this library runs on threads other than the context's (and the one that called). The library prints nothing itself.
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
//!         true // Ctrl-C was pressed, say
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

/// More workers than any machine that fits a kernel has cores; a request beyond it is a slip of the finger.
const MOST_THREADS: usize = 256;

/// Listens to a job. Both methods are called on the thread that called the library.
pub trait Observer: Sync {
    /// Something happened.
    fn notice(&self, _event: &Event) {}

    /// Asked between steps, at least once for every few thousand queries; `true` ends the job with
    /// [`Error::Interrupted`].
    fn interrupted(&self) -> bool {
        false
    }
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Hears nothing of a part of a job, but may end it.
pub struct Quiet<'a>(pub &'a dyn Observer);

impl Observer for Quiet<'_> {
    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

/// How a job runs: its worker threads, who hears of its progress, and how it is told to stop.
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
    /// `threads` workers, 0 for one per core; nobody listens. Results are the same for every number of threads.
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
    /// The same threads, with somebody who listens.
    pub fn with_observer<'b>(&self, observer: &'b dyn Observer) -> Context<'b> {
        Context { pool: Arc::clone(&self.pool), observer }
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on the workers; what it does in parallel is done by them.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// `work` of every number below `count`, in parallel on the workers. One piece alone is done here and now: waking a worker
    /// would cost more than a query.
    pub fn map<T: Send>(&self, count: usize, work: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
        if count <= 1 {
            return (0..count).map(work).collect();
        }
        self.run(|| (0..count).into_par_iter().with_max_len(1).map(work).collect())
    }

    /// `work` on every part of `length` of what is there, in parallel like [`map`](Self::map).
    pub(crate) fn each_part<T: Send>(
        &self,
        all: &mut [T],
        length: usize,
        work: impl Fn(usize, &mut [T]) + Sync + Send,
    ) {
        if all.len() <= length {
            return work(0, all);
        }
        self.run(|| {
            all.par_chunks_mut(length).enumerate().with_max_len(1).for_each(|(at, part)| work(at, part));
        });
    }

    /// Ends the job when the observer asks for it. Not for use inside [`run`](Self::run).
    pub fn check(&self) -> Result<()> {
        if self.observer.interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Who listens.
    pub fn observer(&self) -> &dyn Observer {
        self.observer
    }

    /// Tells the observer what happened.
    pub fn notice(&self, event: &Event) {
        self.observer.notice(event);
    }

    /// Tells the observer something the user should know; the job goes on.
    pub fn warn(&self, warning: impl Into<String>) {
        self.notice(&Event::Warning(warning.into()));
    }
}
