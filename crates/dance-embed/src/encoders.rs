//! Named encoders: the repository of each on the hub, the files that it needs, and the pooling of its outputs if no
//! file gives it. All other settings (sizes, normalisation, tokens) are in these files.

use std::path::{Path, PathBuf};

use dance::{Context, Error, Result};

use crate::hub::Hub;
use crate::items::Modality;
use crate::settings::{OutputSettings, Pooling};

/// An encoder that has a name.
#[derive(Debug)]
pub struct Named {
    /// Its name for users.
    pub name: &'static str,
    /// Its repository on the hub.
    pub repository: &'static str,
    /// The file with the weights for pictures.
    pub pictures: Option<&'static str>,
    /// The file with the weights for texts.
    pub texts: Option<&'static str>,
    /// The treatment of its outputs.
    pub output: OutputSettings,
}

const fn output(pooling: Pooling, normalize: bool) -> OutputSettings {
    OutputSettings { pooling, normalize }
}

const fn both(name: &'static str, repository: &'static str) -> Named {
    let (pictures, texts) = (Some("onnx/vision_model.onnx"), Some("onnx/text_model.onnx"));
    Named { name, repository, pictures, texts, output: output(Pooling::None, true) }
}

const fn pictures(name: &'static str, repository: &'static str) -> Named {
    let pictures = Some("onnx/model.onnx");
    Named { name, repository, pictures, texts: None, output: output(Pooling::First, true) }
}

const fn texts(name: &'static str, repository: &'static str, pooling: Pooling) -> Named {
    Named { name, repository, pictures: None, texts: Some("onnx/model.onnx"), output: output(pooling, true) }
}

/// All named encoders.
pub const NAMED: &[Named] = &[
    both("clip-vit-b-32", "Xenova/clip-vit-base-patch32"),
    both("clip-vit-b-16", "Xenova/clip-vit-base-patch16"),
    both("clip-vit-l-14", "Xenova/clip-vit-large-patch14"),
    both("siglip-base", "Xenova/siglip-base-patch16-224"),
    pictures("dinov2-small", "Xenova/dinov2-small"),
    pictures("dinov2-base", "Xenova/dinov2-base"),
    texts("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", Pooling::Mean),
    texts("bge-small", "BAAI/bge-small-en-v1.5", Pooling::First),
    texts("bge-base", "BAAI/bge-base-en-v1.5", Pooling::First),
];

/// Files beside the weights of an encoder for pictures, and whether each is required.
const FOR_PICTURES: &[(&str, bool)] = &[("preprocessor_config.json", true)];
/// Files beside the weights of an encoder for texts, and whether each is required.
const FOR_TEXTS: &[(&str, bool)] = &[
    ("tokenizer.json", true),
    ("tokenizer_config.json", false),
    ("sentence_bert_config.json", false),
    ("modules.json", false),
    ("1_Pooling/config.json", false),
];

/// An encoder's files on this machine.
#[derive(Clone, Debug)]
pub struct Files {
    /// The weights.
    pub weights: PathBuf,
    /// The folder of its settings.
    pub folder: PathBuf,
    /// The treatment of its outputs if no file gives it.
    pub output: OutputSettings,
}

impl Files {
    /// Finds an encoder: a folder, an `.onnx` file, or a name. Files of a named encoder are downloaded from the hub if
    /// they are not in the cache.
    pub fn find(encoder: &str, modality: Modality, hub: &Hub, context: &Context<'_>) -> Result<Self> {
        let path = Path::new(encoder);
        if path.is_dir() {
            return Self::in_folder(path, modality);
        }
        if path.is_file() {
            return Self::of_weights(path);
        }
        let Some(named) = NAMED.iter().find(|named| named.name.eq_ignore_ascii_case(encoder)) else {
            let names: Vec<&str> = NAMED.iter().map(|named| named.name).collect();
            return Err(Error::Data(format!(
                "{encoder}: no such encoder. Give a folder, an .onnx file, or one of {}",
                names.join(", ")
            )));
        };
        named.fetch(modality, hub, context)
    }

    /// Finds the weights in a folder.
    fn in_folder(folder: &Path, modality: Modality) -> Result<Self> {
        let names = match modality {
            Modality::Pictures => ["vision_model.onnx", "model.onnx"],
            Modality::Texts => ["text_model.onnx", "model.onnx"],
        };
        let places = names.iter().flat_map(|name| [folder.join(name), folder.join("onnx").join(name)]);
        match places.into_iter().find(|place| place.is_file()) {
            Some(weights) => Ok(Self { weights, folder: folder.to_owned(), output: GUESSED }),
            None => Err(Error::format(
                folder,
                format!("has no {} or {}, by itself or in onnx/; export the encoder to ONNX", names[0], names[1]),
            )),
        }
    }

    /// Takes a file of weights. Settings are in its folder or in the parent folder.
    fn of_weights(weights: &Path) -> Result<Self> {
        if weights.extension().is_none_or(|extension| extension != "onnx") {
            return Err(Error::format(weights, "is no .onnx file; export the encoder to ONNX, or name its folder"));
        }
        let beside = weights.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let has = |folder: &Path| FOR_PICTURES.iter().chain(FOR_TEXTS).any(|(file, _)| folder.join(file).is_file());
        let above = beside.join("..");
        let folder = if !has(beside) && has(&above) { above } else { beside.to_owned() };
        Ok(Self { weights: weights.to_owned(), folder, output: GUESSED })
    }
}

/// The treatment of outputs if nothing else gives it: the encoder's own embedding, or the mean of one per token.
const GUESSED: OutputSettings = output(Pooling::None, false);

impl Named {
    /// Downloads the files of a named encoder, or finds them in the cache.
    fn fetch(&self, modality: Modality, hub: &Hub, context: &Context<'_>) -> Result<Files> {
        let (weights, beside) = match modality {
            Modality::Pictures => (self.pictures, FOR_PICTURES),
            Modality::Texts => (self.texts, FOR_TEXTS),
        };
        let Some(weights) = weights else {
            return Err(Error::Data(format!("{}: embeds no {}; take another encoder", self.name, modality.name())));
        };
        let mut folder = None;
        for &(file, needed) in beside {
            let place = hub.file(self.repository, file, needed, context)?;
            if needed {
                folder = place.and_then(|place| place.parent().map(Path::to_owned));
            }
        }
        let Some(weights) = hub.file(self.repository, weights, true, context)? else {
            return Err(Error::Data(format!("{}: the hub has no {weights}", self.name)));
        };
        let folder = folder.unwrap_or_else(|| weights.parent().unwrap_or(Path::new(".")).to_owned());
        Ok(Files { weights, folder, output: self.output })
    }
}
