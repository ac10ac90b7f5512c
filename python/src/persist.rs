//! Pickles of fitted models that are not calibrated yet. Calibrated models are pickled as model files.
//!
//! Layout: a mark, the length of a JSON header, the header, and three matrices of little-endian float32. A pickle can
//! only be read by the version of the package that wrote it. Damaged bytes are refused.

use dance::data::{Kind, Names, Normalizer, Source};
use dance::kernel::Kernel;
use dance::machine::{OutputScale, Rfm};
use dance::{Config, Fitted, Matrix, Quality};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::errors::{Mapped, ModelFormatError};

const MARK: &[u8; 8] = b"dancefit";

#[derive(Serialize, Deserialize)]
struct Header {
    config: Config,
    classes: Vec<String>,
    normalizer: Normalizer,
    train_labels: Vec<u32>,
    scale: OutputScale,
    names: Names,
    validation_hashes: Vec<u64>,
    validation_rows: Vec<u32>,
    validation: Quality,
    fidelity: String,
    data_hash: String,
    bandwidth: f64,
    shape: f64,
    rounds: usize,
    dimensions: usize,
    #[serde(default)]
    label_kind: Kind,
}

/// Writes a pickle.
pub(crate) fn to_bytes(fitted: &Fitted) -> PyResult<Vec<u8>> {
    let rfm = &fitted.rfm;
    let header = Header {
        config: fitted.config.clone(),
        classes: fitted.classes.clone(),
        normalizer: fitted.normalizer.clone(),
        train_labels: rfm.labels.clone(),
        scale: fitted.scale,
        names: fitted.names.clone(),
        validation_hashes: fitted.validation_hashes.clone(),
        validation_rows: fitted.validation_rows.clone(),
        validation: fitted.validation,
        fidelity: fitted.fidelity.clone(),
        data_hash: fitted.data_hash.clone(),
        bandwidth: rfm.kernel.bandwidth(),
        shape: rfm.kernel.shape(),
        rounds: rfm.rounds,
        dimensions: rfm.train.cols(),
        label_kind: fitted.label_kind,
    };
    let header = serde_json::to_vec(&header).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut bytes = MARK.to_vec();
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header);
    for matrix in [&rfm.metric_root, &rfm.train, &rfm.beta] {
        bytes.extend(matrix.as_slice().iter().flat_map(|value| value.to_le_bytes()));
    }
    Ok(bytes)
}

/// Reads a pickle; `None` for bytes that do not begin with the mark.
pub(crate) fn from_bytes(bytes: &[u8]) -> PyResult<Option<Fitted>> {
    let Some(rest) = bytes.strip_prefix(MARK) else { return Ok(None) };
    let broken = || ModelFormatError::new_err("the pickled model is cut short");
    let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(broken)?;
    let (header, mut rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize).ok_or_else(broken)?;
    let header: Header =
        serde_json::from_slice(header).map_err(|error| ModelFormatError::new_err(error.to_string()))?;
    let mut matrix = |rows: usize, cols: usize| -> PyResult<Matrix> {
        let length = rows.checked_mul(cols).and_then(|count| count.checked_mul(size_of::<f32>()));
        let (values, others) = length.and_then(|length| rest.split_at_checked(length)).ok_or_else(broken)?;
        rest = others;
        let (values, _) = values.as_chunks::<4>();
        Matrix::new(values.iter().map(|value| f32::from_le_bytes(*value)).collect(), rows, cols).mapped()
    };
    let (n, d, c) = (header.train_labels.len(), header.dimensions, header.classes.len());
    let (metric_root, train, beta) = (matrix(d, d)?, matrix(n, d)?, matrix(n, c)?);
    let kernel = Kernel::new(header.bandwidth, header.shape).mapped()?;
    let fitted = Fitted {
        config: header.config,
        classes: header.classes,
        normalizer: header.normalizer,
        rfm: Rfm { kernel, metric_root, train, labels: header.train_labels, beta, rounds: header.rounds },
        scale: header.scale,
        names: header.names,
        validation_hashes: header.validation_hashes,
        validation_rows: header.validation_rows,
        source: Source::default(),
        validation: header.validation,
        fidelity: header.fidelity,
        data_hash: header.data_hash,
        label_kind: header.label_kind,
    };
    fitted.check().mapped()?;
    Ok(Some(fitted))
}
