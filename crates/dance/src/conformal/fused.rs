//! The fused score of the method fuse: rank, contrastive score and class probability of a label in one number.
//!
//! The level `N(s)` of a score s is the number of points in the bag (the calibration points and one query) whose score
//! is at least s. The fused score adds up log levels as Fisher's method adds up log p-values:
//!
//! `S = -( ln N_rank + ½·ln N_contrastive + ln N_probability )`
//!
//! The probability score is `1 - p_y` for the class probability `p_y` of the label, and it orders labels whose ranks
//! tie. S is computed as `-N_rank²·N_contrastive·N_probability²`, which orders labels like S and needs no logarithm.
//! Levels are whole numbers, so S is exact up to n of about 1500 calibration points, and within 1e-15 beyond.

use crate::scores::CalibrationScores;

/// The factor of the probability score where it is added to the rank, to break ties of ranks. It is below 1, so
/// different ranks keep their order.
const TIE_WEIGHT: f64 = 0.99;

/// The rank score, the contrastive score and the probability score of one label, in this order.
pub(crate) type Scores = [f64; 3];
/// The levels of three [`Scores`], in their order. The level of a score is the number of points whose score is at least
/// as large.
pub(crate) type Levels = [u32; 3];

/// Returns the rank score, the contrastive score and the probability score of a label. The rank score includes a term
/// of the probability that breaks ties of ranks.
pub(super) fn scores(rank: f64, contrastive: f64, probability: f64) -> Scores {
    let unlikely = 1.0 - probability;
    [rank + TIE_WEIGHT * unlikely, contrastive, unlikely]
}

/// Returns the fused score of a label, `-N_rank²·N_contrastive·N_probability²`, from its three levels N. It never rises
/// as a level grows.
pub(super) fn fuse(levels: Levels) -> f64 {
    // A level of 0 counts as 1, because its logarithm would be infinite.
    let [rank, contrastive, probability] = levels.map(|level| f64::from(level.max(1)));
    -(rank * rank * contrastive * probability * probability)
}

/// The rank, contrastive and probability scores of the calibration points' own labels. Each of the three lists is
/// sorted by itself, so that bisection finds levels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortedScores([CalibrationScores; 3]);

impl SortedScores {
    pub(super) fn new(scores: &[Scores]) -> crate::Result<Self> {
        let column = |which: usize| CalibrationScores::new(scores.iter().map(|scores| scores[which]).collect());
        Ok(Self([column(0)?, column(1)?, column(2)?]))
    }

    /// Returns the levels of three scores: for each one, the number of calibration points whose score is at least as
    /// large.
    pub(super) fn levels(&self, scores: Scores) -> Levels {
        std::array::from_fn(|which| self.0[which].at_least(scores[which]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_orders_like_the_sum_of_logarithms() {
        let sum = |[a, b, c]: Levels| -(f64::from(a).ln() + 0.5 * f64::from(b).ln() + f64::from(c).ln());
        let cases = [[1, 1, 1], [3, 5, 2], [2, 5, 3], [40, 1, 7], [9, 1000, 1], [1, 30, 12]];
        for a in cases {
            for b in cases {
                let (product, sum) = (fuse(a) - fuse(b), sum(a) - sum(b));
                assert!(sum.abs() < 1e-12 || (product > 0.0) == (sum > 0.0), "{a:?} {b:?}");
            }
        }
        assert_eq!(fuse([0, 2, 3]), -18.0);
    }
}
