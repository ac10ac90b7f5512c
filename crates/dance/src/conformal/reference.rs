//! Labelled reference points, and the rank and the contrastive score over them.

use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::Part;
use crate::neighbors::{Index, Neighbors};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;
use crate::scores::contrastive::Contrastive;
use crate::scores::paired::PairedScores;
use crate::scores::rank::{self, Rank};
use crate::scores::{self, NeighborScore};

use crate::conformal::full;
use crate::method::ConformalConfig;
use crate::method::MethodName;
use crate::stream::Novelty;

/// Parts of the random numbers that break ties: calibration points, and points asked about later.
pub(super) const CALIBRATION_PART: u64 = 0;
pub(super) const QUERY_PART: u64 = 1;
/// And of the keys: points that fitted the kernel.
const FIT_PART: u64 = 2;

/// Labelled reference points, and the rank and the contrastive score over them.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(super) index: Index,
    pub(super) labels: Vec<u32>,
    pub(super) classes: usize,
    pub(super) rank: Rank,
    pub(super) contrastive: Contrastive,
    tie_noise: f64,
    pub(super) seed: u64,
}

impl Reference {
    /// `points` are mapped; every label is below `classes`.
    pub(super) fn open(
        device: &dyn Device,
        points: Part,
        classes: usize,
        kernel: Kernel,
        config: &ConformalConfig,
        context: &Context<'_>,
    ) -> Result<Self> {
        config.check()?;
        check_labels("reference", &points, classes)?;
        Ok(Self {
            index: Index::open(device, points.embeddings, context)?,
            labels: points.labels,
            classes,
            rank: Rank { neighbors: config.rank_neighbors, shared_ties: false },
            contrastive: Contrastive {
                neighbors: config.contrast_neighbors,
                temperature: config.temperature,
                kernel,
            },
            // Fused, ranks break their ties with the class probability.
            tie_noise: if config.method == MethodName::Fuse { 0.0 } else { config.tie_noise },
            seed: config.seed,
        })
    }

    /// The same for **exact** calibration, on `calibration` points followed by others that are not in the bag: ties in
    /// distance go by random keys, and ranks are shared.
    pub(super) fn for_bag(mut self, calibration: usize) -> Self {
        let key = |row: usize| match row.checked_sub(calibration) {
            None => full::key(self.seed, CALIBRATION_PART, row as u64),
            Some(row) => full::key(self.seed, FIT_PART, row as u64),
        };
        let keys = (0..self.labels.len()).map(key).collect();
        self.rank.shared_ties = true;
        self.index = self.index.with_keys(keys);
        self
    }

    /// Number of points.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The neighbors of the first `count` points where their numbers are known, as many for each.
    pub(crate) fn named_neighbors(
        &self,
        count: usize,
        ids: &[u32],
        context: &Context<'_>,
    ) -> Result<Neighbors> {
        self.index.named(count, ids, context)
    }

    /// How many neighbors the scores look at.
    pub(super) fn neighbor_count(&self) -> usize {
        self.rank.neighbors().max(self.contrastive.neighbors())
    }

    /// How far the points are from each other.
    pub(crate) fn novelty(&self, context: &Context<'_>) -> Result<Novelty> {
        let near = Novelty::neighbors(self.neighbor_count(), self.len());
        Novelty::new(&self.index.search_own(self.len(), near, context)?, near, self.len())
    }

    /// How far calibration points are from these, where their squared distances are known.
    pub(crate) fn novelty_known(&self, squared: Vec<f64>) -> Result<Novelty> {
        Novelty::known(squared, Novelty::neighbors(self.neighbor_count(), self.len()))
    }

    /// Both scores of every label, from neighbors. `name(query)` is what a query is called, which with the seed decides the
    /// noise that breaks its ties.
    pub(super) fn score(
        &self,
        neighbors: &Neighbors,
        part: u64,
        name: impl Fn(usize) -> u64,
        context: &Context<'_>,
    ) -> PairedScores {
        let both: [&dyn NeighborScore; 2] = [&self.rank, &self.contrastive];
        let points = self.index.points();
        let [mut rank, contrast] =
            scores::of_neighbors(both, neighbors, points, &self.labels, self.classes, context);
        if self.tie_noise > 0.0 {
            rank.add_noise(|query, label| self.noise(part, name(query), label));
        }
        PairedScores::join(&rank, &contrast)
    }

    /// What breaks ties of a rank.
    pub(super) fn noise(&self, part: u64, name: u64, label: u32) -> f64 {
        rank::tie_noise(self.seed, self.tie_noise, part, name, label)
    }

    /// The same scores over some of the points.
    pub(super) fn part(&self, device: &dyn Device, rows: &[usize], context: &Context<'_>) -> Result<Self> {
        Ok(Self {
            index: Index::open(device, self.index.points().select(rows), context)?,
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            ..*self
        })
    }
}

/// What queries are called where random numbers belong to them: 64 bits of each one's own numbers. So a query draws the same
/// alone, in any batch and at any place in it.
pub(super) fn names(queries: &Matrix) -> Vec<u64> {
    let pair = |pair: &[f32]| {
        u64::from(pair[0].to_bits()) | u64::from(pair.get(1).map_or(0, |value| value.to_bits())) << 32
    };
    (0..queries.rows()).map(|row| random::bits_of(queries.row(row).chunks(2).map(pair))).collect()
}

/// Refuses labels that are not one per point or not below the number of classes.
pub(super) fn check_labels(what: &str, points: &Part, classes: usize) -> Result<()> {
    let Part { embeddings, labels } = points;
    if embeddings.rows() != labels.len() {
        return Err(Error::Shape {
            what: format!("{what} labels (one per point)"),
            expected: embeddings.rows().to_string(),
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
