//! What calibration points say in every mode, and the decision that follows for any α.

use rayon::prelude::*;
use serde::Serialize;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::mix::{self, Mix, Trial, Tuning};
use crate::neighbors::Neighbors;
use crate::p_values::{Counts, Cut, PValues, least_count};
use crate::scores::paired::PairedScores;
use crate::threshold::{CalibrationScores, Threshold, smallest_alpha};

use super::bag::{Bag, Queries};
use super::combine::{Combine, Levels, Rule, Scores, with_probability};
use super::parts::{canonical_order, halves, tuning_parts};
use super::scorer::{CALIBRATION_PART, QUERY_PART, Scorer, check_labels};
use super::selecting::{Selecting, own_scores, selected};
use super::{CalibrationMode, DanceConfig};

/// Queries a parallel task.
const TILE: usize = 64;

/// What calibration points say, for every α.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Rank scores of the true labels.
    pub rank: CalibrationScores,
    /// Contrastive scores of the true labels.
    pub contrast: CalibrationScores,
    /// What selects the mix for every α by itself; `None` when it is fixed, or the same for all.
    pub tuning: Option<Tuning>,
    /// The mix asked for.
    pub mix: Mix,
    /// The mix of a joint score and the grid it was chosen from.
    pub(crate) joint: Option<(f64, Vec<Trial>)>,
    /// The mode.
    pub mode: CalibrationMode,
    /// How the scores are combined.
    pub combine: Combine,
    pub(crate) evidence: Evidence,
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
    /// p-values of every label.
    pub p_values: PValues,
}

/// How labels are let into sets at one α.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// α.
    pub alpha: f64,
    /// Share of α that goes to the contrastive score; `None` when scores are fused.
    pub mix: Option<f64>,
    /// Of the rank and the contrastive score, where a label must pass both. In exact mode they are those of the calibration
    /// points alone; the query moves them a little, and p-values decide.
    pub thresholds: Option<[Threshold; 2]>,
    /// The grid the mix was selected from; empty when it was fixed.
    pub trials: Vec<Trial>,
    /// Calibration points behind the p-values.
    pub points: usize,
    /// The least counts that pass.
    #[serde(skip)]
    pub cut: Cut,
}

impl Decision {
    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        match &self.thresholds {
            Some([rank, contrast]) => {
                let each = [("rank", rank), ("contrastive", contrast)];
                each.iter().filter_map(|(name, t)| Some(format!("{name} score: {}", t.warning()?))).collect()
            }
            None if self.alpha < smallest_alpha(self.points) => {
                vec![crate::threshold::too_few(self.points, self.alpha)]
            }
            None => Vec::new(),
        }
    }
}

impl Calibration {
    /// Calibrates in **reuse** mode on the scorer's own reference points. Fused scores need each point's probability of
    /// its own label.
    pub fn reuse(
        backend: &dyn Backend,
        scorer: &Scorer,
        probabilities: Option<&[f32]>,
        config: &DanceConfig,
    ) -> Result<Self> {
        config.check()?;
        let n = scorer.labels.len();
        if n < 2 {
            return Err(Error::Data(format!(
                "{n} calibration point has no neighbor among the others; at least 2 are needed"
            )));
        }
        let k = scorer.neighbor_count();
        let rows = canonical_order(scorer.points());
        let (neighbors, selecting) = match tuning_parts(&rows, &scorer.labels, config)? {
            None => {
                let itself: Vec<_> = (0..n as u32).map(Some).collect();
                (backend.neighbors(&scorer.reference, scorer.points(), k, Some(&itself))?, None)
            }
            Some([given, judged]) => {
                // One pass over all pairs: neighbors in either part, merged for the thresholds.
                let within = |rows: &[usize]| -> Result<(Scorer, Neighbors)> {
                    let part = scorer.part(rows);
                    let mut itself = vec![None; n];
                    for (place, &row) in rows.iter().enumerate() {
                        itself[row] = Some(place as u32);
                    }
                    let found = backend.neighbors(&part.reference, scorer.points(), k, Some(&itself))?;
                    Ok((part, found))
                };
                let (part, in_given) = within(&given)?;
                let (_, in_judged) = within(&judged)?;
                let merged = in_given.merge(&given, &in_judged, &judged, k);
                let scores = part.score_neighbors(backend, &in_given, CALIBRATION_PART, |row| row);
                (merged, Some(Selecting::new(&scores, &scorer.labels, &given, &judged, scorer.classes)))
            }
        };
        let scores = scorer.score_neighbors(backend, &neighbors, CALIBRATION_PART, |row| row);
        let scores = own_scores(&scores, &scorer.labels, probabilities);
        Self::split(&scores, &scores, selecting, config)
    }

    /// Calibrates in **disjoint** mode: mapped calibration points against a scorer over other points.
    pub fn disjoint(
        backend: &dyn Backend,
        scorer: &Scorer,
        points: &Matrix,
        labels: &[u32],
        probabilities: Option<&[f32]>,
        config: &DanceConfig,
    ) -> Result<Self> {
        config.check()?;
        check_labels("calibration", points, labels, scorer.classes)?;
        let neighbors = backend.neighbors(&scorer.reference, points, scorer.neighbor_count(), None)?;
        let scores = scorer.score_neighbors(backend, &neighbors, CALIBRATION_PART, |row| row);
        let own = own_scores(&scores, labels, probabilities);
        // What is learned from calibration points, be it a mix or levels, must come from others than the thresholds do.
        let learns = config.mix == Mix::Auto || config.combine != Combine::Union;
        let (selecting, thresholds) =
            if learns { halves(points, config.seed)? } else { (Vec::new(), (0..labels.len()).collect()) };
        let pick = |rows: &[usize]| rows.iter().map(|&row| own[row]).collect::<Vec<_>>();
        let levels = pick(&selecting);
        let selecting = tuning_parts(&selecting, labels, config)?
            .map(|[given, judged]| Selecting::new(&scores, labels, &given, &judged, scorer.classes));
        Self::split(&levels, &pick(&thresholds), selecting, config)
    }

    /// Calibrates in **exact** mode. The scorer is [for a bag](Scorer::for_bag) whose first points are the calibration
    /// points, as many as there are `neighbors`: those of each among all others. `fit` are points outside the bag, mapped,
    /// on which the mix is selected.
    pub fn exact(
        backend: &dyn Backend,
        scorer: &Scorer,
        neighbors: Neighbors,
        probabilities: Option<Vec<f32>>,
        fit: (&Matrix, &[u32]),
        config: &DanceConfig,
    ) -> Result<Self> {
        let selecting = match tuning_parts(&canonical_order(fit.0), fit.1, config)? {
            None => None,
            Some([given, judged]) => Some(Selecting::among(backend, scorer, fit, &given, &judged, config)?),
        };
        let (tuning, joint) = selected(selecting, config)?;
        Self::of_bag(scorer, neighbors, probabilities, tuning, joint, config)
    }

    /// The bag with a mix that has been selected before.
    pub(crate) fn of_bag(
        scorer: &Scorer,
        neighbors: Neighbors,
        probabilities: Option<Vec<f32>>,
        tuning: Option<Tuning>,
        joint: Option<(f64, Vec<Trial>)>,
        config: &DanceConfig,
    ) -> Result<Self> {
        config.check()?;
        let rule = rule(config.combine, joint.as_ref());
        let noise = |row| scorer.noise(CALIBRATION_PART, row, scorer.labels[row]);
        let bag = Bag::new(scorer, neighbors, noise, probabilities, rule)?;
        let scores = bag.scores().to_vec();
        Self::new(&scores, Evidence::Bag(Box::new(bag)), tuning, joint, config)
    }

    /// Thresholds of one score or two, from points whose scores are known.
    fn split(
        levels: &[Scores],
        scores: &[Scores],
        selecting: Option<Selecting>,
        config: &DanceConfig,
    ) -> Result<Self> {
        let (tuning, joint) = selected(selecting, config)?;
        let evidence = match rule(config.combine, joint.as_ref()) {
            None => Evidence::Separate,
            Some(rule) => {
                let levels = Levels::new(levels)?;
                let combined = scores.iter().map(|&scores| rule.score(levels.count(scores))).collect();
                Evidence::Combined { rule, levels, scores: CalibrationScores::new(combined)? }
            }
        };
        Self::new(scores, evidence, tuning, joint, config)
    }

    /// From the scores of the points behind the p-values, and what these are counted from.
    fn new(
        scores: &[Scores],
        evidence: Evidence,
        tuning: Option<Tuning>,
        joint: Option<(f64, Vec<Trial>)>,
        config: &DanceConfig,
    ) -> Result<Self> {
        let column = |which: usize| CalibrationScores::new(scores.iter().map(|s| s[which]).collect());
        Ok(Self {
            rank: column(0)?,
            contrast: column(1)?,
            tuning,
            joint,
            mix: config.mix,
            mode: config.calibration,
            combine: config.combine,
            evidence,
        })
    }

    /// Number of calibration points behind the p-values, n.
    pub fn points(&self) -> usize {
        self.rank.len()
    }

    /// Whether a mix was asked for that there were too few points to select.
    pub fn lacks_mix(&self) -> bool {
        self.mix == Mix::Auto
            && match self.combine {
                Combine::Union => self.tuning.is_none(),
                Combine::Joint => self.joint.as_ref().is_none_or(|(_, trials)| trials.is_empty()),
                Combine::Fuse => false,
            }
    }

    /// Neighbors, scores and p-values of mapped queries. `first_row` is the number of the first one, which with the seed
    /// decides what breaks its ties. Fused scores need the class probabilities of the queries.
    pub fn answer(
        &self,
        backend: &dyn Backend,
        scorer: &Scorer,
        queries: &Matrix,
        first_row: usize,
        probabilities: Option<&Matrix>,
    ) -> Result<Answers> {
        if (self.combine == Combine::Fuse) != probabilities.is_some() {
            return Err(Error::Data(
                "class probabilities are for fused scores, and fused scores need them".into(),
            ));
        }
        let Evidence::Bag(bag) = &self.evidence else {
            let (neighbors, scores) = scorer.score(backend, queries, first_row)?;
            let p_values = self.count(backend, &scores, probabilities, scorer.classes);
            return Ok(Answers { neighbors, scores, p_values });
        };
        let k = scorer.neighbor_count();
        let (neighbors, reached) = backend.neighbors_both_ways(&scorer.reference, queries, k, bag.reach())?;
        let scores = scorer.score_neighbors(backend, &neighbors, QUERY_PART, |query| first_row + query);
        let known = Queries { points: queries, first_row, reached: &reached, scores: &scores, probabilities };
        let p_values = bag.p_values(backend, scorer, &known, QUERY_PART);
        Ok(Answers { neighbors, scores, p_values })
    }

    /// p-values from the scores alone: everywhere but in a bag.
    fn count(
        &self,
        backend: &dyn Backend,
        scores: &PairedScores,
        probabilities: Option<&Matrix>,
        classes: usize,
    ) -> PValues {
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
        let count = scores.len();
        let tiles: Vec<PValues> = backend.threads().run(|| {
            let tile = |tile: usize| {
                let mut p_values = PValues::new(self.points());
                for query in tile * TILE..((tile + 1) * TILE).min(count) {
                    let (labels, ranks, contrasts) = scores.row(query);
                    let Some(probabilities) = probabilities else {
                        let each = labels.iter().zip(ranks.iter().zip(contrasts));
                        p_values.push(each.map(|(&label, (&r, &c))| (label, counts([r, c, 0.0]))), rest);
                        continue;
                    };
                    let row = probabilities.row(query);
                    let all = (0..classes as u32).map(|label| {
                        let (rank, contrast) = scores.get(query, label);
                        let probability = row.get(label as usize).map_or(0.0, |&p| f64::from(p));
                        (label, counts(with_probability(rank, contrast, probability)))
                    });
                    p_values.push(all, rest);
                }
                p_values
            };
            (0..count.div_ceil(TILE)).into_par_iter().map(tile).collect()
        });
        let mut all = PValues::new(self.points());
        for tile in &tiles {
            all.extend(tile);
        }
        all
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
        let points = self.points();
        let one = Cut::One(least_count(alpha, points));
        Ok(match self.combine {
            Combine::Fuse => {
                Decision { alpha, mix: None, thresholds: None, trials: Vec::new(), points, cut: one }
            }
            Combine::Joint => {
                let (mix, trials) = self.joint.clone().unwrap_or_default();
                Decision { alpha, mix: Some(mix), thresholds: None, trials, points, cut: one }
            }
            Combine::Union => {
                mix.check()?;
                let (mix, trials) = match (mix, &self.tuning) {
                    (Mix::Fixed(mix), _) => (mix, Vec::new()),
                    (Mix::Auto, Some(tuning)) => tuning.select(alpha)?,
                    (Mix::Auto, None) => (0.0, Vec::new()),
                };
                let (rank, contrast) = mix::share(alpha, mix);
                let thresholds = [self.rank.threshold(rank)?, self.contrast.threshold(contrast)?];
                let cut =
                    Cut::Both { rank: least_count(rank, points), contrast: least_count(contrast, points) };
                Decision { alpha, mix: Some(mix), thresholds: Some(thresholds), trials, points, cut }
            }
        })
    }
}

/// The score that several are combined into; `None` where each decides for itself.
pub(crate) fn rule(combine: Combine, joint: Option<&(f64, Vec<Trial>)>) -> Option<Rule> {
    match combine {
        Combine::Union => None,
        Combine::Joint => Some(Rule::Joint { mix: joint.map_or(0.0, |(mix, _)| *mix) }),
        Combine::Fuse => Some(Rule::Fuse),
    }
}
