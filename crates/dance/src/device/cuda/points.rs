//! Points on the device, as given and mapped by a metric, whose distances are computed by matrix products.

use cudarc::driver::CudaSlice;

use super::matrix::{Mat, MatMut};
use super::queue::Queue;
use crate::error::Result;
use crate::numeric::matrix::Matrix;

/// The number of distances from one point that a block of GPU threads computes.
const PIECE: usize = 1024;

/// Points on the device, with the numbers from which distances under a metric M are computed.
pub(super) struct Points {
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// The points as given, one per row.
    pub(super) plain: CudaSlice<f32>,
    /// The points times the metric M; `None` for the identity metric.
    mapped: Option<CudaSlice<f32>>,
    /// The squared norm `zMzᵀ` of every point z under the metric M.
    norms: CudaSlice<f32>,
}

impl Points {
    /// Uploads points, with the identity as their metric.
    pub(super) fn new(queue: &Queue, points: &Matrix) -> Result<Self> {
        let (rows, cols) = (points.rows(), points.cols());
        let plain = queue.upload(points.as_slice())?;
        let mut points = Self { rows, cols, plain, mapped: None, norms: queue.zeros(rows)? };
        points.map(queue, None)?;
        Ok(points)
    }

    /// Replaces the metric under which distances are computed, and maps the points by the new one; `None` is the
    /// identity.
    pub(super) fn map(&mut self, queue: &Queue, metric: Option<&Matrix>) -> Result<()> {
        let (rows, cols) = (self.rows, self.cols);
        self.mapped = match metric {
            None => None,
            Some(metric) => {
                let metric = queue.upload(metric.as_slice())?;
                let mut mapped = queue.zeros(rows * cols)?;
                let (left, right) = (Mat::new(&self.plain, rows, cols), Mat::new(&metric, cols, cols));
                queue.product(MatMut::new(&mut mapped, rows, cols), false, left, right, 1.0)?;
                Some(mapped)
            }
        };
        let mapped = self.mapped.as_ref().unwrap_or(&self.plain);
        let dots = queue.kernel("row_dots").input(&self.plain, rows * cols).input(mapped, rows * cols);
        dots.size(rows).size(cols).output(&mut self.norms, rows).run((rows.div_ceil(64), 1), (64, 1))
    }

    /// Returns the points times the metric.
    pub(super) fn mapped(&self) -> &CudaSlice<f32> {
        self.mapped.as_ref().unwrap_or(&self.plain)
    }

    /// Replaces inner products in `values` by squared distances, from `count` points here to all points of `others`.
    /// The first of the `count` points has the index `first`. With `lower`, `others` must be `self`, and only the part
    /// below the diagonal is computed.
    pub(super) fn distances(
        &self,
        queue: &Queue,
        (first, count): (usize, usize),
        others: &Self,
        values: &mut CudaSlice<f32>,
        lower: bool,
    ) -> Result<()> {
        let (n, d) = (others.rows, self.cols);
        let squared = queue.kernel("squared_distances").output(values, count * n).size(count).size(n);
        let squared = squared.input_from(&self.norms, first, count).input(&others.norms, n);
        let squared = squared.input_from(&self.plain, first * d, count * d);
        let squared = squared.input_from(self.mapped(), first * d, count * d);
        let squared = squared.input(&others.plain, n * d).input(others.mapped(), n * d);
        squared.size(d).size(usize::from(lower)).run((count, n.div_ceil(PIECE)), (256, 1))
    }
}
