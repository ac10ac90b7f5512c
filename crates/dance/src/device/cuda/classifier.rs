//! A fitted kernel machine on the device. Its matrix products (the GPU kernels `ordered_rows` and `ordered_columns`)
//! sum in the order of the CPU, and its elementwise functions are those of the CPU. So mapped points and outputs have
//! the bits of the CPU, in every batch.

use std::sync::Arc;

use cudarc::driver::CudaSlice;

use super::fit::kernel_values;
use super::queue::Queue;
use super::{Gpu, Points};
use crate::context::Context;
use crate::device::cpu::{centered, check_machine, check_width, mean};
use crate::device::{ClassifierHandle, MachineParts};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;

/// The largest number of kernel values that are computed at a time, for pairs of a query and a training point.
const BLOCK_NUMBERS: usize = 1 << 26;
/// The number of rows, and of columns, in a tile of the matrix products by the GPU kernels `ordered_rows` and
/// `ordered_columns`.
const SIDE: usize = 128;

/// A fitted kernel machine, loaded on a graphics processor.
pub(super) struct CudaClassifier {
    gpu: Arc<Gpu>,
    dimensions: usize,
    classes: usize,
    root: CudaSlice<f32>,
    /// The mean of the mapped training points, which is subtracted from all mapped points.
    center: Vec<f32>,
    /// The training points, mapped by the root of the metric and centered.
    train: Points,
    kernel: Kernel,
    beta: CudaSlice<f32>,
}

impl CudaClassifier {
    pub(super) fn open(gpu: &Arc<Gpu>, machine: MachineParts<'_>) -> Result<Self> {
        check_machine(machine)?;
        let MachineParts { root, train, kernel, beta } = machine;
        let dimensions = train.cols();
        let queue = gpu.queue()?;
        let on_device = queue.upload(root.as_slice())?;
        let mapped = map(&queue, train, &on_device, root.cols())?;
        let center = mean(&mapped);
        let train = Points::new(&queue, &centered(&mapped, &center))?;
        let (classes, beta) = (beta.cols(), queue.upload(beta.as_slice())?);
        drop(queue);
        Ok(Self { gpu: Arc::clone(gpu), dimensions, classes, root: on_device, center, train, kernel, beta })
    }
}

impl ClassifierHandle for CudaClassifier {
    fn map(&self, points: &Matrix, _: &Context<'_>) -> Result<Matrix> {
        check_width("points", self.dimensions, points.cols())?;
        map(&*self.gpu.queue()?, points, &self.root, self.center.len())
    }

    fn outputs(&self, mapped: &Matrix, _: &Context<'_>) -> Result<Matrix> {
        check_width("mapped points", self.center.len(), mapped.cols())?;
        let (n, d, c) = (self.train.rows, self.center.len(), self.classes);
        let block = (BLOCK_NUMBERS / n.max(1)).max(1);
        let mut all = Matrix::with_columns(c);
        let queue = self.gpu.queue()?;
        for first in (0..mapped.rows()).step_by(block) {
            let rows: Vec<usize> = (first..mapped.rows().min(first + block)).collect();
            let count = rows.len();
            let queries = Points::new(&queue, &centered(&mapped.select(&rows), &self.center))?;
            let mut values = queue.zeros(count * n)?;
            ordered(&queue, "ordered_rows", &queries.plain, &self.train.plain, [count, n, d], &mut values)?;
            queries.distances(&queue, (0, count), &self.train, &mut values, false)?;
            kernel_values(&queue, self.kernel, &mut values, count * n)?;
            let mut out = queue.zeros(count * c)?;
            ordered(&queue, "ordered_columns", &values, &self.beta, [count, c, n], &mut out)?;
            all.append(&Matrix::new(queue.download(&out, 0, count * c)?, count, c)?)?;
        }
        Ok(all)
    }
}

/// Returns `points · root`, the points mapped by the root of the metric.
fn map(queue: &Queue, points: &Matrix, root: &CudaSlice<f32>, cols: usize) -> Result<Matrix> {
    let (rows, depth) = (points.rows(), points.cols());
    let points = queue.upload(points.as_slice())?;
    let mut out = queue.zeros(rows * cols)?;
    ordered(queue, "ordered_columns", &points, root, [rows, cols, depth], &mut out)?;
    Matrix::new(queue.download(&out, 0, rows * cols)?, rows, cols)
}

/// Computes a matrix product by the GPU kernel named `kernel`. Every entry is a sum of `depth` terms, added in
/// ascending order.
fn ordered(
    queue: &Queue,
    kernel: &'static str,
    left: &CudaSlice<f32>,
    right: &CudaSlice<f32>,
    [rows, cols, depth]: [usize; 3],
    out: &mut CudaSlice<f32>,
) -> Result<()> {
    let product = queue.kernel(kernel).input(left, rows * depth).input(right, cols * depth);
    let product = product.size(rows).size(cols).size(depth).output(out, rows * cols);
    product.run((cols.div_ceil(SIDE), rows.div_ceil(SIDE)), (256, 1))
}
