//! Unlike anything seen: a p-value for "this point comes from where the calibration points come from", without a label.
//!
//! The score of a point is its distance to its [m-th nearest](NOVELTY_NEIGHBORS) reference point, and `p = (1 + #{i : S_i ≥ S}) / (n+1)`
//! over the n calibration points. A point that arrived like them has a small p-value as rarely as that says: `P(p ≤ ε) ≤ ε`, in
//! finite samples.
//!
//! - **exact**: the query joins the bag. It may be among the m nearest of a calibration point, which brings that point nearer, so that
//!   all n+1 distances are one symmetric function of the bag.
//! - **disjoint**: all distances are to other points, and nothing changes.
//! - **reuse**: calibration points are judged without the query among them. Their distances can only be larger so, and the p-value
//!   too: what holds for exact holds here, from the safe side.
//!
//! Cost: nothing is searched that was not; a look at the points that the query reaches, and a bisection.

use crate::error::Result;
use crate::evaluation::CoverageBand;
use crate::neighbors::{Neighbors, Reached};
use crate::scores::threshold::CalibrationScores;

/// The neighbor whose distance says how far away a point is: not the first, which one odd copy would bring near, and fewer than a
/// small class has points.
pub const NOVELTY_NEIGHBORS: usize = 5;

/// How often chance may be called no chance.
const BEYOND_CHANCE: f64 = 0.001;

/// How far the calibration points are from what is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Novelty {
    /// m, or fewer where there are not as many points.
    neighbors: usize,
    /// Squared distances of the calibration points to their m-th neighbor; +∞ for one with fewer.
    squared: CalibrationScores,
}

impl Novelty {
    /// The neighbor that counts where `searched` are found among `reference` points.
    pub(crate) fn neighbors(searched: usize, reference: usize) -> usize {
        NOVELTY_NEIGHBORS.min(searched).min(reference).max(1)
    }

    /// From the neighbors of every calibration point; `searched` and `reference` as above.
    pub(crate) fn new(found: &Neighbors, searched: usize, reference: usize) -> Result<Self> {
        let neighbors = Self::neighbors(searched, reference);
        let of = |row: usize| found.squared(row).get(neighbors - 1).copied().unwrap_or(f64::INFINITY);
        Self::known((0..found.len()).map(of).collect(), neighbors)
    }

    /// From squared distances that were found before.
    pub(crate) fn known(squared: Vec<f64>, neighbors: usize) -> Result<Self> {
        Ok(Self { neighbors, squared: CalibrationScores::new(squared)? })
    }

    /// The neighbor that counts.
    pub(crate) fn nth(&self) -> usize {
        self.neighbors
    }

    /// Squared distances of the calibration points, ascending.
    pub(crate) fn squared(&self) -> &[f64] {
        self.squared.sorted()
    }

    /// How far away a query is, from its neighbors.
    fn distance(&self, squared: &[f64]) -> f64 {
        squared.get(self.neighbors - 1).copied().unwrap_or(f64::INFINITY)
    }

    /// p-values of queries that join no bag.
    pub(crate) fn p_values(&self, found: &Neighbors) -> Vec<f64> {
        (0..found.len()).map(|query| self.squared.p_value(self.distance(found.squared(query)))).collect()
    }

    /// p-values of queries that join the bag whose points have the neighbors `bag`.
    pub(crate) fn p_values_in_bag(&self, found: &Neighbors, reached: &Reached, bag: &Neighbors) -> Vec<f64> {
        let of = |query: usize| {
            let far = self.distance(found.squared(query));
            let comes_near = |&&(id, squared): &&(u32, f64)| {
                let (before, after) = self.moved(bag.squared(id as usize), squared);
                before >= far && after < far
            };
            let nearer = reached.get(query).iter().filter(comes_near).count();
            let count = 1 + self.squared.at_least(far) as usize - nearer;
            count as f64 / (self.squared.len() + 1) as f64
        };
        (0..found.len()).map(of).collect()
    }

    /// A calibration point's squared distance to its m-th neighbor, before and after a newcomer at `squared` joins.
    fn moved(&self, own: &[f64], squared: f64) -> (f64, f64) {
        let before = self.distance(own);
        // Everything behind the newcomer moves back by one place.
        let last = self
            .neighbors
            .checked_sub(2)
            .map_or(0.0, |place| own.get(place).copied().unwrap_or(f64::INFINITY));
        (before, squared.max(last).min(before))
    }
}

/// Whether more points are flagged at `level` than chance explains, once in a thousand times: `flagged` of `points`, against
/// `calibration` points. The points share what they are compared with, so the number is no binomial one: it is as with coverage,
/// see [`CoverageBand`].
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
    CoverageBand::new(calibration, points, level).at_most(unflagged) < BEYOND_CHANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbors at 1, 2, 4 and the second counts.
    #[test]
    fn a_newcomer_pushes_back_what_is_behind_it() {
        let novelty = Novelty::known(vec![1.0], 2).unwrap();
        for (squared, after) in [(0.5, 1.0), (1.5, 1.5), (2.0, 2.0), (3.0, 2.0)] {
            assert_eq!(novelty.moved(&[1.0, 2.0, 4.0], squared), (2.0, after));
        }
        let nearest = Novelty::known(vec![1.0], 1).unwrap();
        assert_eq!(nearest.moved(&[1.0, 2.0], 0.5), (1.0, 0.5));
        assert_eq!(nearest.moved(&[], 7.0), (f64::INFINITY, 7.0));
    }
}
