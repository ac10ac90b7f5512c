//! The CPU as a device. It computes on the worker threads of the context.
//!
//! **Results have the same bits for any number of threads and any batch.** Work is cut into tiles whose size changes no
//! result, one thread computes each tile, and sums over tiles are added in a fixed order.

pub(in crate::device) mod agop;
mod fit;
pub(in crate::device) mod index;
pub(in crate::device) mod ridge;

use std::sync::Arc;

use super::{ClassifierHandle, Device, FitPoints, FitSession, IndexHandle, MachineParts};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch, in_tiles};

pub use agop::flops as agop_flops;
#[cfg(feature = "cuda")]
pub(in crate::device) use fit::{as_metric, check_fit, leave_one_out, not_solved};

/// The CPU as a device; see the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Device for Cpu {
    fn name(&self) -> String {
        "cpu".into()
    }

    fn free_bytes(&self) -> Option<u64> {
        // The memory that Linux would hand out without swapping. Other systems have no such file.
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(1024 * kibibytes)
    }

    fn fit_bytes(&self, points: FitPoints<'_>, train: usize, held_out: usize) -> u64 {
        fit::bytes(points, train, held_out)
    }

    fn open_fit<'a>(&self, points: FitPoints<'a>, context: &Context<'_>) -> Result<Box<dyn FitSession + 'a>> {
        Ok(Box::new(context.run(|| fit::CpuFit::open(points))?))
    }

    fn open_classifier(&self, machine: MachineParts<'_>, context: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>> {
        Ok(Arc::new(context.run(|| CpuClassifier::open(machine, context))?))
    }

    fn open_index(&self, points: &Matrix, context: &Context<'_>) -> Result<Box<dyn IndexHandle>> {
        Ok(Box::new(index::CpuIndex::open(points, context)))
    }

    fn inner_products(&self, left: &Matrix, right: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        check_width("points of an inner product", right.cols(), left.cols())?;
        let mut out = Matrix::zeros(left.rows(), right.rows());
        let (left, right) = (linalg::view(left), linalg::view(right));
        context.run(|| linalg::product(linalg::view_mut(&mut out), left, right.transpose()));
        Ok(out)
    }
}

/// Returns the median distance among the points, or among about 1,000 evenly spaced points. Kernel bandwidths are
/// multiples of this distance. The host computes it for every device, so that all devices try the same bandwidths.
pub(crate) fn median_distance(points: &Matrix, context: &Context<'_>) -> f64 {
    context.run(|| ridge::median_distance(&centered(points, &mean(points)), 1000))
}

/// Returns the mean of the points in every dimension, summed in f64.
pub(in crate::device) fn mean(points: &Matrix) -> Vec<f32> {
    let mut sums = vec![0.0f64; points.cols()];
    for row in 0..points.rows() {
        for (sum, &value) in sums.iter_mut().zip(points.row(row)) {
            *sum += f64::from(value);
        }
    }
    sums.iter().map(|sum| (sum / points.rows().max(1) as f64) as f32).collect()
}

/// Subtracts `center` from `row`.
fn subtract(row: &mut [f32], center: &[f32]) {
    for (value, center) in row.iter_mut().zip(center) {
        *value -= center;
    }
}

/// Returns the points with `center` subtracted from each. Distances do not change, and rounding errors shrink with the
/// norms.
pub(in crate::device) fn centered(points: &Matrix, center: &[f32]) -> Matrix {
    let mut out = points.clone();
    for row in 0..out.rows() {
        subtract(out.row_mut(row), center);
    }
    out
}

pub(in crate::device) fn squared_norm(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).powi(2)).sum()
}

/// Returns [`Error::Shape`] unless the number of dimensions `found` is the expected one. `what` names the points or the
/// matrix in the error.
pub(in crate::device) fn check_width(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Shape {
        what: format!("dimensions of the {what}"),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

/// A fitted kernel machine, loaded on the CPU. Its training points are mapped, centered and packed once.
struct CpuClassifier {
    /// The number of dimensions of the points, before they are mapped.
    dimensions: usize,
    root: Packed,
    /// The mean of the mapped training points. It is subtracted from points, because smaller norms have smaller
    /// rounding errors.
    center: Vec<f32>,
    /// The training points, mapped by the root of the metric, centered and packed.
    train: Packed,
    /// The squared norms of the points in `train`.
    norms: Vec<f32>,
    kernel: Kernel,
    beta: Packed,
}

impl CpuClassifier {
    fn open(machine: MachineParts<'_>, context: &Context<'_>) -> Result<Self> {
        check_machine(machine)?;
        let MachineParts { root, train, kernel, beta } = machine;
        let root = Packed::of_columns(root, context);
        let mapped = root.product(train, context)?;
        let center = mean(&mapped);
        let mapped = centered(&mapped, &center);
        Ok(Self {
            dimensions: train.cols(),
            norms: (0..mapped.rows()).map(|row| squared_norm(mapped.row(row)) as f32).collect(),
            train: Packed::of_rows(&mapped, context),
            beta: Packed::of_columns(beta, context),
            root,
            center,
            kernel,
        })
    }

    /// Returns the kernel values of mapped queries with all training points, one row per query.
    fn kernel_values(&self, queries: &[f32], scratch: &mut Scratch) -> Vec<f32> {
        let (d, n) = (self.center.len(), self.train.columns());
        let mut centered = queries.to_vec();
        centered.chunks_exact_mut(d).for_each(|row| subtract(row, &self.center));
        let mut values = vec![0.0; centered.len() / d * n];
        self.train.multiply(&centered, 0..n, &mut values, scratch);
        for (query, values) in centered.chunks_exact(d).zip(values.chunks_exact_mut(n)) {
            ridge::from_products(values, squared_norm(query) as f32, &self.norms, |point| {
                let pairs = query.iter().zip(self.train.column(point));
                pairs.map(|(&a, b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>() as f32
            });
        }
        self.kernel.values_in_place(&mut values);
        values
    }
}

/// Returns [`Error::Shape`] if the sizes of the parts of a kernel machine do not match.
pub(in crate::device) fn check_machine(machine: MachineParts<'_>) -> Result<()> {
    let MachineParts { root, train, beta, .. } = machine;
    check_width("training points", root.rows(), train.cols())?;
    if beta.rows() == train.rows() {
        return Ok(());
    }
    Err(Error::Shape {
        what: "rows of beta (one per training point)".into(),
        expected: train.rows().to_string(),
        found: beta.rows().to_string(),
    })
}

impl ClassifierHandle for CpuClassifier {
    fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        check_width("points", self.dimensions, points.cols())?;
        self.root.product(points, context)
    }

    fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        check_width("mapped points", self.center.len(), mapped.cols())?;
        let classes = self.beta.columns();
        in_tiles(mapped, classes, context, |queries, out| {
            let mut scratch = Scratch::default();
            let values = self.kernel_values(queries, &mut scratch);
            self.beta.multiply(&values, 0..classes, out, &mut scratch);
        })
    }
}
