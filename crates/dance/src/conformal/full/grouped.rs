//! The calibration points before a query is added, in groups of points with equal scores, with bounds on fused scores.
//!
//! A query changes the level of a score, which is the number of points whose score is at least as large. For levels
//! that change by at most 1, 2, 4 …, every group has a smallest and a largest possible fused score. If the guarantee
//! holds for every class (Mondrian), a group holds points of one class, and every class has bounds of its own. Memory:
//! `O(n·log n)` for n points.

use std::ops::Range;

use crate::conformal::full::points::ScorePair;
use crate::conformal::fused::{Levels, Scores, SortedScores, fuse};
use crate::scores::calibration::Strata;

/// Bounds on the fused scores of groups of points, valid if no [level](self) changes by more than a given number. The
/// groups are those of one stratum: the labels among which points are compared. They are sorted by their largest
/// possible score.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    /// The largest possible fused score of every group, in descending order.
    pub(super) most: Vec<f64>,
    /// The smallest possible fused score of every group, in the order of `most`.
    pub(super) least: Vec<f64>,
    /// The indices of the groups, in the order of `most`.
    pub(super) groups: Vec<u32>,
    /// The index of the stratum's first group among all groups.
    first: usize,
    /// For every group of the stratum, its position in the order of `most`.
    places: Vec<u32>,
    /// For each block of [`BLOCK`] groups, the smallest possible fused score and the number of points.
    pub(super) blocks: Vec<(f64, u32)>,
}

/// The number of groups in a block. If one bound decides for all groups of a block, their points are counted together.
pub(super) const BLOCK: usize = 32;

/// Points with equal scores whose labels are in one stratum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) stratum: u32,
    pub(super) scores: Scores,
    pub(super) levels: Levels,
    pub(super) points: u32,
}

/// The calibration points before a query is added, in groups of points with equal scores.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupedPoints {
    pub(super) sorted: SortedScores,
    pub(super) scores: Vec<Scores>,
    pub(super) groups: Vec<Group>,
    /// The index of the group of every point.
    pub(super) group_of: Vec<u32>,
    /// Lists of bounds, one list per stratum. A list holds bounds for [levels](self) that change by at most 1, by at
    /// most 2, by at most 4 …
    pub(super) bounds: Vec<Vec<Bounds>>,
    /// Groups of labels (strata): a point is compared only with points whose labels are in the same stratum. `None`
    /// stands for a single stratum.
    pub(super) strata: Option<Strata>,
}

impl GroupedPoints {
    pub(super) fn new(scores: Vec<Scores>, labels: &[u32], strata: Option<Strata>) -> crate::Result<Self> {
        let sorted = SortedScores::new(&scores)?;
        let compare = |a: &Scores, b: &Scores| {
            let each = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
            each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        let stratum = |id: u32| strata.as_ref().map_or(0, |strata| strata.of(labels[id as usize]));
        // After sorting by stratum and scores, points with equal scores are adjacent and form a group.
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| {
            stratum(a).cmp(&stratum(b)).then_with(|| compare(&scores[a as usize], &scores[b as usize]))
        });
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of = vec![0; scores.len()];
        for id in order {
            let (scores, stratum) = (scores[id as usize], stratum(id));
            match groups.last_mut() {
                Some(group) if group.scores == scores && group.stratum == stratum => group.points += 1,
                _ => groups.push(Group { stratum, scores, levels: sorted.levels(scores), points: 1 }),
            }
            group_of[id as usize] = groups.len() as u32 - 1;
        }
        let first = |stratum: usize| groups.partition_point(|group| (group.stratum as usize) < stratum);
        let changes = 0..=scores.len().max(1).ilog2() + 1;
        let bounds = (0..strata.as_ref().map_or(1, Strata::len))
            .map(|stratum| {
                let range = first(stratum)..first(stratum + 1);
                changes.clone().map(|power| Bounds::new(&groups, range.clone(), 1 << power)).collect()
            })
            .collect();
        Ok(Self { sorted, scores, groups, group_of, bounds, strata })
    }

    /// Returns the index of the stratum of a label, which is 0 without strata.
    pub(super) fn stratum(&self, label: u32) -> usize {
        self.strata.as_ref().map_or(0, |strata| strata.of(label) as usize)
    }

    /// Returns whether the point with the index `id` is compared with queries whose label is in `stratum`.
    pub(super) fn is_compared(&self, id: u32, stratum: usize) -> bool {
        self.groups[self.group_of[id as usize] as usize].stratum as usize == stratum
    }

    /// Rescales a count from the stratum of `label` to all points. Before, it is a number among the query and the
    /// points of the stratum; afterwards, among the query and all points.
    pub(super) fn scaled(&self, label: u32, count: u32) -> u32 {
        self.strata.as_ref().map_or(count, |strata| strata.scaled(label as usize, count))
    }

    /// Returns the scores of the point with the index `id` after a query changes its rank and its contrastive score to
    /// `pair`.
    pub(super) fn with(&self, id: u32, pair: ScorePair) -> Scores {
        [pair[0], pair[1], self.scores[id as usize][2]]
    }
}

impl Bounds {
    /// Computes the bounds of the groups with indices in `range`, for [levels](self) that change by at most `change`.
    fn new(groups: &[Group], range: Range<usize>, change: u32) -> Self {
        let mut entries: Vec<(f64, f64, u32)> = groups[range.clone()]
            .iter()
            .zip(range.start as u32..)
            .map(|(group, id)| {
                let [rank, contrastive, probability] = group.levels;
                let fewer = |level: u32| level.saturating_sub(change).max(1);
                let most = fuse([fewer(rank), fewer(contrastive), probability]);
                let least = fuse([rank + change, contrastive + change, probability + 1]);
                (most, least, id)
            })
            .collect();
        entries.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
        let mut places = vec![0; range.len()];
        for (place, entry) in (0..).zip(&entries) {
            places[entry.2 as usize - range.start] = place;
        }
        let block = |entries: &[(f64, f64, u32)]| {
            let least = entries.iter().map(|entry| entry.1).fold(f64::INFINITY, f64::min);
            (least, entries.iter().map(|entry| groups[entry.2 as usize].points).sum())
        };
        Self {
            first: range.start,
            places,
            blocks: entries.chunks(BLOCK).map(block).collect(),
            most: entries.iter().map(|entry| entry.0).collect(),
            least: entries.iter().map(|entry| entry.1).collect(),
            groups: entries.iter().map(|entry| entry.2).collect(),
        }
    }

    /// Returns the position of the group with the index `group`, in the order of these bounds.
    pub(super) fn place(&self, group: u32) -> usize {
        self.places[group as usize - self.first] as usize
    }
}
