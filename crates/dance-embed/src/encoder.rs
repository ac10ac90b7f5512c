//! An encoder, opened: its settings, its sessions, and who it is.

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

/// What runs the encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processor {
    /// The processor.
    #[default]
    Cpu,
    /// A graphics processor of NVIDIA's.
    Cuda,
}

/// How an encoder is found and run.
#[derive(Clone, Debug, Default)]
pub struct EncoderOptions {
    /// The library of ONNX Runtime, or its folder; looked for if not given.
    pub runtime: Option<PathBuf>,
    /// What runs it.
    pub processor: Processor,
    /// Fetch nothing.
    pub offline: bool,
}

/// An encoder of pictures or of texts.
pub struct Encoder {
    identity: EncoderIdentity,
    weights: PathBuf,
    input: Input,
    sessions: Sessions,
}

enum Input {
    Pictures(PictureSettings),
    Texts(Box<Tokens>),
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// What is embedded, ready for a batch.
pub(crate) enum Prepared {
    Pixels(Vec<f32>),
    Tokens(Vec<u32>),
}

/// A file that is larger is no picture.
const LARGEST_FILE: u64 = 1 << 30;

impl Encoder {
    /// Opens the encoder that a user calls `name`: a name of [`encoders::NAMED`](crate::encoders::NAMED), a folder, or an `.onnx`
    /// file. One thread of the context for each session.
    pub fn open(
        name: &str,
        modality: Modality,
        options: &EncoderOptions,
        context: &Context<'_>,
    ) -> Result<Self> {
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
        let identity =
            EncoderIdentity { name: name.to_owned(), weights: hash, preparation: preparation.to_string() };
        Ok(Self { identity, weights: files.weights, input, sessions })
    }

    /// Who it is.
    pub fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    /// What it embeds.
    pub fn modality(&self) -> Modality {
        match self.input {
            Input::Pictures(_) => Modality::Pictures,
            Input::Texts(_) => Modality::Texts,
        }
    }

    /// The embedding of one picture or text; or what is wrong with it.
    pub fn embed(&self, content: &Content) -> Result<Vec<f32>, String> {
        let prepared = self.prepare(content)?;
        self.run(vec![prepared]).map_err(|error| error.to_string())
    }

    /// Batches that can run at once.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.count
    }

    /// Makes numbers of a picture or text, or says what is wrong with it.
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

    /// Embeds a batch: one row after the other.
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

    fn padded(&self, batch: &[Prepared], tokens: &Tokens) -> Batch {
        let texts: Vec<&[u32]> = batch
            .iter()
            .map(|item| if let Prepared::Tokens(tokens) = item { tokens } else { &[][..] })
            .collect();
        // An encoder that is not told which tokens count was trained on texts of one length.
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let length = if self.sessions.is_told_the_mask() { longest } else { tokens.settings.longest };
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
    /// Rows and columns of what the encoder gets.
    fn sides(&self) -> (usize, usize) {
        match (self.crop, self.resize) {
            (Some(sides), _) => sides,
            (None, crate::settings::Resize::Exact(rows, columns)) => (rows, columns),
            (None, _) => (0, 0), // refused when the settings were read
        }
    }
}

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

/// SHA-256 of the weights and of the file where exporters put what is too large for them, and their size.
fn hash_of(weights: &Path) -> Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut size = 0;
    let name = weights.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = ["_data", ".data"].map(|end| weights.with_file_name(format!("{name}{end}")));
    for path in
        std::iter::once(weights).chain(beside.iter().map(PathBuf::as_path).filter(|path| path.is_file()))
    {
        let wrong = |error| Error::io(path, error);
        size += std::io::copy(&mut std::fs::File::open(path).map_err(wrong)?, &mut hash).map_err(wrong)?;
    }
    Ok((hexadecimal(&hash.finalize()), size))
}
