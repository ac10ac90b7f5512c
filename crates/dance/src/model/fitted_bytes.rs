//! The bytes of a kernel machine that has not been calibrated. Python pickles the machine in this form. Calibrated
//! models have model files.
//!
//! The bytes begin with the text `dancefit` and the length of a JSON header in 8 bytes. Then come the header and three
//! matrices of 32-bit floats: metric root, fit points and coefficients. All numbers are little-endian. Only the version
//! of this library that wrote the bytes reads them. Damaged bytes are refused.

use serde::{Deserialize, Serialize};

use super::config::Config;
use super::fitted::Fitted;
use crate::context::Quality;
use crate::data::{Kind, Names, Normalize, Normalizer, Source};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::{OutputScale, Rfm};
use crate::numeric::matrix::Matrix;

/// The first bytes of a fitted kernel machine, by which [`Fitted::from_bytes`] recognises it.
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

impl Fitted {
    /// Returns the machine as bytes, which [`from_bytes`](Self::from_bytes) of the same version reads. The identity of
    /// the file of fit points is left out.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let rfm = &self.rfm;
        let header = Header {
            config: self.config.clone(),
            classes: self.classes.clone(),
            normalizer: self.normalizer.clone(),
            train_labels: rfm.labels.clone(),
            scale: self.scale,
            names: self.names.clone(),
            validation_hashes: self.validation_hashes.clone(),
            validation_rows: self.validation_rows.clone(),
            validation: self.validation,
            fidelity: self.fidelity.clone(),
            data_hash: self.data_hash.clone(),
            bandwidth: rfm.kernel.bandwidth(),
            shape: rfm.kernel.shape(),
            rounds: rfm.rounds,
            dimensions: rfm.train.cols(),
            label_kind: self.label_kind,
        };
        let header = serde_json::to_vec(&header).map_err(|error| Error::Data(error.to_string()))?;
        let mut bytes = MARK.to_vec();
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        for matrix in [&rfm.metric_root, &rfm.train, &rfm.beta] {
            bytes.extend(matrix.as_slice().iter().flat_map(|value| value.to_le_bytes()));
        }
        Ok(bytes)
    }

    /// Reads a machine from the bytes that [`to_bytes`](Self::to_bytes) returned. Returns `None` for bytes that do not
    /// begin with `dancefit`, which are something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(rest) = bytes.strip_prefix(MARK) else { return Ok(None) };
        let broken = || Error::Data("the pickled model is cut short".into());
        let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(broken)?;
        let (header, mut rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize).ok_or_else(broken)?;
        let header: Header = serde_json::from_slice(header).map_err(|error| Error::Data(error.to_string()))?;
        let mut matrix = |rows: usize, cols: usize| -> Result<Matrix> {
            let length = rows.checked_mul(cols).and_then(|count| count.checked_mul(size_of::<f32>()));
            let (values, others) = length.and_then(|length| rest.split_at_checked(length)).ok_or_else(broken)?;
            rest = others;
            let (values, _) = values.as_chunks::<4>();
            Matrix::new(values.iter().map(|value| f32::from_le_bytes(*value)).collect(), rows, cols)
        };
        // The header says how many numbers each matrix has.
        let (n, d, c) = (header.train_labels.len(), header.dimensions, header.classes.len());
        let (metric_root, train, beta) = (matrix(d, d)?, matrix(n, d)?, matrix(n, c)?);
        let kernel = Kernel::new(header.bandwidth, header.shape)?;
        let fitted = Self {
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
        fitted.check()?;
        Ok(Some(fitted))
    }

    /// Returns an error if parts of the machine do not fit together, for example if a label is not the index of a
    /// class.
    fn check(&self) -> Result<()> {
        self.config.method()?;
        let (rfm, classes) = (&self.rfm, self.classes.len());
        let (n, d) = (rfm.labels.len(), rfm.train.cols());
        let mut names: Vec<&String> = self.classes.iter().collect();
        names.sort_unstable();
        names.dedup();
        let has = |matrix: &Matrix, rows: usize, cols: usize| {
            (matrix.rows(), matrix.cols()) == (rows, cols) && matrix.as_slice().iter().all(|value| value.is_finite())
        };
        let normalizer = match (&self.normalizer, self.config.normalize) {
            (Normalizer::L2, Normalize::L2) | (Normalizer::None, Normalize::None) => true,
            (Normalizer::Standardize { mean, scale }, Normalize::Standardize) => {
                (mean.len(), scale.len()) == (d, d)
                    && mean.iter().all(|value| value.is_finite())
                    && scale.iter().all(|value| value.is_finite() && *value > 0.0)
            }
            _ => false,
        };
        let of_each = |length: Option<usize>| length.is_none_or(|length| length == n);
        for (fits, part) in [
            (classes > 0 && names.len() == classes, "names of classes"),
            (n > 0 && d > 0 && has(&rfm.train, n, d), "points"),
            (rfm.labels.iter().all(|&label| (label as usize) < classes), "labels"),
            (has(&rfm.metric_root, d, d), "metric"),
            (has(&rfm.beta, n, classes), "weights"),
            (normalizer, "normalisation"),
            (self.scale.is_valid(), "probabilities"),
            (of_each(self.names.rows.as_ref().map(Vec::len)), "rows"),
            (of_each(self.names.ids.as_ref().map(Vec::len)), "ids"),
            (self.validation_rows.len() == self.validation_hashes.len(), "validation points"),
        ] {
            if !fits {
                return Err(Error::Data(format!("the {part} of the model do not fit the rest of it")));
            }
        }
        Ok(())
    }
}
