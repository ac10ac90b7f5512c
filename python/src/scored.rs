//! What a model says about points, before and after an error level is chosen.

use dance::Prediction;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

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

/// Both p-values of every label.
type PValues<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>);

#[pymethods]
impl Scored {
    /// The sets at one error level.
    fn decide(&self, py: Python<'_>, alpha: f64) -> PyResult<Decision> {
        let dance = self.model.get().dance()?;
        let begin = std::time::Instant::now();
        let prediction = py.detach(|| dance.decide(&self.inner, alpha)).mapped()?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Decision { prediction, classes: dance.classes().len(), seconds })
    }

    /// p-values by the rank and by the contrastive score.
    fn p_values<'py>(&self, py: Python<'py>) -> PyResult<PValues<'py>> {
        let dance = self.model.get().dance()?;
        let classes = dance.classes().len();
        let values = dance.p_values(&self.inner);
        let points = values.offsets.len().saturating_sub(1);
        let fill = |absent: f64, given: &[f64]| {
            let mut dense = vec![absent; points * classes];
            for (point, ends) in values.offsets.windows(2).enumerate() {
                for at in ends[0]..ends[1] {
                    dense[point * classes + values.labels[at] as usize] = given[at];
                }
            }
            arrays::dense(py, points, classes, dense)
        };
        Ok((fill(values.absent.0, &values.rank)?, fill(values.absent.1, &values.contrast)?))
    }

    /// The classifier's labels, where asked for.
    #[getter]
    fn best<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        self.inner.best.as_ref().map(|best| PyArray1::from_slice(py, &best.labels))
    }

    /// Distance to the nearest reference point.
    #[getter]
    fn nearest<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.inner.nearest)
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
    /// Booleans, a row a point and a column a class.
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

    /// Rows of the reference points in support of every label of every set.
    #[getter]
    fn support(&self) -> Option<Vec<Vec<u32>>> {
        self.prediction.support.clone()
    }

    /// The level, the mix and both thresholds, as JSON; an infinite threshold is null.
    #[getter]
    fn thresholds(&self) -> PyResult<String> {
        to_json(&self.prediction.thresholds)
    }

    /// What the user should know.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.prediction.thresholds.warnings()
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
