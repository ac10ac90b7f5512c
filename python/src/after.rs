//! Work after the first prediction: the choice of points to label, the monitoring of streams, the audit of labels.

use dance::model::{Audit, AuditOptions, ModelPoint, Monitor, SelectOptions, rejection_sample as sample};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde_json::json;

use crate::arrays;
use crate::errors::Mapped;
use crate::job::run_on;
use crate::model::Model;
use crate::points::PointsWithLabels;

/// The rows of points to label next (picked ones, then random ones), and the number of points that the model knows.
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
    let chosen = run_on(py, device, threads, None, |device, context| dance.select(device, &pool, options, context))?;
    Ok((arrays::places(py, &chosen.picked), arrays::places(py, &chosen.random), chosen.seen))
}

/// Draws points in proportion to their importance weights, and returns their places.
#[pyfunction]
pub(crate) fn rejection_sample<'py>(
    py: Python<'py>,
    weights: PyReadonlyArray1<'_, f64>,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    Ok(arrays::places(py, &sample(&weights.as_array().to_vec(), seed).mapped()?))
}

/// Adds points to a monitored stream, with class numbers (-1: a class that the model does not know) where labels are
/// watched. Returns a report as JSON, with the state from which the next call resumes.
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
    // A label is unknown where its number is negative; without labels only the points are watched.
    let with_labels = labels.is_some();
    let labels: Vec<Option<Option<u32>>> =
        labels.iter().flat_map(|all| all.as_array().to_vec()).map(|id| Some(u32::try_from(id).ok())).collect();
    // Every call makes the monitor anew and resumes it, so that Python keeps nothing but the state.
    run_on(py, device, threads, None, |device, context| {
        let mut monitor = Monitor::new(dance, device, with_labels, false_alarm, seed, context)?;
        if let Some(state) = state {
            monitor = monitor.resume(state.as_bytes())?;
        }
        let new = if stream.rows() == 0 { Vec::new() } else { monitor.watch(&stream, &labels, context)? };
        // The report, with the capital of every martingale: its evidence of a change.
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
            "state": monitor.state()?,
        });
        Ok(report.to_string())
    })
}

/// Returns an audit of points and their labels, as JSON. With a model, its calibration points are the standard.
#[pyfunction]
pub(crate) fn audit(
    py: Python<'_>,
    model: Option<&Bound<'_, Model>>,
    data: PointsWithLabels<'_>,
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
    let found =
        run_on(py, device, threads, None, |device, context| Audit::new(device, &data, dance, options, context))?;
    let of_model = |point: &ModelPoint| json!({ "part": point.part, "row": point.row, "id": point.id });
    let report = json!({
        "label_errors": found.label_errors.iter().map(|error| json!({
            "row": error.row, "label": error.label, "suggested": error.suggested, "probability": error.probability,
            "p_value": error.p_value, "neighbors": found.neighbors(error.row),
        })).collect::<Vec<_>>(),
        "odds": found.odds,
        "error_share": found.error_share,
        "rule": found.rule,
        "copies": found.copies.iter().map(|group| json!({
            "rows": group.rows, "model": group.model.iter().map(of_model).collect::<Vec<_>>(), "space": group.space,
            "parts": group.parts, "across": group.across,
        })).collect::<Vec<_>>(),
        "outliers": found.outliers.iter().map(|&(row, deviations)| json!({
            "row": row, "deviations": deviations, "neighbors": found.neighbors(row),
        })).collect::<Vec<_>>(),
        // Findings about classes, then about the data set as a whole.
        "alike": found.alike.iter().map(|(classes, shares)| json!({
            "classes": classes, "shares": shares,
        })).collect::<Vec<_>>(),
        "twofold": found.twofold.iter().map(|(class, p_value, groups)| json!({
            "class": class, "p_value": p_value, "groups": groups,
        })).collect::<Vec<_>>(),
        "rare": found.rare,
        "order": found.order.iter().map(|&(by, evidence)| json!({
            "by": by, "evidence": evidence, "ordered": found.ordered_by.contains(&by),
        })).collect::<Vec<_>>(),
        "seen": found.seen.iter().map(|(row, point)| json!({
            "row": row, "point": of_model(point),
        })).collect::<Vec<_>>(),
    });
    Ok(report.to_string())
}
