//! **Evidence**: a posterior that learns from every label, in exact form.
//!
//! Experts in closed form judge every point by all others: [`prototypes`], [`ridge`] in three spaces, [`nearest`]. A stack adds up what
//! they say, `p(y) ∝ exp Σ_j w_j e_j(y)`; the score of a label is `-ln p(y)`, less an offset of its class. Spaces, kernels, weights and
//! offsets are fixed by the fit part ([`mod@learn`]); fit points *and* calibration points speak.
//!
//! In exact mode the query with a candidate label joins the calibration points, every point of this bag is judged by the fit points
//! and all others of the bag, and the p-value is the share of scores that are at least the query's: one symmetric function of the
//! bag, so `P(y ∈ C) ≥ 1-α` for exchangeable points (`docs/method.md`). Nothing is refitted: leaving one out and adding one are
//! rank-one changes ([`count`]). In reuse mode the query does not join; in disjoint mode calibration points do not speak at all.
//!
//! Everything is computed on the host in f64: sets do not depend on the device.

mod bounds;
mod class_offsets;
mod count;
mod expert;
mod learn;

mod link;
mod memory;
mod nearest;
mod prototypes;
mod ridge;
mod rounding;
mod settings;
mod shrinkage;
mod spaces;
mod weights;
mod whitening;
mod wide;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::brute_force::solve;

pub(crate) use learn::{Lesson, learn};
pub(crate) use memory::check_memory;
pub(crate) use weights::{Evidences, log_sum};
pub(crate) use whitening::leave_one_out;
pub(crate) use wide::Wide;

pub use settings::{ExpertSettings, Space, StackSettings};

use crate::context::Context;
use crate::error::Result;
use crate::machine::Part;
use crate::method::{ByClass, PosteriorCalibration};
use crate::numeric::matrix::Matrix;
use crate::scores::by_class::{Offsets, Strata};
use crate::scores::counts::{Counts, LabelCounts};
use bounds::Bounds;
use count::{Bagged, Counting, Joining, Query, reaching, reaching_less, score, scores};
use expert::{Asked, Block, Expert, Support};
use link::Told;
use memory::Size;
use spaces::{Middle, Spaces};

/// Queries that are looked at together: what experts say of them is queries × points.
const BLOCK: usize = 96;

/// Experts opened on labelled points, with what they say of the calibration points.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) settings: StackSettings,
    experts: Vec<(f64, Box<dyn Expert>)>,
    spaces: Spaces,
    /// Evidence of the calibration points that speak, weighted.
    evidence: Wide,
    /// Their labels.
    labels: Vec<u32>,
    pub(crate) known: Known,
    /// What settles most pairs of a point and a label, where queries join the bag.
    bounds: Option<Bounds>,
    /// Who is compared with whom, where not all are.
    strata: Option<Strata>,
    /// What is taken off the score of every class, before any query joins.
    offsets: Vec<f64>,
    /// Where the bag decides that: what of, and the same experts on the fit points alone, which judge it.
    fairness: Option<(Offsets, Box<Self>)>,
    classes: usize,
}

/// What calibration points say before any query joins them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known {
    /// Scores of their labels, ascending.
    pub(crate) scores: Vec<f64>,
    /// What evidence is multiplied with for the probabilities that are told: what fits their labels best. No set depends on it.
    pub(crate) sharpness: f64,
}

impl Known {
    fn of(evidence: &Wide, calibration: &Part, settings: &StackSettings, context: &Context<'_>) -> Self {
        let labels = &calibration.labels;
        let of = |(row, &label): (usize, &u32)| {
            score(&mut evidence.row(row).to_vec(), label as usize) - settings.offset(label as usize)
        };
        let mut scores: Vec<f64> = labels.iter().enumerate().map(of).collect();
        scores.sort_unstable_by(f64::total_cmp);
        let told = Evidences { tables: vec![evidence], labels, context }.fit(&[0]);
        Self { scores, sharpness: told.weights[0].max(1e-3) }
    }
}

impl Stack {
    /// `fit` and `calibration` are normalised points; `root` maps them by the learned metric.
    pub(crate) fn open(
        settings: StackSettings,
        [fit, calibration]: [&Part; 2],
        root: &Matrix,
        classes: usize,
        calibrates: PosteriorCalibration,
        known: Option<Known>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let speaks = calibrates != PosteriorCalibration::Split;
        let bag = if speaks { calibration.labels.len() } else { 0 };
        memory::check(&settings, Size { fit: fit.labels.len(), bag, dimensions: root.rows(), classes })?;
        let middle = Middle::new(settings.centred, &fit.embeddings);
        let spaces = Spaces::new(middle, settings.whitening.as_ref(), root, context);
        let of = |part: &Part| spaces.block(&part.embeddings, context);
        let judged = of(calibration);
        let (mut points, mut labels) = (of(fit), fit.labels.clone());
        if speaks {
            points = points.above(&judged);
            labels.extend_from_slice(&calibration.labels);
        }
        let support = Support { points: &points, labels: &labels, fit: fit.labels.len(), classes };
        let mut experts = Vec::with_capacity(settings.experts.len());
        for expert in &settings.experts {
            context.check()?;
            experts.push((
                expert.weight(),
                learn::open(expert, &support, (settings.whole, settings.seed), context)?,
            ));
        }
        let offsets = (0..classes).map(|class| settings.offset(class)).collect();
        let mut stack = Self {
            spaces,
            settings,
            experts,
            evidence: Wide::default(),
            labels: support.bag_labels().to_vec(),
            known: Known::default(),
            bounds: None,
            strata: None,
            offsets,
            fairness: None,
            classes,
        };
        let evidence = if speaks { stack.of_bag() } else { stack.of_queries(&judged, context) };
        stack.known = known.unwrap_or_else(|| Known::of(&evidence, calibration, &stack.settings, context));
        if speaks {
            stack.evidence = evidence;
        }
        let PosteriorCalibration::Full { by_class, .. } = calibrates else { return Ok(stack) };
        if by_class == ByClass::Balanced {
            let settings = stack.settings.clone();
            let none = Part { embeddings: Matrix::with_columns(root.rows()), labels: Vec::new() };
            let apart = Self::open(
                settings,
                [fit, &none],
                root,
                classes,
                PosteriorCalibration::Split,
                None,
                context,
            )?;
            let mut evidence = apart.of_queries(&judged, context);
            let each = calibration.labels.iter().enumerate();
            let scores: Vec<f64> =
                each.map(|(row, &label)| score(evidence.row_mut(row), label as usize)).collect();
            let average = stack.settings.log_loss;
            let offsets = Offsets::new(&scores, &calibration.labels, classes, average);
            stack.offsets = (0..classes).map(|class| offsets.of(class)).collect();
            stack.fairness = Some((offsets, Box::new(apart)));
        }
        stack.bounds = Some(Bounds::new(&stack.bagged(), &stack.outputs(), &stack.offsets, context));
        stack.strata = Strata::new(by_class, &stack.settings.clusters, classes, &stack.labels);
        Ok(stack)
    }

    /// Evidence of the bag, each point by all others.
    fn of_bag(&self) -> Wide {
        let mut all = Wide::zeros(self.labels.len(), self.classes);
        for (weight, expert) in &self.experts {
            add(&mut all, *weight, expert.bag());
        }
        all
    }

    /// Evidence of points that do not speak.
    fn of_queries(&self, block: &Block, context: &Context<'_>) -> Wide {
        let mut all = Wide::zeros(block.raw.rows(), self.classes);
        for (weight, expert) in &self.experts {
            let asked = expert.ask(block, context);
            for row in 0..all.rows() {
                for (sum, &value) in all.row_mut(row).iter_mut().zip(asked.evidence(row)) {
                    *sum += weight * value;
                }
            }
        }
        all
    }

    /// Counts and probabilities of normalised queries.
    pub(super) fn answer(&self, queries: &Matrix, context: &Context<'_>) -> Result<(LabelCounts, Matrix)> {
        let mut counts = LabelCounts::new(self.known.scores.len());
        let mut probabilities = Matrix::with_columns(self.classes);
        for first in (0..queries.rows()).step_by(BLOCK) {
            let rows: Vec<usize> = (first..queries.rows().min(first + BLOCK)).collect();
            let normalised = queries.select(&rows);
            let block = self.spaces.block(&normalised, context);
            let asked: Vec<(f64, Box<dyn Asked + '_>)> =
                self.experts.iter().map(|(weight, expert)| (*weight, expert.ask(&block, context))).collect();
            let found = context.map(rows.len(), |query| self.posterior(&asked, query));
            let (mut queries, told): (Vec<_>, Vec<_>) = found.into_iter().unzip();
            if let Some((offsets, apart)) = &self.fairness {
                let mut evidence = apart.of_queries(&block, context);
                for (row, query) in queries.iter_mut().enumerate() {
                    let apart = scores(evidence.row_mut(row)).into_iter().enumerate();
                    query.offsets = apart.map(|(label, score)| offsets.joined(label, score)).collect();
                }
            }
            let joining = Joining { bag: self.bagged(), experts: &asked, strata: self.strata.as_ref() };
            let found = match &self.bounds {
                Some(bounds) => {
                    Counting { joining, bounds, outputs: self.outputs() }.count(&queries, context)?
                }
                None => queries.iter().map(|query| self.count_apart(query)).collect(),
            };
            for (count, probability) in found.into_iter().zip(told) {
                let least = count.iter().copied().min().unwrap_or(1);
                let each = (0..).zip(count.into_iter().map(Counts::One));
                counts.push(each, Counts::One(least));
                probabilities.append(&Matrix::new(probability, 1, self.classes)?)?;
            }
        }
        Ok((counts, probabilities))
    }

    /// A query's score of every label, and its probabilities.
    fn posterior(&self, asked: &[(f64, Box<dyn Asked + '_>)], query: usize) -> (Query, Vec<f32>) {
        let mut row = vec![0.0; self.classes];
        for (weight, expert) in asked {
            for (sum, &value) in row.iter_mut().zip(expert.evidence(query)) {
                *sum += weight * value;
            }
        }
        let query = Query { scores: scores(&mut row), offsets: self.offsets.clone() };
        for value in &mut row {
            *value *= self.known.sharpness;
        }
        let total = log_sum(&row);
        (query, row.iter().map(|value| (value - total).exp() as f32).collect())
    }

    /// Returns the number of calibration points.
    pub(crate) fn calibration_points(&self) -> usize {
        self.known.scores.len()
    }

    /// Counts of a query that does not join the bag.
    fn count_apart(&self, query: &Query) -> Vec<u32> {
        let own = &self.known.scores;
        let count = |(&score, &off): (&f64, &f64)| {
            let least = reaching_less(reaching(score), off);
            (1 + own.len() - own.partition_point(|&other| other < least)) as u32
        };
        query.scores.iter().zip(&query.offsets).map(count).collect()
    }

    fn bagged(&self) -> Bagged<'_> {
        Bagged { evidence: &self.evidence, labels: &self.labels }
    }

    /// What each expert's evidence of the bag is told from.
    fn outputs(&self) -> Vec<(&Wide, Told)> {
        self.experts.iter().map(|(_, expert)| expert.outputs()).collect()
    }
}

fn add(sum: &mut Wide, weight: f64, table: &Wide) {
    for (sum, &value) in sum.as_mut_slice().iter_mut().zip(table.as_slice()) {
        *sum += weight * value;
    }
}
