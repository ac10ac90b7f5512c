//! Novelty p-values: conformal anomaly detection, without labels.
//!
//! The novelty score S of a point is its distance to its [m-th nearest](NOVELTY_NEIGHBORS) reference point. The p-value
//! of a query with score S is `p = (1 + #{i : S_i ≥ S}) / (n+1)`, where `S_i` is the score of calibration point i of n.
//! A query that is exchangeable with the calibration points has `P(p ≤ ε) ≤ ε` in finite samples. The calibration
//! decides which points are reference points:
//!
//! - **full**: the calibration points and the fit points. The query is added to them. If it is among the m nearest
//!   neighbors of a calibration point, that point's score falls.
//! - **split**: the fit points, so a query changes no score.
//! - **reuse**: the calibration points without the query. Scores of calibration points, and hence the p-value, can only
//!   be larger than with the query, so the bound of full calibration still holds.
//!
//! Cost: no search of its own; a visit to each calibration point that has the query among its nearest neighbors, and a
//! bisection.

use crate::error::Result;
use crate::evaluation::coverage_at_most;
use crate::neighbors::{Neighbors, ReverseNeighbors};
use crate::scores::threshold::CalibrationScores;

/// The number m of the neighbor whose distance is the novelty score. It exceeds 1, so that a single near copy does not
/// make a point look familiar.
pub const NOVELTY_NEIGHBORS: usize = 5;

/// The error level of the test for too many flagged points.
const BEYOND_CHANCE: f64 = 0.001;

/// The novelty scores of the calibration points, among which queries are ranked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Novelty {
    /// The number m of the neighbor whose distance is the score; below [`NOVELTY_NEIGHBORS`] if there are fewer.
    neighbors: usize,
    /// The squared distance of each calibration point to its m-th neighbor; +∞ for a point with fewer neighbors.
    squared: CalibrationScores,
}

impl Novelty {
    /// Returns the number m of the neighbor whose distance is the score, if a search finds `searched` neighbors of each
    /// point among `reference` points.
    pub(crate) fn neighbors(searched: usize, reference: usize) -> usize {
        NOVELTY_NEIGHBORS.min(searched).min(reference).max(1)
    }

    /// Computes the scores of the calibration points from their neighbors `found`; [`neighbors`](Self::neighbors)
    /// explains the two numbers.
    pub(crate) fn new(found: &Neighbors, searched: usize, reference: usize) -> Result<Self> {
        let neighbors = Self::neighbors(searched, reference);
        let of = |row: usize| found.squared(row).get(neighbors - 1).copied().unwrap_or(f64::INFINITY);
        Self::from_distances((0..found.len()).map(of).collect(), neighbors)
    }

    /// Takes over the squared distance of each calibration point to its m-th neighbor; `neighbors` is m.
    pub(crate) fn from_distances(squared: Vec<f64>, neighbors: usize) -> Result<Self> {
        Ok(Self { neighbors, squared: CalibrationScores::new(squared)? })
    }

    /// Returns the number m of the neighbor whose distance is the score.
    pub(crate) fn nth(&self) -> usize {
        self.neighbors
    }

    /// Returns the squared distances of the calibration points to their m-th neighbors, ascending.
    pub(crate) fn squared(&self) -> &[f64] {
        self.squared.sorted()
    }

    /// Returns the m-th of the ascending squared distances of a point to its neighbors; +∞ if there are fewer.
    fn distance(&self, squared: &[f64]) -> f64 {
        squared.get(self.neighbors - 1).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the p-values of queries in split calibration or with reuse, from the neighbors `found` of the queries.
    pub(crate) fn p_values(&self, found: &Neighbors) -> Vec<f64> {
        (0..found.len()).map(|query| self.squared.p_value(self.distance(found.squared(query)))).collect()
    }

    /// Returns the p-values of queries in full calibration. `found` holds the neighbors of the queries, `bag` the
    /// neighbors of the calibration points, and `reverse` the calibration points that have a query among their
    /// neighbors.
    pub(crate) fn p_values_in_bag(&self, found: &Neighbors, reverse: &ReverseNeighbors, bag: &Neighbors) -> Vec<f64> {
        let of = |query: usize| {
            let distance = self.distance(found.squared(query));
            // Find the calibration points whose score falls below the query's when the query is added.
            let falls_below = |&&(id, squared): &&(u32, f64)| {
                let (before, after) = self.with_query(bag.squared(id as usize), squared);
                before >= distance && after < distance
            };
            let fallen = reverse[query].iter().filter(falls_below).count();
            let count = 1 + self.squared.at_least(distance) as usize - fallen;
            count as f64 / (self.squared.len() + 1) as f64
        };
        (0..found.len()).map(of).collect()
    }

    /// Returns the squared score of a calibration point before and after a query is added at the squared distance
    /// `squared`. `own` holds the ascending squared distances of the point's neighbors.
    fn with_query(&self, own: &[f64], squared: f64) -> (f64, f64) {
        let before = self.distance(own);
        // Neighbors farther than the query move back by one index, so the (m-1)-th may become the m-th.
        let last = self.neighbors.checked_sub(2).map_or(0.0, |place| own.get(place).copied().unwrap_or(f64::INFINITY));
        (before, squared.max(last).min(before))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbors lie at squared distances 1, 2 and 4, and m is 2.
    #[test]
    fn a_query_moves_farther_neighbors_back() {
        let novelty = Novelty::from_distances(vec![1.0], 2).unwrap();
        for (squared, after) in [(0.5, 1.0), (1.5, 1.5), (2.0, 2.0), (3.0, 2.0)] {
            assert_eq!(novelty.with_query(&[1.0, 2.0, 4.0], squared), (2.0, after));
        }
        let nearest = Novelty::from_distances(vec![1.0], 1).unwrap();
        assert_eq!(nearest.with_query(&[1.0, 2.0], 0.5), (1.0, 0.5));
        assert_eq!(nearest.with_query(&[], 7.0), (f64::INFINITY, 7.0));
    }
}
