//! The calibration points of a bag as they are without a newcomer, ready to be counted.
//!
//! Points with the same scores form groups. For fused scores every group has bounds on what its score can become when no
//! count moves by more than 1, 2, 4 …; for joint scores [`Dominance`] counts points by two scores at once. Where classes are told
//! apart ([`Comparison`]), points of a group are of one kind, every stratum has bounds of its own, and scores come with the factor of their class.
//! Memory: `O(n·log n)`.

use std::ops::Range;

use crate::conformal::combine::{AtLeast, Levels, Rule, Scores};
use crate::conformal::difficulty::Comparison;
use crate::conformal::full::dominance::Dominance;
use crate::conformal::full::points::Pair;

/// Groups of a stratum in the order of what their score can at most become when no count moves by more than a certain number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    /// Descending.
    pub(super) most: Vec<f64>,
    pub(super) least: Vec<f64>,
    pub(super) groups: Vec<u32>,
    /// The number of the stratum's first group, and the place of every group from there on in this order.
    first: usize,
    places: Vec<u32>,
    /// For every [`BLOCK`] of them the least that any score can become, and their points.
    pub(super) blocks: Vec<(f64, u32)>,
}

/// Groups that are looked at together, first.
pub(super) const BLOCK: usize = 32;

/// Points of one kind with the same scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) kind: u32,
    /// What their score is multiplied with.
    pub(super) factor: f64,
    pub(super) scores: Scores,
    pub(super) counts: AtLeast,
    pub(super) points: u32,
}

/// The calibration points of a bag as they are without a newcomer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) rule: Option<Rule>,
    pub(super) levels: Levels,
    pub(super) scores: Vec<Scores>,
    pub(super) groups: Vec<Group>,
    /// The group of every point.
    pub(super) group_of: Vec<u32>,
    /// Where the groups of every kind begin; behind them, where the last ends.
    starts: Vec<usize>,
    /// For every stratum, and shifts of up to 1, 2, 4 …; not for joint scores of all points.
    pub(super) bounds: Vec<Vec<Bounds>>,
    /// For joint scores of all points: points by their rank and their contrastive score.
    pub(super) dominance: Option<Dominance>,
    pub(super) comparison: Comparison,
}

impl Counted {
    pub(super) fn new(
        scores: Vec<Scores>,
        labels: &[u32],
        rule: Option<Rule>,
        comparison: Comparison,
    ) -> crate::Result<Self> {
        let levels = Levels::new(&scores)?;
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        let compare = |a: &Scores, b: &Scores| {
            let each = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
            each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        let kind = |id: u32| comparison.kind(labels[id as usize]);
        order.sort_unstable_by(|&a, &b| {
            kind(a).cmp(&kind(b)).then_with(|| compare(&scores[a as usize], &scores[b as usize]))
        });
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of = vec![0; scores.len()];
        for id in order {
            let (scores, kind) = (scores[id as usize], kind(id));
            match groups.last_mut() {
                Some(group) if group.scores == scores && group.kind == kind => group.points += 1,
                _ => {
                    let factor = comparison.factor(labels[id as usize]);
                    groups.push(Group { kind, factor, scores, counts: levels.count(scores), points: 1 });
                }
            }
            group_of[id as usize] = groups.len() as u32 - 1;
        }
        let starts: Vec<usize> = (0..=comparison.kinds())
            .map(|kind| groups.partition_point(|group| (group.kind as usize) < kind))
            .collect();
        let joint = matches!(rule, Some(Rule::Joint { .. })) && comparison.is_plain();
        let mut bounds = Vec::new();
        if let Some(rule) = rule.filter(|_| !joint) {
            let several = comparison.strata.is_some();
            let of =
                |stratum: usize| if several { starts[stratum]..starts[stratum + 1] } else { 0..groups.len() };
            let shifts = 0..=scores.len().max(1).ilog2() + 1;
            let each = |stratum| {
                shifts.clone().map(|power| Bounds::new(&groups, of(stratum), rule, 1 << power)).collect()
            };
            bounds = (0..comparison.strata()).map(each).collect();
        }
        let dominance = joint.then(|| Dominance::new(scores.iter().map(|scores| (scores[0], scores[1]))));
        Ok(Self { rule, levels, scores, groups, group_of, starts, bounds, dominance, comparison })
    }

    /// The groups of a kind.
    pub(super) fn of_kind(&self, kind: u32) -> Range<usize> {
        self.starts[kind as usize]..self.starts[kind as usize + 1]
    }

    /// Whether a point is compared with newcomers of this stratum.
    pub(super) fn is_compared(&self, id: u32, stratum: usize) -> bool {
        self.comparison.strata.is_none() || self.group_of(id).kind as usize == stratum
    }

    pub(super) fn group_of(&self, id: u32) -> &Group {
        &self.groups[self.group_of[id as usize] as usize]
    }

    pub(super) fn scores(&self) -> &[Scores] {
        &self.scores
    }

    /// The scores of a point that a newcomer has changed.
    pub(super) fn with(&self, id: u32, pair: Pair) -> Scores {
        [pair[0], pair[1], self.scores[id as usize][2]]
    }
}

impl Bounds {
    /// Of those of all `groups` that are in `range`.
    fn new(groups: &[Group], range: Range<usize>, rule: Rule, shift: u32) -> Self {
        let mut entries: Vec<(f64, f64, u32)> = groups[range.clone()]
            .iter()
            .zip(range.start as u32..)
            .map(|(group, id)| {
                let [rank, contrast, probability] = group.counts;
                let fewer = |count: u32| count.saturating_sub(shift).max(1);
                let most = rule.score([fewer(rank), fewer(contrast), probability]);
                let least = rule.score([rank + shift, contrast + shift, probability + 1]);
                (most * group.factor, least * group.factor, id)
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

    /// The place of a group of the stratum.
    pub(super) fn place(&self, group: usize) -> usize {
        self.places[group - self.first] as usize
    }
}
