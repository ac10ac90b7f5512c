//! Calibration: creates a [`Predictor`] from calibration points.
//!
//! | method | calibration | neighbors of a calibration point are searched among |
//! |---|---|---|
//! | dance | reuse (the paper's main tables) | the other calibration points |
//! | dance | split (the paper, appendix D) | the fit points |
//! | fuse | full | the fit points and the other calibration points |
//! | posterior | full | the fit points and the other calibration points |
//! | posterior | split | the fit points |
//!
//! In the method posterior, neighbors serve the novelty test and the list of support only; experts score the labels.
//! Calibrating a model and loading it end in the same function of each method: [`Predictor::of_thresholds`],
//! [`Predictor::of_bag`] or [`Predictor::of_stack`].
//!
//! Cost: one search of all calibration points. With reuse, the calibration points are split 80/20, and the search runs
//! over the two parts in turn. The neighbors in the larger part select the mix. The neighbors in both parts, merged,
//! give the thresholds.

use std::sync::Arc;

use super::full::{self, Bag};
use super::mix::{MixSelection, TuningSplit, canonical_order, halves, tuning_split};
use super::new_labels::NewLabels;
use super::predictor::{Decider, PosteriorDecider, Predictor};
use super::thresholds::{MixSource, NeighborScorer, Thresholds};
use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::Part;
use crate::method::{ByClass, DanceMethod, FuseMethod, Method, Mix, PosteriorCalibration, PosteriorMethod};
use crate::neighbors::{Index, Neighbors};
use crate::posterior::Stack;
use crate::scores::calibration::CalibrationScores;
use crate::scores::calibration::Novelty;
use crate::scores::calibration::{Clusters, Strata};

/// The number of neighbors that the method posterior stores for every calibration point. It is enough for the novelty
/// test and for the warning on near copies of points.
const BAG_NEIGHBORS: usize = 10;
/// The tag of calibration points. It enters their random numbers, so that other points have other numbers.
const CALIBRATION_PART: u64 = 0;
/// The tag of queries. It enters their random numbers, so that other points have other numbers.
pub(super) const QUERY_PART: u64 = 1;
/// The tag of fit points. It enters their random numbers, so that other points have other numbers.
const FIT_PART: u64 = 2;

/// The inputs that every calibration needs beside its points: device, kernel, number of classes and context.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The device that searches the reference points.
    pub(crate) device: &'a dyn Device,
    /// The number of classes; every label is below it.
    pub(crate) classes: usize,
    /// The kernel on mapped points: points in the space of the learned metric.
    pub(crate) kernel: Kernel,
    pub(crate) context: &'a Context<'a>,
}

/// The reference points of a predictor: labelled points among which a device finds the neighbors of a query. They are
/// mapped, that is, in the space of the learned metric.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(super) index: Index,
    pub(super) labels: Vec<u32>,
    pub(super) classes: usize,
}

impl Reference {
    /// Opens `points` for search on the device of `setup`. The points are in the space of the learned metric. Returns
    /// an error if a label is not below the number of classes.
    pub(crate) fn open(points: Part, setup: Setup<'_>) -> Result<Self> {
        check_labels("reference", &points, setup.classes)?;
        Ok(Self {
            index: Index::open(setup.device, points.embeddings, setup.context)?,
            labels: points.labels,
            classes: setup.classes,
        })
    }

    /// Opens the reference points of the method [`fuse`](crate::method::MethodName::Fuse): first the calibration
    /// points, then the fit points. Points at equal distances from a query are ordered by random keys. So the order
    /// does not depend on which point is the query.
    pub(crate) fn open_bag(calibration: Part, fit: &Part, seed: u64, setup: Setup<'_>) -> Result<Self> {
        let n = calibration.labels.len();
        let mut points = calibration;
        points.embeddings.append(&fit.embeddings)?;
        points.labels.extend_from_slice(&fit.labels);
        let mut reference = Self::open(points, setup)?;
        let key = |row: usize| match row.checked_sub(n) {
            None => full::key(seed, CALIBRATION_PART, row as u64),
            Some(row) => full::key(seed, FIT_PART, row as u64),
        };
        let keys = (0..reference.len()).map(key).collect();
        reference.index = reference.index.with_keys(keys);
        Ok(reference)
    }

    /// Returns the number of reference points.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Rebuilds the lists of neighbors of the first `count` points. `ids` holds the row numbers of the neighbors, one
    /// list after the other, all of equal length.
    pub(crate) fn neighbors_by_id(&self, count: usize, ids: &[u32], context: &Context<'_>) -> Result<Neighbors> {
        self.index.neighbors_by_id(count, ids, context)
    }

    /// Sets the reach of every calibration point: the squared distance within which a query enters the point's list of
    /// neighbors. The calibration points are the first reference points.
    pub(super) fn set_reach(&mut self, mut reach: Vec<f64>, context: &Context<'_>) -> Result<()> {
        reach.resize(self.len(), -1.0); // a negative number: no query enters the list of a fit point
        self.index.set_reach(reach, context)
    }

    /// Opens the points at `rows` as reference points of their own, so that neighbors are found among them alone.
    pub(super) fn select(&self, device: &dyn Device, rows: &[usize], context: &Context<'_>) -> Result<Self> {
        Ok(Self {
            index: Index::open(device, self.index.points().select(rows), context)?,
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            classes: self.classes,
        })
    }
}

/// Returns an error unless every point has one label below `classes`. `part` is the name of the points in the error.
fn check_labels(part: &str, points: &Part, classes: usize) -> Result<()> {
    let Part { embeddings, labels } = points;
    if embeddings.rows() != labels.len() {
        return Err(Error::Shape {
            what: format!("{part} labels (one per point)"),
            expected: embeddings.rows().to_string(),
            found: labels.len().to_string(),
        });
    }
    match labels.iter().position(|&label| label as usize >= classes) {
        None => Ok(()),
        Some(row) => Err(Error::Label {
            origin: format!("{part} points"),
            row,
            problem: format!("{} is not below the number of classes, {classes}", labels[row]),
        }),
    }
}

impl Predictor {
    /// Returns the neighbors of every calibration point in full calibration, and `None` otherwise.
    pub(crate) fn bag_neighbors(&self) -> Option<&Neighbors> {
        match &self.decider {
            Decider::Thresholds(_) => None,
            Decider::Bag(bag) => Some(bag.neighbors()),
            Decider::Posterior(posterior) => posterior.bag.as_ref(),
        }
    }

    /// Returns whether the method dance had too few calibration points to select a [mix](Mix).
    pub(crate) fn has_too_few_points_for_mix(&self) -> bool {
        matches!(&self.decider, Decider::Thresholds(Thresholds { mix: MixSource::TooFewPoints, .. }))
    }

    /// Calibrates the method dance on points in the space of the learned metric. `fit` returns the fit points. It is
    /// called only in split calibration, where neighbors are found among the fit points.
    pub(crate) fn dance(
        method: DanceMethod,
        calibration: Part,
        fit: impl FnOnce() -> Result<Part>,
        setup: Setup<'_>,
    ) -> Result<Self> {
        if method.reuse {
            Self::reuse(method, calibration, setup)
        } else {
            Self::split(method, &calibration, fit()?, setup)
        }
    }

    /// Calibrates the method dance with reuse: the neighbors of a calibration point are found among the other
    /// calibration points.
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
                // Search neighbors in each part, and merge them for the thresholds. Every pair is visited once.
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

    /// Calibrates the method dance with split: the neighbors of calibration points are found among the fit points. A
    /// random half of the calibration points selects the mix, and the other half gives the thresholds. With a fixed
    /// mix, all calibration points give thresholds.
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

    /// Assembles a predictor of the method dance. `rank` and `contrast` hold the two scores of each calibration point's
    /// own label. `selection` is `None` if the mix is fixed, or if there are too few points to select it.
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

    /// Calibrates the method [`fuse`](crate::method::MethodName::Fuse) on points in the space of the learned metric.
    /// `probabilities` holds the class probability of each calibration point's own label.
    pub(crate) fn fuse(
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

    /// Assembles a predictor of the method [`fuse`](crate::method::MethodName::Fuse). `neighbors` holds the neighbors
    /// of each calibration point among all other reference points.
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

    /// Calibrates the method posterior with a trained stack of experts. `calibration` and `fit` are in the space of the
    /// learned metric. They serve the novelty test, and neighbors among them are listed in support of labels.
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
    /// fit points. Points at equal distances are ordered by row.
    pub(crate) fn full_reference(calibration: Part, fit: Part, setup: Setup<'_>) -> Result<Reference> {
        let mut points = calibration;
        points.embeddings.append(&fit.embeddings)?;
        points.labels.extend(fit.labels);
        Reference::open(points, setup)
    }

    /// Assembles a predictor of the method posterior from a trained stack of experts.
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

/// The input of the novelty test in the method posterior, which depends on the role of the calibration points.
pub(crate) enum PosteriorPoints {
    /// Full calibration: the neighbors of each calibration point. The labels of the fit points serve the test for new
    /// labels.
    Bag { neighbors: Neighbors, fit_labels: Vec<u32> },
    /// Split calibration: the novelty scores of the calibration points, which are distances to neighbors among the fit
    /// points.
    Separate(Novelty),
}
