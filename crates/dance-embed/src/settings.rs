//! Settings from an encoder's files: pictures, texts and outputs. `transformers` and `sentence-transformers` keep these
//! files beside the weights: `preprocessor_config.json`, `tokenizer.json`, `tokenizer_config.json`,
//! `sentence_bert_config.json`, `modules.json`, `1_Pooling/config.json`.

use std::path::Path;

use dance::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use crate::picture::Filter;

/// The preparation of a picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PictureSettings {
    /// The new size.
    pub resize: Resize,
    /// The filter of the resizing.
    pub filter: Filter,
    /// Rows and columns of the crop around the center.
    pub crop: Option<(usize, usize)>,
    /// The factor of the channels, which are 0 to 255. Every number is `(channel · scale - mean) / deviation`.
    pub scale: f64,
    /// The mean of every channel.
    pub mean: [f32; 3],
    /// The deviation of every channel.
    pub deviation: [f32; 3],
}

/// The size of a picture after resizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Resize {
    /// The picture keeps its size.
    Keep,
    /// The shorter side gets this length, and proportions stay.
    Shortest(usize),
    /// Rows and columns; proportions may change.
    Exact(usize, usize),
}

/// The tokens of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextSettings {
    /// Most tokens; further ones are cut off.
    pub longest: usize,
    /// The token that fills shorter texts of a batch.
    pub padding: u32,
}

/// The pooling of an encoder's outputs, one per token or patch, to one embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// No pooling: the encoder gives one embedding by itself.
    None,
    /// The first output, that of the class token.
    First,
    /// The mean of all outputs.
    Mean,
}

/// The treatment of outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OutputSettings {
    /// The pooling to one embedding.
    pub pooling: Pooling,
    /// Scales embeddings to length 1.
    pub normalize: bool,
}

/// The longest side of a picture that is accepted.
const LARGEST_SIDE: u64 = 4096;
/// Most tokens that are accepted as a limit.
const MOST_TOKENS: u64 = 8192;
/// The limit of encoders without one of their own.
const USUAL_TOKENS: usize = 512;

/// Reads a JSON file; `None` if there is none.
pub(crate) fn json(path: &Path) -> Result<Option<Value>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(path, error)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| Error::format(path, format!("is not JSON: {error}. Fetch it again")))
}

impl PictureSettings {
    /// Reads a `preprocessor_config.json`.
    pub fn read(path: &Path) -> Result<Self> {
        let Some(value) = json(path)? else {
            return Err(Error::format(
                path,
                "is not there; it holds the preparation of pictures. Put it beside the weights",
            ));
        };
        Self::of(&value).map_err(|problem| Error::format(path, problem))
    }

    /// Reads the settings of a picture from JSON.
    fn of(value: &Value) -> Result<Self, String> {
        let does = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(true);
        if value.get("crop_pct").is_some_and(|share| !share.is_null()) {
            return Err("`crop_pct` is not supported; give `size` and `crop_size`".into());
        }
        // The size and the crop; all pictures must end up equally large.
        let resize = if does("do_resize") { resize(value.get("size"))? } else { Resize::Keep };
        // Image processors that never crop have no such key.
        let crop = match value.get("crop_size") {
            Some(size) if value.get("do_center_crop").and_then(Value::as_bool).unwrap_or(false) => Some(sides(size)?),
            _ => None,
        };
        if crop.is_none() && !matches!(resize, Resize::Exact(..)) {
            return Err("pictures keep different sizes: neither `crop_size` nor `size` with `height` and `width` is \
                        given"
                .into());
        }
        let filter = match value.get("resample").and_then(Value::as_u64) {
            None => Filter::Bicubic,
            Some(number) => {
                Filter::of_number(number).ok_or_else(|| format!("`resample` {number} is not supported; 1 to 5 are"))?
            }
        };
        // The scale, the mean and the deviation of the channels.
        let scale = match value.get("rescale_factor").and_then(Value::as_f64) {
            _ if !does("do_rescale") => 1.0,
            Some(factor) => factor,
            None => 1.0 / 255.0,
        };
        let three = |key: &str| {
            let numbers = value.get(key).and_then(Value::as_array);
            let numbers: Option<Vec<f32>> =
                numbers.map(|list| list.iter().filter_map(Value::as_f64).map(|number| number as f32).collect());
            match numbers.and_then(|numbers| <[f32; 3]>::try_from(numbers).ok()) {
                Some(numbers) if numbers.iter().all(|number| number.is_finite()) => Ok(numbers),
                _ => Err(format!("`{key}` must be three numbers")),
            }
        };
        let (mean, deviation) =
            if does("do_normalize") { (three("image_mean")?, three("image_std")?) } else { ([0.0; 3], [1.0; 3]) };
        if !(scale.is_finite() && deviation.iter().all(|&deviation| deviation > 0.0)) {
            return Err("`image_std` must be above 0, `rescale_factor` a number".into());
        }
        Ok(Self { resize, filter, crop, scale, mean, deviation })
    }
}

/// Reads `size`: a number or `shortest_edge` for the shorter side, or rows and columns.
fn resize(size: Option<&Value>) -> Result<Resize, String> {
    let Some(size) = size else { return Err("`size` is not there".into()) };
    if size.is_u64() {
        return side(Some(size)).map(Resize::Shortest);
    }
    match size.get("shortest_edge") {
        Some(_) if size.get("longest_edge").is_some_and(|edge| !edge.is_null()) => {
            Err("`size.longest_edge` is not supported".into())
        }
        Some(edge) => side(Some(edge)).map(Resize::Shortest),
        None => sides(size).map(|(height, width)| Resize::Exact(height, width)),
    }
}

/// Reads rows and columns: one number for both, or `height` and `width`.
fn sides(size: &Value) -> Result<(usize, usize), String> {
    if size.is_u64() {
        return side(Some(size)).map(|side| (side, side));
    }
    Ok((side(size.get("height"))?, side(size.get("width"))?))
}

/// Reads the length of a side.
fn side(size: Option<&Value>) -> Result<usize, String> {
    match size.and_then(Value::as_u64) {
        Some(size @ 1..=LARGEST_SIDE) => Ok(size as usize),
        _ => Err(format!(
            "a size is {}; it must be a whole number from 1 to {LARGEST_SIDE}",
            size.unwrap_or(&Value::Null)
        )),
    }
}

impl TextSettings {
    /// Reads the files beside `tokenizer.json`. `padding` is the padding token of that file, if it has one.
    pub(crate) fn read(folder: &Path, padding: Option<u32>, token: impl Fn(&str) -> Option<u32>) -> Result<Self> {
        let sentences = json(&folder.join("sentence_bert_config.json"))?;
        let config = json(&folder.join("tokenizer_config.json"))?;
        let limit = |value: &Option<Value>, key: &str| {
            value
                .as_ref()?
                .get(key)?
                .as_u64()
                .filter(|limit| (1..=MOST_TOKENS).contains(limit))
                .map(|limit| limit as usize)
        };
        let longest = limit(&sentences, "max_seq_length").or_else(|| limit(&config, "model_max_length"));
        let named = || {
            let token_of = config.as_ref()?.get("pad_token")?;
            token(token_of.as_str().or_else(|| token_of.get("content")?.as_str())?)
        };
        Ok(Self { longest: longest.unwrap_or(USUAL_TOKENS), padding: padding.or_else(named).unwrap_or(0) })
    }
}

impl OutputSettings {
    /// Reads the files of `sentence-transformers`; `None` if there are none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join("1_Pooling").join("config.json");
        let Some(value) = json(&path)? else { return Ok(None) };
        let is = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(false);
        let pooling = match (is("pooling_mode_cls_token"), is("pooling_mode_mean_tokens")) {
            (true, false) => Pooling::First,
            (false, true) => Pooling::Mean,
            _ => {
                return Err(Error::format(&path, "has another pooling than the mean or the class token"));
            }
        };
        let modules = json(&folder.join("modules.json"))?;
        let kind =
            |module: &Value| module.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("Normalize"));
        let normalize = modules.as_ref().and_then(Value::as_array).is_some_and(|modules| modules.iter().any(kind));
        Ok(Some(Self { pooling, normalize }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_settings_of_clip_are_understood() {
        let value = json!({
            "crop_size": {"height": 224, "width": 224}, "do_center_crop": true, "do_resize": true, "resample": 3,
            "size": {"shortest_edge": 224}, "image_mean": [0.5, 0.25, 0.125], "image_std": [0.25, 0.5, 1.0],
            "do_normalize": true, "do_rescale": true, "rescale_factor": 0.5
        });
        let settings = PictureSettings::of(&value).unwrap();
        assert_eq!(settings.resize, Resize::Shortest(224));
        assert_eq!((settings.filter, settings.crop, settings.scale), (Filter::Bicubic, Some((224, 224)), 0.5));
        assert_eq!(settings.mean, [0.5, 0.25, 0.125]);
        // Older files have plain numbers.
        let old = json!({
            "crop_size": 8, "do_center_crop": true, "size": 9, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]
        });
        let settings = PictureSettings::of(&old).unwrap();
        assert_eq!((settings.resize, settings.crop, settings.scale), (Resize::Shortest(9), Some((8, 8)), 1.0 / 255.0));
    }

    #[test]
    fn settings_that_cannot_be_followed_are_refused() {
        for (change, part) in [
            (json!({"size": {"shortest_edge": 0}}), "from 1 to 4096"),
            (json!({"size": {"height": 224}}), "null"),
            (json!({"size": {"shortest_edge": 4, "longest_edge": 9}}), "longest_edge"),
            (json!({"resample": 0}), "`resample` 0"),
            (json!({"image_std": [1, 0, 1]}), "above 0"),
            (json!({"image_mean": [1, 2]}), "three numbers"),
            (json!({"do_center_crop": false}), "different sizes"),
            (json!({"crop_pct": 0.9}), "crop_pct"),
        ] {
            let mut value = json!({
                "crop_size": 4, "do_center_crop": true, "size": {"shortest_edge": 4},
                "image_mean": [0, 0, 0], "image_std": [1, 1, 1]
            });
            for (key, changed) in change.as_object().unwrap() {
                value[key] = changed.clone();
            }
            let problem = PictureSettings::of(&value).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
