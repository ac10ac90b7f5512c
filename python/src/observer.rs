//! Progress events for a Python callback, and interruption by Ctrl-C.

use std::sync::{Mutex, PoisonError};

use dance::{Event, Observer};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Mapped;

/// Calls `callback` with a dictionary per event. An exception of the callback or of a signal handler ends the job.
pub(crate) struct Listener {
    callback: Option<Py<PyAny>>,
    raised: Mutex<Option<PyErr>>,
}

impl Listener {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, raised: Mutex::new(None) }
    }

    /// Returns the job's result, or the exception that Python raised meanwhile.
    pub(crate) fn finish<T>(self, result: dance::Result<T>) -> PyResult<T> {
        match self.raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => result.mapped(),
        }
    }

    fn keep<T>(&self, result: PyResult<T>) {
        if let Err(error) = result {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn has_raised(&self) -> bool {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Observer for Listener {
    fn notice(&self, event: &Event) {
        if let Some(callback) = &self.callback
            && !self.has_raised()
        {
            self.keep(Python::attach(|py| callback.call1(py, (describe(py, event)?,))));
        }
    }

    fn interrupted(&self) -> bool {
        self.keep(Python::attach(|py: Python<'_>| py.check_signals()));
        self.has_raised()
    }
}

/// Returns an event as a dictionary, with its name under `event`.
fn describe<'py>(py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    // Every arm sets the fields of its event and returns its name.
    let name = match event {
        Event::Memory { bytes } => {
            dict.set_item("bytes", bytes)?;
            "memory"
        }
        Event::SearchBegins { evaluations, points, of } => {
            dict.set_item("evaluations", evaluations)?;
            dict.set_item("points", points)?;
            dict.set_item("of", of)?;
            "search"
        }
        Event::Evaluated(evaluation) => {
            dict.set_item("bandwidth", evaluation.bandwidth)?;
            dict.set_item("shape", evaluation.shape)?;
            dict.set_item("points", evaluation.points)?;
            dict.set_item("rounds", evaluation.rounds)?;
            dict.set_item("accuracy", evaluation.quality.accuracy)?;
            dict.set_item("seconds", evaluation.seconds)?;
            "evaluated"
        }
        Event::Confirming { candidates } => {
            dict.set_item("candidates", candidates)?;
            "confirming"
        }
        Event::Round { round, quality, seconds, .. } => {
            dict.set_item("round", round)?;
            dict.set_item("accuracy", quality.map(|quality| quality.accuracy))?;
            dict.set_item("seconds", seconds)?;
            "round"
        }
        Event::Refitting { points } => {
            dict.set_item("points", points)?;
            "refitting"
        }
        Event::Answered { done, of } => {
            dict.set_item("done", done)?;
            dict.set_item("of", of)?;
            "answered"
        }
        Event::Embedded { done, of } => {
            dict.set_item("done", done)?;
            dict.set_item("of", of)?;
            "embedded"
        }
        Event::Fetching { file, done, of } => {
            dict.set_item("file", file)?;
            dict.set_item("done", done)?;
            dict.set_item("of", of)?;
            "fetching"
        }
        Event::Warning(message) => {
            dict.set_item("message", message)?;
            "warning"
        }
        _ => "other",
    };
    dict.set_item("event", name)?;
    Ok(dict)
}
