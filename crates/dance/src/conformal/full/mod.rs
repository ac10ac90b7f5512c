//! Full conformal prediction with the fused score. The kernel machine does not change when a query is added.
//!
//! A query z with a candidate label y is added to the n calibration points. All other points score each of the n+1
//! points of this bag. The p-value `p(y)` is the share of points whose score is at least that of (z,y). The n+1 scores
//! are one symmetric function of the bag. So the true label has `P(p(y_true) ≤ α) ≤ α` for exchangeable points in
//! finite samples; `docs/method.md` has the proof. Kernel, metric and class probabilities come from the fit points. Fit
//! points also count as neighbors of every point of the bag.
//!
//! Ordering points at equal distances by index would not be symmetric, since the query would always be last. So such
//! points share a rank. An independent random key of each point decides which of them is the anchor (the nearest
//! neighbor), and which is dropped from a full list of neighbors.
//!
//! Cost, for lists of m neighbors: one search finds the query's neighbors and the points whose lists the query enters,
//! about m of them. The scores of these points are updated ([`points`]), and the points of the bag are counted
//! ([`changed`]). Memory: O(n·m).

mod changed;
mod grouped;
mod moved;
mod points;

use std::ops::Range;

use super::calibrate::Reference;
use super::fused::{self, Scores, fuse};
use super::thresholds::NeighborScorer;
use crate::context::Context;
use crate::error::Result;
use crate::neighbors::{Neighbors, ReverseNeighbors};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;
use crate::scores::calibration::Strata;
use crate::scores::paired::PairedScores;
use crate::scores::sets::{Counts, LabelCounts};
use changed::{Candidate, ChangedBag};
use grouped::GroupedPoints;
use points::{BagPoints, JoiningQuery};

/// The tag of the random stream that gives points their keys. Keys order points at equal distances.
const KEY_PURPOSE: u64 = 0x0b46;
/// The number of queries in a parallel task.
const TILE: usize = 16;

/// Returns the random key of a point. Keys order points at equal distances. `name` is the row of a calibration or fit
/// point, or the [hash](super::predictor::names) of a query. `part` is the tag of the data set.
pub(super) fn key(seed: u64, part: u64, name: u64) -> f64 {
    random::uniform_of(&[seed, KEY_PURPOSE, part, name])
}

/// The calibration points of the method [`fuse`](crate::method::MethodName::Fuse), prepared so that a query can be
/// added to them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bag {
    pub(super) scorer: NeighborScorer,
    points: BagPoints,
    grouped: GroupedPoints,
    /// The number that is added to the rank of each point to break ties. It is the larger, the less probable the
    /// point's own label is.
    extra: Vec<f64>,
    /// The class probability of each point's own label.
    pub(crate) probabilities: Vec<f32>,
}

/// The queries of one call, with the calibration points that they reach, their scores and their class probabilities.
pub(super) struct Queries<'a> {
    pub(super) points: &'a Matrix,
    /// The hash of each query's coordinates, which determines the random key of the query.
    pub(super) names: &'a [u64],
    pub(super) reached: &'a ReverseNeighbors,
    pub(super) scores: &'a PairedScores,
    pub(super) probabilities: &'a Matrix,
}

impl Bag {
    /// Scores the calibration points, which are the first reference points. `neighbors` holds the neighbors of each
    /// calibration point among all other reference points. `probabilities` holds the class probability of each
    /// calibration point's own label.
    pub(super) fn new(
        reference: &Reference,
        scorer: NeighborScorer,
        neighbors: Neighbors,
        probabilities: Vec<f32>,
        strata: Option<Strata>,
    ) -> Result<Self> {
        let points = BagPoints::new(reference, &scorer, neighbors);
        let pairs = points.scores().iter().zip(&probabilities);
        let scores: Vec<Scores> =
            pairs.map(|(&[rank, contrastive], &own)| fused::scores(rank, contrastive, f64::from(own))).collect();
        let extra = probabilities.iter().map(|&own| fused::scores(0.0, 0.0, f64::from(own))[0]).collect();
        let grouped = GroupedPoints::new(scores, &reference.labels[..probabilities.len()], strata)?;
        Ok(Self { scorer, points, grouped, extra, probabilities })
    }

    pub(super) fn len(&self) -> usize {
        self.extra.len()
    }

    pub(crate) fn neighbors(&self) -> &Neighbors {
        self.points.neighbors()
    }

    /// Returns the reach of every calibration point: the squared distance within which a query can change the point's
    /// scores.
    pub(super) fn reach(&self) -> Vec<f64> {
        self.points.reach()
    }

    /// Returns the count of every label of every query. It is the number of points whose score is at least the query's,
    /// among the calibration points and the query itself. `query_part` is the tag of the queries' random keys.
    pub(super) fn count(
        &self,
        reference: &Reference,
        queries: &Queries<'_>,
        query_part: u64,
        context: &Context<'_>,
    ) -> LabelCounts {
        let n = self.len();
        let count = queries.points.rows();
        let tile = |tile: usize| {
            let changed = &mut ChangedBag::default();
            let mut counts = LabelCounts::new(n);
            for query in tile * TILE..((tile + 1) * TILE).min(count) {
                let joining = JoiningQuery {
                    point: queries.points.row(query),
                    key: key(self.scorer.seed, query_part, queries.names[query]),
                    reached: &queries.reached[query],
                };
                let changes = self.points.changes(reference, joining);
                changed.fill(&self.grouped, &reference.labels, &self.extra, changes);
                self.count_labels(changed, reference, queries, query, &mut counts);
            }
            counts
        };
        let tiles = context.map(count.div_ceil(TILE), tile);
        LabelCounts::concat(n, tiles)
    }

    /// Returns the count of one label that the query may carry. It is the number of points whose score is at least the
    /// query's, among the calibration points and the query itself.
    fn counts(&self, changed: &mut ChangedBag, candidate: &Candidate) -> Counts {
        let score = fuse(changed.query_levels(&self.grouped, candidate));
        let count = changed.count(&self.grouped, candidate, score);
        Counts::One(self.grouped.scaled(candidate.label, count))
    }

    /// Returns the indices of the changes that concern points with this `label`. They form a range, because the changes
    /// are sorted by label. `labels` holds the label of every point.
    fn changes_of_label(changed: &ChangedBag, labels: &[u32], label: u32) -> Range<usize> {
        let changes = changed.changes();
        let start = changes.partition_point(|change| labels[change.id as usize] < label);
        let length = changes[start..].partition_point(|change| labels[change.id as usize] == label);
        start..start + length
    }

    /// Returns the labels that are counted one by one, in ascending order: those in `scored`, and those that a changed
    /// point carries. For all other labels, the query's neighbor scores are infinite, and only their probabilities
    /// differ.
    fn near_labels(changed: &ChangedBag, labels: &[u32], scored: &[u32]) -> Vec<u32> {
        let mut near = scored.to_vec();
        near.extend(changed.changes().iter().map(|change| labels[change.id as usize]));
        near.sort_unstable();
        near.dedup();
        near
    }

    /// Appends the counts of every label of one query to `all`. A count is the number of points whose score is at least
    /// the query's, the query included.
    fn count_labels(
        &self,
        changed: &mut ChangedBag,
        reference: &Reference,
        queries: &Queries<'_>,
        query: usize,
        all: &mut LabelCounts,
    ) {
        let row = queries.probabilities.row(query);
        // The kernel machine does not know a label that only calibration points have: its probability is 0.
        let probability = |label: u32| row.get(label as usize).map_or(0.0, |&p| f64::from(p));
        let candidate = |label: u32, (rank, contrastive): (f64, f64), same_label: Range<usize>| Candidate {
            label,
            scores: fused::scores(rank, contrastive, probability(label)),
            same_label,
        };
        let near = Self::near_labels(changed, &reference.labels, queries.scores.row(query).0);
        let mut counts = Vec::with_capacity(reference.classes);
        for &label in &near {
            let same_label = Self::changes_of_label(changed, &reference.labels, label);
            let candidate = candidate(label, queries.scores.get(query, label), same_label);
            counts.push((label, self.counts(changed, &candidate)));
        }
        // The other labels of a stratum differ in their probability alone. A smaller probability gives a smaller count,
        // so a bisection over the sorted labels finds all counts.
        let mut near = near.iter().peekable();
        let mut others: Vec<u32> =
            (0..reference.classes as u32).filter(|label| near.next_if_eq(&label).is_none()).collect();
        let stratum = |label: u32| self.grouped.stratum(label);
        others.sort_unstable_by(|&a, &b| {
            let by_stratum = stratum(a).cmp(&stratum(b));
            by_stratum.then_with(|| probability(b).total_cmp(&probability(a))).then(a.cmp(&b))
        });
        let no_score = (f64::INFINITY, f64::INFINITY);
        let mut count = |label: u32| self.counts(changed, &candidate(label, no_score, 0..0));
        let mut rest = Counts::One(0);
        for others in others.chunk_by(|&a, &b| stratum(a) == stratum(b)) {
            let (mut found, last) = (vec![Counts::One(0); others.len()], others.len() - 1);
            found[last] = count(others[last]);
            found[0] = if last == 0 { found[last] } else { count(others[0]) };
            fill_between(&mut found, 0, last, &mut |place| count(others[place]));
            rest = found[last];
            counts.extend(others.iter().copied().zip(found));
        }
        counts.sort_unstable_by_key(|&(label, _)| label);
        all.push(counts, rest);
    }
}

/// Fills the counts between the indices `first` and `last`, whose counts are known. The labels are sorted by descending
/// probability, and a smaller probability never gives a larger count. So between equal counts all counts are equal.
/// `count` computes the count at an index.
fn fill_between(counts: &mut [Counts], first: usize, last: usize, count: &mut impl FnMut(usize) -> Counts) {
    if counts[first] == counts[last] {
        let both = counts[last];
        counts[first..last].fill(both);
    } else if last - first > 1 {
        let middle = usize::midpoint(first, last);
        counts[middle] = count(middle);
        fill_between(counts, first, middle, count);
        fill_between(counts, middle, last, count);
    }
}
