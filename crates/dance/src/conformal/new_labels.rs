//! New labels, which no point of the model has: sets that can hold "a new label".
//!
//! **P-value**: the bag consists of the n calibration points and the query. A singleton is a point of the bag whose
//! label no fit point and no other point of the bag has (Good and Turing). A query with a new label is a singleton.
//! Singletons are compared by the distance d to their nearest point, and all other points conform better:
//! `p = (1 + #{singletons i : d_i ≥ d}) / (n+1)`. The query may be the nearest point of a singleton. So p is a
//! symmetric function of the bag, and `P(the label is new and p ≤ ε) ≤ ε`.
//!
//! Sets at error level α spend ε on new labels and α - ε on known labels. The fit points determine ε: if k of N fit
//! points are singletons, then `(k + 1 + 2√(k+1)) / (N+1)` is an upper bound on the share of new labels. This bound is
//! ε, limited to at least 1/(n+1) and at most α/2.

use crate::neighbors::{Neighbors, ReverseNeighbors};
use crate::numeric::counts_of;

/// The test for new labels. It compares a query with the singletons: the calibration points whose label no other point
/// has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewLabels {
    /// For each singleton, its row and its squared distance to the nearest other point. Rows are in ascending order.
    singletons: Vec<(u32, f64)>,
    /// An upper bound on the share of points whose label is new.
    share_bound: f64,
    calibration_points: usize,
}

/// Returns an upper bound on the share of points whose label is new. `labels` are those of the fit points; the
/// [module](self) has the formula.
fn share_bound(labels: &[u32]) -> f64 {
    let counts = counts_of(labels, past_last(labels));
    let single = labels.iter().filter(|&&label| counts[label as usize] == 1).count() as f64 + 1.0;
    (single + 2.0 * single.sqrt()) / (labels.len() as f64 + 1.0)
}

/// Returns the largest label plus 1, or 0 without labels.
fn past_last(labels: &[u32]) -> usize {
    labels.iter().max().map_or(0, |&last| last as usize + 1)
}

impl NewLabels {
    /// Finds the singletons among the calibration points. `bag` holds the neighbors of these points and `labels` their
    /// labels. `fit` holds the labels of the fit points.
    pub(super) fn new(bag: &Neighbors, labels: &[u32], fit: &[u32]) -> Self {
        let (own, known) = (counts_of(labels, past_last(labels)), counts_of(fit, past_last(fit)));
        let is_singleton =
            |label: u32| own[label as usize] == 1 && known.get(label as usize).is_none_or(|&count| count == 0);
        let nearest = |row: usize| bag.squared(row).first().copied().unwrap_or(f64::INFINITY);
        let each = labels.iter().enumerate().filter(|(_, label)| is_singleton(**label));
        Self {
            singletons: each.map(|(row, _)| (row as u32, nearest(row))).collect(),
            share_bound: share_bound(fit),
            calibration_points: labels.len(),
        }
    }

    /// Returns the count of "a new label" for each query. It is 1 + the number of singletons whose nearest point is at
    /// least as far away as that of the query. `found` holds the neighbors of the queries, and `reached` the
    /// calibration points that have a query among their neighbors.
    pub(super) fn counts(&self, found: &Neighbors, reached: &ReverseNeighbors) -> Vec<u32> {
        let count = |query: usize| {
            let distance = found.squared(query).first().copied().unwrap_or(f64::INFINITY);
            let near = &reached[query];
            let reaches = |&&(row, nearest): &&(u32, f64)| {
                let to_query = near.iter().find(|(id, _)| *id == row).map_or(f64::INFINITY, |(_, squared)| *squared);
                nearest.min(to_query) >= distance
            };
            1 + self.singletons.iter().filter(reaches).count() as u32
        };
        (0..found.len()).map(count).collect()
    }

    /// Returns the part ε of the error level `alpha` that sets spend on new labels.
    pub(super) fn share(&self, alpha: f64) -> f64 {
        self.largest_share().min(alpha / 2.0)
    }

    /// Returns the largest part ε that sets spend on new labels, over all error levels.
    pub(super) fn largest_share(&self) -> f64 {
        self.share_bound.max(1.0 / (self.calibration_points as f64 + 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_points_bound_the_share_of_new_labels() {
        // 2 singletons of 8: (3 + 2√3)/9; none of 99: (1 + 2)/100.
        assert!((share_bound(&[0, 0, 1, 2, 2, 2, 3, 0]) - (3.0 + 2.0 * 3f64.sqrt()) / 9.0).abs() < 1e-15);
        assert!((share_bound(&[4; 99]) - 0.03).abs() < 1e-15);
        let none = NewLabels { singletons: Vec::new(), share_bound: 0.03, calibration_points: 19 };
        assert_eq!([0.2, 0.08, 0.01].map(|alpha| none.share(alpha)), [0.05, 0.04, 0.005]);
    }
}
