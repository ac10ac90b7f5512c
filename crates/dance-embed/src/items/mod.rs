//! Inputs: pictures or texts, each with an id, and with labels if they are known.
//!
//! | Source | Pictures or texts | Labels | Ids |
//! |---|---|---|---|
//! | a folder of folders | picture files, at any depth | the sub-folder | the path within the folder |
//! | a folder of pictures | picture files | | the file name |
//! | a table¹ | column `path` (relative to the file) or `text` | column `label` | column `id`, or the path or text |
//! | a data set of Hugging Face² | column `image` with `bytes` and `path` | column `label` | the path, or the row |
//! | `.txt` | a text per line | | the text |
//!
//! ¹ `.csv`, `.tsv`, `.jsonl` or `.parquet`. ² `.parquet`.

mod folder;
mod manifest;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::{Path, PathBuf};

use dance::{Error, Result};

/// The kind of an encoder's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modality {
    /// Pictures.
    Pictures,
    /// Texts.
    Texts,
}

impl Modality {
    /// Returns its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pictures => "pictures",
            Self::Texts => "texts",
        }
    }
}

/// A picture or a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A picture in a file.
    File(PathBuf),
    /// A picture's file, in memory.
    Bytes(Vec<u8>),
    /// A text.
    Text(String),
}

/// Pictures or texts with their ids and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    /// Their source, for messages.
    pub origin: String,
    /// The kind of all of them: pictures or texts.
    pub modality: Modality,
    /// The pictures or texts.
    pub contents: Vec<Content>,
    /// An id for each.
    pub ids: Vec<String>,
    /// A label for each, if labels are known.
    pub labels: Option<Vec<String>>,
    /// The number of files that were ignored, as their names do not end like those of pictures.
    pub ignored: usize,
}

impl Items {
    /// Reads the inputs at `path`: a folder, or a file with a known ending.
    pub fn read(path: &Path) -> Result<Self> {
        let found = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let items = match extension.as_str() {
            _ if found.is_dir() => folder::read(path)?,
            _ if !found.is_file() => {
                return Err(Error::format(path, "is not a regular file; save the data to one"));
            }
            "txt" => manifest::lines(path)?,
            "csv" => manifest::table(path, b',')?,
            "tsv" => manifest::table(path, b'\t')?,
            "jsonl" | "ndjson" => manifest::json_lines(path)?,
            #[cfg(feature = "parquet")]
            "parquet" => parquet::read(path)?,
            #[cfg(not(feature = "parquet"))]
            "parquet" => {
                return Err(Error::format(path, "this build cannot read Parquet; build with the feature `parquet`"));
            }
            _ => {
                return Err(Error::format(
                    path,
                    "cannot tell what it is by its name; a folder of pictures, .txt, .csv, .tsv, .jsonl or .parquet \
                     can be embedded",
                ));
            }
        };
        if items.contents.is_empty() {
            return Err(Error::format(path, format!("holds no {}", items.modality.name())));
        }
        Ok(items)
    }

    /// Takes texts, which are their own ids.
    pub fn texts(origin: impl Into<String>, texts: Vec<String>) -> Self {
        Self {
            origin: origin.into(),
            modality: Modality::Texts,
            ids: texts.clone(),
            contents: texts.into_iter().map(Content::Text).collect(),
            labels: None,
            ignored: 0,
        }
    }
}

/// A row of a table.
#[derive(Default)]
struct Row {
    path: Option<String>,
    text: Option<String>,
    label: Option<String>,
    id: Option<String>,
}

/// Converts rows of a table. `place` names a row for messages.
fn of_rows(path: &Path, rows: Vec<Row>, place: impl Fn(usize) -> String) -> Result<Items> {
    let wrong = |row: usize, problem: &str| Error::format(path, format!("{}: {problem}", place(row)));
    // The first row decides: pictures or texts, with or without labels. All others must agree.
    let folder = path.parent().unwrap_or(Path::new("."));
    let pictures = rows.first().is_some_and(|row| row.path.is_some());
    let has_labels = rows.first().is_some_and(|row| row.label.is_some());
    let mut items = Items {
        origin: path.display().to_string(),
        modality: if pictures { Modality::Pictures } else { Modality::Texts },
        contents: Vec::with_capacity(rows.len()),
        ids: Vec::with_capacity(rows.len()),
        labels: has_labels.then(Vec::new),
        ignored: 0,
    };
    for (place, row) in rows.into_iter().enumerate() {
        let (content, name) = match (row.path, row.text) {
            (Some(_), Some(_)) => return Err(wrong(place, "has both `path` and `text`; keep one")),
            (Some(picture), None) if pictures => (Content::File(folder.join(&picture)), picture),
            (None, Some(text)) if !pictures => (Content::Text(text.clone()), text),
            _ => {
                return Err(wrong(place, if pictures { "has no `path`" } else { "has no `text`, and no `path`" }));
            }
        };
        // A label for every row, or for none.
        match (&mut items.labels, row.label) {
            (Some(labels), Some(label)) => labels.push(label),
            (None, None) => {}
            (Some(_), None) => {
                return Err(wrong(place, "has no `label`, and others have; label all of them or none"));
            }
            (None, Some(_)) => {
                return Err(wrong(place, "has a `label`, and those before have none; label all of them or none"));
            }
        }
        items.contents.push(content);
        items.ids.push(row.id.unwrap_or(name));
    }
    Ok(items)
}
