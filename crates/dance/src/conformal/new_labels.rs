//! A label that nobody has: "none of these" as a member of sets, with a p-value as exact as any other.
//!
//! A query with a label of its own is, in the bag, what a calibration point is whose label neither a fit point nor any other point of
//! the bag has: a single (Good and Turing). Singles are compared by how far their nearest point is, all others conform better:
//! `p = (1 + #{singles i : d_i ≥ d}) / (n+1)`, where the query may be a single's nearest point. One symmetric function of the bag,
//! so among points that carry a label nobody has, `P(p ≤ ε)` is at most ε, and so is the share of all points that are such and missed.
//!
//! Sets at α spend ε on these and α - ε on labels that are known. ε is what the fit part says: a bound on the share of new labels by
//! its own singles, k of N: `ε = (k + 1 + 2√(k+1)) / (N+1)`, at least 1/(n+1), at most α/2. Where new labels are so rare that the
//! bound is below α/2, hardly any set needs "none of these", and missing them is paid for.

use crate::neighbors::{Neighbors, Reached};

/// Calibration points whose label nobody else has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Singles {
    /// Their row, and the squared distance to the nearest point, by row.
    points: Vec<(u32, f64)>,
    /// How often a new label is to be expected, by the fit points.
    expected: f64,
    calibration_points: usize,
}

/// The share of points with labels of their own among `labels`, from above: what half of them would hardly exceed.
fn expected(labels: &[u32]) -> f64 {
    let counts = counts_of(labels);
    let single = labels.iter().filter(|&&label| counts[label as usize] == 1).count() as f64 + 1.0;
    (single + 2.0 * single.sqrt()) / (labels.len() as f64 + 1.0)
}

fn counts_of(labels: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; labels.iter().max().map_or(0, |&last| last as usize + 1)];
    for &label in labels {
        counts[label as usize] += 1;
    }
    counts
}

impl Singles {
    /// `bag` are the neighbors of every calibration point, `labels` their labels.
    pub(crate) fn new(bag: &Neighbors, labels: &[u32], fit: &[u32]) -> Self {
        let (own, known) = (counts_of(labels), counts_of(fit));
        let is_single = |label: u32| {
            own[label as usize] == 1 && known.get(label as usize).is_none_or(|&count| count == 0)
        };
        let nearest = |row: usize| bag.squared(row).first().copied().unwrap_or(f64::INFINITY);
        let each = labels.iter().enumerate().filter(|(_, label)| is_single(**label));
        Self {
            points: each.map(|(row, _)| (row as u32, nearest(row))).collect(),
            expected: expected(fit),
            calibration_points: labels.len(),
        }
    }

    /// How many calibration points and the query itself conform no better when it has a label that nobody has.
    pub(crate) fn counts(&self, found: &Neighbors, reached: &Reached) -> Vec<u32> {
        let count = |query: usize| {
            let far = found.squared(query).first().copied().unwrap_or(f64::INFINITY);
            let near = reached.get(query);
            let reaches = |&&(row, nearest): &&(u32, f64)| {
                let to_query =
                    near.iter().find(|(id, _)| *id == row).map_or(f64::INFINITY, |(_, squared)| *squared);
                nearest.min(to_query) >= far
            };
            1 + self.points.iter().filter(reaches).count() as u32
        };
        (0..found.len()).map(count).collect()
    }

    /// What of `alpha` is spent on labels that nobody has.
    pub(crate) fn share(&self, alpha: f64) -> f64 {
        self.expected.max(1.0 / (self.calibration_points as f64 + 1.0)).min(alpha / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fit_points_let_expect() {
        // 2 singles of 8: (3 + 2√3)/9; none of 99: (1 + 2)/100.
        assert!((expected(&[0, 0, 1, 2, 2, 2, 3, 0]) - (3.0 + 2.0 * 3f64.sqrt()) / 9.0).abs() < 1e-15);
        assert!((expected(&[4; 99]) - 0.03).abs() < 1e-15);
        let singles = Singles { points: Vec::new(), expected: 0.03, calibration_points: 19 };
        assert_eq!([0.2, 0.08, 0.01].map(|alpha| singles.share(alpha)), [0.05, 0.04, 0.005]);
    }
}
