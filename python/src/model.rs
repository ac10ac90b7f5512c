//! A model: a fitted kernel machine, or a calibrated one.

use std::path::PathBuf;

use dance::conformal::{Calibration, MethodName};
use dance::device::DeviceChoice;
use dance::machine::{Classified, Classifier};
use dance::model::{ModelPart, ModelPoint};
use dance::{Config, Dance, Fitted, PredictOptions, Rows};
use numpy::{PyArray1, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::de::DeserializeOwned;

use crate::arrays::{self, Id};
use crate::errors::{Mapped, of_model};
use crate::job::{run, run_on};
use crate::points::{Drawn, PointsWithLabels, sampling};
use crate::scored::Scored;

/// The two stages of a model.
pub(crate) enum State {
    Fitted(Box<(Fitted, Classifier)>),
    Calibrated(Box<Dance>),
}

/// A model and the device that it runs on.
#[pyclass(frozen, module = "dance_conformal._native")]
pub(crate) struct Model {
    pub(crate) state: State,
    /// The name of the device, as the user gave it.
    device: String,
}

/// The best labels, and the probabilities of all classes.
type Classes<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray2<f32>>);
/// A reference point: true where it fitted the kernel, its row and its id, where those are known.
type Reference = (bool, Option<u32>, Option<Id>);

/// Distances to reference points, and their numbers.
type Near<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<i64>>);

impl Model {
    pub(crate) fn fitted(&self) -> &Fitted {
        match &self.state {
            State::Fitted(ready) => &ready.0,
            State::Calibrated(dance) => dance.fitted(),
        }
    }

    fn classifier(&self) -> &Classifier {
        match &self.state {
            State::Fitted(ready) => &ready.1,
            State::Calibrated(dance) => dance.classifier(),
        }
    }

    pub(crate) fn dance(&self) -> PyResult<&Dance> {
        match &self.state {
            State::Calibrated(dance) => Ok(dance),
            State::Fitted(_) => Err(PyRuntimeError::new_err("the model is not calibrated")),
        }
    }

    fn calibrated(dance: Dance, device: &str) -> Self {
        Self { state: State::Calibrated(Box::new(dance)), device: device.to_owned() }
    }
}

/// The bytes of a model, and the device that it is opened on.
type Pickled<'py> = (Bound<'py, PyBytes>, &'static str);

#[pymethods]
impl Model {
    /// Tunes and fits a kernel machine.
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        data: PointsWithLabels<'_>,
        settings: &str,
        device: &str,
        threads: usize,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (data, config): (_, Config) = (data.dataset()?, parse(settings)?);
        let ready = run_on(py, device, threads, callback, |device, context| {
            let fitted = Fitted::fit(device, &data, &config, context)?;
            let classifier = fitted.classifier(device, context)?;
            Ok((fitted, classifier))
        })?;
        Ok(Self { state: State::Fitted(Box::new(ready)), device: device.to_owned() })
    }

    /// Calibrates on points that did not fit the kernel, under the given settings of the method. With `of_fit` they are
    /// other rows of the data that were passed to the fit, so that copies among them are draws of their own. `drawn` is
    /// their sampling.
    fn calibrate(
        &self,
        py: Python<'_>,
        data: PointsWithLabels<'_>,
        of_fit: bool,
        drawn: Drawn,
        settings: &str,
        device: &str,
        threads: usize,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (mut data, config, sampling) = (data.dataset()?, parse(settings)?, sampling(&drawn)?);
        if of_fit {
            data.source = self.fitted().source.clone();
        }
        let calibrated = run_on(py, device, threads, callback, |device, context| {
            let mut fitted = self.fitted().clone();
            fitted.config.conformal = config;
            fitted.config.sampling = sampling;
            fitted.calibrate(device, &data, context)
        });
        calibrated.map(|dance| Self::calibrated(dance, device))
    }

    /// Draws calibration points in the class proportions that points without labels have, as estimated by the kernel
    /// machine. Returns the places of the drawn points in `data`.
    fn label_shift<'py>(
        &self,
        py: Python<'py>,
        data: PointsWithLabels<'_>,
        unlabeled: PyReadonlyArray2<'_, f32>,
        seed: u64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let (dance, data) = (self.dance()?, data.dataset()?);
        let (rows, cols) = (arrays::rows(&unlabeled), unlabeled.shape()[1]);
        let queries = Rows::new(&rows, cols);
        let kept = run(py, threads, None, |context| dance.label_shift(&data, queries, seed, context))?;
        Ok(arrays::places(py, &kept))
    }

    /// Maps points by the learned metric.
    fn transform<'py>(
        &self,
        py: Python<'py>,
        points: PyReadonlyArray2<'_, f32>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (rows, cols) = (arrays::rows(&points), points.shape()[1]);
        let queries = Rows::new(&rows, cols);
        let mapped = run(py, threads, None, |context| self.classifier().transform(queries, context))?;
        arrays::to_array(py, mapped)
    }

    /// Returns the most probable labels and the probabilities of all classes: those behind the sets where the model is
    /// calibrated, those of the kernel machine by itself where it is not.
    fn classify<'py>(
        &self,
        py: Python<'py>,
        points: PyReadonlyArray2<'_, f32>,
        threads: usize,
    ) -> PyResult<Classes<'py>> {
        let (rows, cols) = (arrays::rows(&points), points.shape()[1]);
        let queries = Rows::new(&rows, cols);
        let Classified { labels, probabilities } = run(py, threads, None, |context| match &self.state {
            State::Calibrated(dance) if dance.method() == MethodName::Posterior => {
                let options = PredictOptions::default().probabilities(true);
                Ok(dance.score(queries, options, context)?.classified.unwrap_or_default())
            }
            // The probabilities of the methods fuse and dance are those of the kernel machine, and cost no search.
            State::Calibrated(_) | State::Fitted(_) => self.classifier().classify(queries, context),
        })?;
        Ok((PyArray1::from_vec(py, labels), arrays::to_array(py, probabilities)?))
    }

    /// Scores points: everything about them that does not depend on the error level.
    fn score(
        slf: Py<Self>,
        py: Python<'_>,
        points: PyReadonlyArray2<'_, f32>,
        options: &str,
        threads: usize,
    ) -> PyResult<Scored> {
        let options: PredictOptions = parse(options)?;
        let (rows, cols) = (arrays::rows(&points), points.shape()[1]);
        let dance = slf.get().dance()?;
        let begin = std::time::Instant::now();
        let queries = Rows::new(&rows, cols);
        let inner = run(py, threads, None, |context| dance.score(queries, options, context))?;
        Ok(Scored { inner, seconds: begin.elapsed().as_secs_f64(), model: slf })
    }

    /// Finds the nearest reference points: their distances and numbers.
    fn neighbors<'py>(
        &self,
        py: Python<'py>,
        points: PyReadonlyArray2<'_, f32>,
        count: usize,
        threads: usize,
    ) -> PyResult<Near<'py>> {
        let (rows, cols) = (arrays::rows(&points), points.shape()[1]);
        let dance = self.dance()?;
        let queries = Rows::new(&rows, cols);
        let found = run(py, threads, None, |context| dance.neighbors(queries, count, context))?;
        let distances = (0..found.len()).flat_map(|query| found.squared(query)).map(|s| s.sqrt()).collect();
        let ids = (0..found.len()).flat_map(|query| found.ids(query)).map(|&id| i64::from(id)).collect();
        let count = count.min(dance.reference_labels().len());
        Ok((arrays::dense(py, found.len(), count, distances)?, arrays::dense(py, found.len(), count, ids)?))
    }

    /// Returns the labels of the reference points.
    fn reference_labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        Ok(PyArray1::from_slice(py, self.dance()?.reference_labels()))
    }

    /// Returns the part, row and id of every reference point.
    fn reference_points(&self) -> PyResult<Vec<Reference>> {
        let dance = self.dance()?;
        let of = |number| {
            let ModelPoint { part, row, id } = dance.reference_point(number);
            (part == ModelPart::FitPoint, row, id.map(Id::from))
        };
        Ok((0..dance.reference_labels().len() as u32).map(of).collect())
    }

    /// Looks every point up among those of the model: 0 is absent, 1 a point of the fit, 2 a calibration point.
    fn seen<'py>(&self, py: Python<'py>, points: PyReadonlyArray2<'_, f32>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let (rows, cols) = (arrays::rows(&points), points.shape()[1]);
        let dance = self.dance()?;
        let seen = py.detach(|| dance.seen(Rows::new(&rows, cols))).mapped()?;
        let number = |seen: Option<ModelPart>| match seen {
            None => 0,
            Some(ModelPart::FitPoint) => 1,
            Some(ModelPart::CalibrationPoint) => 2,
        };
        Ok(PyArray1::from_iter(py, seen.into_iter().map(number)))
    }

    /// Writes the model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let dance = self.dance()?;
        py.detach(|| dance.save(&path)).mapped()
    }

    /// Reads a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, device: &str, threads: usize) -> PyResult<Self> {
        device.parse::<DeviceChoice>().mapped()?; // a wrong word is no fault of the file
        let dance = run_on(py, device, threads, None, |device, context| Dance::load(device, &path, context));
        dance.map(|dance| Self::calibrated(dance, device)).map_err(|error| of_model(py, error))
    }

    /// Returns the model as bytes, for pickling. The reader may have no graphics processor, so `auto` replaces cuda.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let bytes = match &slf.get().state {
            State::Calibrated(dance) => dance.to_bytes().mapped()?,
            State::Fitted(ready) => ready.0.to_bytes().mapped()?,
        };
        let device = if slf.get().device == "cpu" { "cpu" } else { "auto" };
        Ok((slf.get_type().getattr("from_bytes")?, (PyBytes::new(slf.py(), &bytes), device)))
    }

    /// Reads a model from its bytes.
    #[staticmethod]
    #[pyo3(signature = (bytes, device = "auto"))]
    fn from_bytes(py: Python<'_>, bytes: &[u8], device: &str) -> PyResult<Self> {
        let read = || {
            if let Some(fitted) = Fitted::from_bytes(bytes).mapped()? {
                let classifier = run_on(py, device, 0, None, |device, context| fitted.classifier(device, context))?;
                let state = State::Fitted(Box::new((fitted, classifier)));
                return Ok(Self { state, device: device.to_owned() });
            }
            let dance =
                run_on(py, device, 0, None, |device, context| Dance::from_bytes(device, bytes, "<pickle>", context));
            dance.map(|dance| Self::calibrated(dance, device))
        };
        read().map_err(|error| of_model(py, error))
    }

    /// The names of the classes: the kernel's, then those that only calibration points have.
    #[getter]
    fn classes(&self) -> Vec<String> {
        match &self.state {
            State::Fitted(ready) => ready.0.classes.clone(),
            State::Calibrated(dance) => dance.classes().to_vec(),
        }
    }

    /// The kind of the labels: text, integer, float or boolean.
    #[getter]
    fn label_kind(&self) -> PyResult<String> {
        let kind = match &self.state {
            State::Fitted(ready) => ready.0.label_kind,
            State::Calibrated(dance) => dance.label_kind(),
        };
        Ok(to_json(&kind)?.trim_matches('"').to_owned())
    }

    /// The number of classes that the kernel knows.
    #[getter]
    fn fit_classes(&self) -> usize {
        self.fitted().classes.len()
    }

    /// The number of points that the kernel keeps.
    #[getter]
    fn fit_points(&self) -> usize {
        self.fitted().points().rows()
    }

    /// The rows of these points in the fit data, where those are known.
    #[getter]
    fn kernel_rows<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        let rows = self.fitted().names.rows.as_ref()?;
        Some(PyArray1::from_iter(py, rows.iter().map(|&row| i64::from(row))))
    }

    /// The number of dimensions of the embeddings.
    #[getter]
    fn dimensions(&self) -> usize {
        self.fitted().dimensions()
    }

    /// The settings, as JSON.
    #[getter]
    fn settings(&self) -> PyResult<String> {
        to_json(&self.fitted().config)
    }

    /// The kernel that the search chose, as JSON.
    #[getter]
    fn kernel(&self) -> PyResult<String> {
        let fitted = self.fitted();
        let (kernel, rounds) = (fitted.kernel(), fitted.rounds());
        to_json(&serde_json::json!({
            "bandwidth": kernel.bandwidth(), "shape": kernel.shape(), "rounds": rounds,
            "validation_accuracy": fitted.validation.accuracy, "fidelity": fitted.fidelity,
        }))
    }

    /// The name of the method that calibrated the model.
    #[getter]
    fn method(&self) -> PyResult<&'static str> {
        Ok(match self.dance()?.method() {
            MethodName::Posterior => "posterior",
            MethodName::Fuse => "fuse",
            MethodName::Dance => "dance",
        })
    }

    /// The use that the method makes of calibration points.
    #[getter]
    fn calibration(&self) -> PyResult<&'static str> {
        Ok(match self.dance()?.calibration() {
            Calibration::Full => "full",
            Calibration::Split => "split",
            Calibration::Reuse => "reuse",
        })
    }

    /// True where sets may hold a new label.
    #[getter]
    fn new_labels(&self) -> PyResult<bool> {
        Ok(self.dance()?.allows_new_labels())
    }

    /// The guarantee that holds for the sets, in words.
    #[getter]
    fn guarantee(&self) -> PyResult<String> {
        Ok(self.dance()?.guarantee())
    }

    /// The estimated share of new points that carry a new label; `None` where calibration points are no random draw.
    #[getter]
    fn new_label_share(&self) -> PyResult<Option<f64>> {
        Ok(self.dance()?.new_label_share().map(|(share, _)| share))
    }

    /// True where the model is calibrated.
    #[getter]
    fn is_calibrated(&self) -> bool {
        matches!(self.state, State::Calibrated(_))
    }
}

/// Returns the default settings, as JSON.
#[pyfunction]
pub(crate) fn default_settings() -> PyResult<String> {
    to_json(&Config::default())
}

fn parse<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("settings: {error}")))
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
