//! The mix (λ in the paper), which divides the error level α between two scores, and its selection (the paper, appendix
//! F).
//!
//! The contrastive score gets the level `α_clr = mix·α`, the rank score `α_knn = (1-mix)·α`. A mix of 0 gives the
//! paper's k-NN set, 1 its CLR set. The mix is selected from the grid 0, 0.1 … 1. A part of the calibration points
//! gives thresholds, and the sets of the remaining ones are measured. The best mix minimises
//! `0.8·z(Size) + 0.2·z(CCV)`. Size is the mean set size, CCV the class coverage violation, and z standardises values
//! over the grid. A term that does not vary counts as 0, and ties go to the smaller mix.
//!
//! Cost: scores are computed once and stored. A selection compares every score of every measured point with 11
//! thresholds.

use std::collections::HashMap;

use serde::Serialize;

use crate::data::split;
use crate::error::{Error, Result};
use crate::evaluation::metrics::class_coverage_violation;
use crate::numeric::matrix::Matrix;
use crate::numeric::random;
use crate::scores::calibration::CalibrationScores;
use crate::scores::paired::PairedScores;

/// The number of steps in the grid of [mixes](self) from 0 to 1.
const STEPS: usize = 10;
const SIZE_WEIGHT: f64 = 0.8;
const VIOLATION_WEIGHT: f64 = 0.2;
/// The largest difference of two objectives that count as equal, so that rounding does not select the mix.
const TIE: f64 = 1e-9;

/// The share of the calibration points whose scores give thresholds while the mix is selected. The sets of the other
/// points are measured.
const THRESHOLD_SHARE: f64 = 0.8;
/// The smallest number of points on which a [mix](self) is selected.
const LEAST_TUNING_POINTS: usize = 5;
/// The tag of the random stream that halves the calibration points.
const HALVES_PURPOSE: u64 = 0x4a1f;

/// Divides the error level `alpha` by the mix. Returns the level `(1-mix)·α` of the rank score and the level `mix·α` of
/// the contrastive score.
pub(super) fn share(alpha: f64, mix: f64) -> (f64, f64) {
    ((1.0 - mix) * alpha, mix * alpha)
}

/// The scores from which a [mix](self) can be selected at any error level. A model file stores them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MixSelection {
    /// The rank scores of the points that give thresholds, each for the point's own label.
    pub(crate) rank: CalibrationScores,
    /// The contrastive scores of the points that give thresholds, each for the point's own label.
    pub(crate) contrast: CalibrationScores,
    /// The rank and contrastive scores of all labels, for the points whose sets are measured.
    pub(crate) scores: PairedScores,
    /// The true labels of the points whose sets are measured.
    pub(crate) labels: Vec<u32>,
    pub(crate) classes: usize,
}

/// The measurements of the prediction sets under one [mix](self), out of the grid 0, 0.1 … 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Trial {
    mix: f64,
    /// The mean number of labels in a set.
    size: f64,
    /// The class coverage violation (CCV) of the sets, in per cent.
    violation: f64,
    /// The weighted sum of the standardised size and violation. The selected mix has the smallest one.
    objective: f64,
}

impl MixSelection {
    /// Keeps those `scores` that a selection needs. From the points that give thresholds, these are the scores of their
    /// own labels. From the points whose sets are measured, they are the scores of all labels.
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

    /// Returns the best [mix](self) at error level `alpha`, and the measurements of the prediction sets under all 11
    /// mixes.
    pub(super) fn select(&self, alpha: f64) -> Result<(f64, Vec<Trial>)> {
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

    /// Returns two measurements of the prediction sets under `mix` at error level `alpha`: their mean size and their
    /// class coverage violation.
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

/// Returns the values, shifted and scaled to mean 0 and variance 1. If the values do not vary, the result is zeros.
fn standardised(values: impl ExactSizeIterator<Item = f64> + Clone) -> Vec<f64> {
    let n = values.len() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let deviation = (values.clone().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
    if deviation <= 1e-12 * mean.abs().max(1e-12) {
        return vec![0.0; values.len()];
    }
    values.map(|value| (value - mean) / deviation).collect()
}

/// Returns the row numbers of `points` in the order of their coordinates. Points in another order give the same
/// sequence of points.
pub(super) fn canonical_order(points: &Matrix) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..points.rows()).collect();
    rows.sort_by(|&a, &b| {
        let pairs = points.row(a).iter().zip(points.row(b));
        pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

/// Returns the row numbers of two random halves: the first half selects the mix, the second gives thresholds and may be
/// larger by one. The seed and the coordinates of a point decide its half, so the order of the points does not matter.
/// Returns an error for fewer than two points.
pub(super) fn halves(points: &Matrix, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut rows = canonical_order(points);
    if rows.len() < 2 {
        return Err(Error::Data(format!(
            "{} calibration point cannot be halved to select the mix; use more, or give a fixed mix",
            rows.len()
        )));
    }
    let draw = |row: usize| {
        let coordinates = points.row(row).iter().map(|value| u64::from(value.to_bits()));
        random::uniform_of(&[seed, HALVES_PURPOSE].into_iter().chain(coordinates).collect::<Vec<_>>())
    };
    rows.sort_by_cached_key(|&row| draw(row).to_bits());
    let rest = rows.split_off(rows.len() / 2);
    Ok((rows, rest))
}

/// A split of calibration points for the selection of a [mix](self). Row numbers are in ascending order.
pub(super) struct TuningSplit {
    /// The rows of the points that give thresholds (80 %).
    pub(super) threshold_rows: Vec<usize>,
    /// The rows of the points whose sets are measured (20 %).
    pub(super) measured_rows: Vec<usize>,
}

/// Splits `rows` into 80 % and 20 % for the selection of a [mix](self), with equal shares of every class. Returns
/// `None` for fewer than five rows. The split does not depend on the order of the points or on the numbers of the
/// classes.
pub(super) fn tuning_split(rows: &[usize], labels: &[u32], seed: u64) -> Result<Option<TuningSplit>> {
    if rows.len() < LEAST_TUNING_POINTS {
        return Ok(None);
    }
    // Number the classes by their first appearance, so that their ids do not change the split.
    let mut place = HashMap::new();
    let classes: Vec<u32> = rows
        .iter()
        .map(|&row| {
            let next = place.len() as u32;
            *place.entry(labels[row]).or_insert(next)
        })
        .collect();
    let shares = [THRESHOLD_SHARE, 1.0 - THRESHOLD_SHARE];
    let parts = match split::stratified(&classes, &shares, seed) {
        // Every class has one point, so the split cannot be stratified.
        Err(Error::Data(_)) => split::uniform(rows.len(), &shares, seed)?,
        parts => parts?,
    };
    let in_order = |part: Vec<usize>| {
        let mut part: Vec<usize> = part.into_iter().map(|place| rows[place]).collect();
        part.sort_unstable();
        part
    };
    let mut parts = parts.into_iter().map(in_order);
    Ok(parts
        .next()
        .zip(parts.next())
        .map(|(threshold_rows, measured_rows)| TuningSplit { threshold_rows, measured_rows }))
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
