//! The header of a model file: its JSON metadata, with the checksum, and the layout of the bytes around it.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::kinds::Kinds;
use super::stack::StackRecord;
use super::tensors::{Reader, Values};
use super::{FORMAT, hexadecimal};
use crate::context::Quality;
use crate::data::EncoderIdentity;
use crate::error::{Error, Result};
use crate::machine::OutputScale;
use crate::model::Config;
use crate::model::overlap::{NewLabelShare, Overlap};

/// The digits that stand in place of the checksum's digits while the checksum is computed.
const NO_CHECKSUM: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const CHECKSUM_KEY: &str = "\"checksum\":\"";
/// A key that only the header of a model holds. It tells a truncated model from another file.
const MARK: &[u8] = b"\"calibration_data_sha256\":\"";

/// The metadata of a model file.
pub(super) struct Metadata {
    /// The [`Config`], as JSON.
    pub(super) config: String,
    pub(super) classes: Vec<String>,
    pub(super) fit_classes: usize,
    pub(super) bandwidth: f64,
    pub(super) shape: f64,
    pub(super) rounds: usize,
    /// The [mix](crate::method::Mix) of the method [`Dance`](crate::method::MethodName::Dance) at some error levels α.
    /// The key is α as decimal text.
    pub(super) mix: BTreeMap<String, f64>,
    pub(super) guarantee: String,
    /// The numbers of calibration points that took part in the fit or are copies of fit points.
    pub(super) overlap: Overlap,
    pub(super) new_label_share: Option<NewLabelShare>,
    /// The experts of the method [`Posterior`](crate::method::MethodName::Posterior); `None` for other methods.
    pub(super) stack: Option<StackRecord>,
    /// The map from outputs of the kernel machine to class probabilities.
    pub(super) scale: OutputScale,
    pub(super) validation: Quality,
    pub(super) fidelity: String,
    /// The encoder that made the embeddings, if known.
    pub(super) encoder: Option<EncoderIdentity>,
    pub(super) fit_data_hash: String,
    pub(super) calibration_data_hash: String,
    /// The kinds of labels and ids: text, numbers or truth values.
    pub(super) kinds: Kinds,
}

impl Metadata {
    /// Returns the metadata as strings, the only type of safetensors metadata. Settings that programs in other
    /// languages need have keys of their own, beside the key `config` for all settings.
    fn entries(&self) -> BTreeMap<&'static str, String> {
        let config: Config = serde_json::from_str(&self.config).unwrap_or_default();
        let conformal = config.conformal;
        let word = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut entries = BTreeMap::from([
            ("format", FORMAT.to_string()),
            ("checksum", NO_CHECKSUM.into()),
            ("bandwidth", self.bandwidth.to_string()),
            ("shape", self.shape.to_string()),
            ("rounds", self.rounds.to_string()),
            ("temperature", conformal.temperature.to_string()),
            ("rank_neighbors", conformal.rank_neighbors.to_string()),
            ("contrast_neighbors", conformal.contrast_neighbors.to_string()),
            ("tie_noise", conformal.tie_noise.to_string()),
            ("seed", conformal.seed.to_string()),
            ("mix", json!(self.mix).to_string()),
            ("calibration", word(json!(config.method().map(|method| method.calibration()).ok()))),
            ("method", word(json!(conformal.method))),
            ("normalize", word(json!(config.normalize))),
            ("classes", json!(self.classes).to_string()),
            ("fit_classes", self.fit_classes.to_string()),
            ("config", self.config.clone()),
            ("guarantee", self.guarantee.clone()),
            ("overlap", json!(self.overlap).to_string()),
            ("new_labels", json!(self.new_label_share).to_string()),
            ("posterior", json!(self.stack).to_string()),
            ("probabilities", json!(self.scale).to_string()),
            ("validation", json!(self.validation).to_string()),
            ("fidelity", self.fidelity.clone()),
            ("fit_data_sha256", self.fit_data_hash.clone()),
            ("calibration_data_sha256", self.calibration_data_hash.clone()),
            ("kinds", json!(self.kinds).to_string()),
            ("versions", json!({ "dance": env!("CARGO_PKG_VERSION") }).to_string()),
        ]);
        entries.extend(self.encoder.as_ref().map(|encoder| ("encoder", encoder.to_json())));
        entries
    }

    fn from_entries(entries: &BTreeMap<String, String>, path: &Path) -> Result<Self> {
        let text = |key: &str| {
            let value = entries.get(key).cloned();
            value.ok_or_else(|| Error::format(path, format!("not a model: its metadata has no `{key}`")))
        };
        Ok(Self {
            config: text("config")?,
            classes: parse(path, "classes", &text("classes")?)?,
            fit_classes: parse(path, "fit_classes", &text("fit_classes")?)?,
            bandwidth: parse(path, "bandwidth", &text("bandwidth")?)?,
            shape: parse(path, "shape", &text("shape")?)?,
            rounds: parse(path, "rounds", &text("rounds")?)?,
            mix: parse(path, "mix", &text("mix")?)?,
            guarantee: text("guarantee")?,
            overlap: parse(path, "overlap", &text("overlap")?)?,
            stack: parse(path, "posterior", &text("posterior")?)?,
            new_label_share: parse(path, "new_labels", &text("new_labels")?)?,
            scale: parse(path, "probabilities", &text("probabilities")?)?,
            validation: parse(path, "validation", &text("validation")?)?,
            fidelity: text("fidelity")?,
            encoder: entries.get("encoder").map_or(Ok(None), |text| parse(path, "encoder", text))?,
            fit_data_hash: text("fit_data_sha256")?,
            calibration_data_hash: text("calibration_data_sha256")?,
            kinds: parse(path, "kinds", &text("kinds")?)?,
        })
    }
}

/// Parses the JSON `text` of the metadata entry `key`. Errors name `path`.
fn parse<T: serde::de::DeserializeOwned>(path: &Path, key: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::format(path, format!("metadata `{key}` cannot be read: {error}")))
}

/// Returns the bytes of a model file: the length of the header, the header, and the tensors. Tensors with the widest
/// numbers come first, so that all numbers are aligned in memory.
pub(super) fn write(metadata: &Metadata, tensors: &BTreeMap<&'static str, Values<'_>>) -> Vec<u8> {
    let mut order: Vec<_> = tensors.iter().collect();
    order.sort_by_key(|(_, values)| std::cmp::Reverse(values.width()));
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), json!(metadata.entries()));
    let mut end = 0;
    for (name, values) in &order {
        let start = end;
        end += values.bytes();
        let entry = json!({ "dtype": values.kind(), "shape": values.shape(), "data_offsets": [start, end] });
        header.insert((**name).into(), entry);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = Vec::with_capacity(8 + header.len() + end);
    file.extend((header.len() as u64).to_le_bytes());
    file.extend(header);
    for (_, values) in order {
        values.append_to(&mut file);
    }
    let place = checksum_place(&file);
    let sum = hexadecimal(&Sha256::digest(&file));
    if let Some(place) = place {
        file[place..place + sum.len()].copy_from_slice(sum.as_bytes());
    }
    file
}

/// Returns the offset of the checksum's digits in a model file; `None` if the header holds no checksum.
fn checksum_place(file: &[u8]) -> Option<usize> {
    let length = u64::from_le_bytes(file.get(..8)?.try_into().ok()?);
    let header = file.get(8..)?.get(..usize::try_from(length).ok()?)?;
    let key = CHECKSUM_KEY.as_bytes();
    let place = 8 + header.windows(key.len()).position(|window| window == key)? + key.len();
    (place + NO_CHECKSUM.len() <= 8 + header.len()).then_some(place)
}

/// Checks the format version and the checksum of a model file. Returns its metadata and a reader of its tensors. Errors
/// name `path`.
pub(super) fn read<'a>(file: &'a [u8], path: &'a Path) -> Result<(Metadata, Reader<'a>)> {
    let damaged = |what: &str| Error::format(path, format!("{what}; the file is damaged or not a model"));
    let foreign = || Error::format(path, "this is not a dance model; name a model file");
    let (_, header) = SafeTensors::read_metadata(file).map_err(|_| {
        // The header of a truncated model still has the key of a model.
        if file.windows(MARK.len()).take(1 << 20).any(|window| window == MARK) {
            damaged("it is not whole")
        } else {
            foreign()
        }
    })?;
    let entries: BTreeMap<String, String> = header.metadata().clone().unwrap_or_default().into_iter().collect();
    let format = entries.get("format").and_then(|text| text.parse::<u32>().ok());
    match format {
        None => return Err(foreign()),
        Some(FORMAT) => {}
        Some(format) => {
            return Err(Error::format(
                path,
                format!("its format is {format}, and this version of dance reads format {FORMAT}; fit the model again"),
            ));
        }
    }
    // The checksum is computed over the file with the placeholder in its place.
    let place = checksum_place(file).ok_or_else(|| damaged("it has no checksum"))?;
    let digits = place..place + NO_CHECKSUM.len();
    let mut hash = Sha256::new();
    hash.update(&file[..digits.start]);
    hash.update(NO_CHECKSUM);
    hash.update(&file[digits.end..]);
    if hexadecimal(&hash.finalize()).as_bytes() != &file[digits] {
        return Err(damaged("its checksum does not match"));
    }
    let tensors = SafeTensors::deserialize(file).map_err(|error| damaged(&error.to_string()))?;
    Ok((Metadata::from_entries(&entries, path)?, Reader::new(tensors, path)))
}
