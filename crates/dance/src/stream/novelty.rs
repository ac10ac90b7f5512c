//! A test whether more points of a stream are novel (unlike all calibration points) than chance explains. The module
//! [`scores`](crate::scores) computes the p-value of novelty of each point.

use crate::evaluation::coverage_at_most;

/// The error level of the test in [`flagged_beyond_chance`].
const BEYOND_CHANCE: f64 = 0.001;

/// Returns whether more points are flagged as novel than chance explains, by a test at level 0.001. `flagged` of all
/// `points` have a novelty p-value of at most `level`. All p-values come from the same calibration points, whose number
/// is `calibration`. So the number of flagged points has a beta-binomial distribution.
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
