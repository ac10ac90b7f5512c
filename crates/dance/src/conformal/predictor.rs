//! Everything a mapped query needs, opened on a device once: labelled reference points, what calibration points say, and how
//! counts become one decision.
//!
//! Three ways of calibrating ([`Calibration`]) end in the same thing: for every label of a query, how many calibration
//! points conform no better. See `calibrate` for how they come about.

use std::sync::Arc;

use super::combine::{Levels, Rule, Scores, with_probability};
use super::decision::Decision;
use super::difficulty::Difficulty;
use super::mix::{self, MixSelection, Trial};
use super::reference::{self, QUERY_PART, Reference};
use crate::conformal::full::{Bag, Queries};
use crate::conformal::new_labels::Singles;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::method::Calibration;
use crate::method::MethodName;
use crate::method::Mix;
use crate::neighbors::{Neighbors, Reached};
use crate::numeric::matrix::Matrix;
use crate::posterior::Stack;
use crate::scores::counts::{Counts, Cut, LabelCounts, least_count};
use crate::scores::paired::PairedScores;
use crate::scores::threshold::CalibrationScores;
use crate::stream::Novelty;

/// Queries of a parallel task.
const TILE: usize = 64;

/// Everything a mapped query needs: labelled reference points, what calibration points say about them, and how counts become one
/// decision. Made by [`reuse`](Self::reuse), [`disjoint`](Self::disjoint) or [`exact`](Self::exact).
#[derive(Clone, Debug)]
pub struct Predictor {
    pub(crate) reference: Reference,
    /// Rank scores of the calibration points' true labels.
    pub(crate) rank: CalibrationScores,
    /// Their contrastive scores.
    pub(crate) contrast: CalibrationScores,
    /// What selects the mix for every α by itself; `None` when it is fixed, or the same for all.
    pub(crate) selection: Option<MixSelection>,
    /// The mix asked for.
    pub(crate) mix: Mix,
    /// The mix of a joint score and the grid it was chosen from.
    pub(crate) joint: Option<(f64, Vec<Trial>)>,
    pub(crate) mode: Calibration,
    pub(crate) method: MethodName,
    pub(crate) evidence: Evidence,
    /// How far calibration points are from what is known; `None` where an older file does not say.
    pub(crate) novelty: Option<Novelty>,
    /// Where sets may hold "none of these".
    pub(crate) singles: Option<Singles>,
    /// The experts that decide, where evidence is combined.
    pub(crate) stack: Option<Arc<Stack>>,
}

/// What p-values are counted from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Evidence {
    /// The two scores by themselves.
    Separate,
    /// One score made of several: what they are counted against, and the combined scores of the calibration points.
    Combined { rule: Rule, levels: Levels, scores: CalibrationScores },
    /// The calibration points with the query among them.
    Bag(Box<Bag>),
}

/// What is known about queries before an error level is chosen.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The nearest reference points.
    pub neighbors: Neighbors,
    /// Rank and contrastive scores of every label.
    pub scores: PairedScores,
    /// How many calibration points conform no better, for every label.
    pub counts: LabelCounts,
    /// A p-value of every query for coming from where the calibration points come from; `None` where an older file does not say how
    /// far those are from what is known.
    pub novelty: Option<Vec<f64>>,
    /// How many calibration points conform no better where the label is one that nobody has; `None` where that is not asked.
    pub unseen: Option<Vec<u32>>,
}

impl Predictor {
    /// Number of calibration points behind the p-values, n.
    pub fn calibration_points(&self) -> usize {
        self.rank.len()
    }

    /// Number of calibration points behind novelty: all of them, where two halves have different work; 0 where an older file does not
    /// say how far they are from what is known.
    pub fn novelty_points(&self) -> usize {
        self.novelty.as_ref().map_or(0, |novelty| novelty.squared().len())
    }

    /// Labels of the reference points, among which neighbors are found.
    pub fn reference_labels(&self) -> &[u32] {
        &self.reference.labels
    }

    /// The reference points, mapped.
    pub fn reference_points(&self) -> &Matrix {
        self.reference.index.points()
    }

    /// Where neighbors come from.
    pub fn mode(&self) -> Calibration {
        self.mode
    }

    /// How the scores are combined.
    pub fn method(&self) -> MethodName {
        self.method
    }

    /// Whether queries must come with class probabilities.
    pub fn asks_probabilities(&self) -> bool {
        match &self.evidence {
            Evidence::Bag(bag) => bag.asks_probabilities(),
            Evidence::Separate | Evidence::Combined { .. } => self.method == MethodName::Fuse,
        }
    }

    /// How hard fit points are, where that makes a difference.
    pub fn difficulty(&self) -> Option<&Difficulty> {
        match &self.evidence {
            Evidence::Bag(bag) => bag.difficulty.as_ref(),
            Evidence::Separate | Evidence::Combined { .. } => None,
        }
    }

    /// Rank and contrastive scores of the calibration points' true labels, each sorted.
    pub fn calibration_scores(&self) -> [&CalibrationScores; 2] {
        [&self.rank, &self.contrast]
    }

    /// What selects the mix for every α by itself; `None` when it is fixed, or the same for all.
    pub fn mix_selection(&self) -> Option<&MixSelection> {
        self.selection.as_ref()
    }

    /// Whether a mix was asked for that there were too few points to select.
    pub fn lacks_mix(&self) -> bool {
        self.mix == Mix::Auto
            && match self.method {
                MethodName::Dance => self.selection.is_none(),
                MethodName::Joint => self.joint.as_ref().is_none_or(|(_, trials)| trials.is_empty()),
                MethodName::Fuse | MethodName::Posterior => false,
            }
    }

    /// The `k` nearest reference points of mapped queries.
    pub fn neighbors(&self, queries: &Matrix, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.reference.index.search(queries, k, context)
    }

    /// Neighbors, scores and counts of mapped queries. What breaks the ties of a query follows from the seed and its own numbers,
    /// so that it is answered the same alone and in any company. Fused scores need the class probabilities of the queries, and so do
    /// classes that are evened out ([`asks_probabilities`](Self::asks_probabilities)).
    pub fn answer(
        &self,
        queries: &Matrix,
        probabilities: Option<&Matrix>,
        context: &Context<'_>,
    ) -> Result<Answers> {
        if self.asks_probabilities() != probabilities.is_some() {
            return Err(Error::Data(
                "class probabilities are for fused scores and classes that are evened out, and these need them".into(),
            ));
        }
        let reference = &self.reference;
        let names = reference::names(queries);
        let (neighbors, reached, novelty) = self.search(queries, context)?;
        let unseen = self.count_unseen(&neighbors, reached.as_ref());
        let scores = reference.score(&neighbors, QUERY_PART, |query| names[query], context);
        let counts = match (&self.evidence, &reached) {
            (Evidence::Bag(bag), Some(reached)) => {
                let known =
                    Queries { points: queries, names: &names, reached, scores: &scores, probabilities };
                bag.count(reference, &known, QUERY_PART, context)
            }
            _ => self.count(&scores, probabilities, context),
        };
        Ok(Answers { neighbors, scores, counts, novelty, unseen })
    }

    /// The neighbors of every calibration point, where they are a bag.
    pub(crate) fn bag_neighbors(&self) -> Option<&Neighbors> {
        match &self.evidence {
            Evidence::Bag(bag) => Some(bag.neighbors()),
            _ => None,
        }
    }

    /// Lets sets hold "none of these": `fit` are the labels of the points that fitted the kernel.
    pub(crate) fn allow_unseen(&mut self, fit: &[u32]) {
        if let Evidence::Bag(bag) = &self.evidence {
            let labels = &self.reference.labels[..self.rank.len()];
            self.singles = Some(Singles::new(bag.neighbors(), labels, fit));
        }
    }

    fn count_unseen(&self, found: &Neighbors, reached: Option<&Reached>) -> Option<Vec<u32>> {
        Some(self.singles.as_ref()?.counts(found, reached?))
    }

    /// The neighbors of mapped queries, in a bag also whose neighbors they become, and how novel they are.
    fn search(
        &self,
        queries: &Matrix,
        context: &Context<'_>,
    ) -> Result<(Neighbors, Option<Reached>, Option<Vec<f64>>)> {
        let (index, k) = (&self.reference.index, self.reference.neighbor_count());
        let Evidence::Bag(bag) = &self.evidence else {
            let neighbors = index.search(queries, k, context)?;
            let novelty = self.novelty.as_ref().map(|novelty| novelty.p_values(&neighbors));
            return Ok((neighbors, None, novelty));
        };
        let (neighbors, reached) = index.search_both_ways(queries, k, context)?;
        let p_values = |novelty: &Novelty| novelty.p_values_in_bag(&neighbors, &reached, bag.neighbors());
        let novelty = self.novelty.as_ref().map(p_values);
        Ok((neighbors, Some(reached), novelty))
    }

    /// The same where evidence is combined: of queries that are mapped, and of the same queries as they were before. Comes with
    /// their class probabilities.
    pub(crate) fn answer_stacked(
        &self,
        stack: &Stack,
        [mapped, points]: [&Matrix; 2],
        context: &Context<'_>,
    ) -> Result<(Answers, Matrix)> {
        let reference = &self.reference;
        let (neighbors, reached, novelty) = self.search(mapped, context)?;
        let unseen = self.count_unseen(&neighbors, reached.as_ref());
        let names = reference::names(mapped);
        let scores = reference.score(&neighbors, QUERY_PART, |query| names[query], context);
        let (combined, probabilities) = stack.answer(points, context)?;
        // What each of the two scores says by itself is told too, among the calibration points without the query.
        let counts = self.count(&scores, None, context).with_combined(&combined, reference.classes);
        Ok((Answers { neighbors, scores, counts, novelty, unseen }, probabilities))
    }

    /// Counts from the scores alone: everywhere but in a bag.
    fn count(
        &self,
        scores: &PairedScores,
        probabilities: Option<&Matrix>,
        context: &Context<'_>,
    ) -> LabelCounts {
        let counts = |scores: Scores| Counts {
            rank: 1 + self.rank.at_least(scores[0]),
            contrast: 1 + self.contrast.at_least(scores[1]),
            combined: match &self.evidence {
                Evidence::Combined { rule, levels, scores: own } => {
                    1 + own.at_least(rule.score(levels.count(scores)))
                }
                _ => 0,
            },
        };
        let rest = counts([f64::INFINITY, f64::INFINITY, 1.0]);
        let (count, classes) = (scores.len(), self.reference.classes as u32);
        let tile = |tile: usize| {
            let mut all = LabelCounts::new(self.calibration_points());
            for query in tile * TILE..((tile + 1) * TILE).min(count) {
                let (labels, ranks, contrasts) = scores.row(query);
                let Some(probabilities) = probabilities else {
                    let each = labels.iter().zip(ranks.iter().zip(contrasts));
                    all.push(each.map(|(&label, (&r, &c))| (label, counts([r, c, 0.0]))), rest);
                    continue;
                };
                let row = probabilities.row(query);
                let every = (0..classes).map(|label| {
                    let (rank, contrast) = scores.get(query, label);
                    let probability = row.get(label as usize).map_or(0.0, |&p| f64::from(p));
                    (label, counts(with_probability(rank, contrast, probability)))
                });
                all.push(every, rest);
            }
            all
        };
        let tiles = context.map(count.div_ceil(TILE), tile);
        LabelCounts::concat(self.calibration_points(), &tiles)
    }

    /// How sets are made at `alpha`, the mix selected for it where that was asked for.
    pub fn decide(&self, alpha: f64) -> Result<Decision> {
        self.decide_with(alpha, self.mix)
    }

    /// The same under another mix than the one asked for, for two scores that are not combined. Auto without points to
    /// select it on is 0.
    pub fn decide_with(&self, alpha: f64, mix: Mix) -> Result<Decision> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::config("alpha", alpha, "between 0 and 1, such as 0.1"));
        }
        let calibration_points = self.calibration_points();
        let unseen_alpha = self.singles.as_ref().map(|singles| singles.share(alpha));
        let whole = alpha;
        let alpha = alpha - unseen_alpha.unwrap_or(0.0);
        let mut decision = Decision {
            alpha: whole,
            unseen_alpha,
            mix: None,
            thresholds: None,
            trials: Vec::new(),
            calibration_points,
            cut: Cut::One(least_count(alpha, calibration_points)),
        };
        match self.method {
            MethodName::Fuse | MethodName::Posterior => {}
            MethodName::Joint => {
                let (mix, trials) = self.joint.clone().unwrap_or_default();
                (decision.mix, decision.trials) = (Some(mix), trials);
            }
            MethodName::Dance => {
                mix.check()?;
                let (mix, trials) = match (mix, &self.selection) {
                    (Mix::Fixed(mix), _) => (mix, Vec::new()),
                    (Mix::Auto, Some(selection)) => selection.select(alpha)?,
                    (Mix::Auto, None) => (0.0, Vec::new()),
                };
                let (rank, contrast) = mix::share(alpha, mix);
                decision.thresholds = Some([self.rank.threshold(rank)?, self.contrast.threshold(contrast)?]);
                let least = |alpha| least_count(alpha, calibration_points);
                decision.cut = Cut::Both { rank: least(rank), contrast: least(contrast) };
                (decision.mix, decision.trials) = (Some(mix), trials);
            }
        }
        Ok(decision)
    }
}
