//! The library's errors as Python's.

use dance::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    dance_conformal,
    DanceError,
    PyException,
    "A job failed although its input was in order: too little memory, say."
);
create_exception!(
    dance_conformal,
    ModelFormatError,
    DanceError,
    "A file is not a model, is damaged, or is of a newer format."
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
            Some(code) => PyOSError::new_err((code, source.to_string(), path)),
            None => PyOSError::new_err(message),
        },
        Error::Format { .. } | Error::MissingKey { .. } => ModelFormatError::new_err(message),
        Error::NotFinite { .. }
        | Error::Shape { .. }
        | Error::Label { .. }
        | Error::Encoder { .. }
        | Error::Data(_)
        | Error::Config { .. } => PyValueError::new_err(message),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        _ => DanceError::new_err(message),
    }
}
