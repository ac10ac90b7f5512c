//! What a model says about points, before and after an error level is chosen.

use dance::Prediction;
use dance::conformal::MethodName;
use dance::model::Include;
use dance::scores::Counts;
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answers::Answers;
use crate::arrays;
use crate::errors::Mapped;
use crate::model::{Model, to_json};

/// Scores of every label; several error levels cost one search.
#[pyclass(frozen, module = "dance_conformal._native")]
pub(crate) struct Scored {
    pub(crate) model: Py<Model>,
    pub(crate) inner: dance::Scored,
    pub(crate) seconds: f64,
}

#[pymethods]
impl Scored {
    /// The sets at one error level.
    fn decide(&self, py: Python<'_>, alpha: f64) -> PyResult<Decision> {
        let dance = self.model.get().dance()?;
        let begin = std::time::Instant::now();
        let decide = || Ok(dance.predict(&self.inner, &dance.decide(alpha)?));
        let prediction = py.detach(decide).mapped()?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Decision { prediction, classes: dance.classes().len(), seconds })
    }

    /// Everything there is to say at one error level, as flat arrays. The points were scored with their best labels, and with
    /// probabilities and support where those are asked for.
    fn answers(
        &self,
        py: Python<'_>,
        alpha: f64,
        probabilities: bool,
        p_values: bool,
        neighbors: bool,
    ) -> PyResult<Answers> {
        let dance = self.model.get().dance()?;
        let include = Include { probabilities, p_values, neighbors };
        py.detach(|| Answers::new(dance, &self.inner, alpha, include))
    }

    /// p-values of every label by the `rank`, by the `contrast`, or `combined`; none where scores are not combined.
    fn p_values<'py>(&self, py: Python<'py>, score: &str) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let dance = self.model.get().dance()?;
        let of: fn(Counts) -> u32 = match score {
            "rank" => |counts| counts.rank,
            "contrast" => |counts| counts.contrast,
            "combined" if dance.predictor().method() == MethodName::Dance => return Ok(None),
            "combined" => |counts| counts.combined,
            _ => return Err(PyValueError::new_err(format!("no score `{score}`"))),
        };
        let (counted, classes) = (&self.inner.counts, dance.classes().len());
        let values = py.detach(|| {
            let mut values = Vec::with_capacity(counted.len() * classes);
            for query in 0..counted.len() {
                let (labels, counts, rest) = counted.row(query);
                let start = values.len();
                values.resize(start + classes, counted.p_value(of(rest)));
                for (&label, &counts) in labels.iter().zip(counts) {
                    values[start + label as usize] = counted.p_value(of(counts));
                }
            }
            values
        });
        arrays::dense(py, counted.len(), classes, values).map(Some)
    }

    /// The classifier's labels, where asked for.
    #[getter]
    fn best<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        self.inner.classified.as_ref().map(|classified| PyArray1::from_slice(py, &classified.labels))
    }

    /// Distance to the nearest reference point.
    #[getter]
    fn nearest<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.inner.nearest)
    }

    /// A p-value of every point for coming from where the calibration points come from; none where an older file does not say.
    #[getter]
    fn novelty<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.inner.novelty.as_ref().map(|novelty| PyArray1::from_slice(py, novelty))
    }

    /// Seconds the library took.
    #[getter]
    fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// Sets at one error level.
#[pyclass(frozen, module = "dance_conformal._native")]
pub(crate) struct Decision {
    prediction: Prediction,
    classes: usize,
    seconds: f64,
}

#[pymethods]
impl Decision {
    /// Booleans, one row per point and one column per class.
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<bool>>> {
        let sets = &self.prediction.sets;
        let mask = py.detach(|| arrays::mask(sets, self.classes));
        arrays::dense(py, sets.len(), self.classes, mask)
    }

    /// Where every set begins among [`labels`](Self::labels).
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.prediction.sets.offsets.iter().map(|&offset| offset as i64))
    }

    /// Class ids of all sets, one after the other.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_slice(py, &self.prediction.sets.labels)
    }

    /// The most probable label of every set, of all labels where the set is empty; where asked for.
    #[getter]
    fn best<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        self.prediction.best.as_ref().map(|best| PyArray1::from_slice(py, &best.labels))
    }

    /// Whether every set holds "none of these"; none where sets do not say so.
    #[getter]
    fn none_of_these<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<bool>>> {
        self.prediction.none_of_these.as_ref().map(|none| PyArray1::from_slice(py, none))
    }

    /// Rows of the reference points in support of every label of every set.
    #[getter]
    fn support(&self) -> Option<Vec<Vec<u32>>> {
        self.prediction.support.clone()
    }

    /// How labels were let in, as JSON: the level, the mix, both thresholds and the grid of mixes. What a way of combining
    /// does not have is null, and so is a threshold that is infinite.
    #[getter]
    fn thresholds(&self) -> PyResult<String> {
        let dance::conformal::Decision { alpha, mix, thresholds, trials, calibration_points, .. } =
            &self.prediction.decision;
        let [rank, contrast] = thresholds.map_or([None; 2], |both| both.map(Some));
        to_json(&serde_json::json!({
            "alpha": alpha, "mix": mix, "rank": rank, "contrast": contrast, "trials": trials, "points": calibration_points,
        }))
    }

    /// What the user should know.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.prediction.decision.warnings()
    }

    /// Share of sets that came out empty, before any label was put in.
    #[getter]
    fn empty(&self) -> f64 {
        self.prediction.empty
    }

    /// Seconds the library took.
    #[getter]
    fn seconds(&self) -> f64 {
        self.seconds
    }
}
