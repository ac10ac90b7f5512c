//! Options and functions to embed pictures and texts.

use std::path::Path;

use anyhow::bail;
use clap::Args;
use dance::data::EncoderIdentity;
use dance::device::DeviceChoice;
use dance::{Context, Dance, Table};
#[cfg(feature = "serve")]
use dance_embed::Content;
use dance_embed::{EmbedOptions, Encoder, EncoderOptions, Items, Modality, Processor, embed};

use crate::progress::Progress;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Encoder")]
pub(crate) struct Encoding {
    /// Download nothing; all files must be in the cache
    #[arg(long)]
    offline: bool,
}

impl Encoding {
    /// Opens an encoder. It runs on a graphics processor only if `--device` names one, which needs `onnxruntime-gpu`.
    pub(crate) fn open(
        &self,
        name: &str,
        modality: Modality,
        device: DeviceChoice,
        context: &Context<'_>,
    ) -> dance::Result<Encoder> {
        let processor = match device {
            DeviceChoice::Auto | DeviceChoice::Cpu => Processor::Cpu,
            DeviceChoice::Cuda(0) => Processor::Cuda,
            DeviceChoice::Cuda(_) => {
                return Err(dance::Error::config("device", device, "cpu or cuda:0 where an encoder runs"));
            }
        };
        let options = EncoderOptions { runtime: None, processor, offline: self.offline };
        Encoder::open(name, modality, &options, context)
    }
}

/// Reads the pictures or texts to embed, and reports the number of skipped files.
pub(crate) fn read(path: &Path, progress: &Progress) -> dance::Result<Items> {
    let items = Items::read(path)?;
    if items.ignored > 0 {
        progress.note(&format!(
            "{}: {} files do not have the name of a picture and are skipped",
            items.origin, items.ignored
        ));
    }
    Ok(items)
}

/// Pictures or texts instead of embeddings, for a model that knows its encoder.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Encoder")]
pub(crate) struct OnTheFly {
    /// DATA is pictures or texts, in the forms that `dance embed` reads; the model's encoder embeds them first
    #[arg(long)]
    pub(crate) embed: bool,
    /// The model's encoder: a name, a folder or an .onnx file [default: its name when the model's points were embedded]
    #[arg(long, value_name = "ENCODER", requires = "embed")]
    encoder: Option<String>,
    #[command(flatten)]
    encoding: Encoding,
}

impl OnTheFly {
    /// Returns the embedded points, and the ids of those that failed, with the reasons.
    pub(crate) fn table(
        &self,
        path: &Path,
        model: &Dance,
        skip_bad: bool,
        device: DeviceChoice,
        progress: &Progress,
        context: &Context<'_>,
    ) -> anyhow::Result<(Table, Vec<(String, String)>)> {
        let Some(expected) = model.encoder() else {
            bail!(
                "the model does not know its encoder, because its points came without one; embed them with `dance \
                 embed` and fit again"
            );
        };
        let items = read(path, progress)?;
        let name = self.encoder.as_deref().unwrap_or(&expected.name);
        let encoder = self.encoding.open(name, items.modality, device, context)?;
        EncoderIdentity::check(Some(expected), Some(encoder.identity()), &path.display().to_string())?;
        let embedded = embed(&items, &encoder, &EmbedOptions { skip_bad, parts: None }, context)?;
        let bad = embedded.bad.into_iter().map(|bad| (bad.id, bad.reason)).collect();
        Ok((embedded.table, bad))
    }
}

/// Returns the pictures in a file, by their ids.
#[cfg(feature = "serve")]
pub(crate) fn pictures(path: &Path) -> anyhow::Result<std::collections::HashMap<String, Vec<u8>>> {
    let items = Items::read(path)?;
    let pictures = items.ids.into_iter().zip(items.contents).filter_map(|(id, content)| match content {
        Content::Bytes(bytes) => Some((id, bytes)),
        Content::File(_) | Content::Text(_) => None,
    });
    let pictures: std::collections::HashMap<_, _> = pictures.collect();
    if pictures.is_empty() {
        bail!(
            "{}: contains no pictures; name a folder of pictures, or a .parquet file with pictures inside",
            path.display()
        );
    }
    Ok(pictures)
}

/// The encoder of a model that is served.
#[cfg(feature = "serve")]
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Encoder")]
pub(crate) struct OfServer {
    /// Accept pictures or texts at /v1/embed and on the page: the model's encoder, or `auto` for its name when the
    /// model's points were embedded
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<String>,
    #[command(flatten)]
    encoding: Encoding,
}

#[cfg(feature = "serve")]
impl OfServer {
    /// Returns whether the server has an encoder.
    pub(crate) fn is_given(&self) -> bool {
        self.encoder.is_some()
    }

    /// Opens the encoder for pictures or texts, as the model needs.
    pub(crate) fn open(
        &self,
        model: &Dance,
        device: DeviceChoice,
        context: &Context<'_>,
    ) -> dance::Result<Box<dyn dance_serve::Encode>> {
        let Some(expected) = model.encoder() else {
            return Err(dance::Error::Data(
                "--encoder: the model does not know its encoder, because its points came without one; \
                 embed them with `dance embed` and fit again"
                    .into(),
            ));
        };
        let texts = expected.preparation.contains("\"texts\":");
        let modality = if texts { Modality::Texts } else { Modality::Pictures };
        let name = self.encoder.as_deref().filter(|&name| name != "auto").unwrap_or(&expected.name);
        Ok(Box::new(ServedEncoder(self.encoding.open(name, modality, device, context)?)))
    }
}

#[cfg(feature = "serve")]
struct ServedEncoder(Encoder);

#[cfg(feature = "serve")]
impl dance_serve::Encode for ServedEncoder {
    fn identity(&self) -> &EncoderIdentity {
        self.0.identity()
    }

    fn takes(&self) -> dance_serve::Takes {
        match self.0.modality() {
            Modality::Pictures => dance_serve::Takes::Pictures,
            Modality::Texts => dance_serve::Takes::Texts,
        }
    }

    fn embed(&self, content: Vec<u8>) -> Result<Vec<f32>, String> {
        let content = match self.0.modality() {
            Modality::Pictures => Content::Bytes(content),
            Modality::Texts => Content::Text(String::from_utf8(content).map_err(|_| "is not UTF-8 text")?),
        };
        self.0.embed(&content)
    }
}
