//! RFM adapter: LAC, APS, RAPS or SAPS on the kernel machine's class probabilities (the paper, §4.1.2), plain split
//! conformal prediction: `P(y ∈ C) ≥ 1-α` in finite samples when the calibration points did not fit the kernel.
//!
//! All scores share one look at the calibration rows and one sort of each query's.
//!
//! ```
//! use dance::conformal::methods::adapter::Adapter;
//! use dance::scores::{Lac, RankedScore};
//! use dance::{Context, Matrix};
//! let context = Context::new(1)?;
//! let probabilities = Matrix::new(vec![0.9, 0.1, 0.2, 0.8, 0.6, 0.4, 0.7, 0.3], 4, 2)?;
//! let adapter = Adapter::new(&probabilities, &[0, 1, 1, 0], None, &context)?; // one of four is wrong
//! let threshold = adapter.threshold(&Lac, 0.4)?.value; // the 3rd smallest of 0.1, 0.2, 0.6, 0.3
//! let sets = adapter.sets(&probabilities, &[(&Lac as &dyn RankedScore, threshold)], &context);
//! assert_eq!(sets[0].get(0), [0]);
//! # Ok::<(), dance::Error>(())
//! ```

use crate::context::Context;
use crate::error::Result;
use crate::numeric::matrix::Matrix;
use crate::scores::ranked::{self, Draws, RankedLabel, RankedScore};
use crate::scores::sets::Sets;
use crate::scores::threshold::{CalibrationScores, Threshold};

/// Parts of the seeded draws: calibration points, and points asked about later.
pub(crate) const CALIBRATION_PART: u64 = 0;
pub(crate) const QUERY_PART: u64 = 1;

/// Calibrated on probabilities and the true labels of their rows.
#[derive(Clone, Debug)]
pub struct Adapter {
    ranked_labels: Vec<RankedLabel>,
    seed: Option<u64>,
}

impl Adapter {
    /// With a seed, every row has a draw u; without, u = 0.
    pub fn new(
        probabilities: &Matrix,
        labels: &[u32],
        seed: Option<u64>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let draws = draws(seed, CALIBRATION_PART);
        let ranked_labels = ranked::ranked_labels(probabilities, labels, draws, context)?;
        Ok(Self { ranked_labels, seed })
    }

    /// Where the true labels of the calibration points stand.
    pub fn ranked_labels(&self) -> &[RankedLabel] {
        &self.ranked_labels
    }

    /// The threshold of a score at error level `alpha`.
    pub fn threshold(&self, score: &dyn RankedScore, alpha: f64) -> Result<Threshold> {
        CalibrationScores::new(ranked::scores(score, &self.ranked_labels))?.threshold(alpha)
    }

    /// The sets of queries under several scores and thresholds at once.
    pub fn sets(
        &self,
        probabilities: &Matrix,
        cuts: &[(&dyn RankedScore, f64)],
        context: &Context<'_>,
    ) -> Vec<Sets> {
        ranked::sets(probabilities, cuts, self.query_draws(), context)
    }

    /// The draws of queries, by their row.
    pub fn query_draws(&self) -> Draws {
        draws(self.seed, QUERY_PART)
    }
}

/// The draws of a part: seeded, or 0.
pub(crate) fn draws(seed: Option<u64>, part: u64) -> Draws {
    seed.map_or(Draws::Zero, |seed| Draws::Seeded { seed, part })
}
