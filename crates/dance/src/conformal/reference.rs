//! Reference points: mapped points with labels, among which the neighbors of a query are found.

use super::full;
use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::Part;
use crate::neighbors::{Index, Neighbors};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;

/// The tag of the random numbers of calibration points.
pub(super) const CALIBRATION_PART: u64 = 0;
/// The tag of the random numbers of queries.
pub(super) const QUERY_PART: u64 = 1;
/// The tag of the random numbers of fit points.
const FIT_PART: u64 = 2;

/// The device, the kernel and the number of classes, which every calibration needs in addition to its points.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The device that searches the reference points.
    pub device: &'a dyn Device,
    /// The number of classes; every label is below it.
    pub classes: usize,
    /// The kernel of the learned space.
    pub kernel: Kernel,
    /// Threads, progress and cancellation.
    pub context: &'a Context<'a>,
}

/// Labelled points in mapped space, opened for search on a device.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(super) index: Index,
    pub(super) labels: Vec<u32>,
    pub(super) classes: usize,
}

impl Reference {
    /// Opens mapped points for search.
    pub(crate) fn open(points: Part, setup: Setup<'_>) -> Result<Self> {
        check_labels("reference", &points, setup.classes)?;
        Ok(Self {
            index: Index::open(setup.device, points.embeddings, setup.context)?,
            labels: points.labels,
            classes: setup.classes,
        })
    }

    /// Opens the reference points of full calibration: first the calibration points, then the fit points. Random keys
    /// order points at the same distance, so that the order does not depend on which point is the query.
    pub(crate) fn open_bag(calibration: Part, fit: &Part, seed: u64, setup: Setup<'_>) -> Result<Self> {
        let n = calibration.labels.len();
        let mut points = calibration;
        points.embeddings.append(&fit.embeddings)?;
        points.labels.extend_from_slice(&fit.labels);
        let mut reference = Self::open(points, setup)?;
        let key = |row: usize| match row.checked_sub(n) {
            None => full::key(seed, CALIBRATION_PART, row as u64),
            Some(row) => full::key(seed, FIT_PART, row as u64),
        };
        let keys = (0..reference.len()).map(key).collect();
        reference.index = reference.index.with_keys(keys);
        Ok(reference)
    }

    /// Returns the number of points.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Rebuilds the neighbor lists of the first `count` points from the `ids` of the neighbors. All lists have the same
    /// length.
    pub(crate) fn neighbors_by_id(&self, count: usize, ids: &[u32], context: &Context<'_>) -> Result<Neighbors> {
        self.index.neighbors_by_id(count, ids, context)
    }

    /// Sets the squared distance within which a query enters the neighbor list of each calibration point. The
    /// calibration points are the first reference points.
    pub(super) fn set_reach(&mut self, mut reach: Vec<f64>, context: &Context<'_>) -> Result<()> {
        reach.resize(self.len(), -1.0); // a negative number: no query enters the list of a fit point
        self.index.set_reach(reach, context)
    }

    /// Opens the points in `rows` as a reference of their own.
    pub(super) fn select(&self, device: &dyn Device, rows: &[usize], context: &Context<'_>) -> Result<Self> {
        Ok(Self {
            index: Index::open(device, self.index.points().select(rows), context)?,
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            classes: self.classes,
        })
    }
}

/// Returns a 64-bit hash of every query's coordinates, which determines the query's random numbers. So a query has the
/// same random numbers alone, in any batch and at any position.
pub(super) fn names(queries: &Matrix) -> Vec<u64> {
    let pair =
        |pair: &[f32]| u64::from(pair[0].to_bits()) | u64::from(pair.get(1).map_or(0, |value| value.to_bits())) << 32;
    (0..queries.rows()).map(|row| random::bits_of(queries.row(row).chunks(2).map(pair))).collect()
}

/// Returns an error if there is not one label per point, or if a label is not below `classes`.
pub(super) fn check_labels(part: &str, points: &Part, classes: usize) -> Result<()> {
    let Part { embeddings, labels } = points;
    if embeddings.rows() != labels.len() {
        return Err(Error::Shape {
            what: format!("{part} labels (one per point)"),
            expected: embeddings.rows().to_string(),
            found: labels.len().to_string(),
        });
    }
    match labels.iter().position(|&label| label as usize >= classes) {
        None => Ok(()),
        Some(row) => Err(Error::Label {
            origin: format!("{part} points"),
            row,
            problem: format!("{} is not below the number of classes, {classes}", labels[row]),
        }),
    }
}
