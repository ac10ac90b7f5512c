//! Counting in a bag that one newcomer has changed.
//!
//! `N(s)`, the number of scores of at least s, differs from what it was before by a step function: one step for each score
//! that left its place, one for each that arrived, one for the newcomer's own. So the counts of all n points in the changed
//! bag need not be formed. What is asked is how many points conform no better than the newcomer under a [`Rule`].
//!
//! **joint** asks for two minima: the points that conform better are those whose two counts both exceed a number, so whose two
//! scores are both below a score. Bisection finds the two scores, [`Dominance`] counts.
//!
//! **fuse** falls as counts grow, and for most points a bound decides: no count moves by more than `d`, and for every power of
//! two the points are kept in the order of what their score can at most become. Only where the bounds disagree is it
//! computed, once for all points with the same scores.
//!
//! **By class**: a newcomer is counted among the points of its label's stratum, by bounds of their own. Where classes are evened out, bounds
//! hold with the factors of the classes as they are; the newcomer changes that of one class, whose points are looked at by themselves. So n
//! more comparisons for all labels of a query together. A single score, too, is then counted by bounds.

use std::ops::Range;

use crate::conformal::combine::{AtLeast, Rule, Scores};
use crate::conformal::full::counted::{BLOCK, Counted};
use crate::conformal::full::dominance::Dominance;
use crate::conformal::full::moved::{Moved, least_where};
use crate::conformal::full::points::Change;

/// Scores with factors that are this close, relatively, are the same: equal points must count as equal whatever their factors round
/// to. Counting one more is always allowed.
const SAME: f64 = 1e-12;
/// Bounds whose factor was taken off decide from here on.
const CLEAR: f64 = 1e-9;

/// A label the newcomer may carry.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) label: u32,
    /// What scores of this label are multiplied with once the newcomer has joined.
    pub(super) factor: f64,
    /// The newcomer's scores under it.
    pub(super) scores: Scores,
    /// Where the changed points that carry it are among the changes.
    pub(super) kin: Range<usize>,
}

/// The bag changed by one newcomer; kept over newcomers, to be filled again.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Sorted by the points' label.
    changes: Vec<Change>,
    /// Counts of the changed points under another label than theirs, but for what the candidate adds.
    settled: Vec<AtLeast>,
    /// The scores that follow from these and the places of the changes, largest first.
    by_score: Vec<(f64, usize)>,
    moved: [Moved; 2],
    largest: u64,
    groups: Vec<GroupNow>,
    /// Its number; what is noted under another is out of date.
    newcomer: u32,
}

/// What a newcomer has done to a group.
#[derive(Clone, Copy, Debug, Default)]
struct GroupNow {
    /// The newcomer that last changed points of the group, and how many it changed.
    left: (u32, u32),
    /// The newcomer for which the group was last counted, and its counts but for what the candidate adds.
    settled: (u32, AtLeast),
}

impl Changed {
    /// Takes up what a newcomer changes. `extra` is what every point's rank score has on top.
    pub(super) fn fill(
        &mut self,
        counted: &Counted,
        labels: &[u32],
        extra: &[f64],
        changes: impl Iterator<Item = Change>,
    ) {
        self.changes.clear();
        self.changes.extend(changes);
        self.changes.sort_unstable_by_key(|change| (labels[change.id as usize], change.id));
        self.groups.resize(counted.groups.len(), GroupNow::default());
        self.newcomer += 1;
        for change in &mut self.changes {
            let id = change.id as usize;
            let (newcomer, count) = &mut self.groups[counted.group_of[id] as usize].left;
            *count = if *newcomer == self.newcomer { *count + 1 } else { 1 };
            *newcomer = self.newcomer;
            change.same[0] += extra[id];
            change.other[0] += extra[id];
        }
        let (moved, changes) = (&mut self.moved, &self.changes);
        for (which, moved) in moved.iter_mut().enumerate() {
            let old = |change: &Change| counted.scores[change.id as usize][which];
            moved.fill(changes.iter().map(|change| (old(change), change.other[which])));
        }
        self.largest = self.moved.iter().map(Moved::largest).max().unwrap_or(0);
        let mut settled = std::mem::take(&mut self.settled);
        settled.clear();
        if counted.rule.is_some() {
            let scores = self.changes.iter().map(|change| counted.with(change.id, change.other));
            settled.extend(scores.map(|scores| self.settle(scores, counted.levels.count(scores))));
        }
        self.by_score.clear();
        if let Some(rule) = counted.rule {
            let score = |(change, &counts): (&Change, &AtLeast)| {
                rule.score(counts) * counted.group_of(change.id).factor
            };
            self.by_score.extend(self.changes.iter().zip(&settled).map(score).zip(0..));
            self.by_score.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        }
        self.settled = settled;
    }

    /// Changed points, sorted by label.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// `N(score)` once the changed points have moved, when before it is `before`.
    fn settle_one(&self, which: usize, score: f64, before: u32) -> u32 {
        match self.moved.get(which) {
            Some(moved) => (i64::from(before) + moved.growth(score)) as u32,
            None => before, // no newcomer changes a probability
        }
    }

    /// The same with the newcomer among them, under the candidate label.
    fn with_candidate_one(&self, which: usize, score: f64, settled: u32, candidate: &Candidate) -> u32 {
        let mut count = settled + u32::from(candidate.scores[which] >= score);
        if which < self.moved.len() {
            for kin in &self.changes[candidate.kin.clone()] {
                count += u32::from(kin.same[which] >= score);
                count -= u32::from(kin.other[which] >= score);
            }
        }
        count
    }

    fn settle(&self, scores: Scores, before: AtLeast) -> AtLeast {
        std::array::from_fn(|which| self.settle_one(which, scores[which], before[which]))
    }

    fn with_candidate(&self, scores: Scores, settled: AtLeast, candidate: &Candidate) -> AtLeast {
        std::array::from_fn(|which| self.with_candidate_one(which, scores[which], settled[which], candidate))
    }

    /// For each score of the newcomer, how many of the bag are at least as large.
    pub(super) fn reached(&self, counted: &Counted, candidate: &Candidate) -> AtLeast {
        let settled = self.settle(candidate.scores, counted.levels.count(candidate.scores));
        self.with_candidate(candidate.scores, settled, candidate)
    }

    /// How many of the bag conform no better than the newcomer, whose own counts are `reached`.
    pub(super) fn conform_no_better(
        &mut self,
        counted: &Counted,
        rule: Rule,
        candidate: &Candidate,
        reached: AtLeast,
    ) -> u32 {
        let mut score = rule.score(reached) * candidate.factor;
        if counted.comparison.fairness.is_some() {
            score *= 1.0 + SAME; // scores are negative
        }
        match &counted.dominance {
            Some(dominance) => {
                (counted.scores.len() + 1 - self.conform_better(counted, dominance, rule, candidate, score))
                    as u32
            }
            None => self.conform_no_better_by_bounds(counted, rule, candidate, score),
        }
    }

    /// The most that any count moves.
    fn shift(&self, candidate: &Candidate) -> usize {
        self.largest as usize + candidate.kin.len() + 1
    }

    /// How many points of the bag have a smaller joint score.
    fn conform_better(
        &self,
        counted: &Counted,
        dominance: &Dominance,
        rule: Rule,
        candidate: &Candidate,
        score: f64,
    ) -> usize {
        // A minimum is beaten where both its parts are; as one part grows without end, the other decides.
        let n = counted.scores.len();
        let enough: [usize; 2] = std::array::from_fn(|which| {
            least_where(n + 2, |count| {
                let mut counts = [u32::MAX; 3];
                counts[which] = count as u32;
                rule.score(counts) < score
            })
        });
        let beats = |which: usize, count: u32| count as usize >= enough[which];
        let columns = counted.levels.columns();
        let count_of = |which: usize, value: f64| {
            let settled = self.settle_one(which, value, columns[which].at_least(value));
            self.with_candidate_one(which, value, settled, candidate)
        };
        // The smaller a score the more are at least as large: those that beat come first. Counts have moved by at most the
        // shift, so the last of them is not far from where it would be without the newcomer.
        let shift = self.shift(candidate);
        let first: [usize; 2] = std::array::from_fn(|which| {
            let sorted = columns[which].sorted();
            let low = n.saturating_sub(enough[which] + shift);
            let high = (n + shift).saturating_sub(enough[which]).min(n - 1);
            let high = high + sorted[high..].partition_point(|&value| value <= sorted[high]);
            low + sorted[low..high].partition_point(|&value| beats(which, count_of(which, value)))
        });
        let was_first =
            |which: usize, value: f64| first[which] > 0 && value <= columns[which].sorted()[first[which] - 1];
        let mut total = dominance.count(first[0], first[1]);
        for (place, change) in self.changes.iter().enumerate() {
            let old = counted.scores[change.id as usize];
            let is_kin = candidate.kin.contains(&place);
            let count_now = |which: usize| {
                if is_kin {
                    return count_of(which, change.same[which]);
                }
                self.with_candidate_one(which, change.other[which], self.settled[place][which], candidate)
            };
            total -= usize::from((0..2).all(|which| was_first(which, old[which])));
            total += usize::from((0..2).all(|which| beats(which, count_now(which))));
        }
        total
    }

    fn conform_no_better_by_bounds(
        &mut self,
        counted: &Counted,
        rule: Rule,
        candidate: &Candidate,
        score: f64,
    ) -> u32 {
        let shift = self.shift(candidate);
        let stratum = counted.comparison.stratum(candidate.label);
        let levels = &counted.bounds[stratum];
        let bounds = &levels[(shift.next_power_of_two().trailing_zeros() as usize).min(levels.len() - 1)];
        // Points of the class whose offset the newcomer changes.
        let apart = counted.comparison.fairness.as_ref().map(|_| counted.of_kind(candidate.label));
        let is_apart = |id: usize| apart.as_ref().is_some_and(|groups| groups.contains(&id));
        let possible = bounds.most.partition_point(|&most| most >= score);
        let mut total = 1; // the newcomer itself
        let certain = |block: usize| (block + 1) * BLOCK <= possible && bounds.blocks[block].0 >= score;
        let mut place = 0;
        while place < possible {
            if place.is_multiple_of(BLOCK) && certain(place / BLOCK) {
                total += bounds.blocks[place / BLOCK].1;
                place += BLOCK;
                continue;
            }
            let (id, least) = (bounds.groups[place] as usize, bounds.least[place]);
            place += 1;
            let points = self.points_left(counted, id);
            if is_apart(id) {
                continue;
            }
            if points > 0 && least < score {
                let factor = counted.groups[id].factor;
                total +=
                    if self.group_score(counted, rule, candidate, id) * factor >= score { points } else { 0 };
            } else {
                total += points;
            }
        }
        for id in apart.clone().into_iter().flatten() {
            let (points, place) = (self.points_left(counted, id), bounds.place(id));
            if certain(place / BLOCK) {
                total -= points; // taken with its block
            }
            let changes = candidate.factor / counted.groups[id].factor;
            let reaches = if bounds.least[place] * changes >= score * (1.0 - CLEAR) {
                true
            } else if points == 0 || bounds.most[place] * changes < score * (1.0 + CLEAR) {
                false
            } else {
                self.group_score(counted, rule, candidate, id) * candidate.factor >= score
            };
            total += if reaches { points } else { 0 };
        }
        // Blocks were taken whole, with points that have changed.
        let place_of = |change: &Change| bounds.place(counted.group_of[change.id as usize] as usize);
        let compared = |change: &&Change| counted.is_compared(change.id, stratum);
        let changes = self.changes.iter().filter(compared);
        total -= changes.filter(|change| certain(place_of(change) / BLOCK)).count() as u32;
        // A candidate without kin can only add to counts, so what is too small already stays so.
        let possible = if candidate.kin.is_empty() {
            self.by_score.partition_point(|&(most, _)| most >= score)
        } else {
            self.by_score.len()
        };
        for &(_, place) in &self.by_score[..possible] {
            let change = &self.changes[place];
            if !counted.is_compared(change.id, stratum) {
                continue;
            }
            let (pair, settled, factor) = if candidate.kin.contains(&place) {
                let scores = counted.with(change.id, change.same);
                (change.same, self.settle(scores, counted.levels.count(scores)), candidate.factor)
            } else {
                (change.other, self.settled[place], counted.group_of(change.id).factor)
            };
            let counts = self.with_candidate(counted.with(change.id, pair), settled, candidate);
            total += u32::from(rule.score(counts) * factor >= score);
        }
        total
    }

    /// Points of a group that have not changed.
    fn points_left(&self, counted: &Counted, id: usize) -> u32 {
        let (points, left) = (counted.groups[id].points, self.groups[id].left);
        if left.0 == self.newcomer { points - left.1 } else { points }
    }

    /// The score of a group's points that have not changed, without its factor.
    fn group_score(&mut self, counted: &Counted, rule: Rule, candidate: &Candidate, id: usize) -> f64 {
        let group = &counted.groups[id];
        let mut settled = self.groups[id].settled;
        if settled.0 != self.newcomer {
            settled = (self.newcomer, self.settle(group.scores, group.counts));
            self.groups[id].settled = settled;
        }
        rule.score(self.with_candidate(group.scores, settled.1, candidate))
    }
}

#[cfg(test)]
mod tests;
