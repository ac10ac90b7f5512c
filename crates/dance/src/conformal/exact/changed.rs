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

use std::ops::Range;

use super::counted::{BLOCK, Counted};
use super::dominance::Dominance;
use super::moved::{Moved, least_where};
use super::points::Change;
use crate::conformal::combine::{AtLeast, Rule, Scores};

/// A label the newcomer may carry.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
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
            self.by_score.extend(settled.iter().map(|&counts| rule.score(counts)).zip(0..));
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
        let score = rule.score(reached);
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
        let level = (shift.next_power_of_two().trailing_zeros() as usize).min(counted.bounds.len() - 1);
        let bounds = &counted.bounds[level];
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
            let (id, least) = (bounds.groups[place], bounds.least[place]);
            place += 1;
            let group = &counted.groups[id as usize];
            let GroupNow { left, mut settled } = self.groups[id as usize];
            let points = if left.0 == self.newcomer { group.points - left.1 } else { group.points };
            if points > 0 && least < score {
                if settled.0 != self.newcomer {
                    settled = (self.newcomer, self.settle(group.scores, group.counts));
                    self.groups[id as usize].settled = settled;
                }
                let counts = self.with_candidate(group.scores, settled.1, candidate);
                total += if rule.score(counts) >= score { points } else { 0 };
            } else {
                total += points;
            }
        }
        // Blocks were taken whole, with points that have changed.
        let place_of =
            |change: &Change| bounds.places[counted.group_of[change.id as usize] as usize] as usize;
        total -= self.changes.iter().filter(|change| certain(place_of(change) / BLOCK)).count() as u32;
        // A candidate without kin can only add to counts, so what is too small already stays so.
        let possible = if candidate.kin.is_empty() {
            self.by_score.partition_point(|&(most, _)| most >= score)
        } else {
            self.by_score.len()
        };
        for &(_, place) in &self.by_score[..possible] {
            let change = &self.changes[place];
            let (pair, settled) = if candidate.kin.contains(&place) {
                let scores = counted.with(change.id, change.same);
                (change.same, self.settle(scores, counted.levels.count(scores)))
            } else {
                (change.other, self.settled[place])
            };
            let counts = self.with_candidate(counted.with(change.id, pair), settled, candidate);
            total += u32::from(rule.score(counts) >= score);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// One point of the bag: its label, its scores before the newcomer, and what it becomes.
    struct Point {
        label: u32,
        before: Scores,
        change: Option<Change>,
    }

    /// Coarse scores, so that ties abound; +∞ among them.
    fn score(random: &mut Random, levels: usize) -> f64 {
        match random.below(levels + 1) {
            0 => f64::INFINITY,
            level => level as f64,
        }
    }

    fn bag(n: usize, seed: u64) -> Vec<Point> {
        let mut random = Random::new(seed, 1);
        (0..n as u32)
            .map(|id| {
                let mut pair = || [score(&mut random, 6), score(&mut random, 9)];
                let (before, same, other) = (pair(), pair(), pair());
                let probability = random.below(5) as f64 / 4.0;
                let changes = random.below(3) == 0;
                Point {
                    label: random.below(4) as u32,
                    before: [before[0], before[1], probability],
                    change: changes.then_some(Change { id, same, other }),
                }
            })
            .collect()
    }

    /// As the definition says: every score of the bag as it is once the newcomer carries `label`.
    fn now(bag: &[Point], label: u32, newcomer: Scores) -> Vec<Scores> {
        let of = |point: &Point| match &point.change {
            None => point.before,
            Some(change) => {
                let pair = if point.label == label { change.same } else { change.other };
                [pair[0], pair[1], point.before[2]]
            }
        };
        bag.iter().map(of).chain([newcomer]).collect()
    }

    #[test]
    fn counts_are_those_of_the_whole_bag_written_out() {
        for (n, seed) in [(1, 1), (2, 2), (7, 3), (40, 4), (150, 5), (151, 6)] {
            let bag = bag(n, seed);
            let labels: Vec<u32> = bag.iter().map(|point| point.label).collect();
            let mut random = Random::new(seed, 2);
            for rule in
                [Rule::Fuse, Rule::Joint { mix: 0.0 }, Rule::Joint { mix: 0.3 }, Rule::Joint { mix: 1.0 }]
            {
                let scores = bag.iter().map(|point| point.before).collect();
                let counted = Counted::new(scores, Some(rule)).unwrap();
                let mut changed = Changed::default();
                let changes = bag.iter().filter_map(|point| point.change);
                changed.fill(&counted, &labels, &vec![0.0; n], changes);
                for label in 0..5 {
                    let scores = [score(&mut random, 6), score(&mut random, 9), random.below(5) as f64 / 4.0];
                    let all = now(&bag, label, scores);
                    let at_least = |of: Scores| -> AtLeast {
                        std::array::from_fn(|which| {
                            all.iter().filter(|other| other[which] >= of[which]).count() as u32
                        })
                    };
                    let kin = changed.changes().iter().filter(|change| labels[change.id as usize] == label);
                    let first =
                        changed.changes().partition_point(|change| labels[change.id as usize] < label);
                    let candidate = Candidate { scores, kin: first..first + kin.count() };
                    let reached = changed.reached(&counted, &candidate);
                    assert_eq!(reached, at_least(scores), "n {n}, {rule:?}, label {label}");
                    let own = rule.score(at_least(scores));
                    let expected = all.iter().filter(|of| rule.score(at_least(**of)) >= own).count() as u32;
                    let found = changed.conform_no_better(&counted, rule, &candidate, reached);
                    assert_eq!(found, expected, "n {n}, {rule:?}, label {label}");
                }
            }
        }
    }

    #[test]
    fn a_bag_that_nothing_changes_counts_as_before() {
        let counted = Counted::new(vec![[1.0, 2.0, 0.5], [2.0, 1.0, 0.25]], Some(Rule::Fuse)).unwrap();
        let mut changed = Changed::default();
        changed.fill(&counted, &[0, 1], &[0.0; 2], std::iter::empty());
        let candidate = Candidate { scores: [1.0, 1.0, 0.0], kin: 0..0 };
        // All three scores of all three points are at least as large as the newcomer's.
        assert_eq!(changed.reached(&counted, &candidate), [3, 3, 3]);
        assert_eq!(changed.conform_no_better(&counted, Rule::Fuse, &candidate, [3, 3, 3]), 3);
    }
}
