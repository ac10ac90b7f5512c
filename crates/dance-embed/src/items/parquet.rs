//! Parquet files: data sets of Hugging Face with pictures inside (`image: struct<bytes, path>`), and tables like the
//! others.

use std::path::Path;

use dance::data::io::ParquetFields;
use dance::{Error, Result};
use serde_json::Value;

use super::{Content, Items, Modality, Row, of_rows};

/// Reads a Parquet file.
pub(super) fn read(path: &Path) -> Result<Items> {
    let fields = ParquetFields::open(path)?;
    let names = fields.names();
    let has = |name: &str| names.iter().any(|found| found == name);
    let texts = |name: &str| -> Result<Option<Vec<Option<String>>>> {
        if !has(name) {
            return Ok(None);
        }
        let text = |(row, value): (usize, Option<Vec<u8>>)| {
            let wrong = |_| Error::format(path, format!("`{name}` is not UTF-8 text at row {row}; save strings"));
            value.map(String::from_utf8).transpose().map_err(wrong)
        };
        fields.read(name)?.into_iter().enumerate().map(text).collect::<Result<_>>().map(Some)
    };
    // Without pictures inside, it is a table like any other.
    let labels = texts("label")?.map(|labels| named(labels, fields.note("huggingface")));
    let ids = texts("id")?;
    if !has("image.bytes") {
        let (pictures, words) = (texts("path")?, texts("text")?);
        if pictures.is_none() && words.is_none() {
            let help = "`image` with `bytes`, `path` or `text` is needed";
            return Err(Error::MissingKey { path: path.to_owned(), key: "image".into(), found: names, help });
        }
        let count = [&pictures, &words].into_iter().flatten().map(Vec::len).max().unwrap_or(0);
        let at =
            |column: &Option<Vec<Option<String>>>, row: usize| column.as_ref().and_then(|column| column[row].clone());
        let rows = (0..count).map(|row| Row {
            path: at(&pictures, row),
            text: at(&words, row),
            label: at(&labels, row),
            id: at(&ids, row),
        });
        return of_rows(path, rows.collect(), |row| format!("row {row}"));
    }
    // A picture is in the file, or in a file of its own beside it.
    let paths = if has("image.path") { texts("image.path")? } else { None };
    let folder = path.parent().unwrap_or(Path::new("."));
    let (mut contents, mut found_ids) = (Vec::new(), Vec::new());
    for (row, bytes) in fields.read("image.bytes")?.into_iter().enumerate() {
        let name = paths.as_ref().and_then(|paths| paths[row].clone());
        contents.push(match (bytes, &name) {
            (Some(bytes), _) => Content::Bytes(bytes),
            (None, Some(name)) => Content::File(folder.join(name)),
            (None, None) => Content::Bytes(Vec::new()), // reported as an empty file when it is embedded
        });
        let id = ids.as_ref().and_then(|ids| ids[row].clone());
        found_ids.push(id.or(name).unwrap_or_else(|| row.to_string()));
    }
    // All rows need a label.
    let labels = labels
        .map(|labels| {
            let label = |(row, label): (usize, Option<String>)| {
                label
                    .ok_or_else(|| Error::format(path, format!("`label` is null at row {row}; label all rows or none")))
            };
            labels.into_iter().enumerate().map(label).collect::<Result<Vec<_>>>()
        })
        .transpose()?;
    Ok(Items {
        origin: path.display().to_string(),
        modality: Modality::Pictures,
        contents,
        ids: found_ids,
        labels,
        ignored: 0,
    })
}

/// Replaces labels that are numbers by their names in the metadata of the data set.
fn named(labels: Vec<Option<String>>, notes: Option<&str>) -> Vec<Option<String>> {
    let notes: Option<Value> = notes.and_then(|notes| serde_json::from_str(notes).ok());
    let names = notes.as_ref().and_then(|notes| notes.pointer("/info/features/label/names")?.as_array());
    let Some(names) = names else { return labels };
    let name = |label: String| {
        let name = label.parse::<usize>().ok().and_then(|number| names.get(number)?.as_str());
        name.map_or(label.clone(), str::to_owned)
    };
    labels.into_iter().map(|label| label.map(name)).collect()
}
