//! The library's errors as exceptions of Python.

use dance::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    dance_conformal,
    DanceError,
    PyException,
    "A job that failed although its input was valid, for example for lack of memory."
);
create_exception!(
    dance_conformal,
    ModelFormatError,
    DanceError,
    "A file that is not a model, is damaged, or has a newer format."
);

/// Turns a library result into a Python one.
pub(crate) trait Mapped<T> {
    fn mapped(self) -> PyResult<T>;
}

impl<T> Mapped<T> for dance::Result<T> {
    fn mapped(self) -> PyResult<T> {
        self.map_err(to_python)
    }
}

fn to_python(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        // With these arguments Python chooses the subclass itself: FileNotFoundError, PermissionError …
        Error::Io { path, source } | Error::Write { path, source } => match source.raw_os_error() {
            // Python shows the number itself.
            Some(code) => {
                let reason = source.to_string().replace(&format!(" (os error {code})"), "");
                PyOSError::new_err((code, reason, path.into_os_string()))
            }
            None => PyOSError::new_err(message),
        },
        Error::Format { .. } | Error::MissingKey { .. } => ModelFormatError::new_err(message),
        Error::NotFinite { .. }
        | Error::Shape { .. }
        | Error::Label { .. }
        | Error::Encoder { .. }
        | Error::Data(_)
        | Error::Config { .. }
        | Error::Conflict { .. } => PyValueError::new_err(message),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        _ => DanceError::new_err(message),
    }
}

/// Turns the error of a model file into a `ModelFormatError`: its contents are no argument of the caller.
pub(crate) fn of_model(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyValueError>(py) {
        ModelFormatError::new_err(error.value(py).to_string())
    } else {
        error
    }
}
