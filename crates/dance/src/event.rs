//! What a long job tells while it runs: plain data, for progress bars, logs and reports.

use serde::{Deserialize, Serialize};

use crate::numeric::matrix::Matrix;

/// Something that happened during a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A job begins that will take at most `bytes` of memory at its peak.
    Memory {
        /// Bytes at the peak.
        bytes: u64,
    },
    /// A search begins.
    SearchBegins {
        /// Settings to try.
        evaluations: usize,
        /// Training points the trials use.
        points: usize,
        /// Training points there are.
        of: usize,
    },
    /// A setting was tried.
    Evaluated(Evaluation),
    /// The best settings are tried again on all points.
    Confirming {
        /// How many.
        candidates: usize,
    },
    /// A kernel ridge regression of the RFM was fitted and judged.
    Round(Round),
    /// The kernel is fitted once more on training and validation points together.
    Refitting {
        /// Points in all.
        points: usize,
    },
    /// Queries are being answered, or calibration points searched.
    Answered {
        /// So many are done.
        done: usize,
        /// So many there are.
        of: usize,
    },
    /// Pictures or texts are being embedded.
    Embedded {
        /// So many are done.
        done: usize,
        /// So many there are.
        of: usize,
    },
    /// A file is being fetched.
    Fetching {
        /// What it is called.
        file: String,
        /// Bytes that are here.
        done: u64,
        /// Bytes it has, where that is known.
        of: Option<u64>,
    },
    /// Something the user should know; the job goes on.
    Warning(String),
}

/// How well outputs fit labels: more accurate is better, then a smaller squared loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Share of points whose largest output is at their label.
    pub accuracy: f64,
    /// Mean over points of `‖f - y‖²`, y one-hot.
    pub loss: f64,
}

impl Quality {
    /// Of a fit that failed: everything else beats it.
    pub const WORST: Self = Self { accuracy: 0.0, loss: f64::INFINITY };

    /// Judges `outputs` (one row per point) against labels.
    pub fn of(outputs: &Matrix, labels: &[u32]) -> Self {
        let mut hits = 0usize;
        let mut loss = 0.0;
        for (row, &label) in labels.iter().enumerate() {
            let outputs = outputs.row(row);
            hits += usize::from(largest(outputs) == label as usize);
            let squares: f64 = outputs.iter().map(|&value| f64::from(value).powi(2)).sum();
            loss += squares - 2.0 * f64::from(outputs[label as usize]) + 1.0;
        }
        let n = labels.len().max(1) as f64;
        Self { accuracy: hits as f64 / n, loss: loss / n }
    }

    /// Whether this beats `other`.
    pub fn beats(&self, other: &Self) -> bool {
        self.accuracy > other.accuracy || (self.accuracy == other.accuracy && self.loss < other.loss)
    }
}

/// The first of the largest values.
pub(crate) fn largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
        }
    }
    best
}

/// How a kernel ridge regression was solved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RidgeReport {
    /// The ridge in the end: larger than asked for when the kernel matrix was not positive definite.
    pub ridge: f64,
    /// `‖Y - (K + ridge·I)β‖ / ‖Y‖` on a sample of rows.
    pub residual: f64,
    /// Corrections by iterative refinement.
    pub refinements: usize,
}

/// One turn of the RFM's loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// 0 is the identity metric.
    pub round: usize,
    /// Quality on the validation points; `None` without any.
    pub quality: Option<Quality>,
    /// How the regression was solved.
    pub report: RidgeReport,
    /// Wall-clock time of the regression and the AGOP after it.
    pub seconds: f64,
}

/// One setting of the kernel, tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Bandwidth in median distances.
    pub bandwidth: f64,
    /// Shape.
    pub shape: f64,
    /// Training points used.
    pub points: usize,
    /// AGOP updates behind the best iterate.
    pub rounds: usize,
    /// Quality of the best iterate on the validation points; [`Quality::WORST`] when the fit failed.
    #[serde(rename = "score")] // its name in result files
    pub quality: Quality,
    /// Wall-clock time.
    pub seconds: f64,
}
