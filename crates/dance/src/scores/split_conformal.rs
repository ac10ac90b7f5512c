//! Split conformal prediction on class probabilities, with the scores LAC, APS, RAPS or SAPS.
//!
//! The set C at error level α holds the true label y with `P(y ∈ C) ≥ 1-α` in finite samples if the classifier was not
//! fitted on the calibration points. With the kernel machine as classifier, this is the paper's RFM Adapter (§4.1.2).
//! All scores share one pass over the calibration rows and one sort of every query's row.
//!
//! ```
//! use dance::scores::{RankedScore, SplitConformal};
//! use dance::{Context, Matrix};
//! let context = Context::new(1)?;
//! let probabilities = Matrix::new(vec![0.9, 0.1, 0.2, 0.8, 0.6, 0.4, 0.7, 0.3], 4, 2)?;
//! let split = SplitConformal::new(&probabilities, &[0, 1, 1, 0], None, &context)?; // one of four is wrong
//! let threshold = split.threshold(RankedScore::Lac, 0.4)?.value; // the 3rd smallest of 0.1, 0.2, 0.6, 0.3
//! let sets = split.sets(&probabilities, &[(RankedScore::Lac, threshold)], &context);
//! assert_eq!(sets[0].get(0), [0]);
//! # Ok::<(), dance::Error>(())
//! ```

use crate::context::Context;
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::scores::calibration::{CalibrationScores, Threshold};
use crate::scores::ranked::{self, Draws, RankedLabel, RankedScore};
use crate::scores::sets::Sets;

/// The ranks and probabilities of the calibration points' true labels, from which every [`RankedScore`] gets its
/// threshold.
#[derive(Clone, Debug)]
pub struct SplitConformal {
    ranked_labels: Vec<RankedLabel>,
    seed: Option<u64>,
}

impl SplitConformal {
    /// Ranks the true labels of the calibration points by their rows of `probabilities`. With a seed, every row gets a
    /// random draw u between 0 and 1, which randomises scores. Without a seed, u is 0.
    pub fn new(probabilities: &Matrix, labels: &[u32], seed: Option<u64>, context: &Context<'_>) -> Result<Self> {
        let ranked_labels = ranked::ranked_labels(probabilities, labels, Draws::calibration(seed), context)?;
        Ok(Self { ranked_labels, seed })
    }

    /// Returns the true labels of the calibration points with their ranks and probabilities.
    pub fn ranked_labels(&self) -> &[RankedLabel] {
        &self.ranked_labels
    }

    /// Returns the threshold for sets by `score` at error level `alpha`.
    pub fn threshold(&self, score: RankedScore, alpha: f64) -> Result<Threshold> {
        CalibrationScores::new(ranked::scores(score, &self.ranked_labels))?.threshold(alpha)
    }

    /// Returns one list of sets for each pair of a score and a threshold in `cuts`. `probabilities` has one row per
    /// query.
    pub fn sets(&self, probabilities: &Matrix, cuts: &[(RankedScore, f64)], context: &Context<'_>) -> Vec<Sets> {
        ranked::sets(probabilities, cuts, self.query_draws(), context)
    }

    /// Returns the source of the random draws u for queries, one per row of probabilities.
    pub fn query_draws(&self) -> Draws {
        Draws::queries(self.seed)
    }
}
