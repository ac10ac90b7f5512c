//! The predictor: reference points opened on a device, and the decision rule of the method.
//!
//! For each label of a query, every method computes a count: the number of points, the query included, whose score is
//! at least the query's ([`LabelCounts`]). The module `calibrate` creates predictors.

use std::sync::Arc;

use super::calibrate::{QUERY_PART, Reference};
use super::full::{Bag, Queries};
use super::new_labels::NewLabels;
use super::prediction::{Decision, PredictOptions, Prediction, Scored};
use super::thresholds::{NeighborScorer, Thresholds, TwoThresholds};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::machine::Classified;
use crate::method::{Method, Mix};
use crate::neighbors::{Neighbors, ReverseNeighbors};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;
use crate::posterior::{Stack, StackSettings};
use crate::scores::EmptySets;
use crate::scores::calibration::{NOVELTY_NEIGHBORS, Novelty};
use crate::scores::paired::PairedScores;
use crate::scores::sets::{Cut, LabelCounts, least_count};

/// A calibrated method: reference points with labels, and the rules that turn queries into counts and counts into sets.
#[derive(Clone, Debug)]
pub(crate) struct Predictor {
    pub(super) method: Method,
    pub(super) reference: Reference,
    pub(super) novelty: Novelty,
    /// The test for new labels; `None` if sets cannot hold a new label.
    pub(super) new_labels: Option<NewLabels>,
    pub(super) decider: Decider,
}

/// The part of a predictor that differs between methods.
#[derive(Clone, Debug)]
pub(crate) enum Decider {
    /// The method dance: a threshold for each of two scores.
    Thresholds(Thresholds),
    /// The method [`fuse`](crate::method::MethodName::Fuse): the calibration points, prepared so that a query can be
    /// added to them.
    Bag(Box<Bag>),
    /// The method posterior: a trained stack of experts.
    Posterior(PosteriorDecider),
}

/// The experts of the method posterior, and neighbors. The neighbors serve the novelty test and the list of support;
/// the experts do not use them.
#[derive(Clone, Debug)]
pub(crate) struct PosteriorDecider {
    pub(super) stack: Arc<Stack>,
    /// The neighbors of every calibration point; `None` in split calibration.
    pub(super) bag: Option<Neighbors>,
    /// The number of neighbors that are found for each query, to be listed in support of labels.
    pub(super) neighbors: usize,
}

impl PosteriorDecider {
    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }
}

/// A block of queries in the forms that the methods read.
#[derive(Clone, Copy)]
pub(crate) struct QueryBlock<'a> {
    /// The queries, normalised.
    pub(crate) normalised: &'a Matrix,
    /// The queries, normalised and mapped to the space of the learned metric.
    pub(crate) mapped: &'a Matrix,
    /// Returns the class probabilities of the queries by the kernel machine. It is called only if they are needed.
    pub(crate) classify: &'a dyn Fn() -> Result<Classified>,
}

/// The neighbors of queries in both directions: reference points near a query, and calibration points that have a query
/// among their neighbors.
struct QueryNeighbors {
    neighbors: Neighbors,
    /// For each query, the calibration points whose lists of neighbors the query enters; `None` except in full
    /// calibration.
    reached: Option<ReverseNeighbors>,
}

impl Predictor {
    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the number n of calibration points from which p-values are computed.
    pub(crate) fn calibration_points(&self) -> usize {
        match &self.decider {
            Decider::Thresholds(thresholds) => thresholds.rank.len(),
            Decider::Bag(bag) => bag.len(),
            Decider::Posterior(posterior) => posterior.stack.calibration_points(),
        }
    }

    /// Returns the number of calibration points behind novelty p-values. It exceeds
    /// [`calibration_points`](Self::calibration_points) if a half of the calibration points selects the mix.
    pub(crate) fn novelty_points(&self) -> usize {
        self.novelty.squared().len()
    }

    /// Returns the labels of the reference points.
    pub(crate) fn reference_labels(&self) -> &[u32] {
        &self.reference.labels
    }

    /// Returns the reference points, in the space of the learned metric.
    pub(crate) fn reference_points(&self) -> &Matrix {
        self.reference.index.points()
    }

    /// Returns the settings of the experts; `None` for methods other than posterior.
    pub(crate) fn stack_settings(&self) -> Option<&StackSettings> {
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

    /// Finds the `k` reference points nearest to each query. The queries are in the space of the learned metric.
    pub(crate) fn neighbors(&self, queries: &Matrix, k: usize, context: &Context<'_>) -> Result<Neighbors> {
        self.reference.index.search(queries, k, context)
    }

    /// Computes those results of a block of queries that hold for every error level. The seed and the coordinates of a
    /// query determine its random numbers, so its results are the same in every block.
    pub(crate) fn score(
        &self,
        queries: QueryBlock<'_>,
        options: PredictOptions,
        context: &Context<'_>,
    ) -> Result<Scored> {
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
                let names = &names(queries.mapped);
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

    /// Finds the neighbors of queries in the space of the learned metric. In full calibration, also finds the
    /// calibration points whose lists of neighbors a query enters.
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

    /// Computes the rank score and the contrastive score of every label of every query from the neighbors in `found`.
    fn neighbor_scores(
        &self,
        scorer: NeighborScorer,
        mapped: &Matrix,
        found: &QueryNeighbors,
        context: &Context<'_>,
    ) -> PairedScores {
        let hashes = names(mapped);
        scorer.score(&self.reference, &found.neighbors, QUERY_PART, |query| hashes[query], context)
    }

    /// Assembles the results of queries. Adds novelty p-values, the counts of "a new label" and the lists of neighbors
    /// to `counts` and `scores`.
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

    /// Returns the rule for prediction sets at error level `alpha`. In the method dance, `fixed` replaces the model's
    /// mix if it is [`Mix::Fixed`]. Returns an error unless `alpha` is between 0 and 1.
    pub(crate) fn decide(&self, alpha: f64, fixed: Mix) -> Result<Decision> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::config("alpha", alpha, "between 0 and 1, such as 0.1"));
        }
        let calibration_points = self.calibration_points();
        let new_label_alpha = self.new_labels.as_ref().map(|new_labels| new_labels.share(alpha));
        let new_label_bound = self.new_labels.as_ref().map_or(0.0, NewLabels::largest_share);
        let known = alpha - new_label_alpha.unwrap_or(0.0);
        let cut = Cut::One(least_count(known, calibration_points));
        let (mix, thresholds, trials) = (None, None, Vec::new());
        let one =
            Decision { alpha, calibration_points, mix, thresholds, trials, new_label_alpha, new_label_bound, cut };
        let Decider::Thresholds(thresholds) = &self.decider else { return Ok(one) };
        let TwoThresholds { cut, mix, thresholds, trials } = thresholds.decide(alpha, fixed)?;
        Ok(Decision { mix: Some(mix), thresholds: Some(thresholds), trials, cut, ..one })
    }

    /// Returns the prediction sets of scored queries under the rule in `decision`.
    pub(crate) fn predict(&self, scored: &Scored, decision: &Decision) -> Prediction {
        Prediction::new(scored, decision.clone(), self.reference.classes, &self.reference.labels)
    }
}

/// Returns a 64-bit hash of every query's coordinates. It determines the random numbers of the query, which are
/// therefore the same in every block.
pub(super) fn names(queries: &Matrix) -> Vec<u64> {
    let pair =
        |pair: &[f32]| u64::from(pair[0].to_bits()) | u64::from(pair.get(1).map_or(0, |value| value.to_bits())) << 32;
    (0..queries.rows()).map(|row| random::bits_of(queries.row(row).chunks(2).map(pair))).collect()
}
