//! The **posterior** method: a stack of experts predicts the probability of every label.
//!
//! Every expert j returns an unnormalised log posterior `e_j(y)` of each label y in closed form: prototypes and nearest
//! neighbors (`expert`), and kernel ridge regression in three spaces (`ridge`). The stack adds them with weights `w_j`,
//! `p(y) ∝ exp Σ_j w_j e_j(y)`. The score of a label is `-ln p(y)`, less an offset of its class. The spaces, kernels,
//! weights and offsets are learned from the fit points (`learn`).
//!
//! In full calibration the experts are trained on the fit points *and* the bag: the calibration points and the query,
//! which is added with a candidate label. Each point of the bag is scored by the fit points and all other points of the
//! bag. The p-value of the label is the share of scores that are at least the query's. It is a symmetric function of
//! the bag. So the set C at error level α holds the true label y with `P(y ∈ C) ≥ 1-α` for exchangeable points
//! (`docs/method.md`). Nothing is refitted: leaving one point out and adding one are rank-one changes (`count`). In
//! split calibration the experts are trained on the fit points alone.
//!
//! In names, `bag` means the calibration points without the query.
//!
//! The CPU computes all posteriors in f64, so prediction sets do not depend on the device.

mod bounds;
mod count;
mod expert;
mod learn;
mod maps;
mod ridge;
mod settings;
mod weights;
mod whitening;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::brute_force::solve;

pub(crate) use learn::{LearnInputs, learn};
pub(crate) use maps::log_sum;
pub(crate) use weights::ConditionalLogit;
pub(crate) use whitening::leave_one_out;

pub(crate) use settings::{ExpertSettings, StackSettings, check_memory};

use crate::context::Context;
use crate::error::Result;
use crate::machine::Part;
use crate::method::{ByClass, PosteriorCalibration};
use crate::numeric::matrix::Matrix;
use crate::scores::calibration::{Offsets, Strata};
use crate::scores::sets::{Counts, LabelCounts};
use bounds::Bounds;
use count::{BagView, Counter, Query, less_offset, scores, threshold_of};
use expert::{Expert, Predictions, TrainingSet};
use maps::{Center, Link, MappedPoints, Spaces, score};
use settings::{Size, check_stack_memory};

/// The number of queries that are processed together. It limits memory, because tables of distances have one row per
/// query and one column per point.
const BLOCK: usize = 96;

/// A trained stack: experts with weights. Its log posterior of a label is the sum of the experts' log posteriors, each
/// multiplied by the expert's weight.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) settings: StackSettings,
    experts: Vec<(f64, Box<dyn Expert>)>,
    spaces: Spaces,
    /// The stack's log posteriors of the calibration points, predicted for each point by all training points but
    /// itself. Empty in split calibration.
    log_posterior: Matrix<f64>,
    /// Labels of the calibration points; empty in split calibration.
    labels: Vec<u32>,
    pub(crate) summary: CalibrationSummary,
    /// Bounds on the scores that the calibration points have after a query is added; `None` in split calibration.
    bounds: Option<Bounds>,
    /// Groups of labels (strata): a point is compared only with points whose labels are in the same group. `None`
    /// stands for a single group.
    strata: Option<Strata>,
    /// The offset of every class, before a query is added. Offsets are subtracted from scores.
    offsets: Vec<f64>,
    /// The class offsets that balance coverage, and the stack that gives them. That stack is trained on the fit points
    /// alone and scores the calibration points. `None` if classes are not balanced.
    balance: Option<(Offsets, Box<Self>)>,
    classes: usize,
}

/// The scores of the calibration points before a query is added, and the scale of the reported probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CalibrationSummary {
    /// The scores of the calibration points, each for the point's own label, in ascending order.
    pub(crate) scores: Vec<f64>,
    /// The number by which log posteriors are multiplied before probabilities are reported (an inverse temperature). It
    /// is fitted by maximum likelihood. Prediction sets do not depend on it.
    pub(crate) sharpness: f64,
}

impl CalibrationSummary {
    fn new(log_posterior: &Matrix<f64>, calibration: &Part, settings: &StackSettings, context: &Context<'_>) -> Self {
        let labels = &calibration.labels;
        let of = |(row, &label): (usize, &u32)| {
            score(&mut log_posterior.row(row).to_vec(), label as usize) - settings.offset(label as usize)
        };
        let mut scores: Vec<f64> = labels.iter().enumerate().map(of).collect();
        scores.sort_unstable_by(f64::total_cmp);
        let fitted = ConditionalLogit { tables: vec![log_posterior], labels, context }.fit(&[0]);
        Self { scores, sharpness: fitted.weights[0].max(1e-3) }
    }
}

impl Stack {
    /// Trains the experts on normalised points: on the fit points and, in full calibration, also on the calibration
    /// points. `root` is the matrix that maps points to the space of the learned metric. A given `summary` is stored;
    /// otherwise it is computed.
    pub(crate) fn open(
        settings: StackSettings,
        [fit, calibration]: [&Part; 2],
        root: &Matrix,
        classes: usize,
        calibrates: PosteriorCalibration,
        summary: Option<CalibrationSummary>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let trains_on_bag = calibrates != PosteriorCalibration::Split;
        let bag = if trains_on_bag { calibration.labels.len() } else { 0 };
        check_stack_memory(&settings, Size { fit: fit.labels.len(), bag, dimensions: root.rows(), classes })?;
        // Map all points to the spaces of the experts.
        let center = Center::new(settings.centred, &fit.embeddings);
        let spaces = Spaces::new(center, settings.whitening.as_ref(), root, context);
        let of = |part: &Part| spaces.map(&part.embeddings, context);
        let held_out = of(calibration);
        let (mut points, mut labels) = (of(fit), fit.labels.clone());
        if trains_on_bag {
            points = points.concat(&held_out);
            labels.extend_from_slice(&calibration.labels);
        }
        // Train every expert.
        let training = TrainingSet { points: &points, labels: &labels, fit: fit.labels.len(), classes };
        let mut experts = Vec::with_capacity(settings.experts.len());
        for expert in &settings.experts {
            context.check()?;
            experts.push((expert.weight(), learn::open(expert, &training, (settings.whole, settings.seed), context)?));
        }
        let offsets = (0..classes).map(|class| settings.offset(class)).collect();
        let mut stack = Self {
            spaces,
            settings,
            experts,
            log_posterior: Matrix::<f64>::default(),
            labels: training.bag_labels().to_vec(),
            summary: CalibrationSummary::default(),
            bounds: None,
            strata: None,
            offsets,
            balance: None,
            classes,
        };
        // Score the calibration points. If the experts were trained on them, each one is scored by all other points.
        let log_posterior =
            if trains_on_bag { stack.bag_log_posteriors() } else { stack.query_log_posteriors(&held_out, context) };
        stack.summary =
            summary.unwrap_or_else(|| CalibrationSummary::new(&log_posterior, calibration, &stack.settings, context));
        if trains_on_bag {
            stack.log_posterior = log_posterior;
        }
        // Only full calibration adds queries to the calibration points, and so needs balanced offsets, bounds and
        // strata.
        let PosteriorCalibration::Full { by_class, .. } = calibrates else { return Ok(stack) };
        if by_class == ByClass::Balanced {
            let fit_only = stack.on_fit_points(fit, root, context)?;
            let offsets = stack.balanced_offsets(&fit_only, &held_out, &calibration.labels, context);
            stack.offsets = (0..classes).map(|class| offsets.of(class)).collect();
            stack.balance = Some((offsets, Box::new(fit_only)));
        }
        stack.bounds = Some(Bounds::new(&stack.bag_view(), &stack.outputs(), &stack.offsets, context));
        stack.strata = Strata::new(by_class, &stack.settings.clusters, classes, &stack.labels);
        Ok(stack)
    }

    /// Returns a stack with the settings of this stack, trained on the fit points alone.
    fn on_fit_points(&self, fit: &Part, root: &Matrix, context: &Context<'_>) -> Result<Self> {
        let none = Part { embeddings: Matrix::with_columns(root.rows()), labels: Vec::new() };
        let (settings, split) = (self.settings.clone(), PosteriorCalibration::Split);
        Self::open(settings, [fit, &none], root, self.classes, split, None, context)
    }

    /// Returns the class offsets that balance coverage. `fit_only` is a stack trained on the fit points alone. Its
    /// scores of the calibration points `bag`, which carry `labels`, give the offsets.
    fn balanced_offsets(&self, fit_only: &Self, bag: &MappedPoints, labels: &[u32], context: &Context<'_>) -> Offsets {
        let mut log_posterior = fit_only.query_log_posteriors(bag, context);
        let each = labels.iter().enumerate();
        let scores: Vec<f64> = each.map(|(row, &label)| score(log_posterior.row_mut(row), label as usize)).collect();
        Offsets::new(&scores, labels, self.classes, self.settings.log_loss)
    }

    /// Returns the [stack](Stack)'s log posteriors of the calibration points, predicted for each point by all training
    /// points but itself.
    fn bag_log_posteriors(&self) -> Matrix<f64> {
        let mut all = Matrix::<f64>::zeros(self.labels.len(), self.classes);
        for (weight, expert) in &self.experts {
            add(&mut all, *weight, expert.bag());
        }
        all
    }

    /// Returns the [stack](Stack)'s log posteriors of a block of points on which the experts were not trained.
    fn query_log_posteriors(&self, block: &MappedPoints, context: &Context<'_>) -> Matrix<f64> {
        let mut all = Matrix::<f64>::zeros(block.raw.rows(), self.classes);
        for (weight, expert) in &self.experts {
            let predictions = expert.predict(block, context);
            for row in 0..all.rows() {
                for (sum, &value) in all.row_mut(row).iter_mut().zip(predictions.log_posterior(row)) {
                    *sum += weight * value;
                }
            }
        }
        all
    }

    /// Returns the count and the probability of every label for each normalised query. A count is 1 + the number of
    /// calibration points whose score is at least that of the query with this label.
    pub(super) fn answer(&self, queries: &Matrix, context: &Context<'_>) -> Result<(LabelCounts, Matrix)> {
        let mut counts = LabelCounts::new(self.summary.scores.len());
        let mut probabilities = Matrix::with_columns(self.classes);
        for first in (0..queries.rows()).step_by(BLOCK) {
            let rows: Vec<usize> = (first..queries.rows().min(first + BLOCK)).collect();
            let block = self.spaces.map(&queries.select(&rows), context);
            // Score the queries before they are added to the calibration points.
            let predictions: Vec<(f64, Box<dyn Predictions + '_>)> =
                self.experts.iter().map(|(weight, expert)| (*weight, expert.predict(&block, context))).collect();
            let scored = context.map(rows.len(), |query| self.posterior(&predictions, query));
            let (mut queries, posteriors): (Vec<_>, Vec<_>) = scored.into_iter().unzip();
            // An added query changes the balanced offset of its class.
            if let Some((offsets, fit_only)) = &self.balance {
                let mut log_posterior = fit_only.query_log_posteriors(&block, context);
                for (row, query) in queries.iter_mut().enumerate() {
                    let each = scores(log_posterior.row_mut(row)).into_iter().enumerate();
                    query.offsets = each.map(|(label, score)| offsets.joined(label, score)).collect();
                }
            }
            let counted = match &self.bounds {
                Some(bounds) => Counter {
                    bag: self.bag_view(),
                    experts: &predictions,
                    strata: self.strata.as_ref(),
                    bounds,
                    outputs: self.outputs(),
                }
                .count(&queries, context)?,
                None => queries.iter().map(|query| self.count_unjoined(query)).collect(),
            };
            for (count, probability) in counted.into_iter().zip(posteriors) {
                let least = count.iter().copied().min().unwrap_or(1);
                let each = (0..).zip(count.into_iter().map(Counts::One));
                counts.push(each, Counts::One(least));
                probabilities.append(&Matrix::new(probability, 1, self.classes)?)?;
            }
        }
        Ok((counts, probabilities))
    }

    /// Returns the scores and the probabilities of all labels for one query. `predictions` holds the weight of every
    /// expert and its predictions for a block. `query` is the index of the query in the block.
    fn posterior(&self, predictions: &[(f64, Box<dyn Predictions + '_>)], query: usize) -> (Query, Vec<f32>) {
        let mut row = vec![0.0; self.classes];
        for (weight, expert) in predictions {
            for (sum, &value) in row.iter_mut().zip(expert.log_posterior(query)) {
                *sum += weight * value;
            }
        }
        let query = Query { scores: scores(&mut row), offsets: self.offsets.clone() };
        for value in &mut row {
            *value *= self.summary.sharpness;
        }
        let total = log_sum(&row);
        (query, row.iter().map(|value| (value - total).exp() as f32).collect())
    }

    /// Returns the number of calibration points.
    pub(crate) fn calibration_points(&self) -> usize {
        self.summary.scores.len()
    }

    /// Returns the count of every label of a query in split calibration. There, the query is not added to the
    /// calibration points.
    fn count_unjoined(&self, query: &Query) -> Vec<u32> {
        let own = &self.summary.scores;
        let count = |(&score, &off): (&f64, &f64)| {
            let least = less_offset(threshold_of(score), off);
            (1 + own.len() - own.partition_point(|&other| other < least)) as u32
        };
        query.scores.iter().zip(&query.offsets).map(count).collect()
    }

    fn bag_view(&self) -> BagView<'_> {
        BagView { log_posterior: &self.log_posterior, labels: &self.labels }
    }

    /// Returns the regression [outputs](Expert::outputs) of every expert for the calibration points; `None` for experts
    /// without a regression.
    fn outputs(&self) -> Vec<Option<(&Matrix<f64>, Link)>> {
        self.experts.iter().map(|(_, expert)| expert.outputs()).collect()
    }
}

fn add(sum: &mut Matrix<f64>, weight: f64, table: &Matrix<f64>) {
    for (sum, &value) in sum.as_mut_slice().iter_mut().zip(table.as_slice()) {
        *sum += weight * value;
    }
}
