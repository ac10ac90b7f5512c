//! RC3P, rank-calibrated class-conditional conformal prediction (Shi and others, 2024): class-wise thresholds, for the
//! most probable labels only.
//!
//! With `ε_y(k)` the share of y's calibration points at which y ranks beyond k:
//! ```text
//! k_y = the least k with ε_y(k) < α      α_y = α - ε_y(k_y)
//! C = { y : rank of y ≤ k_y and score of y ≤ q_y(1-α_y) }
//! ```
//! `q_y` is the conformal threshold of class y by itself. The share that the rank limit misses is subtracted from α, so
//! that a class is missed at `α_y + ε_y = α`. Rank limit and threshold come from the same points, so this holds up to
//! the error of `ε_y`. A class without calibration points is in every set. The score is APS with its draw, as in the
//! paper's main tables.

use super::class_wise::{ClassCalibration, Cuts};
use dance::Result;

/// Returns the rank limit and the threshold of every class at error level `alpha`.
pub fn cuts(calibration: &ClassCalibration, alpha: f64) -> Result<Cuts> {
    let mut cuts = Cuts::of_scores(vec![f64::INFINITY; calibration.classes()]);
    for (class, rows) in calibration.members().iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        let mut ranks: Vec<usize> = rows.iter().map(|&row| calibration.ranked_labels()[row].rank).collect();
        ranks.sort_unstable();
        let beyond =
            |last: usize| (ranks.len() - ranks.partition_point(|&rank| rank <= last)) as f64 / ranks.len() as f64;
        // The share falls at ranks that occur, and is 0 at the largest of them.
        let mut lasts = std::iter::once(1).chain(ranks.iter().copied());
        let last = lasts.find(|&last| beyond(last) < alpha).unwrap_or(usize::MAX);
        cuts.ranks[class] = last;
        cuts.thresholds[class] = calibration.threshold(rows, alpha - beyond(last))?;
    }
    Ok(cuts)
}
