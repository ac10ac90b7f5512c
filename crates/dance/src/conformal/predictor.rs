//! The predictor: reference points opened on a device, and the decision rule of the method.
//!
//! For each label of a query, every method computes a count: the number of points, the query included, whose score is
//! at least the query's ([`LabelCounts`]). The module `calibrate` creates predictors.

use std::sync::Arc;

use super::full::{Bag, Queries};
use super::new_labels::NewLabels;
use super::prediction::Decision;
use super::prediction::Prediction;
use super::prediction::{PredictOptions, Scored};
use super::reference::{self, QUERY_PART, Reference};
use super::thresholds::{MixSource, Thresholds};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::machine::Classified;
use crate::method::{Method, Mix};
use crate::neighbors::{Neighbors, ReverseNeighbors};
use crate::numeric::matrix::Matrix;
use crate::posterior::{Stack, StackSettings};
use crate::scores::EmptySets;
use crate::scores::paired::PairedScores;
use crate::scores::sets::{Cut, LabelCounts, least_count};
use crate::scores::threshold::CalibrationScores;
use crate::stream::{NOVELTY_NEIGHBORS, Novelty};

/// A calibrated method: reference points with labels, and the rule that turns queries into counts and counts into sets.
#[derive(Clone, Debug)]
pub struct Predictor {
    pub(super) method: Method,
    pub(super) reference: Reference,
    pub(super) novelty: Novelty,
    /// The singletons, which are the calibration points whose label no other point has; `None` if sets cannot hold a
    /// new label.
    pub(super) new_labels: Option<NewLabels>,
    pub(super) decider: Decider,
}

/// The part of a predictor that differs between methods.
#[derive(Clone, Debug)]
pub(crate) enum Decider {
    /// The method dance: a threshold for each of two scores.
    Thresholds(Thresholds),
    /// The method fuse: the calibration points, to which every query is added.
    Bag(Box<Bag>),
    /// The method posterior: a trained stack of experts.
    Posterior(PosteriorDecider),
}

/// The experts of the method posterior, with neighbors for novelty and support.
#[derive(Clone, Debug)]
pub(crate) struct PosteriorDecider {
    pub(super) stack: Arc<Stack>,
    /// The neighbors of every calibration point; `None` in split calibration.
    pub(super) bag: Option<Neighbors>,
    /// The number of neighbors that are searched for each query, to be listed as support.
    pub(super) neighbors: usize,
}

impl PosteriorDecider {
    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }
}

/// A block of queries in the forms that methods need.
#[derive(Clone, Copy)]
pub struct QueryBlock<'a> {
    /// The queries, normalised.
    pub normalised: &'a Matrix,
    /// The queries in mapped space, that of the learned metric.
    pub mapped: &'a Matrix,
    /// Returns the kernel machine's class probabilities of the queries. The function is called only if they are needed.
    pub classify: &'a dyn Fn() -> Result<Classified>,
}

/// The neighbors of queries, and the calibration points that have a query among their own neighbors.
struct QueryNeighbors {
    neighbors: Neighbors,
    /// The calibration points whose neighbor lists each query enters; `None` if queries are not added to the
    /// calibration points.
    reached: Option<ReverseNeighbors>,
}

impl Predictor {
    /// Returns the method and its settings.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the number n of calibration points from which p-values are computed.
    pub fn calibration_points(&self) -> usize {
        match &self.decider {
            Decider::Thresholds(thresholds) => thresholds.rank.len(),
            Decider::Bag(bag) => bag.len(),
            Decider::Posterior(posterior) => posterior.stack.calibration_points(),
        }
    }

    /// Returns the number of calibration points from which novelty p-values are computed. It can be larger than
    /// [`calibration_points`](Self::calibration_points), because half of these may select the mix instead.
    pub fn novelty_points(&self) -> usize {
        self.novelty.squared().len()
    }

    /// Returns the labels of the reference points, among which neighbors are found.
    pub fn reference_labels(&self) -> &[u32] {
        &self.reference.labels
    }

    /// Returns the reference points in mapped space.
    pub fn reference_points(&self) -> &Matrix {
        self.reference.index.points()
    }

    /// Returns the rank and the contrastive scores of the calibration points' own labels; `None` for methods other than
    /// dance.
    pub fn calibration_scores(&self) -> Option<[&CalibrationScores; 2]> {
        match &self.decider {
            Decider::Thresholds(thresholds) => Some([&thresholds.rank, &thresholds.contrast]),
            Decider::Bag(_) | Decider::Posterior(_) => None,
        }
    }

    /// Returns whether there were too few points to select a mix.
    pub fn has_too_few_points_for_mix(&self) -> bool {
        matches!(&self.decider, Decider::Thresholds(Thresholds { mix: MixSource::TooFewPoints, .. }))
    }

    /// Returns the experts of the method posterior with their weights and settings, as a JSON array; `None` for other
    /// methods.
    pub fn experts(&self) -> Option<serde_json::Value> {
        self.stack_settings().map(|settings| serde_json::json!(settings.experts))
    }

    /// Returns the offset of every class, which is subtracted from scores; `None` for methods other than posterior.
    pub fn class_offsets(&self) -> Option<&[f64]> {
        self.stack_settings().map(|settings| settings.offsets.as_slice())
    }

    /// Returns the number of clusters of classes of similar difficulty; `None` for methods other than posterior.
    pub fn clusters(&self) -> Option<usize> {
        self.stack_settings().map(|settings| settings.clusters.len())
    }

    fn stack_settings(&self) -> Option<&StackSettings> {
        match &self.decider {
            Decider::Posterior(posterior) => Some(&posterior.stack.settings),
            Decider::Thresholds(_) | Decider::Bag(_) => None,
        }
    }

    pub(crate) fn decider(&self) -> &Decider {
        &self.decider
    }

    pub(crate) fn novelty(&self) -> &Novelty {
        &self.novelty
    }

    /// Returns the neighbors of every calibration point; `None` if queries are not added to the calibration points.
    pub(crate) fn bag_neighbors(&self) -> Option<&Neighbors> {
        match &self.decider {
            Decider::Thresholds(_) => None,
            Decider::Bag(bag) => Some(bag.neighbors()),
            Decider::Posterior(posterior) => posterior.bag.as_ref(),
        }
    }

    /// Finds the `k` nearest reference points of mapped queries.
    pub fn neighbors(&self, queries: &Matrix, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.reference.index.search(queries, k, context)
    }

    /// Computes all results of a block of queries that do not depend on the error level. The random numbers of a query
    /// follow from the seed and its own coordinates, so its results are the same alone and in any batch.
    pub fn score(&self, queries: QueryBlock<'_>, options: PredictOptions, context: &Context<'_>) -> Result<Scored> {
        let found = self.search(queries.mapped, options, context)?;
        // Probabilities cost a kernel product, except in the method posterior.
        let wanted = options.best || options.probabilities || options.empty == EmptySets::Top1;
        let (counts, scores, classified) = match &self.decider {
            Decider::Thresholds(thresholds) => {
                let scores = self.neighbor_scores(thresholds.scorer, queries.mapped, &found, context);
                let classified = wanted.then(|| (queries.classify)()).transpose()?;
                (thresholds.count(&scores, context), Some(scores), classified)
            }
            Decider::Bag(bag) => {
                let scores = self.neighbor_scores(bag.scorer, queries.mapped, &found, context);
                let classified = (queries.classify)()?;
                let probabilities = &classified.probabilities;
                let names = &reference::names(queries.mapped);
                let Some(reached) = &found.reached else {
                    return Err(Error::Data("the index of a bag has no reach".into()));
                };
                let joining = Queries { points: queries.mapped, names, reached, scores: &scores, probabilities };
                let counts = bag.count(&self.reference, &joining, QUERY_PART, context);
                (counts, Some(scores), Some(classified).filter(|_| wanted))
            }
            Decider::Posterior(posterior) => {
                let (counts, probabilities) = posterior.stack.answer(queries.normalised, context)?;
                (counts, None, Some(Classified::most_probable(probabilities)).filter(|_| wanted))
            }
        };
        Ok(self.scored(found, counts, scores, classified, options))
    }

    /// Finds the neighbors of mapped queries. If queries are added to the calibration points, it also finds the
    /// calibration points that have a query among their own neighbors.
    fn search(&self, mapped: &Matrix, options: PredictOptions, context: &Context<'_>) -> Result<QueryNeighbors> {
        let index = &self.reference.index;
        let k = match &self.decider {
            Decider::Thresholds(thresholds) => thresholds.scorer.neighbors(),
            Decider::Bag(bag) => bag.scorer.neighbors(),
            Decider::Posterior(posterior) if options.support > 0 => posterior.neighbors.max(NOVELTY_NEIGHBORS),
            Decider::Posterior(_) => NOVELTY_NEIGHBORS,
        };
        if self.bag_neighbors().is_none() {
            return Ok(QueryNeighbors { neighbors: index.search(mapped, k, context)?, reached: None });
        }
        let (neighbors, reached) = index.search_both_ways(mapped, k, context)?;
        Ok(QueryNeighbors { neighbors, reached: Some(reached) })
    }

    /// Computes the rank and the contrastive score of every label of every query.
    fn neighbor_scores(
        &self,
        scorer: super::neighbor_scores::NeighborScorer,
        mapped: &Matrix,
        found: &QueryNeighbors,
        context: &Context<'_>,
    ) -> PairedScores {
        let names = reference::names(mapped);
        scorer.score(&self.reference, &found.neighbors, QUERY_PART, |query| names[query], context)
    }

    /// Combines counts and scores with novelty, new labels and support.
    fn scored(
        &self,
        QueryNeighbors { neighbors, reached }: QueryNeighbors,
        counts: LabelCounts,
        scores: Option<PairedScores>,
        classified: Option<Classified>,
        options: PredictOptions,
    ) -> Scored {
        let novelty = match (&reached, self.bag_neighbors()) {
            (Some(reached), Some(bag)) => self.novelty.p_values_in_bag(&neighbors, reached, bag),
            _ => self.novelty.p_values(&neighbors),
        };
        let new_labels = self.new_labels.as_ref().zip(reached.as_ref());
        let nearest = |query| neighbors.squared(query).first().map_or(f64::INFINITY, |s| s.sqrt());
        let queries = 0..neighbors.len();
        Scored {
            nearest: queries.clone().map(nearest).collect(),
            new_label_counts: new_labels.map(|(known, reached)| known.counts(&neighbors, reached)),
            neighbors: (options.support > 0).then(|| queries.map(|query| neighbors.ids(query).to_vec()).collect()),
            counts,
            scores,
            novelty,
            classified,
            options,
        }
    }

    /// Returns the rule for prediction sets at error level `alpha`.
    pub fn decide(&self, alpha: f64) -> Result<Decision> {
        self.decide_with(alpha, Mix::Auto)
    }

    /// Returns the rule for prediction sets at error level `alpha`. In the method dance, a fixed `mix` replaces the
    /// model's mix. Other methods have no mix.
    pub fn decide_with(&self, alpha: f64, mix: Mix) -> Result<Decision> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::config("alpha", alpha, "between 0 and 1, such as 0.1"));
        }
        let calibration_points = self.calibration_points();
        let new_label_alpha = self.new_labels.as_ref().map(|new_labels| new_labels.share(alpha));
        let new_label_bound = self.new_labels.as_ref().map_or(0.0, NewLabels::largest_share);
        let (cut, shares) = match &self.decider {
            Decider::Thresholds(thresholds) => {
                let (cut, shares) = thresholds.decide(alpha, mix)?;
                (cut, Some(shares))
            }
            Decider::Bag(_) | Decider::Posterior(_) => {
                let known = alpha - new_label_alpha.unwrap_or(0.0);
                (Cut::One(least_count(known, calibration_points)), None)
            }
        };
        Ok(Decision { alpha, calibration_points, shares, new_label_alpha, new_label_bound, cut })
    }

    /// Returns the prediction sets of scored queries under a decision.
    pub fn predict(&self, scored: &Scored, decision: &Decision) -> Prediction {
        Prediction::new(scored, decision.clone(), self.reference.classes, &self.reference.labels)
    }
}
