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

use super::super::combine::{AtLeast, Levels, Rule, Scores};
use super::dominance::Dominance;
use super::points::{Change, Pair};

/// Scores that moved: where they were and where they are, ascending.
#[derive(Clone, Debug, Default)]
struct Moved {
    from: Vec<f64>,
    to: Vec<f64>,
}

impl Moved {
    fn fill(&mut self, moves: impl Iterator<Item = (f64, f64)>) {
        self.from.clear();
        self.to.clear();
        for (from, to) in moves.filter(|(from, to)| from != to) {
            self.from.push(from);
            self.to.push(to);
        }
        self.from.sort_unstable_by(f64::total_cmp);
        self.to.sort_unstable_by(f64::total_cmp);
    }

    /// By how much `N(score)` grows.
    fn growth(&self, score: f64) -> i64 {
        at_least(&self.to, score) - at_least(&self.from, score)
    }

    /// The largest growth or loss anywhere: a step function is extreme at its steps.
    fn largest(&self) -> u64 {
        let steps = self.from.iter().chain(&self.to);
        steps.map(|&score| self.growth(score).unsigned_abs()).max().unwrap_or(0)
    }
}

fn at_least(sorted: &[f64], score: f64) -> i64 {
    (sorted.len() - sorted.partition_point(|&other| other < score)) as i64
}

/// The least number below `end` that passes, or `end`; all above it pass too.
fn least_where(end: usize, passes: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = usize::midpoint(low, high);
        if passes(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Groups of points in the order of what their score can at most become when no count moves by more than a certain number.
#[derive(Clone, Debug, PartialEq)]
struct Bounds {
    /// Descending.
    most: Vec<f64>,
    least: Vec<f64>,
    groups: Vec<u32>,
    /// The place of every group in this order.
    places: Vec<u32>,
    /// For every [`BLOCK`] of them the least that any score can become, and their points.
    blocks: Vec<(f64, u32)>,
}

/// Groups that are looked at together, first.
const BLOCK: usize = 32;

/// Points with the same scores.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Group {
    scores: Scores,
    counts: AtLeast,
    points: u32,
}

/// The calibration points of a bag as they are without a newcomer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) rule: Option<Rule>,
    pub(super) levels: Levels,
    scores: Vec<Scores>,
    groups: Vec<Group>,
    /// The group of every point.
    group_of: Vec<u32>,
    /// For fused scores and shifts of up to 1, 2, 4 …
    bounds: Vec<Bounds>,
    /// For joint scores: points by their rank and their contrastive score.
    dominance: Option<Dominance>,
}

impl Counted {
    pub(super) fn new(scores: Vec<Scores>, rule: Option<Rule>) -> crate::Result<Self> {
        let levels = Levels::new(&scores)?;
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        let compare = |a: &Scores, b: &Scores| {
            let each = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
            each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        order.sort_unstable_by(|&a, &b| compare(&scores[a as usize], &scores[b as usize]));
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of = vec![0; scores.len()];
        for id in order {
            let scores = scores[id as usize];
            match groups.last_mut() {
                Some(group) if group.scores == scores => group.points += 1,
                _ => groups.push(Group { scores, counts: levels.count(scores), points: 1 }),
            }
            group_of[id as usize] = groups.len() as u32 - 1;
        }
        let mut bounds = Vec::new();
        if let Some(rule @ Rule::Fuse) = rule {
            let mut shift = 1u32;
            loop {
                bounds.push(Bounds::new(&groups, rule, shift));
                if shift as usize > scores.len() {
                    break;
                }
                shift *= 2;
            }
        }
        let joint = matches!(rule, Some(Rule::Joint { .. }));
        let dominance = joint.then(|| Dominance::new(scores.iter().map(|scores| (scores[0], scores[1]))));
        Ok(Self { rule, levels, scores, groups, group_of, bounds, dominance })
    }

    pub(super) fn scores(&self) -> &[Scores] {
        &self.scores
    }

    /// The scores of a point that a newcomer has changed.
    fn with(&self, id: u32, pair: Pair) -> Scores {
        [pair[0], pair[1], self.scores[id as usize][2]]
    }
}

impl Bounds {
    fn new(groups: &[Group], rule: Rule, shift: u32) -> Self {
        let mut entries: Vec<(f64, f64, u32)> = groups
            .iter()
            .zip(0..)
            .map(|(group, id)| {
                let [rank, contrast, probability] = group.counts;
                let fewer = |count: u32| count.saturating_sub(shift).max(1);
                let most = rule.score([fewer(rank), fewer(contrast), probability]);
                let least = rule.score([rank + shift, contrast + shift, probability + 1]);
                (most, least, id)
            })
            .collect();
        entries.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
        let mut places = vec![0; groups.len()];
        for (place, entry) in (0..).zip(&entries) {
            places[entry.2 as usize] = place;
        }
        let block = |entries: &[(f64, f64, u32)]| {
            let least = entries.iter().map(|entry| entry.1).fold(f64::INFINITY, f64::min);
            (least, entries.iter().map(|entry| groups[entry.2 as usize].points).sum())
        };
        Self {
            places,
            blocks: entries.chunks(BLOCK).map(block).collect(),
            most: entries.iter().map(|entry| entry.0).collect(),
            least: entries.iter().map(|entry| entry.1).collect(),
            groups: entries.iter().map(|entry| entry.2).collect(),
        }
    }
}

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
