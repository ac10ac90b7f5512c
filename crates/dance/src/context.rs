//! Worker threads, events and interruption of a job.
//!
//! Every call that takes time gets a [`Context`]. The library does parallel work only on the threads of the context and
//! on the thread that called the library. The library prints nothing: an [`Observer`] receives its events.
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
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The largest number of worker threads. A larger request is probably a typing error and is reduced to this number.
const MOST_THREADS: usize = 256;

/// A receiver of a job's events. The library calls its methods on the thread that called the library.
pub trait Observer: Sync {
    /// Receives an event of the job, such as progress or a warning.
    fn notice(&self, _event: &Event) {}

    /// Returns whether the job should stop. If so, the job fails with [`Error::Interrupted`]. The library asks between
    /// steps, at least once every few thousand queries.
    fn interrupted(&self) -> bool {
        false
    }
}

/// The observer of a context for which no other was set. It ignores every event and never stops the job.
struct Nobody;

impl Observer for Nobody {}

/// The worker threads and the observer of a job.
#[derive(Clone)]
pub struct Context<'a> {
    pool: Arc<rayon::ThreadPool>,
    observer: &'a dyn Observer,
    /// `true` if the observer can stop the job but receives no events.
    quiet: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

impl Context<'static> {
    /// Starts `threads` worker threads (0 means one per core), without an observer. The results of the library do not
    /// depend on the number of threads.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.min(MOST_THREADS))
            .thread_name(|index| format!("dance-{index}"))
            .build()
            .map_err(|error| Error::Data(format!("could not start {threads} threads: {error}")))?;
        Ok(Self { pool: Arc::new(pool), observer: &Nobody, quiet: false })
    }
}

impl Context<'_> {
    /// Returns a context with the same threads and another observer.
    pub fn with_observer<'b>(&self, observer: &'b dyn Observer) -> Context<'b> {
        Context { pool: Arc::clone(&self.pool), observer, quiet: false }
    }

    /// Returns a context with the same threads and no observer: its jobs send no events and cannot be stopped.
    pub fn silent(&self) -> Context<'static> {
        Context { pool: Arc::clone(&self.pool), observer: &Nobody, quiet: false }
    }

    /// Returns a context with the same threads and observer, but its jobs send no events. The observer can still stop
    /// the jobs.
    pub fn quiet(&self) -> Self {
        Self { quiet: true, ..self.clone() }
    }

    /// Returns the number of worker threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on the worker threads and returns its result. Parallel iterators in `work` use the same threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Returns `work(i)` for every i below `count`, in the order of i and computed in parallel. With a `count` of 1,
    /// `work` runs on the calling thread, since waking a worker thread takes longer than answering one query.
    pub fn map<T: Send>(&self, count: usize, work: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
        if count <= 1 {
            return (0..count).map(work).collect();
        }
        self.run(|| (0..count).into_par_iter().with_max_len(1).map(work).collect())
    }

    /// Cuts `values` into chunks of `length` values, the last one shorter. Calls `work(i, chunk)` for the i-th chunk,
    /// in parallel.
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

    /// Fails with [`Error::Interrupted`] if the observer wants to stop the job. Do not call this inside
    /// [`run`](Self::run), because the observer may run only on the thread that called the library.
    pub fn check(&self) -> Result<()> {
        if self.observer.interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Sends an event to the observer, unless the context is [quiet](Self::quiet).
    pub fn notice(&self, event: &Event) {
        if !self.quiet {
            self.observer.notice(event);
        }
    }

    /// Sends a warning to the observer; the job continues.
    pub fn warn(&self, warning: impl Into<String>) {
        self.notice(&Event::Warning(warning.into()));
    }
}

/// An event of a job, which the job's [`Observer`] receives: a step, progress or a warning.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A fit begins, and the memory that it needs is known.
    Memory {
        /// The largest number of bytes that the fit will have allocated at one time.
        bytes: u64,
    },
    /// A search for the bandwidth and shape of the kernel begins.
    SearchBegins {
        /// The number of pairs of bandwidth and shape to try.
        evaluations: usize,
        /// The number of training points on which each pair is tried.
        points: usize,
        /// The number of all training points, of which each trial may use only a sample.
        of: usize,
    },
    /// The search has fitted and evaluated one pair of bandwidth and shape.
    Evaluated(Evaluation),
    /// A search tried its pairs of bandwidth and shape on a sample. The best pairs are now evaluated again, on all
    /// training points.
    Confirming {
        /// The number of pairs that are evaluated again.
        candidates: usize,
    },
    /// One iteration of the RFM (recursive feature machine) ended. An iteration fits a kernel ridge regression and
    /// then, except in the last iteration, learns a metric from the regression.
    Round {
        /// The number of the iteration. Iteration 0 uses the identity metric.
        round: usize,
        /// The regression's quality on the validation points; `None` without such points.
        quality: Option<Quality>,
        /// The ridge parameter that was used. It is larger than the configured one if the kernel matrix was not
        /// positive definite.
        ridge: f64,
        /// The relative residual `‖Y - (K + λI)β‖ / ‖Y‖` on a sample of rows, with the kernel matrix K, the ridge
        /// parameter λ, the one-hot labels Y and the solution β.
        residual: f64,
        /// The number of steps of iterative refinement that the solution of the regression took.
        refinements: usize,
        /// The wall-clock time of the iteration in seconds.
        seconds: f64,
    },
    /// The search has ended. The fit with the best bandwidth and shape begins, on training and validation points
    /// together.
    Refitting {
        /// The number of training and validation points.
        points: usize,
    },
    /// Some queries were answered, or the neighbors of some calibration points were found.
    Answered {
        /// The number of queries or calibration points done so far.
        done: usize,
        /// The number of all queries or calibration points.
        of: usize,
    },
    /// Some pictures or texts are embedded.
    Embedded {
        /// The number of pictures or texts done so far.
        done: usize,
        /// The number of all pictures or texts.
        of: usize,
    },
    /// A file is being downloaded.
    Fetching {
        /// The file's name.
        file: String,
        /// The number of bytes received so far.
        done: u64,
        /// The size of the file in bytes, if known.
        of: Option<u64>,
    },
    /// A warning for the user; the job continues.
    Warning(String),
}

/// The accuracy and squared loss of a classifier's outputs. The quality with the higher accuracy is better; at equal
/// accuracy, the quality with the lower loss is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The share of points whose label has the largest output.
    pub accuracy: f64,
    /// The mean of `‖f - y‖²` over the points, with a point's outputs f and its one-hot label y.
    pub loss: f64,
}

impl Quality {
    /// The quality of a failed fit, worse than the quality of any fit that succeeds.
    pub const WORST: Self = Self { accuracy: 0.0, loss: f64::INFINITY };

    /// Returns whether this quality is better than `other`.
    pub fn beats(&self, other: &Self) -> bool {
        self.accuracy > other.accuracy || (self.accuracy == other.accuracy && self.loss < other.loss)
    }
}

/// One pair of bandwidth and shape that the search for the kernel has tried, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The bandwidth of the kernel, in multiples of the median distance between training points.
    pub bandwidth: f64,
    /// The kernel's shape ξ (see [`kernel`](crate::kernel)).
    pub shape: f64,
    /// The number of training points in this trial.
    pub points: usize,
    /// The number of times that the metric was learned before the trial's best iteration. With 0, this iteration used
    /// the identity metric.
    pub rounds: usize,
    /// The quality on the validation points in the trial's best iteration; [`Quality::WORST`] if the fit failed.
    #[serde(rename = "score")] // the name in result files
    pub quality: Quality,
    /// The wall-clock time of the trial in seconds.
    pub seconds: f64,
}
