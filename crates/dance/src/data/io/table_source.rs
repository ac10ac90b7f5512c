//! Reading of a table from a file of named arrays: `.npz` and `.safetensors`.

use std::path::Path;

use super::{FilePart, ID_HELP, LABEL_HELP, ReadOptions};
use crate::data::dataset::PROVENANCE;
use crate::data::table_labels::FileDetails;
use crate::data::{EncoderIdentity, Kind, RawLabels, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The name of the array of labels, unless the options name another.
const LABELS: &str = "labels";

/// A file of named arrays. Every method that reads an array returns `None` if the file does not have it.
pub(super) trait TableSource {
    /// Returns the names of all arrays.
    fn names(&self) -> Vec<String>;

    /// Reads the array `name` as a matrix.
    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>>;

    /// Reads the array `name` as labels, one for each of `rows` points.
    fn labels(&mut self, name: &str, rows: usize) -> Result<Option<RawLabels>>;

    /// Reads the array `name` as ids, one for each of `rows` points, and returns them with their type.
    fn ids(&mut self, name: &str, rows: usize) -> Result<Option<(Vec<String>, Kind)>>;

    /// Reads the class names.
    fn class_names(&mut self) -> Result<Option<Vec<String>>>;

    /// Reads the provenance of the points: for each of `rows` points the word `random` or `picked`.
    fn provenance(&mut self, rows: usize) -> Result<Option<Vec<String>>>;

    /// Reads the identity of the encoder that made the embeddings.
    fn encoder(&mut self) -> Result<Option<EncoderIdentity>>;
}

/// Reads the table of a file. If the file has no embeddings, the error gives the advice `help`.
pub(super) fn read_table(
    path: &Path,
    source: &mut impl TableSource,
    options: &ReadOptions,
    help: &'static str,
) -> Result<Table> {
    let columns = source.names();
    let missing = |key: &str, help: &'static str| Error::MissingKey {
        path: path.to_owned(),
        key: key.to_owned(),
        found: columns.clone(),
        help,
    };
    let name = options.embedding_column.as_deref().unwrap_or("embeddings");
    let embeddings = source.matrix(name)?.ok_or_else(|| missing(name, help))?;
    let rows = embeddings.rows();
    // Labels, class names and provenance, unless labels are ignored.
    let mut labels = None;
    if let Some((name, needed)) = options.label_in_file(LABELS) {
        labels = source.labels(name, rows)?;
        if labels.is_none() && needed {
            return Err(missing(name, LABEL_HELP));
        }
    }
    let (mut class_names, mut words) = (None, None);
    if !options.without_labels {
        class_names = source.class_names()?;
        words = source.provenance(rows)?;
    }
    let picked = FilePart { path, name: PROVENANCE }.picked(words.as_deref(), 0)?;
    // Ids.
    let (name, needed) = options.id("ids");
    let ids = source.ids(name, rows)?;
    if ids.is_none() && needed {
        return Err(missing(name, ID_HELP));
    }
    let (ids, id_kind) = ids.map_or((None, Kind::Text), |(ids, kind)| (Some(ids), kind));
    let prototypes = source.matrix("prototypes")?;
    let encoder = source.encoder()?;
    let label_column = options.label_column.clone().unwrap_or_else(|| LABELS.into());
    let details = FileDetails { columns, label_column, ..FileDetails::default() };
    let table = Table::new(path.display().to_string(), embeddings)?;
    Ok(Table { labels, class_names, ids, id_kind, prototypes, encoder, picked, details, ..table })
}
