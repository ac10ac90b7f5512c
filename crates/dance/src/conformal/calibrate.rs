//! Calibration: creates a [`Predictor`] from calibration points.
//!
//! | method | calibration | neighbors of a calibration point |
//! |---|---|---|
//! | dance | reuse (the paper's main tables) | the other calibration points |
//! | dance | split (the paper, appendix D) | the fit points |
//! | fuse | full | the fit points and the other calibration points |
//! | posterior | full | the fit points and the other calibration points |
//! | posterior | split | the fit points |
//!
//! In the method posterior, neighbors serve novelty and support only; its experts score the labels. Calibrating a model
//! and loading it share the last step of each method: [`Predictor::of_thresholds`], [`Predictor::of_bag`],
//! [`Predictor::of_stack`].
//!
//! Cost: one search of all calibration points. With reuse, the calibration points are split 80/20, and the search runs
//! over the two parts in turn. The neighbors in the first part select the mix. The neighbors in both parts, merged,
//! give the thresholds.

use std::sync::Arc;

use super::full::Bag;
use super::mix::MixSelection;
use super::neighbor_scores::NeighborScorer;
use super::new_labels::NewLabels;
use super::predictor::{Decider, PosteriorDecider, Predictor};
use super::reference::{CALIBRATION_PART, Reference, Setup, check_labels};
use super::thresholds::{MixSource, Thresholds};
use super::tuning_split::{TuningSplit, canonical_order, halves, tuning_split};
use crate::error::{Error, Result};
use crate::machine::Part;
use crate::method::{
    ByClass, DanceCalibration, DanceMethod, FuseMethod, Method, Mix, PosteriorCalibration, PosteriorMethod,
};
use crate::neighbors::Neighbors;
use crate::posterior::Stack;
use crate::scores::by_class::{Clusters, Strata};
use crate::scores::threshold::CalibrationScores;
use crate::stream::Novelty;

/// The number of neighbors that the method posterior stores for every calibration point: enough for novelty and for the
/// warning on near-copies.
const BAG_NEIGHBORS: usize = 10;

impl Predictor {
    /// Calibrates the method dance on mapped points. `fit` returns the fit points; it is called only if neighbors are
    /// searched among them.
    pub fn dance(
        method: DanceMethod,
        calibration: Part,
        fit: impl FnOnce() -> Result<Part>,
        setup: Setup<'_>,
    ) -> Result<Self> {
        match method.calibration {
            DanceCalibration::Reuse => Self::reuse(method, calibration, setup),
            DanceCalibration::Split => Self::split(method, &calibration, fit()?, setup),
        }
    }

    /// Calibrates with reuse: each calibration point has its neighbors among the other calibration points.
    fn reuse(method: DanceMethod, calibration: Part, setup: Setup<'_>) -> Result<Self> {
        let Setup { device, classes, context, .. } = setup;
        let n = calibration.labels.len();
        if n < 2 {
            return Err(Error::Data(format!(
                "{n} calibration point has no neighbor among the others; at least 2 are needed"
            )));
        }
        let scorer = NeighborScorer::with_noise(&method.scores, method.tie_noise, setup.kernel);
        let reference = Reference::open(calibration, setup)?;
        let (k, points) = (scorer.neighbors(), reference.index.points());
        let tuning = match method.mix {
            Mix::Fixed(_) => None,
            Mix::Auto => tuning_split(&canonical_order(points), &reference.labels, scorer.seed)?,
        };
        let name = |row: usize| row as u64;
        let (neighbors, selection) = match tuning {
            None => (reference.index.search_own(n, k, context)?, None),
            Some(split) => {
                // Search neighbors in either part, and merge them for the thresholds. So every pair of points is
                // visited once.
                let search = |rows: &[usize]| -> Result<(Reference, Neighbors)> {
                    let part = reference.select(device, rows, context)?;
                    let mut skip = vec![None; n];
                    for (place, &row) in rows.iter().enumerate() {
                        skip[row] = Some(place as u32);
                    }
                    let found = part.index.search_without(points, k, Some(&skip), context)?;
                    Ok((part, found))
                };
                let TuningSplit { threshold_rows, measured_rows } = &split;
                let (part, in_threshold_rows) = search(threshold_rows)?;
                let (_, in_measured_rows) = search(measured_rows)?;
                let merged = in_threshold_rows.merge(threshold_rows, &in_measured_rows, measured_rows, k);
                let scores = scorer.score(&part, &in_threshold_rows, CALIBRATION_PART, name, context);
                (merged, Some(MixSelection::new(&scores, &reference.labels, &split, classes)?))
            }
        };
        let scores = scorer.score(&reference, &neighbors, CALIBRATION_PART, name, context);
        let own = scores.of_labels(&reference.labels);
        let novelty = Novelty::new(&neighbors, k, n)?;
        Self::of_thresholds(method, reference, own, selection, novelty, setup)
    }

    /// Calibrates with split: calibration points have their neighbors among the fit points. If the mix is selected, a
    /// random half of the calibration points selects it, and the other half gives the thresholds.
    fn split(method: DanceMethod, calibration: &Part, fit: Part, setup: Setup<'_>) -> Result<Self> {
        let Setup { classes, context, .. } = setup;
        check_labels("calibration", calibration, classes)?;
        let scorer = NeighborScorer::with_noise(&method.scores, method.tie_noise, setup.kernel);
        let reference = Reference::open(fit, setup)?;
        let Part { embeddings: points, labels } = calibration;
        let neighbors = reference.index.search(points, scorer.neighbors(), context)?;
        let scores = scorer.score(&reference, &neighbors, CALIBRATION_PART, |row| row as u64, context);
        let novelty = Novelty::new(&neighbors, scorer.neighbors(), reference.len())?;
        // The points that select the mix give no thresholds.
        let (selecting, thresholds) = match method.mix {
            Mix::Auto => halves(points, scorer.seed)?,
            Mix::Fixed(_) => (Vec::new(), (0..labels.len()).collect()),
        };
        let selection = tuning_split(&selecting, labels, scorer.seed)?
            .map(|split| MixSelection::new(&scores, labels, &split, classes))
            .transpose()?;
        let own: Vec<u32> = thresholds.iter().map(|&row| labels[row]).collect();
        let own = scores.select(&thresholds).of_labels(&own);
        Self::of_thresholds(method, reference, own, selection, novelty, setup)
    }

    /// Assembles the method dance from the rank and the contrastive scores of the calibration points' own labels.
    pub(crate) fn of_thresholds(
        method: DanceMethod,
        reference: Reference,
        (rank, contrast): (Vec<f64>, Vec<f64>),
        selection: Option<MixSelection>,
        novelty: Novelty,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let mix = match (method.mix, selection) {
            (Mix::Fixed(mix), _) => MixSource::Fixed(mix),
            (Mix::Auto, Some(selection)) => MixSource::Selected(selection),
            (Mix::Auto, None) => MixSource::TooFewPoints,
        };
        let thresholds = Thresholds {
            scorer: NeighborScorer::with_noise(&method.scores, method.tie_noise, setup.kernel),
            rank: CalibrationScores::new(rank)?,
            contrast: CalibrationScores::new(contrast)?,
            mix,
        };
        let decider = Decider::Thresholds(thresholds);
        Ok(Self { method: Method::Dance(method), reference, novelty, new_labels: None, decider })
    }

    /// Calibrates the method fuse on mapped points. Every query is added to the calibration points, and the fit points
    /// are further neighbors of all points. `probabilities` holds the class probability of each calibration point's own
    /// label.
    pub fn fuse(
        method: FuseMethod,
        calibration: Part,
        fit: &Part,
        probabilities: Vec<f32>,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let n = calibration.labels.len();
        let reference = Reference::open_bag(calibration, fit, method.scores.seed, setup)?;
        let scorer = NeighborScorer::with_shared_ties(&method.scores, setup.kernel);
        let neighbors = reference.index.search_own(n, scorer.neighbors(), setup.context)?;
        Self::of_bag(method, reference, neighbors, probabilities, &fit.labels, setup)
    }

    /// Assembles the method fuse from the neighbors of every calibration point among all others.
    pub(crate) fn of_bag(
        method: FuseMethod,
        mut reference: Reference,
        neighbors: Neighbors,
        probabilities: Vec<f32>,
        fit_labels: &[u32],
        setup: Setup<'_>,
    ) -> Result<Self> {
        let n = neighbors.len();
        if probabilities.len() != n {
            return Err(Error::Shape {
                what: "probabilities of the calibration points' own labels (one per point)".into(),
                expected: n.to_string(),
                found: probabilities.len().to_string(),
            });
        }
        let scorer = NeighborScorer::with_shared_ties(&method.scores, setup.kernel);
        let strata = if method.each_class {
            Strata::new(ByClass::Each, &Clusters::default(), setup.classes, &reference.labels[..n])
        } else {
            None
        };
        let bag = Bag::new(&reference, scorer, neighbors, probabilities, strata)?;
        reference.set_reach(bag.reach(), setup.context)?;
        let novelty = Novelty::new(bag.neighbors(), scorer.neighbors(), reference.len())?;
        let new_labels = method.new_labels.then(|| NewLabels::new(bag.neighbors(), &reference.labels[..n], fit_labels));
        let decider = Decider::Bag(Box::new(bag));
        Ok(Self { method: Method::Fuse(method), reference, novelty, new_labels, decider })
    }

    /// Calibrates the method posterior with a trained stack. `calibration` and `fit` are in mapped space, for neighbors
    /// and novelty.
    pub(crate) fn posterior(
        method: PosteriorMethod,
        stack: Stack,
        calibration: Part,
        fit: Part,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let n = calibration.labels.len();
        match method.calibration {
            PosteriorCalibration::Full { .. } => {
                let fit_labels = fit.labels.clone();
                let reference = Self::full_reference(calibration, fit, setup)?;
                let neighbors = reference.index.search_own(n, BAG_NEIGHBORS, setup.context)?;
                Self::of_stack(method, stack, reference, PosteriorPoints::Bag { neighbors, fit_labels }, setup)
            }
            PosteriorCalibration::Split => {
                let reference = Reference::open(fit, setup)?;
                let k = Novelty::neighbors(method.neighbors, reference.len());
                let found = reference.index.search(&calibration.embeddings, k, setup.context)?;
                let novelty = Novelty::new(&found, k, reference.len())?;
                Self::of_stack(method, stack, reference, PosteriorPoints::Separate(novelty), setup)
            }
        }
    }

    /// Opens the reference points of the method posterior in full calibration: first the calibration points, then the
    /// fit points.
    pub(crate) fn full_reference(calibration: Part, fit: Part, setup: Setup<'_>) -> Result<Reference> {
        let mut points = calibration;
        points.embeddings.append(&fit.embeddings)?;
        points.labels.extend(fit.labels);
        Reference::open(points, setup)
    }

    /// Assembles the method posterior from a trained stack, its reference points and its calibration points.
    pub(crate) fn of_stack(
        method: PosteriorMethod,
        stack: Stack,
        mut reference: Reference,
        points: PosteriorPoints,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let stack = Arc::new(stack);
        let (novelty, new_labels, bag) = match points {
            PosteriorPoints::Separate(novelty) => (novelty, None, None),
            PosteriorPoints::Bag { neighbors, fit_labels } => {
                let n = neighbors.len();
                let k = Novelty::neighbors(method.neighbors, reference.len());
                let novelty = Novelty::new(&neighbors, k, reference.len())?;
                let last = |row| neighbors.squared(row).get(k - 1).copied().unwrap_or(f64::INFINITY);
                reference.set_reach((0..n).map(last).collect(), setup.context)?;
                let wanted = matches!(method.calibration, PosteriorCalibration::Full { new_labels: true, .. });
                let new_labels = wanted.then(|| NewLabels::new(&neighbors, &reference.labels[..n], &fit_labels));
                (novelty, new_labels, Some(neighbors))
            }
        };
        let decider = Decider::Posterior(PosteriorDecider { stack, bag, neighbors: method.neighbors });
        Ok(Self { method: Method::Posterior(method), reference, novelty, new_labels, decider })
    }
}

/// The parts of the calibration points from which the method posterior gets novelty and new labels.
pub(crate) enum PosteriorPoints {
    /// Full calibration: the neighbors of the calibration points, and the labels of the fit points.
    Bag { neighbors: Neighbors, fit_labels: Vec<u32> },
    /// Split calibration: the novelty scores of the calibration points.
    Separate(Novelty),
}
