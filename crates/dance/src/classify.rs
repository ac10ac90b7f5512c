//! The kernel machine by itself: where it maps queries, which class it would choose, whom it finds nearby.
//!
//! No calibration is needed for any of it but the neighbors. Queries come as the encoder made them, row after row in
//! memory, and are read where they are. Cost: a map is `n·d²`, class probabilities `n·n_train·(d + c)`.

use crate::backend::Backend;
use crate::embeddings::check_finite_rows;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::model::{BLOCK, Dance, Fitted};
use crate::neighbors::Neighbors;
use crate::rfm;

/// The classifier's answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The class of the largest output, a query.
    pub labels: Vec<u32>,
    /// Class probabilities, a row a query. The floor under them can tie the largest; `labels` is not affected.
    pub probabilities: Matrix,
}

impl Fitted {
    /// Queries in mapped space, where all distances are taken.
    pub fn transform(&self, backend: &dyn Backend, queries: &[f32], cols: usize) -> Result<Matrix> {
        let d = self.check_rows(queries, cols)?;
        let mut mapped = Vec::with_capacity(queries.len());
        for rows in queries.chunks(BLOCK * d) {
            mapped.extend(self.map_rows(backend, rows)?.into_vec());
        }
        Matrix::new(mapped, queries.len() / d, d)
    }

    /// Classes and their probabilities.
    pub fn classify(&self, backend: &dyn Backend, queries: &[f32], cols: usize) -> Result<Classified> {
        let centers = self.map(backend, &self.rfm.train)?;
        self.classify_with(backend, queries, cols, &centers)
    }

    fn classify_with(
        &self,
        backend: &dyn Backend,
        queries: &[f32],
        cols: usize,
        centers: &Matrix,
    ) -> Result<Classified> {
        let d = self.check_rows(queries, cols)?;
        let (mut labels, mut probabilities) = (Vec::new(), Vec::new());
        for rows in queries.chunks(BLOCK * d) {
            let block = self.classify_mapped(backend, &self.map_rows(backend, rows)?, centers)?;
            labels.extend(block.labels);
            probabilities.extend(block.probabilities.into_vec());
        }
        let probabilities = Matrix::new(probabilities, labels.len(), self.classes.len())?;
        Ok(Classified { labels, probabilities })
    }

    pub(crate) fn classify_mapped(
        &self,
        backend: &dyn Backend,
        mapped: &Matrix,
        centers: &Matrix,
    ) -> Result<Classified> {
        let outputs = backend.predict(mapped, centers, self.rfm.kernel, &self.rfm.beta)?;
        let labels = (0..outputs.rows()).map(|row| rfm::largest(outputs.row(row)) as u32).collect();
        let probabilities = rfm::probabilities(outputs, self.config.floor(self.classes.len()));
        Ok(Classified { labels, probabilities })
    }

    /// Normalises and maps a block of rows that [`check_rows`](Self::check_rows) let pass.
    pub(crate) fn map_rows(&self, backend: &dyn Backend, rows: &[f32]) -> Result<Matrix> {
        let d = self.rfm.train.cols();
        let mut block = Matrix::new(rows.to_vec(), rows.len() / d, d)?;
        self.normalizer.apply("queries", &mut block)?;
        self.map(backend, &block)
    }

    /// Refuses queries of another width, of half a row, or with numbers that are not finite; returns the width.
    pub(crate) fn check_rows(&self, queries: &[f32], cols: usize) -> Result<usize> {
        let d = self.rfm.train.cols();
        if cols != d || d == 0 || !queries.len().is_multiple_of(d) {
            return Err(Error::Shape {
                what: "dimensions of the queries (those of the encoder the model was fitted with)".into(),
                expected: d.to_string(),
                found: cols.to_string(),
            });
        }
        check_finite_rows("queries", queries, d)?;
        Ok(d)
    }
}

impl Dance {
    /// Classes and their probabilities. Classes that only calibration points have are not among them.
    pub fn classify(&self, backend: &dyn Backend, queries: &[f32], cols: usize) -> Result<Classified> {
        self.fitted.classify_with(backend, queries, cols, &self.centers)
    }

    /// Probabilities of the kernel's classes, a row a query.
    pub fn probabilities(&self, backend: &dyn Backend, queries: &Matrix) -> Result<Matrix> {
        Ok(self.classify(backend, queries.as_slice(), queries.cols())?.probabilities)
    }

    /// The `k` nearest reference points of every query, in mapped space.
    pub fn neighbors(
        &self,
        backend: &dyn Backend,
        queries: &[f32],
        cols: usize,
        k: usize,
    ) -> Result<Neighbors> {
        let mapped = self.fitted.transform(backend, queries, cols)?;
        self.scorer.neighbors(backend, &mapped, k)
    }
}
