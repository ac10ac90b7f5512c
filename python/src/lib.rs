//! The private native module of the Python package `dance_conformal`: thin wrappers, one per call of the library.
//!
//! Users see only the Python code (`dance_conformal/`). Arrays arrive checked and as float32. Settings and reports
//! cross as JSON, with the names of a configuration file. Long work releases the GIL.

// Python's arguments arrive by value, as many as they are: they are extracted for the call.
#![allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]

mod after;
mod answers;
mod arrays;
mod conformal;
mod embed;
mod errors;
mod job;
mod metrics;
mod model;
mod observer;
mod points;
mod scored;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DanceError", module.py().get_type::<errors::DanceError>())?;
    module.add("ModelFormatError", module.py().get_type::<errors::ModelFormatError>())?;
    module.add_class::<model::Model>()?;
    module.add_class::<scored::Scored>()?;
    module.add_class::<scored::Decision>()?;
    module.add_class::<answers::Answers>()?;
    module.add_class::<conformal::Split>()?;
    module.add_function(wrap_pyfunction!(model::default_settings, module)?)?;
    module.add_function(wrap_pyfunction!(after::rejection_sample, module)?)?;
    module.add_function(wrap_pyfunction!(after::select, module)?)?;
    module.add_function(wrap_pyfunction!(after::watch, module)?)?;
    module.add_function(wrap_pyfunction!(after::audit, module)?)?;
    module.add_function(wrap_pyfunction!(embed::embed, module)?)?;
    module.add_function(wrap_pyfunction!(embed::embed_names, module)?)?;
    module.add_function(wrap_pyfunction!(points::split, module)?)?;
    module.add_function(wrap_pyfunction!(points::one_of_each, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::set_metrics, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::breakdown, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::probability_metrics, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::coverage_band, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::noise_floor, module)?)?;
    Ok(())
}
