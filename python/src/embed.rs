//! Embeddings of pictures and texts.

use std::path::PathBuf;

use dance::Error;
use dance::data::RawLabels;
use dance_embed::{EmbedOptions, Encoder, EncoderOptions, Items, Modality, Processor, prototypes};
use numpy::PyArray2;
use pyo3::prelude::*;

use crate::arrays;
use crate::job;

/// The input: texts, or a path.
#[derive(FromPyObject)]
pub(crate) enum Source {
    Texts(Vec<String>),
    Path(PathBuf),
}

/// Embeddings, ids, labels, the items that failed with their reasons, and the encoder's identity as JSON.
type Made<'py> = (Bound<'py, PyArray2<f32>>, Vec<String>, Option<Vec<String>>, Vec<(String, String)>, Option<String>);

fn options(runtime: Option<PathBuf>, cuda: bool, offline: bool) -> EncoderOptions {
    EncoderOptions { runtime, processor: if cuda { Processor::Cuda } else { Processor::Cpu }, offline }
}

/// Turns the error of an unreadable input file into one about values, since no model is at fault.
fn as_data(error: Error) -> Error {
    match error {
        Error::Format { .. } | Error::MissingKey { .. } => Error::Data(error.to_string()),
        other => other,
    }
}

/// Embeds pictures or texts.
#[pyfunction]
pub(crate) fn embed(
    py: Python<'_>,
    source: Source,
    model: String,
    runtime: Option<PathBuf>,
    cuda: bool,
    offline: bool,
    skip_bad: bool,
    parts: Option<PathBuf>,
    threads: usize,
    callback: Option<Py<PyAny>>,
) -> PyResult<Made<'_>> {
    let options = options(runtime, cuda, offline);
    let embedded = job::run(py, threads, callback, |context| {
        let work = || {
            let items = match source {
                Source::Texts(texts) => Items::texts("texts", texts),
                Source::Path(path) => Items::read(&path)?,
            };
            let encoder = Encoder::open(&model, items.modality, &options, context)?;
            dance_embed::embed(&items, &encoder, &EmbedOptions { skip_bad, parts }, context)
        };
        work().map_err(as_data)
    })?;
    let labels = match &embedded.table.labels {
        Some(RawLabels::Names(labels)) => Some(labels.clone()),
        _ => None,
    };
    let array = arrays::to_array(py, embedded.table.embeddings().clone())?;
    let bad = embedded.bad.iter().map(|bad| (bad.id.clone(), bad.reason.clone())).collect();
    let encoder = embedded.table.encoder.as_ref().map(dance::data::EncoderIdentity::to_json);
    embedded.keep();
    Ok((array, embedded.table.ids.unwrap_or_default(), labels, bad, encoder))
}

/// Embeds class names in a prompt, by the text half of an encoder.
#[pyfunction]
pub(crate) fn embed_names(
    py: Python<'_>,
    names: Vec<String>,
    prompt: String,
    model: String,
    runtime: Option<PathBuf>,
    cuda: bool,
    offline: bool,
    threads: usize,
) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let options = options(runtime, cuda, offline);
    let rows = job::run(py, threads, None, |context| {
        let encoder = Encoder::open(&model, Modality::Texts, &options, context).map_err(as_data)?;
        prototypes(&names, &prompt, &encoder, context).map_err(as_data)
    })?;
    arrays::to_array(py, rows)
}
