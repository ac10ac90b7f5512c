//! Events of a long job, as plain data for progress bars, logs and reports.

use serde::{Deserialize, Serialize};

/// A step of a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A job begins that allocates at most `bytes` at its peak.
    Memory {
        /// Bytes allocated at the peak.
        bytes: u64,
    },
    /// A search for kernel settings begins.
    SearchBegins {
        /// The number of settings to try.
        evaluations: usize,
        /// Training points that the trials use.
        points: usize,
        /// Training points in all.
        of: usize,
    },
    /// A setting was evaluated.
    Evaluated(Evaluation),
    /// The best settings are evaluated again on all points.
    Confirming {
        /// The number of these settings.
        candidates: usize,
    },
    /// A kernel ridge regression of the RFM was fitted and evaluated.
    Round(Round),
    /// The kernel is fitted again, on training and validation points together.
    Refitting {
        /// The number of these points.
        points: usize,
    },
    /// Some queries have their answers, or some calibration points their neighbors.
    Answered {
        /// The number done so far.
        done: usize,
        /// The number in all.
        of: usize,
    },
    /// Some pictures or texts are embedded.
    Embedded {
        /// The number done so far.
        done: usize,
        /// The number in all.
        of: usize,
    },
    /// A file is being downloaded.
    Fetching {
        /// The file's name.
        file: String,
        /// Bytes received so far.
        done: u64,
        /// Bytes in all, if known.
        of: Option<u64>,
    },
    /// A warning for the user; the job continues.
    Warning(String),
}

/// The accuracy and squared loss of classifier outputs. Accuracy ranks first, the loss breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Share of points whose largest output is that of their label.
    pub accuracy: f64,
    /// Mean of `‖f - y‖²` over the points, y one-hot.
    pub loss: f64,
}

impl Quality {
    /// The quality of a failed fit, which every other quality beats.
    pub const WORST: Self = Self { accuracy: 0.0, loss: f64::INFINITY };

    /// Returns whether this quality is better than `other`.
    pub fn beats(&self, other: &Self) -> bool {
        self.accuracy > other.accuracy || (self.accuracy == other.accuracy && self.loss < other.loss)
    }
}

/// Accuracy of the solution of a kernel ridge regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RidgeReport {
    /// The ridge used, which is larger than the setting when the kernel matrix was not positive definite.
    pub ridge: f64,
    /// The relative residual `‖Y - (K + ridge·I)β‖ / ‖Y‖` on a sample of rows.
    pub residual: f64,
    /// The number of steps of iterative refinement.
    pub refinements: usize,
}

/// One iteration of the RFM: a regression and the AGOP of its solution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// The iteration's number; 0 has the identity metric.
    pub round: usize,
    /// The quality on the validation points; `None` without such points.
    pub quality: Option<Quality>,
    /// The accuracy of the regression's solution.
    pub report: RidgeReport,
    /// Wall-clock time of the regression and its AGOP.
    pub seconds: f64,
}

/// One evaluated setting of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Bandwidth in units of the median distance.
    pub bandwidth: f64,
    /// Shape ξ of the kernel.
    pub shape: f64,
    /// The number of training points.
    pub points: usize,
    /// The number of AGOP updates before the best iterate.
    pub rounds: usize,
    /// The best iterate's quality on the validation points; [`Quality::WORST`] when the fit failed.
    #[serde(rename = "score")] // the name in result files
    pub quality: Quality,
    /// Wall-clock time.
    pub seconds: f64,
}
