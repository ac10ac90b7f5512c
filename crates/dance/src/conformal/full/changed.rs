//! Counts of points in the bag, which consists of the calibration points and one query.
//!
//! A count is the number of points whose fused score is at least the query's. The level `N(s)` of a score s is the
//! number of scores in the bag that are at least s. Adding the query changes N by a step function: one step down at
//! each old value of a score that changes, one step up at its new value, and one step up at the query's own score. So
//! the levels of the n calibration points are not computed again.
//!
//! The fused score falls as levels grow, so bounds on the change of levels settle most points. For changes by at most
//! 1, 2, 4 …, the groups of points with equal scores are sorted by the largest fused score that they can get
//! (`grouped.rs`). The smallest sufficient bound is used. A fused score is computed only if the bounds leave it open,
//! once for all points with equal scores.

use std::ops::Range;

use crate::conformal::full::grouped::{BLOCK, Bounds, GroupedPoints};
use crate::conformal::full::moved::MovedScores;
use crate::conformal::full::points::Change;
use crate::conformal::fused::{Levels, Scores, fuse};

/// A label that the query may carry, with the query's scores for this label.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) label: u32,
    /// The query's scores for this label.
    pub(super) scores: Scores,
    /// The changes of calibration points that carry this label: a range of indices into the sorted changes of a
    /// [`ChangedBag`].
    pub(super) same_label: Range<usize>,
}

/// The changes that one query makes to the scores of the calibration points. The value is filled again for the next
/// query.
#[derive(Debug, Default)]
pub(super) struct ChangedBag {
    /// The calibration points whose scores change, with their new scores, sorted by the points' labels.
    changes: Vec<Change>,
    /// The [levels](self) of every changed point if the query carries another label than the point. Two terms that
    /// depend on the [candidate label](Candidate) are missing; `with_candidate` adds them.
    levels: Vec<Levels>,
    /// The fused scores that follow from `levels`, in descending order. Each comes with the index of its point in
    /// `changes`.
    by_score: Vec<(f64, usize)>,
    /// The old and new rank scores of the changed points, then their old and new contrastive scores.
    moved: [MovedScores; 2],
    /// The largest change of any [level](self) by the changes of scores in `moved`.
    largest: u64,
    groups: Vec<ChangedGroup>,
    /// The number of the current query. If a [`ChangedGroup`] holds another number, its values belong to an earlier
    /// query and are not used.
    query: u32,
}

/// Values of one group of points with equal scores, for one query. Each pair begins with the number of this query.
#[derive(Clone, Copy, Debug, Default)]
struct ChangedGroup {
    /// The last query that changed scores of points in the group, and the number of points whose scores it changed.
    changed: (u32, u32),
    /// The last query for which the [levels](self) of the group were computed, and these levels. They leave out the
    /// terms that depend on the [candidate label](Candidate).
    levels: (u32, Levels),
}

impl ChangedBag {
    /// Takes over the changes that a new query makes to the calibration points. `labels` holds the labels of these
    /// points. `extra` holds the number that is added to the rank of each point to break ties.
    pub(super) fn fill(
        &mut self,
        grouped: &GroupedPoints,
        labels: &[u32],
        extra: &[f64],
        changes: impl Iterator<Item = Change>,
    ) {
        self.changes.clear();
        self.changes.extend(changes);
        self.changes.sort_unstable_by_key(|change| (labels[change.id as usize], change.id));
        self.groups.resize(grouped.groups.len(), ChangedGroup::default());
        self.query += 1;
        for change in &mut self.changes {
            let id = change.id as usize;
            let (query, count) = &mut self.groups[grouped.group_of[id] as usize].changed;
            *count = if *query == self.query { *count + 1 } else { 1 };
            *query = self.query;
            change.same[0] += extra[id];
            change.other[0] += extra[id];
        }
        // Moves are computed as if no changed point carried the query's label; `with_candidate` corrects the points
        // that do.
        let (moved, changes) = (&mut self.moved, &self.changes);
        for (which, moved) in moved.iter_mut().enumerate() {
            let old = |change: &Change| grouped.scores[change.id as usize][which];
            moved.fill(changes.iter().map(|change| (old(change), change.other[which])));
        }
        // Find the largest change of any level.
        self.largest = self.moved.iter().map(MovedScores::largest).max().unwrap_or(0);
        // Compute the new levels of the changed points, and sort the points by fused score.
        let mut levels = std::mem::take(&mut self.levels);
        levels.clear();
        let scores = self.changes.iter().map(|change| grouped.with(change.id, change.other));
        levels.extend(scores.map(|scores| self.moved_levels(scores, grouped.sorted.levels(scores))));
        self.by_score.clear();
        self.by_score.extend(levels.iter().map(|&levels| fuse(levels)).zip(0..));
        self.by_score.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        self.levels = levels;
    }

    /// Returns the calibration points whose scores change, with their new scores, sorted by the points' labels.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns the [levels](self) of `scores` after the query's changes, given the levels `before` them. The terms that
    /// depend on the [candidate label](Candidate) are left out.
    fn moved_levels(&self, scores: Scores, before: Levels) -> Levels {
        let moved = |which: usize| (i64::from(before[which]) + self.moved[which].growth(scores[which])) as u32;
        [moved(0), moved(1), before[2]] // a query changes no probability
    }

    /// Adds two terms to the [levels](self) of `scores`. They depend on the [candidate label](Candidate): the query's
    /// own scores, and the changed points that carry this label.
    fn with_candidate(&self, scores: Scores, mut levels: Levels, candidate: &Candidate) -> Levels {
        for (which, level) in levels.iter_mut().enumerate() {
            *level += u32::from(candidate.scores[which] >= scores[which]);
        }
        for change in &self.changes[candidate.same_label.clone()] {
            for which in 0..2 {
                levels[which] += u32::from(change.same[which] >= scores[which]);
                levels[which] -= u32::from(change.other[which] >= scores[which]);
            }
        }
        levels
    }

    /// Returns the [levels](self) of the query's scores for the candidate label. A level is the number of calibration
    /// points with a score at least as large, plus 1 for the query itself.
    pub(super) fn query_levels(&self, grouped: &GroupedPoints, candidate: &Candidate) -> Levels {
        let levels = self.moved_levels(candidate.scores, grouped.sorted.levels(candidate.scores));
        self.with_candidate(candidate.scores, levels, candidate)
    }

    /// Returns the number of points whose fused score is at least `score`, among the calibration points and the query.
    /// Only points in the stratum of the candidate label are counted. A stratum holds the labels among which points are
    /// compared.
    pub(super) fn count(&mut self, grouped: &GroupedPoints, candidate: &Candidate, score: f64) -> u32 {
        let most_moved = self.largest as usize + candidate.same_label.len() + 1;
        let stratum = grouped.stratum(candidate.label);
        let bounds = &grouped.bounds[stratum];
        let bounds = &bounds[(most_moved.next_power_of_two().trailing_zeros() as usize).min(bounds.len() - 1)];
        // The query itself counts as 1. Add the unchanged points and the changed points.
        1 + self.count_unchanged(grouped, bounds, candidate, score)
            + self.count_changed(grouped, stratum, candidate, score)
    }

    /// Returns the number of points whose fused score is at least `score`, among those whose scores the query did not
    /// change.
    fn count_unchanged(&mut self, grouped: &GroupedPoints, bounds: &Bounds, candidate: &Candidate, score: f64) -> u32 {
        // Groups from this index on have fused scores below `score`.
        let possible = bounds.most.partition_point(|&most| most >= score);
        let certain = |block: usize| (block + 1) * BLOCK <= possible && bounds.blocks[block].0 >= score;
        let (mut total, mut place) = (0, 0);
        while place < possible {
            // All points of a block count if its smallest bound is at least `score`.
            if place.is_multiple_of(BLOCK) && certain(place / BLOCK) {
                total += bounds.blocks[place / BLOCK].1;
                place += BLOCK;
                continue;
            }
            let (id, least) = (bounds.groups[place] as usize, bounds.least[place]);
            place += 1;
            let points = self.points_left(grouped, id);
            if points > 0 && (least >= score || self.group_score(grouped, candidate, id) >= score) {
                total += points;
            }
        }
        // The points of whole blocks include changed points, which `count_changed` counts. Subtract them here.
        let stratum = grouped.stratum(candidate.label);
        let in_certain_block = |change: &&Change| {
            let group = grouped.group_of[change.id as usize];
            grouped.is_compared(change.id, stratum) && certain(bounds.place(group) / BLOCK)
        };
        total - self.changes.iter().filter(in_certain_block).count() as u32
    }

    /// Returns the number of points whose fused score is at least `score`, among those whose scores the query changed.
    fn count_changed(&self, grouped: &GroupedPoints, stratum: usize, candidate: &Candidate, score: f64) -> u32 {
        // If no changed point carries the candidate label, the label only raises levels. Then fused scores fall, and
        // only points whose score in `by_score` is large enough are visited.
        let possible = if candidate.same_label.is_empty() {
            self.by_score.partition_point(|&(most, _)| most >= score)
        } else {
            self.by_score.len()
        };
        let mut total = 0;
        for &(_, place) in &self.by_score[..possible] {
            let change = &self.changes[place];
            if !grouped.is_compared(change.id, stratum) {
                continue;
            }
            let (scores, levels) = if candidate.same_label.contains(&place) {
                let scores = grouped.with(change.id, change.same);
                (scores, self.moved_levels(scores, grouped.sorted.levels(scores)))
            } else {
                (grouped.with(change.id, change.other), self.levels[place])
            };
            total += u32::from(fuse(self.with_candidate(scores, levels, candidate)) >= score);
        }
        total
    }

    /// Returns the number of points in the group with the index `id` whose scores the query did not change.
    fn points_left(&self, grouped: &GroupedPoints, id: usize) -> u32 {
        let (points, changed) = (grouped.groups[id].points, self.groups[id].changed);
        if changed.0 == self.query { points - changed.1 } else { points }
    }

    /// Returns the fused score of the group with the index `id`. It is the score of those points whose scores the query
    /// did not change.
    fn group_score(&mut self, grouped: &GroupedPoints, candidate: &Candidate, id: usize) -> f64 {
        let group = &grouped.groups[id];
        let mut levels = self.groups[id].levels;
        if levels.0 != self.query {
            levels = (self.query, self.moved_levels(group.scores, group.levels));
            self.groups[id].levels = levels;
        }
        fuse(self.with_candidate(group.scores, levels.1, candidate))
    }
}

#[cfg(test)]
mod tests;
