//! How calibration points become a [`Predictor`], in three ways (the paper, §3 and appendices A and D; exact is ours).
//!
//! Cost: in every mode one search of all calibration points. In reuse mode the search runs over the two parts of the 80/20
//! split by turns: the first answers for the selection of the mix, both merged for the thresholds.

use super::combine::{Levels, Rule, Scores};
use super::difficulty::Difficulty;
use super::mix::{MixSelection, Trial};
use super::parts::{canonical_order, halves, tuning_parts};
use super::predictor::{Evidence, Predictor};
use super::reference::{CALIBRATION_PART, Reference, check_labels};
use super::selecting::{Selecting, own_scores, selected};
use crate::conformal::full::Bag;
use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::Part;
use crate::method::ByClass;
use crate::method::ConformalConfig;
use crate::method::MethodName;
use crate::method::Mix;
use crate::neighbors::Neighbors;
use crate::scores::threshold::CalibrationScores;
use crate::stream::Novelty;

/// What every way of calibrating needs beside the points.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Where the reference points are searched.
    pub device: &'a dyn Device,
    /// Number of classes; every label is below it.
    pub classes: usize,
    /// The kernel of the learned space.
    pub kernel: Kernel,
    /// Settings of the method.
    pub config: &'a ConformalConfig,
    /// How the job runs.
    pub context: &'a Context<'a>,
}

/// What the kernel machine says of points whose labels are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Believed {
    /// Calibration points' probabilities of their own labels, where [`ConformalConfig::asks_probabilities`].
    pub(crate) probabilities: Option<Vec<f32>>,
    /// How hard fit points are, where [`ConformalConfig::asks_difficulty`].
    pub(crate) difficulty: Option<Difficulty>,
}

impl Setup<'_> {
    pub(crate) fn open(&self, points: Part) -> Result<Reference> {
        Reference::open(self.device, points, self.classes, self.kernel, self.config, self.context)
    }
}

impl Predictor {
    /// Calibrates in **reuse** mode: mapped calibration points are each other's neighbors. Fused scores need each point's
    /// probability of its own label.
    pub fn reuse(calibration: Part, probabilities: Option<&[f32]>, setup: Setup<'_>) -> Result<Self> {
        let Setup { device, config, context, .. } = setup;
        config.check()?;
        let n = calibration.labels.len();
        if n < 2 {
            return Err(Error::Data(format!(
                "{n} calibration point has no neighbor among the others; at least 2 are needed"
            )));
        }
        let reference = setup.open(calibration)?;
        let k = reference.neighbor_count();
        let points = reference.index.points();
        let (neighbors, selecting) = match tuning_parts(&canonical_order(points), &reference.labels, config)?
        {
            None => (reference.index.search_own(n, k, context)?, None),
            Some([given, judged]) => {
                // One pass over all pairs: neighbors in either part, merged for the thresholds.
                let within = |rows: &[usize]| -> Result<(Reference, Neighbors)> {
                    let part = reference.part(device, rows, context)?;
                    let mut itself = vec![None; n];
                    for (place, &row) in rows.iter().enumerate() {
                        itself[row] = Some(place as u32);
                    }
                    let found = part.index.search_without(points, k, Some(&itself), context)?;
                    Ok((part, found))
                };
                let (part, in_given) = within(&given)?;
                let (_, in_judged) = within(&judged)?;
                let merged = in_given.merge(&given, &in_judged, &judged, k);
                let scores = part.score(&in_given, CALIBRATION_PART, |row| row as u64, context);
                let labels = &reference.labels;
                (merged, Some(Selecting::new(&scores, labels, &given, &judged, setup.classes)))
            }
        };
        let scores = reference.score(&neighbors, CALIBRATION_PART, |row| row as u64, context);
        let scores = own_scores(&scores, &reference.labels, probabilities);
        let novelty = Novelty::new(&neighbors, k, n)?;
        Self::split(reference, &scores, &scores, novelty, selecting, config)
    }

    /// Calibrates in **disjoint** mode: mapped calibration points have their neighbors among others, `fit`.
    pub fn disjoint(
        fit: Part,
        calibration: &Part,
        probabilities: Option<&[f32]>,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let Setup { config, context, classes, .. } = setup;
        config.check()?;
        check_labels("calibration", calibration, classes)?;
        let reference = setup.open(fit)?;
        let Part { embeddings: points, labels } = calibration;
        let neighbors = reference.index.search(points, reference.neighbor_count(), context)?;
        let scores = reference.score(&neighbors, CALIBRATION_PART, |row| row as u64, context);
        let own = own_scores(&scores, labels, probabilities);
        let novelty = Novelty::new(&neighbors, reference.neighbor_count(), reference.len())?;
        // What is learned from calibration points, be it a mix or levels, must come from others than the thresholds do.
        let learns = match config.method {
            MethodName::Posterior => false,
            MethodName::Dance => config.mix == Mix::Auto,
            MethodName::Joint | MethodName::Fuse => true,
        };
        let (selecting, thresholds) =
            if learns { halves(points, config.seed)? } else { (Vec::new(), (0..labels.len()).collect()) };
        let pick = |rows: &[usize]| rows.iter().map(|&row| own[row]).collect::<Vec<_>>();
        let levels = pick(&selecting);
        let selecting = tuning_parts(&selecting, labels, config)?
            .map(|[given, judged]| Selecting::new(&scores, labels, &given, &judged, classes));
        Self::split(reference, &levels, &pick(&thresholds), novelty, selecting, config)
    }

    /// Calibrates in **exact** mode: mapped calibration points form the bag that every query joins. `fit` are points outside
    /// it, on which the mix is selected and, where the settings want it, further neighbors of the whole bag.
    pub fn exact(
        calibration: Part,
        fit: &Part,
        probabilities: Option<Vec<f32>>,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let believed = Believed { probabilities, difficulty: None };
        Self::exact_with(calibration, fit, believed, |_| Ok(fit.clone()), setup)
    }

    /// The same where classes are evened out ([`ByClass::Balanced`], which needs the probabilities whatever is combined) or put into clusters
    /// ([`ByClass::Clusters`]): `difficulty` is that of the fit points.
    pub fn exact_by_class(
        calibration: Part,
        fit: &Part,
        probabilities: Option<Vec<f32>>,
        difficulty: Difficulty,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let believed = Believed { probabilities, difficulty: Some(difficulty) };
        Self::exact_with(calibration, fit, believed, |_| Ok(fit.clone()), setup)
    }

    /// The same where points outside the bag made the space in which they lie. Those that select the mix would lie too well there:
    /// `apart` maps all of `fit` by what only some rows of it made.
    pub(crate) fn exact_with(
        calibration: Part,
        fit: &Part,
        believed: Believed,
        apart: impl Fn(&[usize]) -> Result<Part>,
        setup: Setup<'_>,
    ) -> Result<Self> {
        let Setup { config, context, .. } = setup;
        let n = calibration.labels.len();
        let reference = Self::bag_reference(calibration, fit, setup)?;
        let neighbors = reference.index.search_own(n, reference.neighbor_count(), context)?;
        let selecting = match tuning_parts(&canonical_order(&fit.embeddings), &fit.labels, config)? {
            None => None,
            Some([given, judged]) => Some(Selecting::among(&apart(&given)?, &given, &judged, setup)?),
        };
        let (selection, joint) = selected(selecting, config)?;
        let mut predictor = Self::of_bag(reference, neighbors, believed, selection, joint, config, context)?;
        if config.new_labels {
            predictor.allow_unseen(&fit.labels);
        }
        Ok(predictor)
    }

    /// The bag's reference points: calibration points first, and the fit points behind them where the settings want it.
    pub(crate) fn bag_reference(calibration: Part, fit: &Part, setup: Setup<'_>) -> Result<Reference> {
        let n = calibration.labels.len();
        let mut points = calibration;
        if setup.config.fit_neighbors {
            points.embeddings.append(&fit.embeddings)?;
            points.labels.extend_from_slice(&fit.labels);
        }
        Ok(setup.open(points)?.for_bag(n))
    }

    /// The bag with neighbors that have been found and a mix that has been selected before.
    pub(crate) fn of_bag(
        mut reference: Reference,
        neighbors: Neighbors,
        believed: Believed,
        selection: Option<MixSelection>,
        joint: Option<(f64, Vec<Trial>)>,
        config: &ConformalConfig,
        context: &Context<'_>,
    ) -> Result<Self> {
        config.check()?;
        if believed.probabilities.is_some() != config.asks_probabilities()
            || believed.difficulty.is_some() != config.asks_difficulty()
        {
            return Err(Error::Data(
                "fused scores and classes that are evened out need each calibration point's probability of its own label; classes that \
                 are evened out or put into clusters need to know how hard fit points are; nothing else does"
                    .into(),
            ));
        }
        let rule = rule(config.combination(), joint.as_ref());
        // Combined evidence is compared by the experts.
        let by_class = if rule.is_some() { config.by_class } else { ByClass::All };
        let bag = Bag::new(&reference, neighbors, believed, rule, by_class)?;
        let mut reach = bag.reach();
        reach.resize(reference.labels.len(), -1.0); // other points are not in the bag
        reference.index.set_reach(reach, context)?;
        let scores = bag.scores().to_vec();
        let novelty = Novelty::new(bag.neighbors(), reference.neighbor_count(), reference.len())?;
        Self::new(reference, &scores, Evidence::Bag(Box::new(bag)), novelty, (selection, joint), config)
    }

    /// Thresholds of one score or two, from points whose scores are known.
    fn split(
        reference: Reference,
        levels: &[Scores],
        scores: &[Scores],
        novelty: Novelty,
        selecting: Option<Selecting>,
        config: &ConformalConfig,
    ) -> Result<Self> {
        let (selection, joint) = selected(selecting, config)?;
        let evidence = match rule(config.method, joint.as_ref()) {
            None => Evidence::Separate,
            Some(rule) => {
                let levels = Levels::new(levels)?;
                let combined = scores.iter().map(|&scores| rule.score(levels.count(scores))).collect();
                Evidence::Combined { rule, levels, scores: CalibrationScores::new(combined)? }
            }
        };
        Self::new(reference, scores, evidence, novelty, (selection, joint), config)
    }

    /// From the scores of the points behind the p-values, and what these are counted from.
    fn new(
        reference: Reference,
        scores: &[Scores],
        evidence: Evidence,
        novelty: Novelty,
        (selection, joint): (Option<MixSelection>, Option<(f64, Vec<Trial>)>),
        config: &ConformalConfig,
    ) -> Result<Self> {
        let column = |which: usize| CalibrationScores::new(scores.iter().map(|s| s[which]).collect());
        Ok(Self {
            reference,
            rank: column(0)?,
            contrast: column(1)?,
            selection,
            joint,
            mix: config.mix,
            mode: config.calibration,
            method: config.combination(),
            evidence,
            novelty: Some(novelty),
            singles: None,
            stack: None,
        })
    }
}

/// The score that several are combined into; `None` where each decides for itself.
pub(crate) fn rule(combine: MethodName, joint: Option<&(f64, Vec<Trial>)>) -> Option<Rule> {
    match combine {
        MethodName::Dance | MethodName::Posterior => None,
        MethodName::Joint => Some(Rule::Joint { mix: joint.map_or(0.0, |(mix, _)| *mix) }),
        MethodName::Fuse => Some(Rule::Fuse),
    }
}
