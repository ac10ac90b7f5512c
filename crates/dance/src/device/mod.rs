//! The devices for heavy work. A [`Device`] opens handles, and each handle keeps its data in the form in which the
//! device computes:
//!
//! - [`FitSession`] holds the points of a fit and its n×n matrices, for n training points. Metric and coefficients stay
//!   on the device between iterations; only qualities are returned until the best iteration is known.
//! - [`ClassifierHandle`] holds a fitted kernel machine, which maps and classifies queries.
//! - [`IndexHandle`] holds points among which neighbors are searched. It returns *candidates*: all points that can be
//!   neighbors, given the rounding errors of the device. The host selects the neighbors among them in f64
//!   ([`neighbors`](crate::neighbors)).
//!
//! **Every device** gives the same neighbors for one model file, and the same scores that follow from neighbors,
//! because the host decides in f64. Class probabilities of two devices agree up to rounding. The class probabilities of
//! the calibration points are stored in the model file. A call can fail; a failed call changes nothing outside its
//! handle.
//!
//! **[`Cpu`]** gives the same bits for any number of threads and any batch. A classifier on a graphics processor of
//! NVIDIA's (feature `cuda`) gives the bits of the CPU; a fit there agrees with the CPU up to rounding.
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

/// A device for heavy work, such as the CPU or a graphics processor. The [module](self) describes the handles that it
/// opens.
pub trait Device: Send + Sync {
    /// Returns the device's name, such as `cpu` or `cuda:0`.
    fn name(&self) -> String;

    /// Returns the number of bytes of memory that are free for a fit; `None` if the device does not know it.
    fn free_bytes(&self) -> Option<u64>;

    /// Returns the largest number of bytes that a fit would have allocated at one time. The fit has `train` training
    /// points and `held_out` held-out points. `points` says only the numbers of classes and dimensions, and whether
    /// several kernels will be tried.
    fn fit_bytes(&self, points: FitPoints<'_>, train: usize, held_out: usize) -> u64;

    /// Loads the points of a fit onto the device and allocates the memory of the fit.
    fn open_fit<'a>(&self, points: FitPoints<'a>, context: &Context<'_>) -> Result<Box<dyn FitSession + 'a>>;

    /// Loads a fitted kernel machine onto the device.
    fn open_classifier(&self, machine: MachineParts<'_>, context: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>>;

    /// Loads points onto the device, among which neighbors will be searched.
    fn open_index(&self, points: &Matrix, context: &Context<'_>) -> Result<Box<dyn IndexHandle>>;

    /// Returns `left · rightᵀ`: the inner products of all rows of `left` with all rows of `right`.
    fn inner_products(&self, left: &Matrix, right: &Matrix, context: &Context<'_>) -> Result<Matrix>;
}

/// The points of one fit: training points, and held-out points at which the fit is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct FitPoints<'a> {
    /// The normalised training points.
    pub train: &'a Matrix,
    /// The class index of every training point.
    pub labels: &'a [u32],
    /// The number of classes.
    pub classes: usize,
    /// The points at which every regression is evaluated. The matrix may have no rows.
    pub held_out: &'a Matrix,
    /// The class index of every held-out point.
    pub held_out_labels: &'a [u32],
    /// An orthonormal basis, one direction per row, if all points are coordinates in this basis. `None` if the points
    /// have the encoder's coordinates. Every learned metric G is divided by its largest entry in the encoder's
    /// coordinates. With a basis, this entry is the largest of the numbers `bᵢᵀ G bᵢ`, with the columns bᵢ of the
    /// basis.
    pub basis: Option<&'a Matrix>,
    /// `true` if several kernels will be tried. The session then keeps the distances under the identity metric, with
    /// which the trial of every kernel begins.
    pub several: bool,
}

/// The parts of a fitted kernel machine with n training points, d dimensions and c classes.
#[derive(Clone, Copy, Debug)]
pub struct MachineParts<'a> {
    /// The symmetric root of the metric, d×d for d dimensions.
    pub root: &'a Matrix,
    /// The training points, not mapped by the root of the metric: n×d for n points with d dimensions.
    pub train: &'a Matrix,
    /// The kernel of the regression, whose bandwidth is a distance under the metric.
    pub kernel: Kernel,
    /// The coefficients of the regression, n×c for n training points and c classes.
    pub beta: &'a Matrix,
}

/// The quality and the numerical accuracy of a kernel ridge regression. The coefficients of the regression stay on the
/// device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    /// The regression's quality at the held-out points; `None` without such points.
    pub quality: Option<Quality>,
    /// The ridge parameter λ that was used. It is larger than the configured one if the kernel matrix was not positive
    /// definite.
    pub ridge: f64,
    /// The relative residual `‖Y - (K + λI)β‖ / ‖Y‖` on a sample of rows, with the kernel matrix K, the one-hot labels
    /// Y and the coefficients β.
    pub residual: f64,
    /// The number of steps of iterative refinement that the solution took.
    pub refinements: usize,
}

/// A fit in progress.
///
/// A search tries kernels one after the other. The trial of a kernel starts with [`begin`](Self::begin). Then it
/// alternates between [`solve`](Self::solve), which fits a regression, and [`learn`](Self::learn), which learns the
/// next metric. Call [`keep`](Self::keep) after a regression that is the best of its trial so far. Call
/// [`choose`](Self::choose) at the end of a trial that is the best so far. Then [`chosen`](Self::chosen) returns the
/// best regression of all trials.
pub trait FitSession {
    /// Begins the trial of a kernel with `metric` as the current metric; `None` is the identity.
    fn begin(&mut self, metric: Option<&Matrix>, context: &Context<'_>) -> Result<()>;

    /// Fits the kernel ridge regression under the current metric, and evaluates it at the held-out points.
    fn solve(&mut self, kernel: Kernel, ridge: f64, context: &Context<'_>) -> Result<Regression>;

    /// Replaces the current metric by `G / max(G)`. G is the AGOP (average gradient outer product) of the last
    /// regression over the training points with the indices `sample`, or over all if `None`. The largest entry `max(G)`
    /// is taken in the encoder's coordinates. Returns `false`, and keeps the metric, if the gradient vanishes
    /// everywhere.
    fn learn(&mut self, sample: Option<&[usize]>, context: &Context<'_>) -> Result<bool>;

    /// Keeps the last regression and its metric as the best of this trial. Must be called before the next
    /// [`learn`](Self::learn).
    fn keep(&mut self) -> Result<()>;

    /// Makes the regression that was last kept the best of all trials.
    fn choose(&mut self) -> Result<()>;

    /// Returns the metric (`None` is the identity) and the coefficients of the best regression of all trials. The
    /// coefficients have one row per training point and one column per class. This ends the trial: only
    /// [`held_out`](Self::held_out) and [`begin`](Self::begin) may follow.
    fn chosen(&mut self) -> Result<(Option<Matrix>, Matrix)>;

    /// Returns the outputs of the last regression at the held-out points, one row per point. After
    /// [`chosen`](Self::chosen), these are the outputs of the best regression.
    fn held_out(&mut self) -> Result<Matrix>;

    /// Returns the leave-one-out outputs of the last regression, one row per training point. The output at a point
    /// comes from a regression on all other training points. Must be called before the next [`learn`](Self::learn).
    fn leave_one_out(&mut self, context: &Context<'_>) -> Result<Matrix>;
}

/// A kernel machine that is loaded on a device. The result for a point does not depend on the other points of a call.
pub trait ClassifierHandle: Send + Sync {
    /// Returns `points · root`, the points mapped by the root of the metric.
    fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix>;

    /// Returns the outputs of the regression at points mapped by [`map`](Self::map), one row per point and one column
    /// per class. An output is the sum of the kernel values with all training points, each times its coefficient.
    fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix>;
}

/// Points that are loaded on a device for searches of neighbors.
pub trait IndexHandle: Send + Sync {
    /// Sets the reach of every point: the largest squared distance at which a query counts as near the point. With +∞
    /// every query is near the point, with a negative number none.
    fn set_reach(&mut self, squared: &[f64], context: &Context<'_>) -> Result<()>;

    /// Loads queries once, for a search and for the distances to the candidates that the search finds.
    fn open_queries<'a>(&'a self, queries: &'a Matrix, context: &Context<'_>) -> Result<Box<dyn QueryHandle + 'a>>;

    /// Returns the largest number of queries to load at once, which bounds the time between checks for interruption.
    fn block(&self) -> usize {
        2048
    }
}

/// Queries that are loaded on a device for searches.
pub trait QueryHandle {
    /// Returns for every query a list of all points that can be among its `k` nearest. Whatever the rounding, no point
    /// outside the list may be nearer than the k-th nearest point in the list. Shorter lists are faster to process.
    ///
    /// With `reaching`, the lists also hold all points that can have the query within their reach.
    /// [`set_reach`](IndexHandle::set_reach) must have been called before.
    fn candidates(&self, k: usize, reaching: bool, context: &Context<'_>) -> Result<Candidates>;

    /// Returns the squared distance of every query to each of its candidates, list after list. The distances must have
    /// the bits of [`squared_distance`](crate::neighbors::squared_distance). If this returns `None`, the host computes
    /// the distances.
    fn distances(&self, _: &Candidates) -> Result<Option<Box<dyn AsRef<[f64]> + '_>>> {
        Ok(None)
    }
}

/// The candidates of queries: for every query a list of point indices. Each index is in a list once, and the order does
/// not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The index in `ids` at which every query's list ends.
    ends: Vec<usize>,
    ids: Vec<u32>,
}

impl Candidates {
    /// Appends the list of the next query.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.ids.extend(ids);
        self.ends.push(self.ids.len());
    }

    /// Appends the lists of several queries. `ids` holds the lists one after the other, and `lengths` holds their
    /// lengths.
    #[cfg(feature = "cuda")]
    pub(crate) fn extend_with(&mut self, ids: &[u32], lengths: impl IntoIterator<Item = usize>) {
        let mut end = self.ids.len();
        self.ends.extend(lengths.into_iter().map(|length| {
            end += length;
            end
        }));
        self.ids.extend_from_slice(ids);
    }

    /// Appends the lists in `other`, which belong to further queries.
    pub(crate) fn extend(&mut self, other: &Self) {
        let before = self.ids.len();
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.ids.extend_from_slice(&other.ids);
    }

    /// Joins the lists of every query here and in `other`. An index that is in both lists is in the joined list once.
    /// An empty `other` adds nothing.
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

    /// Returns the indices of all lists, list after list, and the place after the last index of each list.
    pub(crate) fn all(&self) -> (&[u32], &[usize]) {
        (&self.ids, &self.ends)
    }

    /// Returns the candidates of the query with the index `query`.
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
