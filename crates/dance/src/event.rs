//! Events of a long job, as plain data for progress bars, logs and reports.

use serde::{Deserialize, Serialize};

/// A step of a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A job begins that allocates at most `bytes` at its peak.
    Memory {
        /// The number of bytes allocated at the peak.
        bytes: u64,
    },
    /// A search for kernel settings begins.
    SearchBegins {
        /// The number of settings to try.
        evaluations: usize,
        /// The number of training points that each trial uses.
        points: usize,
        /// The number of all training points.
        of: usize,
    },
    /// A setting was evaluated.
    Evaluated(Evaluation),
    /// The best settings are evaluated again on all points.
    Confirming {
        /// The number of settings that are evaluated again.
        candidates: usize,
    },
    /// A kernel ridge regression of the RFM (recursive feature machine) was fitted and evaluated.
    Round(Round),
    /// The kernel is fitted again, on training and validation points together.
    Refitting {
        /// The number of training and validation points.
        points: usize,
    },
    /// Some queries were answered, or the neighbors of some calibration points were found.
    Answered {
        /// The number of queries or calibration points done so far.
        done: usize,
        /// The number of all queries or calibration points.
        of: usize,
    },
    /// Some pictures or texts are embedded.
    Embedded {
        /// The number of pictures or texts done so far.
        done: usize,
        /// The number of all pictures or texts.
        of: usize,
    },
    /// A file is being downloaded.
    Fetching {
        /// The file's name.
        file: String,
        /// The number of bytes received so far.
        done: u64,
        /// The size of the file in bytes, if known.
        of: Option<u64>,
    },
    /// A warning for the user; the job continues.
    Warning(String),
}

/// The accuracy and squared loss of classifier outputs. Qualities are compared by accuracy, and by loss if accuracies
/// are equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The share of points whose label has the largest output.
    pub accuracy: f64,
    /// The mean over the points of `‖f - y‖²`, with the outputs f and the one-hot label y of a point.
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

/// The numerical accuracy of the solution of a kernel ridge regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RidgeReport {
    /// The ridge used, which is larger than the setting if the kernel matrix was not positive definite.
    pub ridge: f64,
    /// The relative residual `‖Y - (K + ridge·I)β‖ / ‖Y‖` on a sample of rows, with the kernel matrix K, the one-hot
    /// labels Y and the solution β.
    pub residual: f64,
    /// The number of steps of iterative refinement.
    pub refinements: usize,
}

/// One iteration of the RFM: a kernel ridge regression and the AGOP (average gradient outer product) of its solution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// The number of the iteration. Iteration 0 uses the identity metric.
    pub round: usize,
    /// The quality on the validation points; `None` without such points.
    pub quality: Option<Quality>,
    /// The accuracy of the regression's solution.
    pub report: RidgeReport,
    /// The wall-clock time of the regression and its AGOP.
    pub seconds: f64,
}

/// One evaluated setting of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The bandwidth in units of the median distance between points.
    pub bandwidth: f64,
    /// The shape ξ of the kernel.
    pub shape: f64,
    /// The number of training points.
    pub points: usize,
    /// The number of AGOP updates before the best iterate.
    pub rounds: usize,
    /// The best iterate's quality on the validation points; [`Quality::WORST`] when the fit failed.
    #[serde(rename = "score")] // the name in result files
    pub quality: Quality,
    /// The wall-clock time of the evaluation.
    pub seconds: f64,
}
