//! Where the heavy work happens: a few coarse functions on host matrices, so that a device twin needs no change elsewhere.
//!
//! A [`Backend`] opens a [`FitSession`] for the points of one fit. The session owns everything of size n×n, allocated
//! once and reused over rounds and over the evaluations of a search; a device backend would keep the points there.

mod cpu;

pub use cpu::Cpu;

use crate::agop::AgopForm;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::neighbors::{Neighbors, Reach, Reached, Reference};
use crate::ridge::RidgeReport;

/// A pool of worker threads: parallelism is something you pass, not something that is around.
#[derive(Debug)]
pub struct Threads {
    pool: rayon::ThreadPool,
}

impl Threads {
    /// `count` workers; 0 means one a core. Results are the same for every count.
    pub fn new(count: usize) -> Result<Self> {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|i| format!("dance-{i}")).build();
        pool.map(|pool| Self { pool })
            .map_err(|error| Error::Data(format!("could not start {count} threads: {error}")))
    }

    /// Number of workers.
    pub fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on the pool.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }
}

/// The points of one fit: those that fit the kernel and those held out to judge it.
#[derive(Clone, Copy, Debug)]
pub struct FitPoints<'a> {
    /// Training points, normalised.
    pub train: &'a Matrix,
    /// Class index of every training point.
    pub labels: &'a [u32],
    /// Number of classes.
    pub classes: usize,
    /// Points whose outputs every solution reports. May have no rows.
    pub held_out: &'a Matrix,
}

/// A kernel ridge regression, solved.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Coefficients, n×c.
    pub beta: Matrix,
    /// Outputs at the held-out points.
    pub held_out: Matrix,
    /// How well the system was solved.
    pub report: RidgeReport,
}

/// Heavy work on one device.
pub trait Backend: Sync {
    /// The workers for what stays on the host.
    fn threads(&self) -> &Threads;

    /// Loads the points and allocates what a fit needs. With `reuse_initial` the distances before any metric is learned
    /// are kept, for a search that begins there many times.
    fn open<'a>(&'a self, points: FitPoints<'a>, reuse_initial: bool) -> Result<Box<dyn FitSession + 'a>>;

    /// Bytes that [`open`](Self::open) and the session's steps take at their peak.
    fn fit_bytes(&self, n: usize, held_out: usize, d: usize, c: usize, reuse_initial: bool) -> u64;

    /// `K(queries, centers)·beta` for points already mapped by the metric's root. A row comes out the same in every batch.
    fn predict(&self, queries: &Matrix, centers: &Matrix, kernel: Kernel, beta: &Matrix) -> Result<Matrix>;

    /// `points · root`. A row comes out the same in every batch.
    fn project(&self, points: &Matrix, root: &Matrix) -> Result<Matrix>;

    /// The `k` nearest reference points of every query (both mapped), without the one that `skip` names for it.
    /// See [`neighbors`](crate::neighbors).
    fn neighbors(
        &self,
        reference: &Reference,
        queries: &Matrix,
        k: usize,
        skip: Option<&[Option<u32>]>,
    ) -> Result<Neighbors>;

    /// The `k` nearest reference points of every query, and the reference points that have the query within their reach.
    fn neighbors_both_ways(
        &self,
        reference: &Reference,
        queries: &Matrix,
        k: usize,
        reach: &Reach,
    ) -> Result<(Neighbors, Reached)>;

    /// The median distance among (a sample of) the points.
    fn median_distance(&self, points: &Matrix) -> f64;
}

/// One fit under way.
pub trait FitSession {
    /// Fits the ridge regression under a metric (`None`: the identity).
    fn solve(&mut self, metric: Option<&Matrix>, kernel: Kernel, ridge: f64) -> Result<Solution>;

    /// The AGOP of the regression solved last, over the training points `sample` (all when `None`), by the cheaper form
    /// or the one given. d×d, the next round's metric up to a factor.
    fn agop(&mut self, beta: &Matrix, sample: Option<&[usize]>, form: Option<AgopForm>) -> Result<Matrix>;
}
