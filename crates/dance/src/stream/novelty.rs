//! Novelty of many points: whether more of them are novel than chance explains. The p-value of novelty is in
//! [`scores`](crate::scores).

use crate::evaluation::coverage_at_most;

/// The error level of the test for too many flagged points.
const BEYOND_CHANCE: f64 = 0.001;

/// Tests at level 0.001 whether more points are flagged as novel than chance explains: `flagged` of `points` p-values
/// are at most `level`. The p-values share their calibration points, whose number is `calibration`, so the number of
/// flagged points is beta-binomial.
///
/// ```
/// use dance::stream::flagged_beyond_chance as beyond;
/// assert!(!beyond(10, 1000, 0.01, 1500) && beyond(40, 1000, 0.01, 1500));
/// ```
pub fn flagged_beyond_chance(flagged: usize, points: usize, level: f64, calibration: usize) -> bool {
    if flagged == 0 || points == 0 {
        return false;
    }
    let unflagged = (points - flagged.min(points)) as f64 / points as f64;
    coverage_at_most(unflagged, calibration, points, level) < BEYOND_CHANCE
}
