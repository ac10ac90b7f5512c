//! The CPU: every core of this machine, or as many as the context has.
//!
//! Every call of faer is in this folder (`linalg`), and everything that is computed many times over (`packed`,
//! `distances`, `elementwise`, `ridge`, `agop`).
//!
//! **The same bits for any number of threads and any batch.** Work is cut into tiles whose size changes no result, each tile
//! runs one sequential kernel, and the workers only decide who runs it. Sums over tiles run in a fixed order.

pub(in crate::device) mod agop;
mod classifier;
mod distances;
pub(crate) mod elementwise;
mod fit;
mod index;
pub(in crate::device) mod ridge;
mod shortlist;

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
    fit::{as_metric, check_fit, leave_one_out, unsolved},
};

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Device for Cpu {
    fn name(&self) -> String {
        "cpu".into()
    }

    fn free_bytes(&self) -> Option<u64> {
        // What Linux would hand out without swapping; other systems do not say it in a file.
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

    fn open_classifier(
        &self,
        machine: MachineParts<'_>,
        context: &Context<'_>,
    ) -> Result<Arc<dyn ClassifierHandle>> {
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

/// The median distance among (a sample of) the points: the unit in which bandwidths are given. On the host whatever the
/// device, so that the same settings are tried on every device.
pub(crate) fn median_distance(points: &Matrix, context: &Context<'_>) -> f64 {
    context.run(|| distances::median(&moved(points, &mean(points)), 1000))
}

/// The mean of the points, summed in f64.
pub(in crate::device) fn mean(points: &Matrix) -> Vec<f32> {
    let mut sums = vec![0.0f64; points.cols()];
    for row in 0..points.rows() {
        for (sum, &value) in sums.iter_mut().zip(points.row(row)) {
            *sum += f64::from(value);
        }
    }
    sums.iter().map(|sum| (sum / points.rows().max(1) as f64) as f32).collect()
}

/// `row - center`.
fn subtract(row: &mut [f32], center: &[f32]) {
    for (value, center) in row.iter_mut().zip(center) {
        *value -= center;
    }
}

/// The points moved so that `center` lies at 0. Distances do not change, and rounding errors shrink with the norms.
pub(in crate::device) fn moved(points: &Matrix, center: &[f32]) -> Matrix {
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
