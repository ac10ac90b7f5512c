//! **exact** calibration: full conformal prediction over a fixed kernel.
//!
//! For a query z and a label y, (z,y) joins the n calibration points, all n+1 points of this bag are scored leave-one-out
//! within it, and `p(y)` is the share of them that conform no better than (z,y). All n+1 scores are one symmetric function of
//! the bag, so `P(p(y_true) ≤ α) ≤ α` for exchangeable points, in finite samples: see `docs/method.md` for the proof. Kernel,
//! metric, class probabilities and mix come from other points; those points may also serve the whole bag as neighbors.
//!
//! An order by index is not symmetric, since the query would always be last. So points at the same distance share a rank, and
//! where one of them has to go (who is the anchor, who is the last of m neighbors) an i.i.d. key of each point decides.
//!
//! Cost: the search of the query finds in the same pass whose lists it enters (about m points); their scores are updated
//! ([`points`]), everything else is counting ([`changed`]). Memory: O(n·m).

mod changed;
mod counted;
mod dominance;
mod moved;
mod points;

use std::ops::Range;

use super::calibrate::Believed;
use super::combine::{Rule, Scores, with_probability};
use super::difficulty::{Comparison, Difficulty};
use super::reference::{CALIBRATION_PART, Reference};
use crate::context::Context;
use crate::error::Result;
use crate::method::ByClass;
use crate::neighbors::{Neighbors, Reached};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;
use crate::scores::counts::{Counts, LabelCounts};
use crate::scores::paired::PairedScores;
use changed::{Candidate, Changed};
use counted::Counted;
use points::{BagPoints, Newcomer};

/// The stream of random numbers that decides between points at the same distance.
const KEY_PURPOSE: u64 = 0x0b46;
/// Queries of a parallel task.
const TILE: usize = 16;

/// The key of a point: of the model's own points by their row, of a query by its [name](super::reference::names). `part` keeps
/// the points of one data set apart from those of another.
pub(super) fn key(seed: u64, part: u64, name: u64) -> f64 {
    random::uniform_of(&[seed, KEY_PURPOSE, part, name])
}

/// Calibration points, ready for one more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bag {
    points: BagPoints,
    counted: Counted,
    /// What breaks ties of each point's rank: noise, or its probability.
    extra: Vec<f64>,
    /// Each point's probability of its own label, where scores are fused or classes evened out.
    pub(crate) probabilities: Option<Vec<f32>>,
    /// How hard classes are, where that makes a difference.
    pub(crate) difficulty: Option<Difficulty>,
}

/// The queries of one call, as far as the search has come.
pub(super) struct Queries<'a> {
    pub(super) points: &'a Matrix,
    /// What each is called where random numbers belong to it.
    pub(super) names: &'a [u64],
    pub(super) reached: &'a Reached,
    pub(super) scores: &'a PairedScores,
    /// Class probabilities, where scores are fused or classes evened out.
    pub(super) probabilities: Option<&'a Matrix>,
}

impl Bag {
    /// `neighbors` are those of the first reference points, the calibration points, each among all others.
    pub(super) fn new(
        reference: &Reference,
        neighbors: Neighbors,
        Believed { probabilities, difficulty }: Believed,
        rule: Option<Rule>,
        by_class: ByClass,
    ) -> Result<Self> {
        let points = BagPoints::new(reference, neighbors);
        let noise = |row: usize| reference.noise(CALIBRATION_PART, row as u64, reference.labels[row]);
        let fused = probabilities.as_deref().filter(|_| rule == Some(Rule::Fuse));
        let scores: Vec<Scores> = points
            .scores()
            .iter()
            .enumerate()
            .map(|(row, &[rank, contrast])| match fused {
                Some(probabilities) => with_probability(rank, contrast, f64::from(probabilities[row])),
                None => [rank + noise(row), contrast, 0.0],
            })
            .collect();
        let extra = match fused {
            Some(own) => own.iter().map(|&own| with_probability(0.0, 0.0, f64::from(own))[0]).collect(),
            None => (0..scores.len()).map(noise).collect(),
        };
        let labels = &reference.labels[..scores.len()];
        let known = (probabilities.as_deref(), labels);
        let comparison = Comparison::new(by_class, difficulty.as_ref(), known, reference.classes, rule);
        let counted = Counted::new(scores, labels, rule, comparison)?;
        Ok(Self { points, counted, extra, probabilities, difficulty })
    }

    /// Whether queries must come with class probabilities.
    pub(super) fn asks_probabilities(&self) -> bool {
        self.probabilities.is_some()
    }

    /// Scores of the calibration points, each among the others, before any query joins them.
    pub(super) fn scores(&self) -> &[Scores] {
        self.counted.scores()
    }

    pub(crate) fn neighbors(&self) -> &Neighbors {
        self.points.neighbors()
    }

    /// Squared distances up to which a query changes each calibration point.
    pub(super) fn reach(&self) -> Vec<f64> {
        self.points.reach()
    }

    /// Counts every label of every query.
    pub(super) fn count(
        &self,
        reference: &Reference,
        queries: &Queries<'_>,
        query_part: u64,
        context: &Context<'_>,
    ) -> LabelCounts {
        let n = self.extra.len();
        let count = queries.points.rows();
        let tile = |tile: usize| {
            let changed = &mut Changed::default();
            let mut counts = LabelCounts::new(n);
            for query in tile * TILE..((tile + 1) * TILE).min(count) {
                let newcomer = Newcomer {
                    point: queries.points.row(query),
                    key: key(reference.seed, query_part, queries.names[query]),
                    reached: queries.reached.get(query),
                };
                let changes = self.points.changes(reference, newcomer);
                changed.fill(&self.counted, &reference.labels, &self.extra, changes);
                self.count_labels(changed, reference, queries, query, &mut counts);
            }
            counts
        };
        let tiles = context.map(count.div_ceil(TILE), tile);
        LabelCounts::concat(n, &tiles)
    }

    fn counts(&self, changed: &mut Changed, candidate: &Candidate) -> Counts {
        let reached = changed.reached(&self.counted, candidate);
        let combined = match self.counted.rule {
            Some(rule) => {
                let count = changed.conform_no_better(&self.counted, rule, candidate, reached);
                self.counted.comparison.scaled(candidate.label, count)
            }
            None => 0,
        };
        Counts { rank: reached[0], contrast: reached[1], combined }
    }

    /// Where a label's changed points are; they are sorted by label.
    fn kin(changed: &Changed, labels: &[u32], label: u32) -> std::ops::Range<usize> {
        let changes = changed.changes();
        let start = changes.partition_point(|change| labels[change.id as usize] < label);
        let length = changes[start..].partition_point(|change| labels[change.id as usize] == label);
        start..start + length
    }

    /// Labels for which a query's counts can differ from those of a label that nothing speaks for: those with a score, and
    /// those of the points it changes. Ascending.
    fn listed(changed: &Changed, labels: &[u32], scored: &[u32]) -> Vec<u32> {
        let mut listed = scored.to_vec();
        listed.extend(changed.changes().iter().map(|change| labels[change.id as usize]));
        listed.sort_unstable();
        listed.dedup();
        listed
    }

    /// Counts every label of one query.
    fn count_labels(
        &self,
        changed: &mut Changed,
        reference: &Reference,
        queries: &Queries<'_>,
        query: usize,
        all: &mut LabelCounts,
    ) {
        let comparison = &self.counted.comparison;
        let row = queries.probabilities.map(|matrix| matrix.row(query)).unwrap_or_default();
        let fused = self.counted.rule == Some(Rule::Fuse);
        // A label the kernel does not know has no probability.
        let probability = |label: u32| row.get(label as usize).map_or(0.0, |&p| f64::from(p));
        let candidate = |label: u32, (rank, contrast): (f64, f64), kin: Range<usize>| {
            let fairness = comparison.fairness.as_ref();
            let factor = fairness.map_or(1.0, |fairness| fairness.joined(label, probability(label)));
            let scores = if fused {
                with_probability(rank, contrast, probability(label))
            } else {
                [rank, contrast, 0.0]
            };
            Candidate { label, factor, scores, kin }
        };
        let nothing = (f64::INFINITY, f64::INFINITY);
        let listed = Self::listed(changed, &reference.labels, queries.scores.row(query).0);
        let mut counts = Vec::with_capacity(listed.len());
        for &label in &listed {
            let kin = Self::kin(changed, &reference.labels, label);
            let candidate = candidate(label, queries.scores.get(query, label), kin);
            counts.push((label, self.counts(changed, &candidate)));
        }
        let mut count = |label: u32| self.counts(changed, &candidate(label, nothing, 0..0));
        if !fused && comparison.is_plain() {
            return all.push(counts, count(0)); // all the others are alike
        }
        // The others of a stratum differ in their probability alone. Most likely first, counts fall; but offsets are those of classes.
        let mut listed = listed.iter().peekable();
        let mut others: Vec<u32> =
            (0..reference.classes as u32).filter(|label| listed.next_if_eq(&label).is_none()).collect();
        others.sort_unstable_by(|&a, &b| {
            let strata = comparison.stratum(a).cmp(&comparison.stratum(b));
            strata.then_with(|| probability(b).total_cmp(&probability(a))).then(a.cmp(&b))
        });
        let mut rest = Counts::default();
        let alike = |a: &u32, b: &u32| {
            comparison.fairness.is_none() && comparison.stratum(*a) == comparison.stratum(*b)
        };
        for others in others.chunk_by(alike) {
            let (mut found, last) = (vec![Counts::default(); others.len()], others.len() - 1);
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

/// Fills in what lies between two places: counts fall with the probability, so what is the same at both is the same between.
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
