//! Metrics of prediction sets.

use dance::evaluation::breakdown::Breakdown;
use dance::evaluation::metrics::{self, Metrics};
use dance::evaluation::{ProbabilityMetrics, coverage_at_most, coverage_interval};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::arrays;
use crate::errors::Mapped;
use crate::model::to_json;

/// Computes every metric of sets (booleans, one row per point), as JSON.
#[pyfunction]
#[pyo3(signature = (sets, labels, alpha, best=None))]
pub(crate) fn set_metrics(
    sets: PyReadonlyArray2<'_, bool>,
    labels: PyReadonlyArray1<'_, u32>,
    alpha: f64,
    best: Option<PyReadonlyArray1<'_, u32>>,
) -> PyResult<String> {
    let best = best.map(|best| best.as_array().to_vec());
    let labels = labels.as_array().to_vec();
    let classes = sets.shape()[1];
    let metrics = Metrics::new(&arrays::sets(&sets), &labels, classes, alpha, best.as_deref());
    to_json(&metrics.mapped()?)
}

/// Computes coverage by confidence, by set size and by class frequency, as JSON. `confidence` is the largest class
/// probability of every point.
#[pyfunction]
pub(crate) fn breakdown(
    sets: PyReadonlyArray2<'_, bool>,
    labels: PyReadonlyArray1<'_, u32>,
    confidence: PyReadonlyArray1<'_, f32>,
) -> PyResult<String> {
    let (labels, confidence) = (labels.as_array().to_vec(), confidence.as_array().to_vec());
    to_json(&Breakdown::new(&arrays::sets(&sets), &labels, Some(&confidence)).mapped()?)
}

/// Returns log loss, Brier score and expected calibration error of class probabilities. A label beyond their columns
/// has the probability 0.
#[pyfunction]
pub(crate) fn probability_metrics(
    probabilities: PyReadonlyArray2<'_, f32>,
    labels: PyReadonlyArray1<'_, u32>,
) -> PyResult<(f64, f64, f64)> {
    let labels = labels.as_array().to_vec();
    let found = ProbabilityMetrics::new(&arrays::matrix(&probabilities)?, &labels).mapped()?;
    Ok((found.log_loss(), found.brier(), found.calibration_error()))
}

/// Returns the mean class-conditional coverage violation at perfect coverage, for these numbers of points per class.
#[pyfunction]
pub(crate) fn noise_floor(points: Vec<usize>, alpha: f64) -> f64 {
    metrics::noise_floor(points, alpha)
}

/// Returns the interval that holds coverage 95 times in 100 (low, high), and the probability of so low a coverage.
#[pyfunction]
pub(crate) fn coverage_band(calibration: usize, test: usize, alpha: f64, coverage: f64) -> (f64, f64, f64) {
    let (low, high) = coverage_interval(calibration, test, alpha);
    (low, high, coverage_at_most(coverage, calibration, test, alpha))
}
