//! Points that select the mix, in every mode and for every way of combining.

use super::calibrate::Setup;
use super::combine::{Levels, Rule, Scores, with_probability};
use super::mix::{Compared, Judged, MixSelection, Trial};
use super::reference::{QUERY_PART, Reference};
use crate::error::Result;
use crate::machine::Part;
use crate::method::ConformalConfig;
use crate::method::MethodName;
use crate::method::Mix;
use crate::scores::paired::PairedScores;
use crate::scores::threshold::CalibrationScores;

/// The level for which a joint score's mix is selected. There is one for all levels: a p-value must not depend on α.
const JOINT_ALPHA: f64 = 0.1;

/// What selects the mix, as the way of combining needs it: points for every α, or one mix for all.
#[allow(clippy::type_complexity)]
pub(super) fn selected(
    selecting: Option<Selecting>,
    config: &ConformalConfig,
) -> Result<(Option<MixSelection>, Option<(f64, Vec<Trial>)>)> {
    let compared = Compared::of(config.calibration);
    Ok(match (config.combination(), selecting, config.mix) {
        (MethodName::Dance, selecting, _) => {
            (selecting.map(|selecting| selecting.into_selection(compared)).transpose()?, None)
        }
        (MethodName::Joint, Some(selecting), _) => (None, Some(selecting.joint(compared)?)),
        (MethodName::Joint, None, Mix::Fixed(mix)) => (None, Some((mix, Vec::new()))),
        (MethodName::Joint, None, Mix::Auto) | (MethodName::Fuse | MethodName::Posterior, ..) => (None, None),
    })
}

/// Scores of the points' own labels, as they are combined.
pub(super) fn own_scores(
    scores: &PairedScores,
    labels: &[u32],
    probabilities: Option<&[f32]>,
) -> Vec<Scores> {
    let (ranks, contrasts) = scores.of_labels(labels);
    let pairs = ranks.into_iter().zip(contrasts);
    match probabilities {
        None => pairs.map(|(rank, contrast)| [rank, contrast, 0.0]).collect(),
        Some(own) => pairs
            .zip(own)
            .map(|((rank, contrast), &p)| with_probability(rank, contrast, f64::from(p)))
            .collect(),
    }
}

/// Points that select the mix: scores of the true labels of those that give thresholds, and of every label of the rest.
pub(super) struct Selecting {
    given: Vec<Scores>,
    scores: PairedScores,
    labels: Vec<u32>,
    classes: usize,
}

impl Selecting {
    pub(super) fn new(
        scores: &PairedScores,
        labels: &[u32],
        given: &[usize],
        judged: &[usize],
        classes: usize,
    ) -> Self {
        let pick = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
        Self {
            given: own_scores(&scores.select(given), &pick(given), None),
            scores: scores.select(judged),
            labels: pick(judged),
            classes,
        }
    }

    /// Points outside the bag: some of them (`judged`) among the rest of them. Every point that is judged gives thresholds
    /// too, since what is learned here need not be honest, only good.
    pub(super) fn among(points: &Part, given: &[usize], judged: &[usize], setup: Setup<'_>) -> Result<Self> {
        let Setup { device, kernel, config, context, .. } = setup;
        // The classes of these points and no others: the mix must not depend on the bag.
        let classes = points.labels.iter().max().map_or(0, |&label| label as usize + 1);
        let part = Reference::open(device, points.select(given), classes, kernel, config, context)?;
        let Part { embeddings: queries, labels } = points.select(judged);
        let neighbors = part.index.search(&queries, part.neighbor_count(), context)?;
        let scores = part.score(&neighbors, QUERY_PART, |query| query as u64, context);
        Ok(Self { given: own_scores(&scores, &labels, None), scores, labels, classes })
    }

    fn into_selection(self, compared: Compared) -> Result<MixSelection> {
        let column = |which: usize| CalibrationScores::new(self.given.iter().map(|s| s[which]).collect());
        Ok(MixSelection {
            rank: column(0)?,
            contrast: column(1)?,
            scores: self.scores,
            labels: self.labels,
            classes: self.classes,
            compared,
        })
    }

    /// The best mix of a joint score.
    fn joint(&self, compared: Compared) -> Result<(f64, Vec<Trial>)> {
        let levels = Levels::new(&self.given)?;
        let judged = Judged { scores: &self.scores, labels: &self.labels, classes: self.classes, compared };
        judged.select(JOINT_ALPHA, |mix| {
            let (rule, levels) = (Rule::Joint { mix }, &levels);
            let own = self.given.iter().map(|&scores| rule.score(levels.count(scores))).collect();
            let threshold = CalibrationScores::new(own)?.threshold(JOINT_ALPHA)?.value;
            Ok(move |rank, contrast| rule.score(levels.count([rank, contrast, 0.0])) <= threshold)
        })
    }
}
