//! The two scores over labelled reference points.

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::neighbors::{Neighbors, Reference};
use crate::scores::contrastive::Contrastive;
use crate::scores::paired::PairedScores;
use crate::scores::rank::{self, Rank};
use crate::scores::{self, NeighborScore};

use super::combine::Combine;
use super::{DanceConfig, bag};

/// Parts of the random numbers that break ties: calibration points, and points asked about later.
pub(super) const CALIBRATION_PART: u64 = 0;
pub(super) const QUERY_PART: u64 = 1;
/// And of the keys: points that fitted the kernel.
const FIT_PART: u64 = 2;

/// Labelled reference points, and the two scores over them.
#[derive(Clone, Debug)]
pub struct Scorer {
    pub(super) reference: Reference,
    pub(super) labels: Vec<u32>,
    pub(super) classes: usize,
    pub(super) rank: Rank,
    pub(super) contrastive: Contrastive,
    tie_noise: f64,
    pub(super) seed: u64,
}

impl Scorer {
    /// `points` are mapped; every label is below `classes`.
    pub fn new(
        points: Matrix,
        labels: Vec<u32>,
        classes: usize,
        kernel: Kernel,
        config: &DanceConfig,
    ) -> Result<Self> {
        config.check()?;
        check_labels("reference", &points, &labels, classes)?;
        if points.rows() == 0 {
            return Err(Error::Data("there are no reference points".into()));
        }
        Ok(Self {
            reference: Reference::new(points),
            labels,
            classes,
            rank: Rank { neighbors: config.rank_neighbors, shared_ties: false },
            contrastive: Contrastive {
                neighbors: config.contrast_neighbors,
                temperature: config.temperature,
                kernel,
            },
            // Fused, ranks break their ties with the class probability.
            tie_noise: if config.combine == Combine::Fuse { 0.0 } else { config.tie_noise },
            seed: config.seed,
        })
    }

    /// The same for **exact** calibration, on `calibration` points followed by others that are not in the bag: ties in
    /// distance go by random keys, and ranks are shared.
    pub fn for_bag(mut self, calibration: usize) -> Self {
        let key = |row: usize| match row.checked_sub(calibration) {
            None => bag::key(self.seed, CALIBRATION_PART, row),
            Some(row) => bag::key(self.seed, FIT_PART, row),
        };
        let keys = (0..self.labels.len()).map(key).collect();
        self.rank.shared_ties = true;
        self.reference = self.reference.with_keys(keys);
        self
    }

    /// Labels of the reference points.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The reference points, mapped.
    pub fn points(&self) -> &Matrix {
        self.reference.points()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The `k` nearest reference points of mapped queries.
    pub fn neighbors(&self, backend: &dyn Backend, queries: &Matrix, k: usize) -> Result<Neighbors> {
        backend.neighbors(&self.reference, queries, k, None)
    }

    /// Neighbors of the first `count` reference points, each among all others.
    pub fn neighbors_of_first(&self, backend: &dyn Backend, count: usize) -> Result<Neighbors> {
        let itself: Vec<_> = (0..count as u32).map(Some).collect();
        let points = self.points().select(&(0..count).collect::<Vec<_>>());
        backend.neighbors(&self.reference, &points, self.neighbor_count(), Some(&itself))
    }

    /// The same where their ids are known, `columns` a point.
    pub(crate) fn named_neighbors(&self, count: usize, ids: &[u32], columns: usize) -> Neighbors {
        Neighbors::of_first(&self.reference, count, ids, columns)
    }

    pub(super) fn neighbor_count(&self) -> usize {
        self.rank.neighbors().max(self.contrastive.neighbors())
    }

    /// Neighbors and scores of mapped queries. `first_row` is the number of the first one, which with the seed decides
    /// the noise that breaks its ties.
    pub fn score(
        &self,
        backend: &dyn Backend,
        queries: &Matrix,
        first_row: usize,
    ) -> Result<(Neighbors, PairedScores)> {
        let neighbors = backend.neighbors(&self.reference, queries, self.neighbor_count(), None)?;
        let scores = self.score_neighbors(backend, &neighbors, QUERY_PART, |query| first_row + query);
        Ok((neighbors, scores))
    }

    pub(super) fn score_neighbors(
        &self,
        backend: &dyn Backend,
        neighbors: &Neighbors,
        part: u64,
        row: impl Fn(usize) -> usize,
    ) -> PairedScores {
        let both: [&dyn NeighborScore; 2] = [&self.rank, &self.contrastive];
        let [mut rank, contrast] = backend
            .threads()
            .run(|| scores::of_neighbors(both, neighbors, &self.reference, &self.labels, self.classes));
        if self.tie_noise > 0.0 {
            rank.add_noise(|query, label| self.noise(part, row(query), label));
        }
        PairedScores::join(&rank, &contrast)
    }

    /// What breaks ties of a rank.
    pub(super) fn noise(&self, part: u64, row: usize, label: u32) -> f64 {
        rank::tie_noise(self.seed, self.tie_noise, part, row, label)
    }

    /// The same scores over some of the reference points.
    pub(super) fn part(&self, rows: &[usize]) -> Self {
        Self {
            reference: Reference::new(self.points().select(rows)),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            ..*self
        }
    }
}

pub(super) fn check_labels(what: &str, points: &Matrix, labels: &[u32], classes: usize) -> Result<()> {
    if points.rows() != labels.len() {
        return Err(Error::Shape {
            what: format!("{what} labels (one a point)"),
            expected: points.rows().to_string(),
            found: labels.len().to_string(),
        });
    }
    match labels.iter().position(|&label| label as usize >= classes) {
        None => Ok(()),
        Some(row) => Err(Error::Label {
            origin: format!("{what} points"),
            row,
            problem: format!("{} is not below the number of classes, {classes}", labels[row]),
        }),
    }
}
