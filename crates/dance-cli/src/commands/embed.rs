//! `dance embed`: writes the embeddings of pictures or texts to a file.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use dance::data::RawLabels;
use dance::{Matrix, Table};
use dance_embed::{Bad, EmbedOptions, Items, Modality, embed, prototypes};
use dance_page::terminal;
use serde_json::json;

use crate::args::Shared;
use crate::data::check_there;
use crate::encoding::{self, Encoding};
use crate::output::{Cells, Column, Destination, Format, Frame, write_frame};
use crate::path_conflicts;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = r#"Example:
  dance embed photos/ -o photos.npz --encoder clip-vit-b-32 --prompt "a photo of a {}"
  dance embed questions.csv -o questions.npz --encoder all-MiniLM-L6-v2
  dance embed eurosat.parquet -o eurosat.npz --encoder exported/efficientnet

SOURCE is one of:
  a folder of pictures; subfolders are classes
  a .csv, .tsv, .jsonl or .parquet file with `path` or `text`, and optionally `label` and `id`
  a .parquet file of Hugging Face's datasets with pictures inside
  a .txt file with one text per line
The encoder is one of:
  a name: clip-vit-b-32, clip-vit-b-16, clip-vit-l-14, siglip-base, dinov2-small, dinov2-base,
    all-MiniLM-L6-v2, bge-small or bge-base; downloaded once into the usual cache of the hub
    (HF_HOME, HF_ENDPOINT, HF_TOKEN)
  a folder, or an .onnx file beside its preprocessor_config.json or tokenizer.json
ONNX Runtime runs the encoder: `pip install onnxruntime`. A run that was stopped continues:
finished embeddings are kept in OUT.parts until OUT is written."#;

/// The values of `--on-error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// Stop at the first one, and write nothing
    Stop,
    /// Leave it out and list it
    Skip,
}

#[derive(Args, Debug)]
pub(crate) struct Embed {
    /// Pictures or texts
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// File of embeddings to write: .npz or .parquet
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Encoder: a name, a folder or an .onnx file
    #[arg(short, long, value_name = "ENCODER")]
    encoder: String,
    /// Embed the class names in this file too, one per line, as `prototypes`. Without it, --prompt embeds the names of
    /// the labels
    #[arg(long, value_name = "FILE")]
    prototypes: Option<PathBuf>,
    /// Text around a class name, which replaces {}; for CLIP "a photo of a {}" [default: {}]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Treatment of inputs that cannot be embedded
    #[arg(long, value_enum, default_value_t = OnError::Stop, value_name = "HOW")]
    on_error: OnError,
    #[command(flatten)]
    encoding: Encoding,
}

impl Embed {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        let format = self.check(shared)?;
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let items = encoding::read(&self.source, &progress)?;
        let names = self.class_names(&items)?;
        let encoder = self.encoding.open(&self.encoder, items.modality, shared.device, &context)?;
        let options = EmbedOptions { skip_bad: self.on_error == OnError::Skip, parts: Some(self.parts()) };
        let embedded = embed(&items, &encoder, &options, &context)?;
        let mut table = embedded.table.clone();
        // Class names are texts: an encoder of pictures has a text encoder beside it.
        if let Some(names) = names {
            let prompt = self.prompt.as_deref().unwrap_or("{}");
            let of_names = if items.modality == Modality::Texts {
                prototypes(&names, prompt, &encoder, &context)
            } else {
                let encoder = self.encoding.open(&self.encoder, Modality::Texts, shared.device, &context)?;
                prototypes(&names, prompt, &encoder, &context)
            };
            table.prototypes = Some(of_names.context("embedding class names")?);
            table.class_names = Some(names);
            table = table.checked()?;
        }
        write(&self.output, format, &table)?;
        embedded.keep();
        progress.finish();

        for Bad { id, reason } in &embedded.bad {
            progress.warn(&format!("{id}: {reason}; left out"));
        }
        let (rows, dimensions) = (table.embeddings().rows(), table.embeddings().cols());
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            let bad: Vec<_> = embedded.bad.iter().map(|bad| json!({ "id": bad.id, "reason": bad.reason })).collect();
            let report = json!({
                "output": self.output.display().to_string(),
                "rows": rows,
                "dimensions": dimensions,
                "labels": table.labels.is_some(),
                "prototypes": table.prototypes.as_ref().map(Matrix::rows),
                "bad": bad,
                "encoder": table.encoder,
            });
            writeln!(out, "{report}")?;
        } else {
            let labelled = if table.labels.is_some() { "with labels" } else { "without labels" };
            let left_out =
                if embedded.bad.is_empty() { String::new() } else { format!("; {} left out", embedded.bad.len()) };
            let what = items.modality.name();
            writeln!(
                out,
                "{}: {rows} {what} {labelled}, {dimensions} dimensions, by {}{left_out}",
                self.output.display(),
                encoder.identity()
            )?;
        }
        Ok(())
    }

    /// Refuses wrong options and files before the encoder is opened.
    fn check(&self, shared: &Shared) -> anyhow::Result<Format> {
        check_there(&self.source)?;
        let Destination::File(_, format @ (Format::Npz | Format::Parquet)) = Destination::new(&self.output)? else {
            bail!(
                "{}: embeddings are written to .npz or .parquet, which also keep the name of the encoder",
                self.output.display()
            );
        };
        if self.prompt.as_ref().is_some_and(|prompt| !prompt.contains("{}")) {
            bail!("--prompt: needs {{}} for the class name, as in \"a photo of a {{}}\"");
        }
        if format == Format::Parquet && (self.prompt.is_some() || self.prototypes.is_some()) {
            bail!("{}: a table of points cannot have prototypes, one per class; write .npz", self.output.display());
        }
        if let Some(path) = &self.prototypes {
            check_there(path)?;
        }
        let inputs = [Some(&*self.source), self.prototypes.as_deref(), shared.config.as_deref()];
        path_conflicts::check(&inputs, &[Some(&self.output)])?;
        Ok(format)
    }

    /// Returns the folder for finished embeddings.
    fn parts(&self) -> PathBuf {
        let mut name = self.output.as_os_str().to_owned();
        name.push(".parts");
        name.into()
    }

    /// Returns the class names to embed; `None` without `--prototypes` and `--prompt`.
    fn class_names(&self, items: &Items) -> anyhow::Result<Option<Vec<String>>> {
        let mut names: Vec<String> = match (&self.prototypes, &self.prompt, &items.labels) {
            (Some(path), ..) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
            }
            (None, None, _) => return Ok(None),
            (None, Some(_), None) => bail!(
                "{}: has no labels, and --prompt needs their names; give names with --prototypes FILE",
                items.origin
            ),
            (None, Some(_), Some(labels)) => {
                let mut names = labels.clone();
                names.sort();
                names
            }
        };
        names.dedup();
        if let Some(label) = items.labels.iter().flatten().find(|label| !names.contains(label)) {
            bail!(
                "{}: the label `{label}` is not among the names in --prototypes, which needs all of them",
                items.origin
            );
        }
        Ok(Some(names))
    }
}

fn write(path: &Path, format: Format, table: &Table) -> anyhow::Result<()> {
    let npz = format == Format::Npz;
    let mut frame = Frame::default();
    frame.push(if npz { "ids" } else { "id" }, Column::Flat(Cells::Texts(table.ids.clone().unwrap_or_default())));
    if let Some(RawLabels::Names(labels)) = &table.labels {
        frame.push(if npz { "labels" } else { "label" }, Column::Flat(Cells::Texts(labels.clone())));
    }
    frame.push(if npz { "embeddings" } else { "embedding" }, Column::Vectors(table.embeddings().clone()));
    if let (Some(prototypes), Some(names)) = (&table.prototypes, &table.class_names) {
        frame.push("class_names", Column::Flat(Cells::Texts(names.clone())));
        frame.push("prototypes", Column::Vectors(prototypes.clone()));
    }
    frame.notes.extend(table.encoder.as_ref().map(|encoder| ("encoder", encoder.to_json())));
    write_frame(path, format, &frame)
}
