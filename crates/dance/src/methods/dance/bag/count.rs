//! Counting in a bag that one newcomer has changed.
//!
//! `N(s)`, the number of scores of at least s, differs from what it was before by a step function: one step for each score
//! that left its place, one for each that arrived, one for the newcomer's own. So the counts of all n points in the changed
//! bag need not be formed. What is asked is how many points conform no better than the newcomer under a [`Rule`] that falls
//! as counts grow, and for most points a bound decides: no count moves by more than `d`, and for every power of two the
//! points are kept in the order of what their score can at most become. Only where the bounds disagree is it computed.

use std::ops::Range;

use super::super::combine::{Levels, Reached, Rule, Scores};
use super::standing::{Change, Pair};

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

/// Points in the order of what their score can at most become when no count moves by more than a certain number.
#[derive(Clone, Debug, PartialEq)]
struct Bounds {
    /// Descending.
    most: Vec<f64>,
    least: Vec<f64>,
    ids: Vec<u32>,
}

/// The calibration points of a bag as they are without a newcomer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) rule: Option<Rule>,
    pub(super) levels: Levels,
    scores: Vec<Scores>,
    counts: Vec<Reached>,
    /// For shifts of up to 1, 2, 4 …
    bounds: Vec<Bounds>,
}

impl Counted {
    pub(super) fn new(scores: Vec<Scores>, rule: Option<Rule>) -> crate::Result<Self> {
        let levels = Levels::new(&scores)?;
        let counts: Vec<Reached> = scores.iter().map(|&scores| levels.count(scores)).collect();
        let mut bounds = Vec::new();
        if let Some(rule) = rule {
            let mut shift = 1u32;
            loop {
                bounds.push(Bounds::new(&counts, rule, shift));
                if shift as usize > scores.len() {
                    break;
                }
                shift *= 2;
            }
        }
        Ok(Self { rule, levels, scores, counts, bounds })
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
    fn new(counts: &[Reached], rule: Rule, shift: u32) -> Self {
        let mut entries: Vec<(f64, f64, u32)> = counts
            .iter()
            .zip(0..)
            .map(|(&[rank, contrast, probability], id)| {
                let fewer = |count: u32| count.saturating_sub(shift).max(1);
                let most = rule.score([fewer(rank), fewer(contrast), probability]);
                let least = rule.score([rank + shift, contrast + shift, probability + 1]);
                (most, least, id)
            })
            .collect();
        entries.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
        Self {
            most: entries.iter().map(|entry| entry.0).collect(),
            least: entries.iter().map(|entry| entry.1).collect(),
            ids: entries.iter().map(|entry| entry.2).collect(),
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
    /// How many scores before the newcomer came are at least as large as their new ones under another label.
    before: Vec<Reached>,
    moved: [Moved; 2],
    largest: u64,
    /// For every point the number of the newcomer that changed it last.
    stamps: Vec<u32>,
    stamp: u32,
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
        self.stamps.resize(counted.scores.len(), 0);
        self.stamp += 1;
        for change in &mut self.changes {
            let id = change.id as usize;
            self.stamps[id] = self.stamp;
            change.same[0] += extra[id];
            change.other[0] += extra[id];
        }
        let (moved, changes) = (&mut self.moved, &self.changes);
        for (which, moved) in moved.iter_mut().enumerate() {
            let old = |change: &Change| counted.scores[change.id as usize][which];
            moved.fill(changes.iter().map(|change| (old(change), change.other[which])));
        }
        self.largest = self.moved.iter().map(Moved::largest).max().unwrap_or(0);
        self.before.clear();
        if counted.rule.is_some() {
            let scores = self.changes.iter().map(|change| counted.with(change.id, change.other));
            self.before.extend(scores.map(|scores| counted.levels.count(scores)));
        }
    }

    /// Changed points, sorted by label.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// `N(score)` among the calibration points and the newcomer, when without it it is `before`.
    fn count(&self, which: usize, score: f64, before: u32, candidate: &Candidate) -> u32 {
        let mut count = i64::from(before) + i64::from(candidate.scores[which] >= score);
        if which < 2 {
            count += self.moved[which].growth(score);
            for kin in &self.changes[candidate.kin.clone()] {
                count += i64::from(kin.same[which] >= score) - i64::from(kin.other[which] >= score);
            }
        }
        count as u32
    }

    /// For each score of the newcomer, how many of the bag are at least as large.
    pub(super) fn reached(&self, counted: &Counted, candidate: &Candidate) -> Reached {
        let before = counted.levels.count(candidate.scores);
        std::array::from_fn(|which| self.count(which, candidate.scores[which], before[which], candidate))
    }

    /// How many of the bag conform no better than the newcomer, whose own counts are `reached`.
    pub(super) fn conform_no_better(
        &self,
        counted: &Counted,
        rule: Rule,
        candidate: &Candidate,
        reached: Reached,
    ) -> u32 {
        let score = rule.score(reached);
        let among = |scores: Scores, before: Reached| {
            let counts =
                std::array::from_fn(|which| self.count(which, scores[which], before[which], candidate));
            rule.score(counts) >= score
        };
        let shift = self.largest + candidate.kin.len() as u64 + 1;
        let level = (shift.next_power_of_two().trailing_zeros() as usize).min(counted.bounds.len() - 1);
        let bounds = &counted.bounds[level];
        let possible = bounds.most.partition_point(|&most| most >= score);
        let mut total = 1; // the newcomer itself
        for (&id, &least) in bounds.ids[..possible].iter().zip(&bounds.least) {
            let id = id as usize;
            if self.stamps[id] != self.stamp {
                total += u32::from(least >= score || among(counted.scores[id], counted.counts[id]));
            }
        }
        for (place, change) in self.changes.iter().enumerate() {
            total += u32::from(if candidate.kin.contains(&place) {
                let scores = counted.with(change.id, change.same);
                among(scores, counted.levels.count(scores))
            } else {
                among(counted.with(change.id, change.other), self.before[place])
            });
        }
        total
    }
}
