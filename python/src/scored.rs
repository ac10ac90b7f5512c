//! Scored points: everything about them that does not depend on an error level, and their sets at one.

use dance::Prediction;
use dance::scores::Counts;
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answers::{self, Answers, Include};
use crate::arrays;
use crate::errors::Mapped;
use crate::model::{Model, to_json};

/// Points with the scores of every label; several error levels cost one search.
#[pyclass(frozen, module = "dance_conformal._native")]
pub(crate) struct Scored {
    pub(crate) model: Py<Model>,
    pub(crate) inner: dance::Scored,
    pub(crate) seconds: f64,
}

#[pymethods]
impl Scored {
    /// Returns the sets at one error level.
    fn decide(&self, py: Python<'_>, alpha: f64) -> PyResult<Decision> {
        let dance = self.model.get().dance()?;
        let begin = std::time::Instant::now();
        let decide = || Ok(dance.predict(&self.inner, &dance.decide(alpha)?));
        let prediction = py.detach(decide).mapped()?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Decision { prediction, classes: dance.classes().len(), seconds })
    }

    /// Returns the answers at one error level, as flat arrays. The points were scored with their best labels, and with
    /// probabilities and support where those are requested.
    fn answers(
        &self,
        py: Python<'_>,
        alpha: f64,
        probabilities: bool,
        p_values: bool,
        support: bool,
    ) -> PyResult<Answers> {
        let dance = self.model.get().dance()?;
        let include = Include { probabilities, p_values, neighbors: support };
        py.detach(|| Answers::new(dance, &self.inner, alpha, include))
    }

    /// Returns the places of the labels of every set among all labels of the decision, the best conforming first.
    fn conforming<'py>(&self, py: Python<'py>, decision: &Decision) -> Bound<'py, PyArray1<i64>> {
        let sets = &decision.prediction.sets;
        let mut places = Vec::with_capacity(sets.labels().len());
        for (query, (set, begin)) in sets.iter().zip(sets.offsets()).enumerate() {
            places.extend(self.inner.conforming(query, set).into_iter().map(|place| (begin + place) as i64));
        }
        PyArray1::from_vec(py, places)
    }

    /// Returns the p-values of every label: those that decide at `alpha`, or those of one `score` by itself, `rank` or
    /// `contrast`, which only the method dance has.
    #[pyo3(signature = (alpha, score=None))]
    fn p_values<'py>(&self, py: Python<'py>, alpha: f64, score: Option<&str>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let dance = self.model.get().dance()?;
        let decision = dance.decide(alpha).mapped()?;
        let (counted, classes) = (&self.inner.counts, dance.classes().len());
        let p_value: &(dyn Fn(Counts) -> f64 + Sync) = match score {
            None => &|counts| answers::p_value(&decision, counted, counts),
            Some(name) if decision.mix.is_none() => {
                return Err(PyValueError::new_err(format!("the method has no score `{name}`")));
            }
            Some("rank") => &|counts| counted.p_value(counts.rank()),
            Some("contrast") => &|counts| counted.p_value(counts.contrast()),
            Some(name) => return Err(PyValueError::new_err(format!("no score `{name}`"))),
        };
        let values = py.detach(|| {
            let mut values = Vec::with_capacity(self.inner.len() * classes);
            for query in 0..self.inner.len() {
                let (labels, counts, rest) = counted.row(query);
                let start = values.len();
                values.resize(start + classes, p_value(rest));
                for (&label, &counts) in labels.iter().zip(counts) {
                    values[start + label as usize] = p_value(counts);
                }
            }
            values
        });
        arrays::dense(py, self.inner.len(), classes, values)
    }

    /// The most probable labels, where they were requested.
    #[getter]
    fn predictions<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        self.inner.classified.as_ref().map(|classified| PyArray1::from_slice(py, &classified.labels))
    }

    /// The class probabilities behind them, one row per point. Classes at the end can be missing: those are 0.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let classified = self.inner.classified.as_ref();
        classified.map(|classified| arrays::to_array(py, classified.probabilities.clone())).transpose()
    }

    /// The distance of every point to its nearest reference point.
    #[getter]
    fn nearest<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.inner.nearest)
    }

    /// The novelty p-value of every point: small where the point is unlike all calibration points.
    #[getter]
    fn novelty<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.inner.novelty)
    }

    /// The seconds that scoring took.
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
    /// The sets as booleans, one row per point and one column per class.
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<bool>>> {
        let sets = &self.prediction.sets;
        let mask = py.detach(|| arrays::mask(sets, self.classes));
        arrays::dense(py, sets.len(), self.classes, mask)
    }

    /// The start of every set among [`labels`](Self::labels), then the end of the last.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.prediction.sets.offsets().iter().map(|&offset| offset as i64))
    }

    /// The class ids of all sets, one set after the other.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_slice(py, self.prediction.sets.labels())
    }

    /// For every set, true where it holds a new label; `None` where sets cannot hold a new label.
    #[getter]
    fn new_label<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<bool>>> {
        self.prediction.new_label.as_ref().map(|new| PyArray1::from_slice(py, new))
    }

    /// The numbers of the reference points in support of every label of every set.
    #[getter]
    fn support(&self) -> Option<Vec<Vec<u32>>> {
        self.prediction.support.clone()
    }

    /// The rule by which labels entered the sets, as JSON: the level, the part of it for new labels, the mix, both
    /// thresholds and the grid of mixes. Parts that the method does not have are null, and so is an infinite threshold.
    #[getter]
    fn thresholds(&self) -> PyResult<String> {
        let decision = &self.prediction.decision;
        let [rank, contrast] = decision.thresholds.map_or([None; 2], |thresholds| thresholds.map(Some));
        to_json(&serde_json::json!({
            "alpha": decision.alpha, "points": decision.calibration_points,
            "new_label_alpha": decision.new_label_alpha, "mix": decision.mix,
            "rank": rank, "contrast": contrast, "trials": decision.trials(),
        }))
    }

    /// Warnings about the error level.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.prediction.decision.warnings()
    }

    /// The share of sets that were empty, before any label was put in.
    #[getter]
    fn empty(&self) -> f64 {
        self.prediction.empty
    }

    /// The seconds that deciding took.
    #[getter]
    fn seconds(&self) -> f64 {
        self.seconds
    }
}
