//! The mix (λ in the paper): the contrastive score's share of the error level α, and its selection (the paper, appendix
//! F).
//!
//! The contrastive score gets `α_clr = mix·α`, the rank score `α_knn = (1-mix)·α`. A mix of 0 gives the paper's k-NN
//! set, 1 its CLR set. The mix is selected from the grid 0, 0.1 … 1. Thresholds come from one part of the calibration
//! points, and sets are measured on the rest. The best mix minimises `0.8·z(Size) + 0.2·z(CCV)`: the mean set size and
//! the class-conditional coverage violation, which z standardises over the grid. A term that does not vary counts as 0,
//! and ties go to the smaller mix. Test points are not used.
//!
//! Cost: scores are computed once and stored. A selection compares every score of every point with 11 thresholds.

use serde::{Deserialize, Serialize};

use super::tuning_split::TuningSplit;
use crate::error::Result;
use crate::evaluation::metrics::class_coverage_violation;
use crate::scores::paired::PairedScores;
use crate::scores::threshold::CalibrationScores;

/// The number of steps of the grid from 0 to 1.
const STEPS: usize = 10;
const SIZE_WEIGHT: f64 = 0.8;
const VIOLATION_WEIGHT: f64 = 0.2;
/// Objectives closer than this are ties, so that rounding does not decide.
const TIE: f64 = 1e-9;

/// Returns the shares `(α_knn, α_clr)` of α for the rank and the contrastive score.
pub fn share(alpha: f64, mix: f64) -> (f64, f64) {
    ((1.0 - mix) * alpha, mix * alpha)
}

/// The scores on which a mix is selected, for any α. The model stores them.
#[derive(Clone, Debug, PartialEq)]
pub struct MixSelection {
    /// Rank scores of the points that give thresholds.
    pub rank: CalibrationScores,
    /// Contrastive scores of the points that give thresholds.
    pub contrast: CalibrationScores,
    /// Scores of every label of the points whose sets are measured.
    pub(crate) scores: PairedScores,
    /// The true labels of the points whose sets are measured.
    pub labels: Vec<u32>,
    /// Number of classes.
    pub classes: usize,
}

/// The measured sets of one mix of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The mix.
    pub mix: f64,
    /// Mean set size.
    pub size: f64,
    /// Class-conditional coverage violation.
    pub violation: f64,
    /// The objective, which is minimised.
    pub objective: f64,
}

impl MixSelection {
    /// Creates the selection from a split. It keeps the scores of the threshold points' own labels, and the scores of
    /// all labels for the measured points.
    pub(super) fn new(scores: &PairedScores, labels: &[u32], split: &TuningSplit, classes: usize) -> Result<Self> {
        let labels_of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
        let TuningSplit { threshold_rows, measured_rows } = split;
        let (rank, contrast) = scores.select(threshold_rows).of_labels(&labels_of(threshold_rows));
        Ok(Self {
            rank: CalibrationScores::new(rank)?,
            contrast: CalibrationScores::new(contrast)?,
            scores: scores.select(measured_rows),
            labels: labels_of(measured_rows),
            classes,
        })
    }

    /// Returns the best mix for `alpha`, and the grid from which it was selected.
    pub fn select(&self, alpha: f64) -> Result<(f64, Vec<Trial>)> {
        let mut trials = Vec::with_capacity(STEPS + 1);
        for step in 0..=STEPS {
            let mix = step as f64 / STEPS as f64;
            let (size, violation) = self.measure(mix, alpha)?;
            trials.push(Trial { mix, size, violation, objective: 0.0 });
        }
        let sizes = standardised(trials.iter().map(|trial| trial.size));
        let violations = standardised(trials.iter().map(|trial| trial.violation));
        let mut best = 0;
        for (place, (size, violation)) in sizes.into_iter().zip(violations).enumerate() {
            trials[place].objective = SIZE_WEIGHT * size + VIOLATION_WEIGHT * violation;
            if trials[place].objective < trials[best].objective - TIE {
                best = place;
            }
        }
        Ok((trials[best].mix, trials))
    }

    /// Returns the mean size and the class-conditional coverage violation of the sets under a mix at error level
    /// `alpha`.
    fn measure(&self, mix: f64, alpha: f64) -> Result<(f64, f64)> {
        let (rank_alpha, contrast_alpha) = share(alpha, mix);
        let rank_threshold = self.rank.threshold(rank_alpha)?.value;
        let contrast_threshold = self.contrast.threshold(contrast_alpha)?.value;
        let passes = |rank: f64, contrast: f64| rank <= rank_threshold && contrast <= contrast_threshold;
        // If labels without a score pass, every label passes.
        let everything = passes(f64::INFINITY, f64::INFINITY);
        let mut total = 0;
        let mut by_class = vec![(0, 0); self.classes];
        for (query, &truth) in self.labels.iter().enumerate() {
            let (labels, ranks, contrasts) = self.scores.row(query);
            let mut covered = everything;
            if everything {
                total += self.classes;
            } else {
                for ((&label, &rank), &contrast) in labels.iter().zip(ranks).zip(contrasts) {
                    let within = passes(rank, contrast);
                    total += usize::from(within);
                    covered |= within && label == truth;
                }
            }
            let (hits, points) = &mut by_class[truth as usize];
            *hits += usize::from(covered);
            *points += 1;
        }
        let n = self.labels.len().max(1) as f64;
        Ok((total as f64 / n, class_coverage_violation(&by_class, alpha)))
    }
}

/// Scales values to mean 0 and variance 1, or to zeros if they do not vary.
fn standardised(values: impl ExactSizeIterator<Item = f64> + Clone) -> Vec<f64> {
    let n = values.len() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let deviation = (values.clone().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
    if deviation <= 1e-12 * mean.abs().max(1e-12) {
        return vec![0.0; values.len()];
    }
    values.map(|value| (value - mean) / deviation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::LabelScores;

    type Row<'a> = &'a [(u32, f64)];

    fn tuning(rows: &[(Row<'_>, Row<'_>)], labels: Vec<u32>) -> MixSelection {
        let rank = LabelScores::from_rows(rows.iter().map(|row| row.0));
        let contrast = LabelScores::from_rows(rows.iter().map(|row| row.1));
        let scores = CalibrationScores::new((1..=99).map(f64::from).collect()).unwrap();
        MixSelection {
            rank: scores.clone(),
            contrast: scores,
            scores: PairedScores::join(&rank, &contrast),
            labels,
            classes: 4,
        }
    }

    #[test]
    fn ties_go_to_the_smaller_mix() {
        // Every score is far below every threshold: nothing varies over the grid.
        let part = tuning(&[(&[(1, 1.0)], &[(1, 1.0)])], vec![1]);
        let (mix, trials) = part.select(0.1).unwrap();
        assert_eq!((mix, trials.len()), (0.0, 11));
        assert!(trials.iter().all(|trial| trial.objective == 0.0));
    }

    #[test]
    fn smaller_sets_win() {
        // Label 2 is wrong, and only mix 1 excludes it: α = 0.1 then gives the contrastive score the threshold 90.
        let part = tuning(&[(&[(1, 1.0), (2, 1.0)], &[(1, 1.0), (2, 90.5)])], vec![1]);
        let (mix, trials) = part.select(0.1).unwrap();
        assert_eq!(mix, 1.0);
        assert_eq!((trials[0].size, trials[10].size), (2.0, 1.0));
    }
}
