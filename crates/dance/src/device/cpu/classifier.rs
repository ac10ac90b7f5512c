//! A fitted kernel machine on the CPU, its points centred, measured and packed once.

use rayon::prelude::*;

use super::distances::from_products;
use super::packed::{Packed, Scratch, tile_rows};
use super::{check_width, mean, moved, squared_norm, subtract};
use crate::context::Context;
use crate::device::{ClassifierHandle, MachineParts};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::matrix::Matrix;

pub(super) struct CpuClassifier {
    dimensions: usize,
    root: Packed,
    /// The mean of the mapped training points; they lie around it, and so do queries.
    center: Vec<f32>,
    centers: Packed,
    norms: Vec<f32>,
    kernel: Kernel,
    beta: Packed,
}

impl CpuClassifier {
    pub(super) fn open(machine: MachineParts<'_>) -> Result<Self> {
        let MachineParts { root, train, kernel, beta } = machine;
        check_width("training points", root.rows(), train.cols())?;
        if beta.rows() != train.rows() {
            return Err(Error::Shape {
                what: "rows of beta (one per training point)".into(),
                expected: train.rows().to_string(),
                found: beta.rows().to_string(),
            });
        }
        let root = Packed::of_columns(root);
        let mapped = root.product(train);
        let center = mean(&mapped);
        let mapped = moved(&mapped, &center);
        Ok(Self {
            dimensions: train.cols(),
            norms: (0..mapped.rows()).map(|row| squared_norm(mapped.row(row)) as f32).collect(),
            centers: Packed::of_rows(&mapped),
            beta: Packed::of_columns(beta),
            root,
            center,
            kernel,
        })
    }

    /// Kernel values of one tile of mapped queries with all centers.
    fn kernel_values(
        &self,
        queries: &[f32],
        values: &mut Vec<f32>,
        moved: &mut Vec<f32>,
        scratch: &mut Scratch,
    ) {
        let (d, n) = (self.center.len(), self.centers.columns());
        moved.clear();
        moved.extend_from_slice(queries);
        moved.chunks_exact_mut(d).for_each(|row| subtract(row, &self.center));
        values.resize(moved.len() / d * n, 0.0);
        self.centers.multiply(moved, 0..n, values, scratch);
        for (query, values) in moved.chunks_exact(d).zip(values.chunks_exact_mut(n)) {
            from_products(values, squared_norm(query) as f32, &self.norms, |center| {
                let pairs = query.iter().zip(self.centers.column(center));
                pairs.map(|(&a, b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>() as f32
            });
        }
        self.kernel.values_in_place(values);
    }
}

impl ClassifierHandle for CpuClassifier {
    fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        check_width("points", self.dimensions, points.cols())?;
        Ok(context.run(|| self.root.product(points)))
    }

    fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        check_width("mapped points", self.center.len(), mapped.cols())?;
        let (d, c) = (mapped.cols(), self.beta.columns());
        let mut out = Matrix::zeros(mapped.rows(), c);
        context.run(|| {
            let tile = tile_rows(mapped.rows());
            let rows =
                out.as_mut_slice().par_chunks_mut(tile * c).zip(mapped.as_slice().par_chunks(tile * d));
            rows.for_each_init(
                || (Vec::new(), Vec::new(), Scratch::default()),
                |(values, moved, scratch), (out, queries)| {
                    self.kernel_values(queries, values, moved, scratch);
                    self.beta.multiply(values, 0..c, out, scratch);
                },
            );
        });
        Ok(out)
    }
}
