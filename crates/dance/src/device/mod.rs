//! The devices for heavy work. A [`Device`] opens handles, each of which keeps its data in the form that the device
//! computes with:
//!
//! - [`FitSession`] holds the points of a fit and its n×n matrices, for n training points. Metric and coefficients stay
//!   on the device between iterations; only qualities are returned until the best iteration is known.
//! - [`ClassifierHandle`] holds a fitted kernel machine, which maps and classifies queries.
//! - [`IndexHandle`] holds points among which neighbors are searched. It returns *candidates*: all points that can be
//!   neighbors, given the rounding errors of the device. The host selects the neighbors among them in f64
//!   ([`neighbors`](crate::neighbors)).
//!
//! **Every device** gives the same neighbors, ranks and contrastive scores for one model file, because the host decides
//! in f64. Class probabilities of two devices agree up to rounding; those of the calibration points are stored in the
//! file. A call can fail; a failed call changes nothing outside its handle.
//!
//! **[`Cpu`]** gives the same bits for any number of threads and any batch. A classifier on a graphics processor of
//! NVIDIA's (feature `cuda`) gives the bits of the CPU; a fit on it agrees with the CPU up to rounding.
//!
//! [`DeviceChoice`] opens a device by its name.
//!
//! Every call gets the [`Context`], on whose worker threads a device can compute. A device with threads or streams of
//! its own need not use them. `examples/custom_device` implements a device with plain loops.
//!
//! ```
//! use dance::{Context, Matrix, device::{Cpu, Device}};
//! let context = Context::new(1)?;
//! let index = Cpu.open_index(&Matrix::new(vec![0.0, 5.0, 1.0], 3, 1)?, &context)?;
//! let query = Matrix::new(vec![0.2], 1, 1)?;
//! let found = index.open_queries(&query, &context)?.candidates(2, false, &context)?;
//! assert!(found.get(0).contains(&0) && found.get(0).contains(&2));
//! # Ok::<(), dance::Error>(())
//! ```

mod choice;
pub mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use choice::{DeviceChoice, list};
pub use cpu::Cpu;

use crate::context::{Context, Quality};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

/// A device for heavy work.
pub trait Device: Send + Sync {
    /// Returns the name, such as `cpu` or `cuda:0`.
    fn name(&self) -> String;

    /// Returns the number of bytes that are free for a fit; `None` if the device does not know it.
    fn free_bytes(&self) -> Option<u64>;

    /// Returns the largest number of bytes that a fit has allocated at a time. The fit has `train` training points and
    /// `held_out` held-out points, and the classes and dimensions of `points`, whose own numbers of points do not
    /// count.
    fn fit_bytes(&self, points: FitPoints<'_>, train: usize, held_out: usize) -> u64;

    /// Loads the points of a fit and allocates its memory.
    fn open_fit<'a>(&self, points: FitPoints<'a>, context: &Context<'_>) -> Result<Box<dyn FitSession + 'a>>;

    /// Loads a fitted kernel machine.
    fn open_classifier(&self, machine: MachineParts<'_>, context: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>>;

    /// Loads points among which neighbors are searched.
    fn open_index(&self, points: &Matrix, context: &Context<'_>) -> Result<Box<dyn IndexHandle>>;

    /// Returns `left · rightᵀ`: the inner products of all rows of `left` with all rows of `right`.
    fn inner_products(&self, left: &Matrix, right: &Matrix, context: &Context<'_>) -> Result<Matrix>;
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
    /// The points at which every regression is evaluated; may have no rows.
    pub held_out: &'a Matrix,
    /// The class index of every held-out point.
    pub held_out_labels: &'a [u32],
    /// The orthonormal basis, one direction per row, in which all points are given; `None` for the encoder's
    /// coordinates. With a basis, the largest entry of a metric G is the largest `bᵢᵀ G bᵢ` over the columns bᵢ of the
    /// basis: the largest entry in the encoder's coordinates.
    pub basis: Option<&'a Matrix>,
    /// `true` if several settings will be tried. The session then keeps the distances under the identity metric, with
    /// which every setting begins.
    pub several: bool,
}

/// The parts of a fitted kernel machine with n training points, d dimensions and c classes.
#[derive(Clone, Copy, Debug)]
pub struct MachineParts<'a> {
    /// The symmetric root of the metric, d×d.
    pub root: &'a Matrix,
    /// The training points, not mapped by the root, n×d.
    pub train: &'a Matrix,
    /// The kernel.
    pub kernel: Kernel,
    /// The coefficients, n×c.
    pub beta: &'a Matrix,
}

/// The quality and the numerical accuracy of a kernel ridge regression, whose coefficients stay on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    /// The quality at the held-out points; `None` without such points.
    pub quality: Option<Quality>,
    /// The ridge parameter λ that was used. It is larger than the setting if the kernel matrix was not positive
    /// definite.
    pub ridge: f64,
    /// The relative residual `‖Y - (K + λI)β‖ / ‖Y‖` on a sample of rows, with the kernel matrix K, the one-hot labels
    /// Y and the coefficients β.
    pub residual: f64,
    /// The number of steps of iterative refinement.
    pub refinements: usize,
}

/// A fit in progress.
///
/// A search tries settings of the kernel in turn. Each setting starts with [`begin`](Self::begin), and alternates
/// between [`solve`](Self::solve), which fits a regression, and [`learn`](Self::learn), which learns the next metric.
/// [`keep`](Self::keep) follows a regression that is the best of its setting so far. [`choose`](Self::choose) follows a
/// setting that is the best so far. [`chosen`](Self::chosen) returns the best regression of all settings.
pub trait FitSession {
    /// Begins a setting with a metric; `None` is the identity.
    fn begin(&mut self, metric: Option<&Matrix>, context: &Context<'_>) -> Result<()>;

    /// Fits the kernel ridge regression under the current metric and evaluates it at the held-out points.
    fn solve(&mut self, kernel: Kernel, ridge: f64, context: &Context<'_>) -> Result<Regression>;

    /// Replaces the metric by `G / max(G)`, where G is the AGOP (average gradient outer product) of the last regression
    /// over the training points `sample`, or over all if `None`. The largest entry `max(G)` is taken in the encoder's
    /// coordinates. Returns `false`, and keeps the metric, if the gradient vanishes everywhere.
    fn learn(&mut self, sample: Option<&[usize]>, context: &Context<'_>) -> Result<bool>;

    /// Keeps the last regression and its metric as the best of this setting. Valid before the next
    /// [`learn`](Self::learn).
    fn keep(&mut self) -> Result<()>;

    /// Makes the regression that was last kept the best of all settings.
    fn choose(&mut self) -> Result<()>;

    /// Returns the best regression of all settings: its metric (`None` is the identity), and its coefficients, one row
    /// per training point and one column per class. Ends the setting; only [`held_out`](Self::held_out) and
    /// [`begin`](Self::begin) may follow.
    fn chosen(&mut self) -> Result<(Option<Matrix>, Matrix)>;

    /// Returns the outputs at the held-out points, one row per point: those of the last regression, or after
    /// [`chosen`](Self::chosen) those of the best one.
    fn held_out(&mut self) -> Result<Matrix>;

    /// Returns the leave-one-out outputs of the last regression, one row per training point: the output at the point of
    /// the regression without it. Valid before the next [`learn`](Self::learn).
    fn leave_one_out(&mut self, context: &Context<'_>) -> Result<Matrix>;
}

/// A loaded kernel machine. The result for a point does not depend on the other points of a call.
pub trait ClassifierHandle: Send + Sync {
    /// Returns `points · root`, the points mapped by the root of the metric.
    fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix>;

    /// Returns the outputs of the regression at mapped points, one row per point and one column per class: the kernel
    /// values of a point with all training points, times the coefficients.
    fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix>;
}

/// Points that are loaded for searches.
pub trait IndexHandle: Send + Sync {
    /// Sets the reach of every point: the largest squared distance at which a query counts as near the point. With +∞
    /// every query is near it, with a negative number none.
    fn set_reach(&mut self, squared: &[f64], context: &Context<'_>) -> Result<()>;

    /// Loads queries once, for a search and for distances to its candidates.
    fn open_queries<'a>(&'a self, queries: &'a Matrix, context: &Context<'_>) -> Result<Box<dyn QueryHandle + 'a>>;

    /// Returns the largest number of queries to load at once, which bounds the time between checks for interruption.
    fn block(&self) -> usize {
        2048
    }
}

/// Queries that are loaded for searches.
pub trait QueryHandle {
    /// Returns for every query all points that can be among its `k` nearest. No unlisted point may be nearer than the
    /// k-th nearest listed one, whatever the rounding; short lists are faster. With `reaching`, the lists also hold all
    /// points that can have the query within their reach, which [`set_reach`](IndexHandle::set_reach) must have set.
    fn candidates(&self, k: usize, reaching: bool, context: &Context<'_>) -> Result<Candidates>;

    /// Returns the squared distance of every query to each of its candidates, list after list, with the bits of
    /// [`squared_distance`](crate::neighbors::squared_distance). With `None` the host computes the distances.
    fn distances(&self, _: &Candidates) -> Result<Option<Box<dyn AsRef<[f64]> + '_>>> {
        Ok(None)
    }
}

/// The candidates of queries: for every query a list of point indices, each index once and in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The end of every query's list in `ids`.
    ends: Vec<usize>,
    ids: Vec<u32>,
}

impl Candidates {
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
    pub(crate) fn extend(&mut self, other: &Self) {
        let before = self.ids.len();
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.ids.extend_from_slice(&other.ids);
    }

    /// Returns for every query the indices in its list here or in `other`, each once. An empty `other` adds nothing.
    pub(crate) fn union(self, other: &Self) -> Self {
        if other.ends.is_empty() {
            return self;
        }
        let mut all = Self::default();
        for query in 0..self.ends.len() {
            let mut either = [self.get(query), other.get(query)].concat();
            either.sort_unstable();
            either.dedup();
            all.push(either);
        }
        all
    }

    /// Returns the indices of all lists, list after list, and the end of each list among them.
    pub(crate) fn all(&self) -> (&[u32], &[usize]) {
        (&self.ids, &self.ends)
    }

    /// Returns the list of one query.
    pub fn get(&self, query: usize) -> &[u32] {
        let start = if query == 0 { 0 } else { self.ends[query - 1] };
        &self.ids[start..self.ends[query]]
    }
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
