//! The kernel machine as a plain classifier: maps queries and predicts their classes, without calibration.
//!
//! A machine is loaded onto a device once. Queries are rows of embeddings as the encoder made them, read in place. With
//! n training points, d dimensions and c classes, mapping costs `2·d²` flops per query, and class probabilities cost
//! `2·n·(d + c)`.

use std::sync::Arc;

use super::probabilities::OutputScale;
use super::rfm::Rfm;
use crate::context::Context;
use crate::data::Normalizer;
use crate::device::{ClassifierHandle, Device, MachineParts};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::numeric::argmax;
use crate::numeric::matrix::{Matrix, Rows, check_finite, check_finite_rows};

/// The number of queries in one block. It bounds the memory that is needed beside the result.
const BLOCK: usize = 2048;

/// The classes of queries, with their probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classified {
    /// The class with the largest output, for every query.
    pub labels: Vec<u32>,
    /// The class probabilities, one row per query. Several may be equal and largest after they were clamped; `labels`
    /// follow from the values before.
    pub probabilities: Matrix,
}

impl Classified {
    /// Classifies by `probabilities`: the label of a row is the most probable one, the first on a tie.
    pub(crate) fn most_probable(probabilities: Matrix) -> Self {
        let labels = (0..probabilities.rows()).map(|row| argmax(probabilities.row(row)) as u32).collect();
        Self { labels, probabilities }
    }

    /// Returns the probability of `label` for the query `row`; 0 for a class that only calibration points have.
    pub fn probability(&self, row: usize, label: u32) -> f32 {
        self.probabilities.row(row).get(label as usize).copied().unwrap_or(0.0)
    }
}

/// A fitted kernel machine on a device, which maps queries and predicts their classes.
#[derive(Clone)]
pub struct Classifier {
    handle: Arc<dyn ClassifierHandle>,
    normalizer: Normalizer,
    dimensions: usize,
    scale: OutputScale,
}

impl std::fmt::Debug for Classifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Classifier").field("dimensions", &self.dimensions).finish_non_exhaustive()
    }
}

impl Classifier {
    /// Loads a machine onto a device. `normalizer` normalised its training points; `scale` maps outputs to
    /// probabilities.
    pub fn open(
        device: &dyn Device,
        rfm: &Rfm,
        normalizer: &Normalizer,
        scale: OutputScale,
        context: &Context<'_>,
    ) -> Result<Self> {
        let parts = MachineParts { root: &rfm.metric_root, train: &rfm.train, kernel: rfm.kernel, beta: &rfm.beta };
        let handle = device.open_classifier(parts, context)?;
        Ok(Self { handle, normalizer: normalizer.clone(), dimensions: rfm.train.cols(), scale })
    }

    /// Normalises queries and maps them by the root of the learned metric. All distances are taken between mapped
    /// points.
    pub fn transform<'q>(&self, queries: impl Into<Rows<'q>>, context: &Context<'_>) -> Result<Matrix> {
        let queries = queries.into();
        let mut mapped = Matrix::with_columns(self.dimensions);
        self.in_blocks(queries, context, |block| mapped.append(&self.map_queries(block, context)?))?;
        Ok(mapped)
    }

    /// Returns the classes of queries and their probabilities.
    pub fn classify<'q>(&self, queries: impl Into<Rows<'q>>, context: &Context<'_>) -> Result<Classified> {
        let mut all = Classified::default();
        self.in_blocks(queries.into(), context, |block| {
            let Classified { labels, probabilities } =
                self.classify_mapped(&self.map_queries(block, context)?, context)?;
            all.labels.extend(labels);
            all.probabilities.append(&probabilities)
        })?;
        Ok(all)
    }

    /// Calls `work` on blocks of checked queries, and checks for cancellation in between.
    pub(crate) fn in_blocks(
        &self,
        queries: Rows<'_>,
        context: &Context<'_>,
        mut work: impl FnMut(Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check(queries)?;
        let count = queries.len();
        for first in (0..count).step_by(BLOCK) {
            context.check()?;
            let last = count.min(first + BLOCK);
            work(queries.slice(first..last))?;
            if count > BLOCK {
                context.notice(&Event::Answered { done: last, of: count });
            }
        }
        Ok(())
    }

    /// Returns an error if queries have another number of dimensions, an incomplete row, or a number that is not
    /// finite.
    fn check(&self, queries: Rows<'_>) -> Result<()> {
        if queries.cols() != self.dimensions || !queries.values().len().is_multiple_of(self.dimensions.max(1)) {
            return Err(Error::Shape {
                what: "dimensions of the queries (those of the encoder the model was fitted with)".into(),
                expected: self.dimensions.to_string(),
                found: queries.cols().to_string(),
            });
        }
        check_finite_rows("queries", queries.values(), self.dimensions)
    }

    /// Normalises and maps a block of queries.
    pub(crate) fn map_queries(&self, queries: Rows<'_>, context: &Context<'_>) -> Result<Matrix> {
        self.map(&self.normalise(queries)?, context)
    }

    /// Normalises queries as the training points were.
    pub(crate) fn normalise(&self, queries: Rows<'_>) -> Result<Matrix> {
        let mut block = queries.to_matrix()?;
        self.normalizer.apply("queries", &mut block)?;
        Ok(block)
    }

    /// Maps normalised points by the root of the metric. The result for a point does not depend on the other points.
    pub(crate) fn map(&self, points: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        let mapped = self.handle.map(points, context)?;
        check_finite("mapped points (scale the embeddings down, or normalise them)", &mapped)?;
        Ok(mapped)
    }

    /// Returns the classes of mapped points and their probabilities.
    pub(crate) fn classify_mapped(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Classified> {
        let outputs = self.outputs(mapped, context)?;
        let labels = (0..outputs.rows()).map(|row| argmax(outputs.row(row)) as u32).collect();
        Ok(Classified { labels, probabilities: self.scale.probabilities(outputs) })
    }

    /// Returns the outputs of the regression at mapped points.
    pub(super) fn outputs(&self, mapped: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        self.handle.outputs(mapped, context)
    }

    /// Returns for every mapped point the probability of its own label; 0 for a label that the kernel machine does not
    /// have.
    pub(crate) fn own_probabilities(&self, mapped: &Matrix, labels: &[u32], context: &Context<'_>) -> Result<Vec<f32>> {
        let mut own = Vec::with_capacity(labels.len());
        for (block, labels) in labels.chunks(BLOCK).enumerate() {
            context.check()?;
            let rows: Vec<usize> = (block * BLOCK..block * BLOCK + labels.len()).collect();
            let classified = self.classify_mapped(&mapped.select(&rows), context)?;
            own.extend(labels.iter().enumerate().map(|(row, &label)| classified.probability(row, label)));
        }
        Ok(own)
    }
}
