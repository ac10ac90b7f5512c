//! Encoders: an opened encoder with its settings, its sessions and its identity.

use std::path::{Path, PathBuf};

use dance::data::EncoderIdentity;
use dance::{Context, Error, Result};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::encoders::Files;
use crate::hub::{Hub, hexadecimal};
use crate::items::{Content, Modality};
use crate::picture::{decode, prepare};
use crate::runtime;
use crate::session::{Batch, Sessions};
use crate::settings::{OutputSettings, PictureSettings};
use crate::text::Tokens;

/// The processor that runs an encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processor {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA graphics processor.
    Cuda,
}

/// Options to find and run an encoder.
#[derive(Clone, Debug, Default)]
pub struct EncoderOptions {
    /// The library of ONNX Runtime, or its folder; `None` searches for it.
    pub runtime: Option<PathBuf>,
    /// The processor that runs it.
    pub processor: Processor,
    /// Forbids downloads.
    pub offline: bool,
}

/// An encoder of pictures or of texts.
pub struct Encoder {
    identity: EncoderIdentity,
    weights: PathBuf,
    input: Input,
    sessions: Sessions,
}

/// The settings of the inputs.
enum Input {
    Pictures(PictureSettings),
    Texts(Box<Tokens>),
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// A picture or text in the form of a batch.
pub(crate) enum Prepared {
    Pixels(Vec<f32>),
    Tokens(Vec<u32>),
}

/// The largest size of a picture file, in bytes.
const LARGEST_FILE: u64 = 1 << 30;

impl Encoder {
    /// Opens an encoder by `name`: a name of [`encoders::NAMED`](crate::encoders::NAMED), a folder, or an `.onnx` file.
    /// There are at most as many sessions as the context has threads.
    pub fn open(name: &str, modality: Modality, options: &EncoderOptions, context: &Context<'_>) -> Result<Self> {
        let hub = Hub::from_environment(options.offline);
        let files = Files::find(name, modality, &hub, context)?;
        let input = match modality {
            Modality::Pictures => {
                Input::Pictures(PictureSettings::read(&files.folder.join("preprocessor_config.json"))?)
            }
            Modality::Texts => Input::Texts(Box::new(Tokens::open(&files.folder.join("tokenizer.json"))?)),
        };
        let output = OutputSettings::read(&files.folder)?.unwrap_or(files.output);
        runtime::open(options.runtime.as_deref())?;
        let (hash, size) = hash_of(&files.weights)?;
        let sessions = Sessions::open(&files.weights, size, context.threads(), options.processor, output)?;
        let preparation = match &input {
            Input::Pictures(settings) => json!({ "pictures": settings, "output": sessions.settings }),
            Input::Texts(tokens) => json!({ "texts": tokens.settings, "output": sessions.settings }),
        };
        let identity = EncoderIdentity { name: name.to_owned(), weights: hash, preparation: preparation.to_string() };
        Ok(Self { identity, weights: files.weights, input, sessions })
    }

    /// Returns its identity, which embeddings and models record.
    pub fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    /// Returns whether it embeds pictures or texts.
    pub fn modality(&self) -> Modality {
        match self.input {
            Input::Pictures(_) => Modality::Pictures,
            Input::Texts(_) => Modality::Texts,
        }
    }

    /// Embeds one picture or text; an error says why it cannot be embedded.
    pub fn embed(&self, content: &Content) -> Result<Vec<f32>, String> {
        let prepared = self.prepare(content)?;
        self.run(vec![prepared]).map_err(|error| error.to_string())
    }

    /// Returns the number of batches that can run at once.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.count
    }

    /// Converts a picture or text to numbers; an error says why it cannot be embedded.
    pub(crate) fn prepare(&self, content: &Content) -> Result<Prepared, String> {
        match (&self.input, content) {
            (Input::Pictures(settings), Content::File(path)) => {
                let bytes = read_picture(path)?;
                Ok(Prepared::Pixels(prepare(&decode(&bytes)?, settings)))
            }
            (Input::Pictures(settings), Content::Bytes(bytes)) => {
                Ok(Prepared::Pixels(prepare(&decode(bytes)?, settings)))
            }
            (Input::Texts(tokens), Content::Text(text)) => tokens.of(text).map(Prepared::Tokens),
            (Input::Pictures(_), Content::Text(_)) => Err("is a text, and the encoder takes pictures".into()),
            (Input::Texts(_), _) => Err("is a picture, and the encoder takes texts".into()),
        }
    }

    /// Embeds a batch. Rows follow each other in the result.
    pub(crate) fn run(&self, batch: Vec<Prepared>) -> Result<Vec<f32>> {
        let count = batch.len();
        let batch = match &self.input {
            Input::Pictures(settings) => {
                let mut pixels = Vec::new();
                for item in batch {
                    if let Prepared::Pixels(more) = item {
                        pixels.extend(more);
                    }
                }
                Batch::Pictures { count, sides: settings.sides(), pixels }
            }
            Input::Texts(tokens) => self.padded(&batch, tokens),
        };
        self.sessions.run(&self.weights, batch)
    }

    /// Pads the tokens of texts to one length.
    fn padded(&self, batch: &[Prepared], tokens: &Tokens) -> Batch {
        let texts: Vec<&[u32]> =
            batch.iter().map(|item| if let Prepared::Tokens(tokens) = item { tokens } else { &[][..] }).collect();
        // An encoder without a mask was trained on texts of one length.
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let length = if self.sessions.has_mask() { longest } else { tokens.settings.longest };
        let (mut numbers, mut mask) = (Vec::with_capacity(length * texts.len()), Vec::new());
        for text in &texts {
            let end = numbers.len() + length;
            numbers.extend(text.iter().map(|&token| i64::from(token)));
            mask.resize(numbers.len(), 1);
            numbers.resize(end, i64::from(tokens.settings.padding));
            mask.resize(end, 0);
        }
        Batch::Texts { count: texts.len(), length, tokens: numbers, mask }
    }
}

impl PictureSettings {
    /// Returns the rows and columns of the encoder's input.
    fn sides(&self) -> (usize, usize) {
        match (self.crop, self.resize) {
            (Some(sides), _) => sides,
            (None, crate::settings::Resize::Exact(rows, columns)) => (rows, columns),
            (None, _) => (0, 0), // refused when the settings were read
        }
    }
}

/// Reads a picture file; larger and special files are refused.
fn read_picture(path: &Path) -> Result<Vec<u8>, String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("is not a regular file".into());
    }
    if found.len() > LARGEST_FILE {
        return Err(format!("has {} bytes, more than any picture", found.len()));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Returns the SHA-256 and the size of the weights, with the external data file that exporters put beside large models.
fn hash_of(weights: &Path) -> Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut size = 0;
    let name = weights.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = ["_data", ".data"].map(|end| weights.with_file_name(format!("{name}{end}")));
    for path in std::iter::once(weights).chain(beside.iter().map(PathBuf::as_path).filter(|path| path.is_file())) {
        let wrong = |error| Error::io(path, error);
        size += std::io::copy(&mut std::fs::File::open(path).map_err(wrong)?, &mut hash).map_err(wrong)?;
    }
    Ok((hexadecimal(&hash.finalize()), size))
}
