//! The devices for heavy work. A [`Device`] opens handles that own their data, which is uploaded, centered and packed
//! once:
//!
//! - [`FitSession`]: the points of a fit and everything of size n×n. The metric and the coefficients stay on the device
//!   between rounds; only qualities are returned until the best iterate is known.
//! - [`ClassifierHandle`]: a fitted kernel machine that maps and classifies queries.
//! - [`IndexHandle`]: points among which neighbors are searched. It returns *candidates*: all points that can be
//!   neighbors, given the rounding errors of the device. One routine on the host selects the neighbors among them in
//!   f64 ([`neighbors`](crate::neighbors)).
//!
//! **Every device** gives the same neighbors, ranks and contrastive scores for one model file, because f64 on the host
//! decides. Class probabilities agree up to rounding; those of the calibration points are stored in the file. A call
//! can fail, and a failed call changes nothing outside its handle.
//!
//! **[`Cpu`]** gives the same bits for any number of threads and any batch. A classifier on a graphics processor
//! (`Cuda`, behind the feature `cuda`) gives the same bits as the CPU; a fit agrees up to rounding.
//!
//! [`DeviceChoice`] opens a device by its name.
//!
//! Every call gets the [`Context`], on whose worker threads a device can compute. A device with threads or streams of
//! its own need not use them. `examples/custom_device` implements a device with plain loops.
//!
//! ```
//! use dance::{Context, Matrix, device::{Cpu, Device, FitSize}};
//! let size = FitSize { train: 20_000, held_out: 0, dimensions: 512, classes: 1000, several: false };
//! assert!(Cpu.fit_bytes(size) > 2 * 4 * 20_000 * 20_000); // two n×n matrices of f32, and n×d and n×c ones
//! let index = Cpu.open_index(&Matrix::new(vec![0.0, 5.0, 1.0], 3, 1)?, &Context::new(1)?)?;
//! let query = Matrix::new(vec![0.2], 1, 1)?;
//! let found = index.open_queries(&query, &Context::new(1)?)?.candidates(2, false, &Context::new(1)?)?;
//! assert!(found.nearest.get(0).contains(&0) && found.nearest.get(0).contains(&2));
//! # Ok::<(), dance::Error>(())
//! ```

mod choice;
pub mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod rounding;

use std::sync::Arc;

pub use choice::{AvailableDevice, DeviceChoice, list};
pub use cpu::Cpu;
#[cfg(feature = "cuda")]
pub use cuda::Cuda;

use crate::context::Context;
use crate::error::Result;
use crate::event::{Quality, RidgeReport};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

/// A device for heavy work.
pub trait Device: Send + Sync {
    /// Returns the name, such as `cpu` or `cuda:0`.
    fn name(&self) -> String;

    /// Returns the number of bytes that are free for a fit; `None` if the device does not know it.
    fn free_bytes(&self) -> Option<u64>;

    /// Returns the number of bytes that a fit of this size takes at its peak.
    fn fit_bytes(&self, size: FitSize) -> u64;

    /// Loads the points and allocates the memory of a fit. If `several` settings will be tried, the session keeps the
    /// distances under the identity metric, because every setting begins with it.
    fn open_fit<'a>(
        &self,
        points: FitPoints<'a>,
        several: bool,
        context: &Context<'_>,
    ) -> Result<Box<dyn FitSession + 'a>>;

    /// Loads a fitted kernel machine.
    fn open_classifier(&self, machine: MachineParts<'_>, context: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>>;

    /// Loads points for searches.
    fn open_index(&self, points: &Matrix, context: &Context<'_>) -> Result<Box<dyn IndexHandle>>;

    /// Returns `left · rightᵀ`: the inner products of all rows of one matrix with all rows of another.
    fn inner_products(&self, left: &Matrix, right: &Matrix, context: &Context<'_>) -> Result<Matrix>;
}

/// The size of a fit, which determines its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitSize {
    /// The number of training points.
    pub train: usize,
    /// The number of held-out points.
    pub held_out: usize,
    /// The number of dimensions.
    pub dimensions: usize,
    /// The number of classes.
    pub classes: usize,
    /// `true` if several settings are tried.
    pub several: bool,
}

/// The points of one fit: training points and held-out points.
#[derive(Clone, Copy, Debug)]
pub struct FitPoints<'a> {
    /// The normalised training points.
    pub train: &'a Matrix,
    /// The class index of every training point.
    pub labels: &'a [u32],
    /// The number of classes.
    pub classes: usize,
    /// The points that every solution is scored on; may have no rows.
    pub held_out: &'a Matrix,
    /// The class index of every held-out point.
    pub held_out_labels: &'a [u32],
    /// The orthonormal basis, one direction per row, whose coordinates all points are; `None` for the encoder's
    /// coordinates. The largest entry of a metric G is taken in the encoder's coordinates: the largest `bᵢᵀ G bᵢ` over
    /// the columns bᵢ of the basis.
    pub basis: Option<&'a Matrix>,
}

/// The parts of a fitted kernel machine with n training points, d dimensions and c classes.
#[derive(Clone, Copy, Debug)]
pub struct MachineParts<'a> {
    /// The symmetric root of the metric, d×d.
    pub root: &'a Matrix,
    /// The training points, not mapped, n×d.
    pub train: &'a Matrix,
    /// The kernel.
    pub kernel: Kernel,
    /// The coefficients, n×c.
    pub beta: &'a Matrix,
}

/// The outcome of a kernel ridge regression; its coefficients stay on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solved {
    /// The quality at the held-out points; `None` without such points.
    pub quality: Option<Quality>,
    /// The accuracy of the solution of the linear system.
    pub report: RidgeReport,
}

/// The best iterate of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterate {
    /// The metric; `None` is the identity.
    pub metric: Option<Matrix>,
    /// The coefficients, one row per training point, one column per class.
    pub beta: Matrix,
    /// The outputs at the held-out points, one row per point.
    pub held_out: Matrix,
}

/// The form in which the AGOP (average gradient outer product) is computed. Both have the same result up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgopForm {
    /// Computes the gradient of every class at every point.
    Definition,
    /// Sums over points and classes before it multiplies by the points, so that no gradient is computed.
    Folded,
}

/// A fit in progress.
///
/// A search tries settings in turn. Each setting starts with [`begin`](Self::begin), and alternates between
/// [`solve`](Self::solve) and [`learn`](Self::learn). [`keep`](Self::keep) follows a solution that is the best of its
/// setting so far. [`choose`](Self::choose) follows a setting that is the best so far. [`chosen`](Self::chosen) returns
/// the best of all at the end.
pub trait FitSession {
    /// Begins a setting with a metric; `None` is the identity.
    fn begin(&mut self, metric: Option<&Matrix>, context: &Context<'_>) -> Result<()>;

    /// Solves the ridge regression under the current metric and scores it on the held-out points.
    fn solve(&mut self, kernel: Kernel, ridge: f64, context: &Context<'_>) -> Result<Solved>;

    /// Replaces the metric by `G / max(G)`, where G is the AGOP of the last regression over the training points
    /// `sample`, or over all if `None`. The largest entry is taken in the encoder's coordinates. If `form` is `None`,
    /// the cheaper form is used. Returns `false`, and keeps the metric, if the gradient vanishes everywhere.
    fn learn(&mut self, sample: Option<&[usize]>, form: Option<AgopForm>, context: &Context<'_>) -> Result<bool>;

    /// Keeps the last solution and its metric as the best of this setting. Valid before the next
    /// [`learn`](Self::learn).
    fn keep(&mut self) -> Result<()>;

    /// Makes the best solution of this setting the best of all.
    fn choose(&mut self) -> Result<()>;

    /// Returns the best solution of all.
    fn chosen(&mut self) -> Result<Iterate>;

    /// Returns the outputs of the last regression at the held-out points, one row per point.
    fn held_out(&mut self) -> Result<Matrix>;

    /// Returns the leave-one-out outputs of the last regression at the training points, one row per point. Valid before
    /// the next [`learn`](Self::learn).
    fn leave_one_out(&mut self, context: &Context<'_>) -> Result<Matrix>;
}

/// A loaded kernel machine. The result for a point does not depend on the other points of a call.
pub trait ClassifierHandle: Send + Sync {
    /// Returns `points · root`, the points mapped by the root of the metric.
    fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix>;

    /// Returns the outputs at mapped points: their kernel values with all training points, times the coefficients. One
    /// row per point, one column per class.
    fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix>;
}

/// Points that are loaded for searches.
pub trait IndexHandle: Send + Sync {
    /// Sets the reach of every point: the largest squared distance at which a query counts as near the point. With +∞
    /// every query does, with a negative number none.
    fn set_reach(&mut self, squared: &[f64], context: &Context<'_>) -> Result<()>;

    /// Loads queries once, for several searches.
    fn open_queries<'a>(&'a self, queries: &'a Matrix, context: &Context<'_>) -> Result<Box<dyn QueryHandle + 'a>>;

    /// Returns the largest number of queries to pass at once, which bounds the time between checks for cancellation.
    fn block(&self) -> usize {
        2048
    }
}

/// Queries that are loaded for searches.
pub trait QueryHandle {
    /// Returns for every query all points that can be among its `k` nearest. No unlisted point may be nearer than the
    /// k-th nearest listed one, whatever the rounding; short lists are faster. With `reaching`, also returns all points
    /// that can have the query within their reach, which [`set_reach`](IndexHandle::set_reach) must have set before.
    fn candidates(&self, k: usize, reaching: bool, context: &Context<'_>) -> Result<Candidates>;

    /// Returns the squared distances of every query to the points listed for it, list after list, with the bits of
    /// [`squared_distance`](crate::neighbors::squared_distance). `None` leaves them to the host.
    fn distances(&self, _: &IdLists) -> Result<Option<Box<dyn AsRef<[f64]> + '_>>> {
        Ok(None)
    }
}

/// The candidates for neighbors that an index returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    /// For every query, the points that can be among its nearest.
    pub nearest: IdLists,
    /// For every query, the points that can have it within their reach; empty unless requested.
    pub reaching: IdLists,
}

/// Returns the largest number below `too_many` for which `fits` is true, by bisection; 0 if there is none.
pub(crate) fn most_that_fit(mut too_many: usize, fits: impl Fn(usize) -> bool) -> usize {
    let mut most = 0;
    while too_many - most > 1 {
        let middle = usize::midpoint(most, too_many);
        if fits(middle) { most = middle } else { too_many = middle }
    }
    most
}

/// A list of point indices for every query, stored one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdLists {
    ends: Vec<usize>,
    ids: Vec<u32>,
}

impl IdLists {
    /// Appends the list of the next query.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.ids.extend(ids);
        self.ends.push(self.ids.len());
    }

    /// Appends several lists: `ids` holds them one after the other, `lengths` holds their lengths.
    #[cfg(feature = "cuda")]
    pub(crate) fn extend_with(&mut self, ids: &[u32], lengths: impl IntoIterator<Item = usize>) {
        let mut end = self.ids.len();
        self.ends.extend(lengths.into_iter().map(|length| {
            end += length;
            end
        }));
        self.ids.extend_from_slice(ids);
    }

    /// Appends the lists of further queries.
    pub fn extend(&mut self, other: &Self) {
        let before = self.ids.len();
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.ids.extend_from_slice(&other.ids);
    }

    /// Returns for every query the ids in its list here or in `other`, each once and in ascending order.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut all = Self::default();
        for query in 0..self.len() {
            let mut either = [self.get(query), other.get(query)].concat();
            either.sort_unstable();
            either.dedup();
            all.push(either);
        }
        all
    }

    /// Returns the ids of all lists, list after list, and the end of each list among them.
    pub fn all(&self) -> (&[u32], &[usize]) {
        (&self.ids, &self.ends)
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if there are no queries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the list of one query, in no order.
    pub fn get(&self, query: usize) -> &[u32] {
        let start = if query == 0 { 0 } else { self.ends[query - 1] };
        &self.ids[start..self.ends[query]]
    }
}
