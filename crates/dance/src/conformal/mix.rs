//! The mix: how the error level is shared between the two scores, and how it is selected (the paper, appendix F).
//!
//! `α_clr = mix·α` and `α_knn = (1-mix)·α`; 0 is the paper's k-NN set, 1 its CLR set. Selection runs over the grid
//! 0, 0.1 … 1: thresholds from one part of the calibration points, sets for the rest, and
//! `argmin 0.8·z(Size) + 0.2·z(CCV)`, z standardised over the grid. A column that does not vary counts 0; ties go to the
//! smaller mix. Test points never take part.
//!
//! In exact mode a mix under which sets hold every label takes no part, unless all do, and ln(Size) stands for Size: one end of the grid
//! that returns every label would otherwise make all other sizes look alike.
//!
//! Cost: scores are computed once and kept; a selection only moves thresholds, 11 looks at every label of every point.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::evaluation::metrics::class_coverage_violation;
use crate::method::Calibration;
use crate::scores::paired::PairedScores;
use crate::scores::threshold::CalibrationScores;

/// Steps of the grid.
const STEPS: usize = 10;
const SIZE_WEIGHT: f64 = 0.8;
const VIOLATION_WEIGHT: f64 = 0.2;
/// Objectives closer than this are ties: the order of a sum must not decide.
const TIE: f64 = 1e-9;

/// `(α_knn, α_clr)`.
pub fn share(alpha: f64, mix: f64) -> (f64, f64) {
    ((1.0 - mix) * alpha, mix * alpha)
}

/// What selecting a mix needs, for any α: kept with the model.
#[derive(Clone, Debug, PartialEq)]
pub struct MixSelection {
    /// Rank scores of the points that give thresholds.
    pub rank: CalibrationScores,
    /// Their contrastive scores.
    pub contrast: CalibrationScores,
    /// Scores of every label of the points whose sets are judged.
    pub scores: PairedScores,
    /// The true labels of those points.
    pub labels: Vec<u32>,
    /// Number of classes.
    pub classes: usize,
    /// How sizes are compared.
    pub compared: Compared,
}

/// How the sizes of a grid are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// As in the paper: all of them, as they are.
    AsTheyAre,
    /// By ratios, without those that hold every label.
    ByRatio,
}

impl Compared {
    /// As the mode wants it.
    pub(crate) fn of(mode: Calibration) -> Self {
        if mode == Calibration::Full { Self::ByRatio } else { Self::AsTheyAre }
    }
}

/// One point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The mix.
    pub mix: f64,
    /// Mean set size.
    pub size: f64,
    /// Class-conditional coverage violation.
    pub violation: f64,
    /// What is minimised.
    pub objective: f64,
}

impl MixSelection {
    /// The best mix of two sets for `alpha`, and the grid it was chosen from.
    pub fn select(&self, alpha: f64) -> Result<(f64, Vec<Trial>)> {
        let Self { scores, labels, classes, compared, .. } = self;
        let judged = Judged { scores, labels, classes: *classes, compared: *compared };
        judged.select(alpha, |mix| {
            let (rank_alpha, contrast_alpha) = share(alpha, mix);
            let rank = self.rank.threshold(rank_alpha)?.value;
            let contrast = self.contrast.threshold(contrast_alpha)?.value;
            Ok(move |r: f64, c: f64| r <= rank && c <= contrast)
        })
    }
}

/// Points whose sets are judged.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'a> {
    /// Of every label.
    pub(crate) scores: &'a PairedScores,
    pub(crate) labels: &'a [u32],
    pub(crate) classes: usize,
    pub(crate) compared: Compared,
}

impl Judged<'_> {
    /// The best mix for `alpha`, and the grid it was chosen from. `rule(mix)` says which scores a label may have in a set.
    pub(crate) fn select<W: Fn(f64, f64) -> bool>(
        self,
        alpha: f64,
        rule: impl Fn(f64) -> Result<W>,
    ) -> Result<(f64, Vec<Trial>)> {
        let mut trials = Vec::with_capacity(STEPS + 1);
        for step in 0..=STEPS {
            let mix = step as f64 / STEPS as f64;
            let (size, violation) = self.judge(rule(mix)?, alpha);
            trials.push(Trial { mix, size, violation, objective: 0.0 });
        }
        let everything = |trial: &Trial| trial.size >= self.classes as f64;
        let compared: Vec<usize> = match self.compared {
            Compared::ByRatio if !trials.iter().all(everything) => {
                (0..trials.len()).filter(|&place| !everything(&trials[place])).collect()
            }
            _ => (0..trials.len()).collect(),
        };
        let size = |&place: &usize| match self.compared {
            Compared::AsTheyAre => trials[place].size,
            // An average of nothing is as good as a label in a thousand sets.
            Compared::ByRatio => trials[place].size.max(1e-3).ln(),
        };
        let sizes = standardised(compared.iter().map(size));
        let violations = standardised(compared.iter().map(|&place| trials[place].violation));
        let mut best = compared[0];
        for (&place, (size, violation)) in compared.iter().zip(sizes.into_iter().zip(violations)) {
            trials[place].objective = SIZE_WEIGHT * size + VIOLATION_WEIGHT * violation;
            if trials[place].objective < trials[best].objective - TIE {
                best = place;
            }
        }
        Ok((trials[best].mix, trials))
    }

    /// Mean size and class-conditional violation of the sets of labels whose scores pass.
    fn judge(self, passes: impl Fn(f64, f64) -> bool, alpha: f64) -> (f64, f64) {
        // Labels without any score pass as well, and so does every label.
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
        (total as f64 / n, class_coverage_violation(&by_class, alpha))
    }
}

/// Mean 0, variance 1; zeros when nothing varies.
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
            compared: Compared::AsTheyAre,
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
        // A wrong label that only the contrastive score at mix 1 (α 0.1: threshold 90) throws out.
        let part = tuning(&[(&[(1, 1.0), (2, 1.0)], &[(1, 1.0), (2, 90.5)])], vec![1]);
        let (mix, trials) = part.select(0.1).unwrap();
        assert_eq!(mix, 1.0);
        assert_eq!((trials[0].size, trials[10].size), (2.0, 1.0));
    }

    #[test]
    fn an_end_with_every_label_does_not_hide_the_rest() {
        // Sizes of 4 (every label), 1 and 3 for mix 0, 0.1 to 0.8 and above, with the better coverage of classes where sets are larger:
        // as they are, 4 stretches the scale; by ratios it takes no part.
        let part = tuning(&[(&[(1, 1.0), (2, 1.0)], &[(1, 1.0), (2, 90.5)])], vec![1]);
        let judged = |compared| {
            let judged = Judged { scores: &part.scores, labels: &part.labels, classes: 4, compared };
            let passes = |mix: f64| {
                move |rank: f64, contrast: f64| mix == 0.0 || (rank <= 1.0 && contrast <= 90.0 + mix)
            };
            judged.select(0.1, |mix| Ok(passes(mix))).unwrap()
        };
        let (mix, trials) = judged(Compared::ByRatio);
        assert_eq!((trials[0].size, trials[1].size, trials[6].size), (4.0, 1.0, 2.0));
        assert_eq!(mix, 0.1);
        // z over ten sizes of ln 1 (four) and ln 2 (six): the mean is 0.6 ln 2, the deviation √0.24·ln 2.
        let expected = SIZE_WEIGHT * -0.6 / 0.24f64.sqrt();
        assert!((trials[1].objective - expected).abs() < 1e-12, "{trials:?}");
        assert_eq!(trials[0].objective, 0.0);
        assert_eq!(judged(Compared::AsTheyAre).1[0].objective.total_cmp(&0.0), std::cmp::Ordering::Greater);
    }
}
