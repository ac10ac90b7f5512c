//! How several scores of a label become one decision.
//!
//! With `N(s)` = the number of calibration scores of at least s (for a point of them, itself included):
//! - **union** (the paper): each score has its own share of α, and a label must pass both.
//! - **joint**: `t = min( N_rank/(1-mix), N_contrast/mix )` is, up to the factor 1/(n+1), the largest error level at which the label is
//!   still in the union set. `-t` is one score, thresholded at the whole α: the union bound's slack is gone.
//! - **fuse**: `S = -( ln N_rank + ½·ln N_contrast + ln N_probability )`, evidence added up as Fisher does with p-values; the
//!   third score is `1 - p_y`, and the rank breaks its ties with it. Computed as `-N_rank²·N_contrast·N_probability²`, which
//!   orders like S and needs no logarithm: whole numbers, so ties are exact (up to n of about 1500; beyond, to 1e-15).
//! - **evidence**: none of these: `-ln p(y)` of a posterior that experts of their own make (`evidence`).

use crate::scores::threshold::CalibrationScores;

/// The weight of `1 - p_y` in the rank that breaks its ties with it: below 1, so that it never overrules a rank.
const TIE_WEIGHT: f64 = 0.99;

/// The mix in millionths is a whole number.
const MILLION: f64 = 1e6;

/// Rank, contrastive and probability score of one label.
pub(crate) type Scores = [f64; 3];
/// For each of them, how many scores are at least as large.
pub(crate) type AtLeast = [u32; 3];

/// The scores that are fused, from the raw rank and contrastive score and the class probability.
pub(super) fn with_probability(rank: f64, contrast: f64, probability: f64) -> Scores {
    let unlikely = 1.0 - probability;
    [rank + TIE_WEIGHT * unlikely, contrast, unlikely]
}

/// How counts become one score, the smaller the better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    Joint { mix: f64 },
    Fuse,
}

impl Rule {
    /// What the offset of a class weighs beside the logarithm of a score, where it is made of logarithms of levels too: as much as the
    /// logarithms that are added up where the probability is among them, less where the score is another than that (`docs/method.md`).
    pub(super) fn offset_weight(self) -> f64 {
        match self {
            Self::Joint { .. } => 0.4,
            Self::Fuse => 5.0,
        }
    }

    /// Falls (or stays) as any count grows.
    pub(super) fn score(self, counts: AtLeast) -> f64 {
        match self {
            Self::Joint { mix } => {
                // Both sides times mix·(1-mix), in millionths: whole numbers, so that ties are ties.
                let (rank, contrast) = (f64::from(counts[0]), f64::from(counts[1]));
                let mix = (mix * MILLION).round();
                if mix == 0.0 {
                    -rank
                } else if mix == MILLION {
                    -contrast
                } else {
                    -(rank * mix).min(contrast * (MILLION - mix))
                }
            }
            Self::Fuse => {
                // No calibration score is as large: still one, or the evidence would be infinite.
                let [rank, contrast, probability] = counts.map(|count| f64::from(count.max(1)));
                -(rank * rank * contrast * probability * probability)
            }
        }
    }
}

/// Calibration scores, against which others are counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Levels {
    pub(crate) rank: CalibrationScores,
    pub(crate) contrast: CalibrationScores,
    pub(crate) probability: CalibrationScores,
}

impl Levels {
    pub(super) fn new(scores: &[Scores]) -> crate::Result<Self> {
        let column =
            |which: usize| CalibrationScores::new(scores.iter().map(|scores| scores[which]).collect());
        Ok(Self { rank: column(0)?, contrast: column(1)?, probability: column(2)? })
    }

    pub(super) fn columns(&self) -> [&CalibrationScores; 3] {
        [&self.rank, &self.contrast, &self.probability]
    }

    /// For each score, the number of calibration scores that are at least as large.
    pub(super) fn count(&self, scores: Scores) -> AtLeast {
        let columns = self.columns();
        std::array::from_fn(|which| columns[which].at_least(scores[which]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joint_is_the_level_at_which_a_label_drops_out() {
        // With mix 0.25 the shares are 0.75α and 0.25α, so t = min(20/0.75, 6/0.25) = 24; times 0.75·0.25 it is 4.5.
        assert_eq!(Rule::Joint { mix: 0.25 }.score([20, 6, 1]), -4.5e6);
        assert_eq!(Rule::Joint { mix: 0.3 }.score([7, 9, 1]), Rule::Joint { mix: 0.3 }.score([8, 3, 1]));
        assert_eq!(Rule::Joint { mix: 0.0 }.score([20, 0, 1]), -20.0);
        assert_eq!(Rule::Joint { mix: 1.0 }.score([0, 6, 1]), -6.0);
    }

    #[test]
    fn fuse_orders_like_the_sum_of_logarithms() {
        let sum = |[a, b, c]: AtLeast| -(f64::from(a).ln() + 0.5 * f64::from(b).ln() + f64::from(c).ln());
        let cases = [[1, 1, 1], [3, 5, 2], [2, 5, 3], [40, 1, 7], [9, 1000, 1], [1, 30, 12]];
        for a in cases {
            for b in cases {
                let (product, sum) = (Rule::Fuse.score(a) - Rule::Fuse.score(b), sum(a) - sum(b));
                assert!(sum.abs() < 1e-12 || (product > 0.0) == (sum > 0.0), "{a:?} {b:?}");
            }
        }
        assert_eq!(Rule::Fuse.score([0, 2, 3]), -18.0);
    }
}
