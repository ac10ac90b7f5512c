//! After the first day: what to label next, whether a stream has changed, what is wrong with a labelled set.

use dance::model::{Audit, AuditOptions, Monitor, SelectOptions};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;

use crate::arrays;
use crate::errors::Mapped;
use crate::job::run_on;
use crate::model::Model;
use crate::points::Labelled;

/// Rows of points to label next: picked ones, and ones drawn at random; and how many points the model has seen before.
type Chosen<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, usize);

/// Chooses points to label next.
#[pyfunction]
pub(crate) fn select<'py>(
    py: Python<'py>,
    model: &Bound<'py, Model>,
    points: PyReadonlyArray2<'_, f32>,
    picked: usize,
    random: usize,
    seed: u64,
    device: &str,
    threads: usize,
) -> PyResult<Chosen<'py>> {
    let (dance, pool) = (model.get().dance()?, arrays::matrix(&points)?);
    let options = SelectOptions { picked, random, seed };
    let chosen =
        run_on(py, device, threads, None, |device, context| dance.select(device, &pool, options, context))?;
    let array = |rows: &[usize]| PyArray1::from_iter(py, rows.iter().map(|&row| row as i64));
    Ok((array(&chosen.picked), array(&chosen.random), chosen.seen))
}

/// Takes up further points of a stream, with class numbers (-1: a class that the model does not know) where labels are watched; what there is to
/// say, as JSON with the state to go on from.
#[pyfunction]
pub(crate) fn watch(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    points: PyReadonlyArray2<'_, f32>,
    labels: Option<PyReadonlyArray1<'_, i64>>,
    false_alarm: f64,
    seed: u64,
    state: Option<&str>,
    device: &str,
    threads: usize,
) -> PyResult<String> {
    let (dance, stream) = (model.get().dance()?, arrays::matrix(&points)?);
    let labelled = labels.is_some();
    let labels: Vec<Option<Option<u32>>> = labels
        .iter()
        .flat_map(|all| all.as_array().to_vec())
        .map(|id| Some(u32::try_from(id).ok()))
        .collect();
    let state = state
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| PyValueError::new_err(format!("not the state of a monitor: {error}")))?;
    run_on(py, device, threads, None, |device, context| {
        let mut monitor = Monitor::new(dance, device, labelled, false_alarm, seed, context)?;
        if let Some(state) = state {
            monitor = monitor.resume(state)?;
        }
        let new = if stream.rows() == 0 { Vec::new() } else { monitor.watch(&stream, &labels, context)? };
        let capital = monitor.capital();
        let capital = capital
            .iter()
            .map(|(watched, now, largest)| json!({ "watched": watched, "capital": now, "largest": largest }));
        let report = json!({
            "points": monitor.points(),
            "bound": monitor.bound(),
            "capital": capital.collect::<Vec<_>>(),
            "alarms": monitor.alarms(),
            "new": new,
            "state": json!(monitor.state()).to_string(),
        });
        Ok(report.to_string())
    })
}

/// What is wrong with labelled points, as JSON; by a model's calibration points where one is given.
#[pyfunction]
pub(crate) fn audit(
    py: Python<'_>,
    model: Option<&Bound<'_, Model>>,
    data: Labelled<'_>,
    parts: Option<Vec<String>>,
    fdr: f64,
    false_alarm: f64,
    seed: u64,
    device: &str,
    threads: usize,
) -> PyResult<String> {
    let dance = model.map(|model| model.get().dance()).transpose()?;
    let data = data.dataset()?;
    let options = AuditOptions { fdr, false_alarm, seed, parts: parts.as_deref() };
    let found = run_on(py, device, threads, None, |device, context| {
        Audit::new(device, &data, dance, options, context)
    })?;
    serde_json::to_string(&found).map_err(|error| dance::Error::Data(error.to_string())).mapped()
}
