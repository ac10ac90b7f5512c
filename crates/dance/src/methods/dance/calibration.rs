//! What calibration points say in either mode, and the thresholds that follow for any α.

use serde::Serialize;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::mix::{self, Mix, Trial, Tuning};
use crate::neighbors::Neighbors;
use crate::scores::paired::PairedScores;
use crate::sets::Sets;
use crate::threshold::{CalibrationScores, Threshold};

use super::parts::{canonical_order, halves, tuning_parts};
use super::scorer::{CALIBRATION_PART, Scorer, check_labels};
use super::{CalibrationMode, DanceConfig};

/// What calibration points say, for every α.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Rank scores of the true labels.
    pub rank: CalibrationScores,
    /// Contrastive scores of the true labels.
    pub contrast: CalibrationScores,
    /// What selects the mix; `None` when it is fixed.
    pub tuning: Option<Tuning>,
    /// The mix asked for.
    pub mix: Mix,
    /// The mode.
    pub mode: CalibrationMode,
}

/// Both thresholds for one α.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// α.
    pub alpha: f64,
    /// Share of α that goes to the contrastive score.
    pub mix: f64,
    /// Of the rank score.
    pub rank: Threshold,
    /// Of the contrastive score.
    pub contrast: Threshold,
    /// The grid the mix was selected from; empty when it was fixed.
    pub trials: Vec<Trial>,
}

impl Thresholds {
    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        let each = [("rank", &self.rank), ("contrastive", &self.contrast)];
        each.iter().filter_map(|(name, t)| Some(format!("{name} score: {}", t.warning()?))).collect()
    }

    /// The DANCE sets of scored queries.
    pub fn sets(&self, scores: &PairedScores, classes: usize) -> Sets {
        Sets::from_pairs(scores, self.rank.value, self.contrast.value, classes)
    }
}

impl Calibration {
    /// Calibrates in **reuse** mode on the scorer's own reference points.
    pub fn reuse(backend: &dyn Backend, scorer: &Scorer, config: &DanceConfig) -> Result<Self> {
        config.check()?;
        let n = scorer.labels.len();
        if n < 2 {
            return Err(Error::Data(format!(
                "{n} calibration point has no neighbor among the others; at least 2 are needed"
            )));
        }
        let k = scorer.neighbor_count();
        let rows = canonical_order(scorer.points());
        let (neighbors, tuning) = match tuning_parts(&rows, &scorer.labels, config)? {
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
                (merged, Some(tuning(&scores, &scorer.labels, &given, &judged, scorer.classes)?))
            }
        };
        let scores = scorer.score_neighbors(backend, &neighbors, CALIBRATION_PART, |row| row);
        let (rank, contrast) = scores.of_labels(&scorer.labels);
        Self::new(rank, contrast, tuning, config)
    }

    /// Calibrates in **disjoint** mode: mapped calibration points against a scorer over other points.
    pub fn disjoint(
        backend: &dyn Backend,
        scorer: &Scorer,
        points: &Matrix,
        labels: &[u32],
        config: &DanceConfig,
    ) -> Result<Self> {
        config.check()?;
        check_labels("calibration", points, labels, scorer.classes)?;
        let neighbors = backend.neighbors(&scorer.reference, points, scorer.neighbor_count(), None)?;
        let scores = scorer.score_neighbors(backend, &neighbors, CALIBRATION_PART, |row| row);
        let (rank, contrast) = scores.of_labels(labels);
        let (selecting, thresholds) = match config.mix {
            Mix::Fixed(_) => (Vec::new(), (0..labels.len()).collect()),
            Mix::Auto => halves(canonical_order(points), config.seed)?,
        };
        let pick = |values: &[f64]| thresholds.iter().map(|&row| values[row]).collect();
        let tuning = match tuning_parts(&selecting, labels, config)? {
            None => None,
            Some([given, judged]) => Some(tuning(&scores, labels, &given, &judged, scorer.classes)?),
        };
        Self::new(pick(&rank), pick(&contrast), tuning, config)
    }

    fn new(rank: Vec<f64>, contrast: Vec<f64>, tuning: Option<Tuning>, config: &DanceConfig) -> Result<Self> {
        Ok(Self {
            rank: CalibrationScores::new(rank)?,
            contrast: CalibrationScores::new(contrast)?,
            tuning,
            mix: config.mix,
            mode: config.calibration,
        })
    }

    /// Both thresholds for `alpha`, the mix selected for it where that was asked for.
    pub fn thresholds(&self, alpha: f64) -> Result<Thresholds> {
        self.thresholds_with(alpha, self.mix)
    }

    /// Both thresholds under another mix than the one asked for. Auto without points to select it on is 0.
    pub fn thresholds_with(&self, alpha: f64, mix: Mix) -> Result<Thresholds> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::config("alpha", alpha, "between 0 and 1, such as 0.1"));
        }
        mix.check()?;
        let (mix, trials) = match (mix, &self.tuning) {
            (Mix::Fixed(mix), _) => (mix, Vec::new()),
            (Mix::Auto, Some(tuning)) => tuning.select(alpha)?,
            (Mix::Auto, None) => (0.0, Vec::new()),
        };
        let (rank_alpha, contrast_alpha) = mix::share(alpha, mix);
        Ok(Thresholds {
            alpha,
            mix,
            rank: self.rank.threshold(rank_alpha)?,
            contrast: self.contrast.threshold(contrast_alpha)?,
            trials,
        })
    }
}

fn tuning(
    scores: &PairedScores,
    labels: &[u32],
    given: &[usize],
    judged: &[usize],
    classes: usize,
) -> Result<Tuning> {
    let pick = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
    let (rank, contrast) = scores.select(given).of_labels(&pick(given));
    Ok(Tuning {
        rank: CalibrationScores::new(rank)?,
        contrast: CalibrationScores::new(contrast)?,
        scores: scores.select(judged),
        labels: pick(judged),
        classes,
    })
}
