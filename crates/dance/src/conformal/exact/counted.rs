//! The calibration points of a bag as they are without a newcomer, ready to be counted.
//!
//! Points with the same scores form groups. For fused scores every group has bounds on what its score can become when no
//! count moves by more than 1, 2, 4 …; for joint scores [`Dominance`] counts points by two scores at once.
//! Memory: `O(n·log n)`.

use super::dominance::Dominance;
use super::points::Pair;
use crate::conformal::combine::{AtLeast, Levels, Rule, Scores};

/// Groups of points in the order of what their score can at most become when no count moves by more than a certain number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    /// Descending.
    pub(super) most: Vec<f64>,
    pub(super) least: Vec<f64>,
    pub(super) groups: Vec<u32>,
    /// The place of every group in this order.
    pub(super) places: Vec<u32>,
    /// For every [`BLOCK`] of them the least that any score can become, and their points.
    pub(super) blocks: Vec<(f64, u32)>,
}

/// Groups that are looked at together, first.
pub(super) const BLOCK: usize = 32;

/// Points with the same scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group {
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
    /// For fused scores and shifts of up to 1, 2, 4 …
    pub(super) bounds: Vec<Bounds>,
    /// For joint scores: points by their rank and their contrastive score.
    pub(super) dominance: Option<Dominance>,
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
    pub(super) fn with(&self, id: u32, pair: Pair) -> Scores {
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
