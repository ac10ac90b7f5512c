//! A fitted kernel machine on the CPU, whose points are centered and packed once.

use super::distances::from_products;
use super::{centered, check_width, mean, squared_norm, subtract};
use crate::context::Context;
use crate::device::{ClassifierHandle, MachineParts};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;
use crate::numeric::packed::{Packed, Scratch, in_tiles};

pub(super) struct CpuClassifier {
    dimensions: usize,
    root: Packed,
    /// The mean of the mapped training points. Centering makes norms, and so rounding errors, smaller.
    center: Vec<f32>,
    centers: Packed,
    norms: Vec<f32>,
    kernel: Kernel,
    beta: Packed,
}

impl CpuClassifier {
    pub(super) fn open(machine: MachineParts<'_>, context: &Context<'_>) -> Result<Self> {
        check_machine(machine)?;
        let MachineParts { root, train, kernel, beta } = machine;
        let root = Packed::of_columns(root, context);
        let mapped = root.product(train, context)?;
        let center = mean(&mapped);
        let mapped = centered(&mapped, &center);
        Ok(Self {
            dimensions: train.cols(),
            norms: (0..mapped.rows()).map(|row| squared_norm(mapped.row(row)) as f32).collect(),
            centers: Packed::of_rows(&mapped, context),
            beta: Packed::of_columns(beta, context),
            root,
            center,
            kernel,
        })
    }

    /// Returns the kernel values of one tile of mapped queries with all training points.
    fn kernel_values(&self, queries: &[f32], scratch: &mut Scratch) -> Vec<f32> {
        let (d, n) = (self.center.len(), self.centers.columns());
        let mut centered = queries.to_vec();
        centered.chunks_exact_mut(d).for_each(|row| subtract(row, &self.center));
        let mut values = vec![0.0; centered.len() / d * n];
        self.centers.multiply(&centered, 0..n, &mut values, scratch);
        for (query, values) in centered.chunks_exact(d).zip(values.chunks_exact_mut(n)) {
            from_products(values, squared_norm(query) as f32, &self.norms, |center| {
                let pairs = query.iter().zip(self.centers.column(center));
                pairs.map(|(&a, b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>() as f32
            });
        }
        self.kernel.values_in_place(&mut values);
        values
    }
}

/// Returns an error if the sizes of the machine's parts do not match.
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
