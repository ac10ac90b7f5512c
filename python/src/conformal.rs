//! Split conformal prediction on the class probabilities of any classifier.

use dance::scores::{CalibrationScores, RankedScore, SplitConformal, ranked};
use numpy::{PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays;
use crate::errors::Mapped;
use crate::job::workers;

/// A score, calibrated on the probabilities of points with known labels.
#[pyclass(frozen, module = "dance_conformal._native")]
pub(crate) struct Split {
    conformal: SplitConformal,
    score: RankedScore,
    calibration: CalibrationScores,
    threads: usize,
}

#[pymethods]
impl Split {
    #[new]
    fn new(
        py: Python<'_>,
        probabilities: PyReadonlyArray2<'_, f32>,
        labels: PyReadonlyArray1<'_, u32>,
        score: &str,
        options: Vec<f64>,
        seed: Option<u64>,
        threads: usize,
    ) -> PyResult<Self> {
        let score = match (score, &options[..]) {
            ("lac", []) => RankedScore::Lac,
            ("aps", []) => RankedScore::Aps,
            ("raps", &[penalty, free_ranks]) => RankedScore::Raps { penalty, free_ranks: free_ranks as usize },
            ("saps", &[weight]) => RankedScore::Saps { weight },
            _ => return Err(PyValueError::new_err(format!("no score `{score}` with {options:?}"))),
        };
        let (matrix, labels) = (arrays::matrix(&probabilities)?, labels.as_array().to_vec());
        let workers = workers(threads)?;
        let conformal = py.detach(|| SplitConformal::new(&matrix, &labels, seed, &workers)).mapped()?;
        let own = ranked::scores(score, conformal.ranked_labels());
        let calibration = CalibrationScores::new(own).mapped()?;
        Ok(Self { conformal, score, calibration, threads })
    }

    /// Returns the threshold for an error level, and a warning where the calibration points are too few for it.
    fn threshold(&self, alpha: f64) -> PyResult<(f64, Option<String>)> {
        let threshold = self.calibration.threshold(alpha).mapped()?;
        Ok((threshold.value, threshold.warning()))
    }

    /// Returns the sets under several thresholds at once, as booleans.
    fn sets<'py>(
        &self,
        py: Python<'py>,
        probabilities: PyReadonlyArray2<'_, f32>,
        thresholds: Vec<f64>,
    ) -> PyResult<Vec<Bound<'py, PyArray2<bool>>>> {
        let matrix = arrays::matrix(&probabilities)?;
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let workers = workers(self.threads)?;
        let masks = py.detach(|| {
            let cuts: Vec<_> = thresholds.iter().map(|&threshold| (self.score, threshold)).collect();
            let sets = self.conformal.sets(&matrix, &cuts, &workers);
            sets.iter().map(|sets| arrays::mask(sets, cols)).collect::<Vec<_>>()
        });
        masks.into_iter().map(|mask| arrays::dense(py, rows, cols, mask)).collect()
    }

    /// Returns the p-value of every label.
    fn p_values<'py>(
        &self,
        py: Python<'py>,
        probabilities: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let matrix = arrays::matrix(&probabilities)?;
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let values = py.detach(|| {
            let draws = self.conformal.query_draws();
            let mut values = vec![0.0; rows * cols];
            for row in 0..rows {
                for (label, place) in ranked::ranking(matrix.row(row), draws.of(row)) {
                    values[row * cols + label as usize] = self.calibration.p_value(self.score.score(&place));
                }
            }
            values
        });
        arrays::dense(py, rows, cols, values)
    }
}
