//! The CPU as a device. It computes on the worker threads of the context.
//!
//! **Results have the same bits for any number of threads and any batch.** Work is cut into tiles whose size changes no
//! result, each tile runs one sequential kernel, and the workers only share the tiles. Sums over tiles run in a fixed
//! order.

pub(in crate::device) mod agop;
mod classifier;
mod distances;
pub(crate) mod elementwise;
mod fit;
mod index;
pub(in crate::device) mod ridge;

use std::sync::Arc;

use super::{ClassifierHandle, Device, FitPoints, FitSession, FitSize, IndexHandle, MachineParts};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;

pub use agop::flops as agop_flops;
#[cfg(feature = "cuda")]
pub(in crate::device) use {
    classifier::check_machine,
    fit::{as_metric, check_fit, leave_one_out, not_solved},
};

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

    fn fit_bytes(&self, size: FitSize) -> u64 {
        fit::bytes(size)
    }

    fn open_fit<'a>(
        &self,
        points: FitPoints<'a>,
        several: bool,
        context: &Context<'_>,
    ) -> Result<Box<dyn FitSession + 'a>> {
        Ok(Box::new(context.run(|| fit::CpuFit::open(points, several))?))
    }

    fn open_classifier(&self, machine: MachineParts<'_>, context: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>> {
        Ok(Arc::new(context.run(|| classifier::CpuClassifier::open(machine, context))?))
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

/// Returns the median distance among the points, or a sample of them, which is the unit of bandwidths. The host
/// computes it for every device, so that all devices try the same settings.
pub(crate) fn median_distance(points: &Matrix, context: &Context<'_>) -> f64 {
    context.run(|| distances::median(&centered(points, &mean(points)), 1000))
}

/// Returns the mean of the points, summed in f64.
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

/// Subtracts `center` from every point. Distances do not change, and rounding errors shrink with the norms.
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
