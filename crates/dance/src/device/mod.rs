//! What heavy work runs on. A [`Device`] opens handles that own their data, uploaded, centred and packed once:
//!
//! - [`FitSession`]: the points of a fit and everything of size n×n. Metric and coefficients stay there from round to round;
//!   only qualities come back until the best iterate is known.
//! - [`ClassifierHandle`]: a fitted kernel machine that maps and classifies queries.
//! - [`IndexHandle`]: points among which the neighbors of queries are found. It returns *candidates*: everything that can be
//!   a neighbor given the rounding of the device's arithmetic. One routine on the host decides among them in f64
//!   ([`neighbors`](crate::neighbors)).
//!
//! **What holds for every device**: neighbors, ranks and contrastive scores from one model file are the same, because f64 on
//! the host decides; class probabilities agree to rounding (the calibration points' are kept in the file).
//! A call can fail, and a failed call changes nothing outside its handle.
//! **What holds for [`Cpu`]**: every bit, for any number of threads and any batch a row is part of. A classifier on a graphics
//! processor (`Cuda`, behind the feature `cuda`) gives the same bits; a fit agrees to rounding.
//!
//! [`DeviceChoice`] opens a device by what people call it.
//!
//! Calls get the [`Context`]: its workers are there for what a device does on the host; a device with threads or streams of
//! its own need not use them. `examples/custom_device` is a device of plain loops.
//!
//! ```
//! use dance::{Context, Matrix, device::{Cpu, Device, FitSize}};
//! let size = FitSize { train: 20_000, held_out: 0, dimensions: 512, classes: 1000, several: false };
//! assert!(Cpu.fit_bytes(size) > 2 * 4 * 20_000 * 20_000); // two n×n matrices of f32, and what is tall
//! let index = Cpu.open_index(&Matrix::new(vec![0.0, 5.0, 1.0], 3, 1)?, &Context::new(1)?)?;
//! let query = Matrix::new(vec![0.2], 1, 1)?;
//! let found = index.ask(&query, &Context::new(1)?)?.candidates(2, false, &Context::new(1)?)?;
//! assert!(found.nearest.get(0).contains(&0) && found.nearest.get(0).contains(&2));
//! # Ok::<(), dance::Error>(())
//! ```

mod choice;
pub mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod rounding;

use std::sync::Arc;

pub use choice::{DeviceChoice, Listed, list};
pub use cpu::Cpu;
#[cfg(feature = "cuda")]
pub use cuda::Cuda;

use crate::context::Context;
use crate::error::Result;
use crate::event::{Quality, RidgeReport};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

/// Heavy work on one device.
pub trait Device: Send + Sync {
    /// What people call it.
    fn name(&self) -> String;

    /// Bytes of memory that are free for a fit, as far as the device knows.
    fn free_bytes(&self) -> Option<u64>;

    /// Bytes that a fit of this size takes at its peak.
    fn fit_bytes(&self, size: FitSize) -> u64;

    /// Loads the points and allocates what a fit needs. With `several` the distances before any metric is learned are kept,
    /// for a search that begins there many times.
    fn open_fit<'a>(
        &self,
        points: FitPoints<'a>,
        several: bool,
        context: &Context<'_>,
    ) -> Result<Box<dyn FitSession + 'a>>;

    /// Loads a fitted kernel machine.
    fn open_classifier(
        &self,
        machine: MachineParts<'_>,
        context: &Context<'_>,
    ) -> Result<Arc<dyn ClassifierHandle>>;

    /// Loads points to be searched.
    fn open_index(&self, points: &Matrix, context: &Context<'_>) -> Result<Box<dyn IndexHandle>>;

    /// `left · rightᵀ`: the inner products of all rows of one matrix with all rows of another.
    fn inner_products(&self, left: &Matrix, right: &Matrix, context: &Context<'_>) -> Result<Matrix>;
}

/// The size of a fit, for asking what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitSize {
    /// Training points.
    pub train: usize,
    /// Points held out to judge settings.
    pub held_out: usize,
    /// Dimensions.
    pub dimensions: usize,
    /// Classes.
    pub classes: usize,
    /// Whether several settings are tried.
    pub several: bool,
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
    /// Points that judge every solution. May have no rows.
    pub held_out: &'a Matrix,
    /// Their class indices.
    pub held_out_labels: &'a [u32],
    /// The directions (rows of an orthonormal basis) that the numbers of all points are coordinates in, where they are not those
    /// of the encoder. A metric's largest entry is meant in the encoder's: the largest of `bᵢᵀ G bᵢ` over the columns of it.
    pub basis: Option<&'a Matrix>,
}

/// What a kernel machine is made of.
#[derive(Clone, Copy, Debug)]
pub struct MachineParts<'a> {
    /// Symmetric root of the metric, d×d.
    pub root: &'a Matrix,
    /// Points that fitted the kernel, not mapped, n×d.
    pub train: &'a Matrix,
    /// The kernel.
    pub kernel: Kernel,
    /// Coefficients, n×c.
    pub beta: &'a Matrix,
}

/// A kernel ridge regression, solved and judged; the coefficients stay on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solved {
    /// Quality at the held-out points; `None` without any.
    pub quality: Option<Quality>,
    /// How well the system was solved.
    pub report: RidgeReport,
}

/// A solution that was worth keeping.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterate {
    /// The metric `M`; `None` is the identity.
    pub metric: Option<Matrix>,
    /// Coefficients, n×c.
    pub beta: Matrix,
    /// Outputs at the held-out points, one row per point.
    pub held_out: Matrix,
}

/// How the AGOP is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgopForm {
    /// Gradients one by one.
    Definition,
    /// Sums over points and classes first.
    Folded,
}

/// One fit under way.
///
/// A search tries settings in turn: [`begin`](Self::begin), then [`solve`](Self::solve) and [`learn`](Self::learn) by turns,
/// [`keep`](Self::keep) after a solution that is the setting's best so far, and [`choose`](Self::choose) when the setting
/// turns out to be the best of all; [`chosen`](Self::chosen) fetches it in the end.
pub trait FitSession {
    /// Begins a setting at a metric; `None` is the identity.
    fn begin(&mut self, metric: Option<&Matrix>, context: &Context<'_>) -> Result<()>;

    /// Fits the ridge regression under the current metric and judges it.
    fn solve(&mut self, kernel: Kernel, ridge: f64, context: &Context<'_>) -> Result<Solved>;

    /// Makes `G / max(G)` the current metric (the largest entry in the encoder's coordinates), G the AGOP of the regression solved
    /// last over the training points `sample`
    /// (all when `None`), by the cheaper form or the one given. `false`, and the metric stays, when the gradient vanishes
    /// everywhere.
    fn learn(
        &mut self,
        sample: Option<&[usize]>,
        form: Option<AgopForm>,
        context: &Context<'_>,
    ) -> Result<bool>;

    /// Remembers the solution, with its metric, as the best of this setting. To be called before the next
    /// [`learn`](Self::learn).
    fn keep(&mut self) -> Result<()>;

    /// Makes the best of this setting the best of all.
    fn choose(&mut self) -> Result<()>;

    /// The best of all.
    fn chosen(&mut self) -> Result<Iterate>;

    /// Outputs at the held-out points of the regression solved last, one row per point.
    fn held_out(&mut self) -> Result<Matrix>;

    /// Outputs at every training point of the regression solved last, fitted without that point: one row per point. To be
    /// called before the next [`learn`](Self::learn).
    fn leave_one_out(&mut self, context: &Context<'_>) -> Result<Matrix>;
}

/// A fitted kernel machine, loaded. A row comes out the same in every batch.
pub trait ClassifierHandle: Send + Sync {
    /// `points · root`.
    fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix>;

    /// `K(mapped, centers) · beta` for mapped points: one row per point, one column per class.
    fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix>;
}

/// Points to be searched, loaded.
pub trait IndexHandle: Send + Sync {
    /// Says how far every point reaches: squared distances, +∞ reaches everything, a negative number nothing.
    fn set_reach(&mut self, squared: &[f64], context: &Context<'_>) -> Result<()>;

    /// Takes queries over, once for all that is asked about them.
    fn ask<'a>(&'a self, queries: &'a Matrix, context: &Context<'_>) -> Result<Box<dyn Asked + 'a>>;

    /// How many queries to hand over at once: few enough that a job can be stopped in between.
    fn block(&self) -> usize {
        2048
    }
}

/// Queries that an index has taken over.
pub trait Asked {
    /// For every query, every point that can be among its `k` nearest: no point that is missing is nearer than the k-th
    /// nearest of those listed, whatever the arithmetic rounds to. The fewer beyond that, the faster.
    /// With `reaching`, also every point that can have the query within its reach;
    /// [`set_reach`](IndexHandle::set_reach) came before.
    fn candidates(&self, k: usize, reaching: bool, context: &Context<'_>) -> Result<Candidates>;

    /// The squared distances of every query to the points listed for it, list after list: bit for bit those of
    /// [`squared_distance`](crate::neighbors::squared_distance). `None` leaves them to the host.
    fn distances(&self, _: &IdLists) -> Result<Option<Box<dyn AsRef<[f64]> + '_>>> {
        Ok(None)
    }
}

/// What an index returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    /// What can be among the nearest.
    pub nearest: IdLists,
    /// What can have the query within its reach; empty unless asked for.
    pub reaching: IdLists,
}

/// A list of point numbers for every query, one after the other.
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

    /// Appends lists that lie one after the other, by their lengths.
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

    /// What is in either of two lists of the same query, once and in ascending order.
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

    /// All lists, one after the other, and where each ends.
    pub fn all(&self) -> (&[u32], &[usize]) {
        (&self.ids, &self.ends)
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The list of one query, in no order.
    pub fn get(&self, query: usize) -> &[u32] {
        let start = if query == 0 { 0 } else { self.ends[query - 1] };
        &self.ids[start..self.ends[query]]
    }
}
