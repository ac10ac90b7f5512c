//! Options and functions to read files of embeddings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use dance::data::io::{self, Format, ReadOptions};
use dance::data::{EncoderIdentity, Kind, class_ids};
use dance::{Dance, Dataset, Error, Table};
use dance_page::text::pluralize;

use crate::inputs;
use crate::parse;
use crate::progress::Progress;

/// The message for options that several files cannot have.
pub(crate) const SINGLE_FILE_OPTIONS: &str =
    "--labels and --format are for a single file; the names of several files determine their formats";

/// The names of the columns that every file of points has.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Input files")]
pub(crate) struct PointColumns {
    /// Column or array of ids. Give it if ids are not called `id` or `ids`
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    id_column: Option<String>,
    /// Column, array or tensor of embeddings. Give it if they are not called `embedding` or `embeddings`
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    embedding_column: Option<String>,
}

/// The names of the columns of a file that may have labels.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Input files")]
pub(crate) struct LabelColumns {
    /// Column, array or tensor of labels. Give it if labels are not called `label` or `labels`
    #[arg(long, value_name = "NAME")]
    label_column: Option<String>,
    #[command(flatten)]
    points: PointColumns,
}

/// Labels that may be in a file of their own or missing, and the names of columns.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Input files")]
pub(crate) struct LabeledFile {
    /// File of labels, for DATA without them: .npy, or .txt, .csv, .tsv with one label per line
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) labels: Option<PathBuf>,
    #[command(flatten)]
    names: LabelColumns,
    /// Leave out rows with this label, such as -1, and rows without a label; `''` leaves out only rows without one.
    /// Without this option, both are errors
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true, hide_short_help = true)]
    unlabeled: Option<String>,
}

/// The format of a file whose name does not tell it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Input files")]
pub(crate) struct FileFormat {
    /// Format of DATA, for stdin, pipes and names without an extension: npz, npy, safetensors, csv, tsv, parquet or
    /// jsonl
    #[arg(long, value_name = "FORMAT", value_parser = parse::format, hide_short_help = true)]
    format: Option<Format>,
}

impl PointColumns {
    pub(crate) fn columns(&self, format: &FileFormat) -> Columns {
        let (id_column, embedding_column) = (self.id_column.clone(), self.embedding_column.clone());
        Columns { format: format.format, id_column, embedding_column, ..Columns::default() }
    }
}

impl LabelColumns {
    pub(crate) fn columns(&self, format: &FileFormat) -> Columns {
        Columns { label_column: self.label_column.clone(), ..self.points.columns(format) }
    }
}

impl LabeledFile {
    pub(crate) fn columns(&self, format: &FileFormat) -> Columns {
        let (labels, unlabeled) = (self.labels.clone(), self.unlabeled.clone());
        Columns { labels, unlabeled, ..self.names.columns(format) }
    }
}

/// The format of a file, and the names of its columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) format: Option<Format>,
    pub(crate) labels: Option<PathBuf>,
    pub(crate) label_column: Option<String>,
    pub(crate) id_column: Option<String>,
    pub(crate) embedding_column: Option<String>,
    pub(crate) unlabeled: Option<String>,
    /// Columns of a CSV file that are not dimensions.
    others: Vec<String>,
}

impl Columns {
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            labels: self.labels.clone(),
            label_column: self.label_column.clone(),
            id_column: self.id_column.clone(),
            embedding_column: self.embedding_column.clone(),
            other_columns: self.others.clone(),
            unlabeled: self.unlabeled.clone(),
            without_labels: false,
        }
    }

    /// Returns the options for a second file: the format follows from its name, and there is no file of labels for it.
    pub(crate) fn of_another(&self, path: &Path) -> Self {
        Self { labels: None, format: Format::of(path).map_or(self.format, |_| None), ..self.clone() }
    }

    /// Returns the options for a file with one more column that is not a dimension, such as group names.
    pub(crate) fn beside(&self, groups: Option<&String>) -> Self {
        Self { others: groups.into_iter().cloned().collect(), ..self.clone() }
    }

    /// Returns the format of DATA, by `--format` or by its name.
    pub(crate) fn format_of(&self, path: &Path) -> dance::Result<Format> {
        self.format.map_or_else(|| Format::known(path), Ok)
    }

    /// Refuses files that do not exist or have an unknown format, before any work begins.
    pub(crate) fn check(&self, path: &Path) -> anyhow::Result<()> {
        if inputs::several(&[path.to_owned()])?.is_none() {
            self.format_of(path)?;
        } else if self.labels.is_some() || self.format.is_some() {
            bail!(SINGLE_FILE_OPTIONS);
        } else {
            return Ok(());
        }
        for path in std::iter::once(path).chain(self.labels.as_deref()) {
            check_there(path)?;
        }
        Ok(())
    }

    /// Returns the group of every point of `data`, which was read from `path`, by the column `name`.
    pub(crate) fn groups(&self, path: &Path, name: &str, data: &Dataset) -> anyhow::Result<Vec<u32>> {
        let words = self.words(path, name, "Name an existing column with --groups", data)?;
        let mut groups = HashMap::new();
        Ok(words.iter().map(|word| id_or_next(&mut groups, word)).collect())
    }

    /// Returns the cell in the column `name` of every point of `data`, which was read from `path`. The error for a
    /// missing column ends with `help`.
    pub(crate) fn words(
        &self,
        path: &Path,
        name: &str,
        help: &'static str,
        data: &Dataset,
    ) -> anyhow::Result<Vec<String>> {
        if path == Path::new("-") {
            bail!("stdin can be read once; give points with a column `{name}` in a file");
        }
        // The column is read in place of the ids, and the column of ids must not become a dimension.
        let others = vec![self.id_column.clone().unwrap_or_else(|| "id".into())];
        let options =
            ReadOptions { id_column: Some(name.into()), other_columns: others, without_labels: true, ..self.options() };
        let table = io::read(path, &options).map_err(|error| match error {
            Error::MissingKey { path, key, found, .. } => Error::MissingKey { path, key, found, help },
            other => other,
        })?;
        let Some(all) = table.ids else {
            bail!("{}: there is no column or array `{name}`. {help}", path.display());
        };
        let word = |&row: &u32| match all.get(row as usize) {
            Some(word) => Ok(word.clone()),
            None => bail!("{}: column `{name}` has no value in row {row}", path.display()),
        };
        data.rows.iter().map(word).collect()
    }

    /// Reads points without their labels.
    pub(crate) fn points(&self, path: &Path) -> anyhow::Result<Table> {
        Ok(io::read(path, &ReadOptions { without_labels: true, ..self.options() })?)
    }

    /// Reads points with their labels, including rows without a label.
    pub(crate) fn everything(&self, path: &Path) -> anyhow::Result<Table> {
        Ok(io::read(path, &self.options())?)
    }

    /// Reads points without their labels for a model, which must have the same encoder.
    pub(crate) fn points_for(&self, path: &Path, model: &Dance) -> anyhow::Result<Table> {
        let table = self.points(path)?;
        EncoderIdentity::check(model.encoder(), table.encoder.as_ref(), table.origin())?;
        Ok(table)
    }

    /// Reads points with labels for a model, which must have the same encoder; all of them, or a uniform sample.
    pub(crate) fn table_for(
        &self,
        path: &Path,
        model: &Dance,
        sample: Option<usize>,
        seed: u64,
        progress: &Progress,
    ) -> anyhow::Result<Table> {
        let table = self.gathered(path, sample, seed, progress)?;
        EncoderIdentity::check(model.encoder(), table.encoder.as_ref(), table.origin())?;
        Ok(table)
    }

    /// Reads points with labels, and warns about rows that are left out because they have none.
    pub(crate) fn table(&self, path: &Path, progress: &Progress) -> anyhow::Result<Table> {
        let (table, out) = io::read_labelled(path, &self.options())?;
        if out > 0 {
            let all = out + table.embeddings().rows();
            progress.warn(&format!("{}: {out} of {all} rows have no label and are left out", table.origin()));
        }
        Ok(table)
    }

    /// Reads points with labels from one file, or from all files of a folder or pattern: all of them, or a uniform
    /// sample drawn in one pass. Rows are counted through all files.
    pub(crate) fn gathered(
        &self,
        path: &Path,
        sample: Option<usize>,
        seed: u64,
        progress: &Progress,
    ) -> anyhow::Result<Table> {
        let files = match inputs::several(&[path.to_owned()])? {
            Some(files) => files.into_iter().map(|file| file.path).collect(),
            None if sample.is_none() => return self.table(path, progress),
            None => vec![path.to_owned()],
        };
        let (table, seen, out) = io::read_sample(path, &files, &self.options(), sample, seed)?;
        if out > 0 {
            let all = out as u64 + seen;
            progress.warn(&format!("{}: {out} of {all} rows have no label and are left out", path.display()));
        }
        progress.detail(&format!(
            "{} of {seen} rows of {}",
            table.embeddings().rows(),
            pluralize(files.len(), "file", "files")
        ));
        Ok(table)
    }

    /// Reads points with labels. Classes are sorted by name, so that the same data in any file gives the same model. A
    /// label among the `known` classes is a class, even if it looks like a missing one.
    pub(crate) fn dataset(&self, path: &Path, known: &[String], progress: &Progress) -> anyhow::Result<Dataset> {
        self.sampled(path, known, None, 0, progress)
    }

    /// Reads a uniform sample of points with labels.
    pub(crate) fn sampled(
        &self,
        path: &Path,
        known: &[String],
        sample: Option<usize>,
        seed: u64,
        progress: &Progress,
    ) -> anyhow::Result<Dataset> {
        Ok(in_order_of_names(self.gathered(path, sample, seed, progress)?.into_dataset_for(known)?))
    }
}

/// Returns the id of a name; an unknown name is added with the next id.
fn id_or_next<'a>(ids: &mut HashMap<&'a str, u32>, name: &'a str) -> u32 {
    let next = ids.len() as u32;
    *ids.entry(name).or_insert(next)
}

/// Refuses a file that does not exist, before another file is processed for minutes. `-` is stdin.
pub(crate) fn check_there(path: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(path) {
        Err(error) if path != Path::new("-") => bail!("{}: {error}", path.display()),
        _ => Ok(()),
    }
}

/// Returns the randomly drawn points of `data`, and warns about picked points, which cannot calibrate.
pub(crate) fn random_points(data: Dataset, path: &Path, progress: &Progress) -> anyhow::Result<Dataset> {
    let (picked, random) = data.by_provenance();
    if picked.is_empty() {
        return Ok(data);
    }
    if random.is_empty() {
        bail!("{}: all {} points were picked; only randomly drawn points can calibrate", path.display(), picked.len());
    }
    progress.warn(&format!(
        "{}: {} picked points are left out: only randomly drawn points can calibrate",
        path.display(),
        picked.len()
    ));
    Ok(data.select(&random))
}

/// Sorts the classes by name, as numbers where all of them are, and drops classes without points.
pub(crate) fn in_order_of_names(data: Dataset) -> Dataset {
    let counts = data.class_counts();
    let mut order: Vec<usize> = (0..data.classes.len()).filter(|&class| counts[class] > 0).collect();
    let numbers: Option<Vec<i64>> = data.classes.iter().map(|name| name.parse().ok()).collect();
    match numbers {
        Some(numbers) => order.sort_by_key(|&class| numbers[class]),
        None => order.sort_by(|&a, &b| data.classes[a].cmp(&data.classes[b])),
    }
    let mut place = vec![0; data.classes.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new as u32;
    }
    Dataset {
        labels: data.labels.iter().map(|&label| place[label as usize]).collect(),
        classes: order.iter().map(|&class| data.classes[class].clone()).collect(),
        prototypes: data.prototypes.map(|prototypes| prototypes.select(&order)),
        ..data
    }
}

/// True labels by the class ids of a model. Labels that the model does not know get ids beyond its classes.
pub(crate) struct Truth {
    pub(crate) labels: Vec<u32>,
    /// The number of classes, including those that the model does not know.
    pub(crate) classes: usize,
    /// The names of classes that the model does not know.
    unknown: Vec<String>,
    /// The warning about labels that the model does not know.
    pub(crate) warning: Option<String>,
}

impl Truth {
    pub(crate) fn new(model: &Dance, table: &Table) -> anyhow::Result<Self> {
        let names = table.label_names(model.classes())?;
        Ok(Self::of_names(model, &names, table.label_kind(), |row| table.place(row)))
    }

    pub(crate) fn of(model: &Dance, data: &Dataset) -> Self {
        let names = data.labels.iter().map(|&label| data.classes[label as usize].clone());
        let place = |row: usize| format!("row {}", data.rows[row]);
        Self::of_names(model, &names.collect::<Vec<_>>(), data.label_kind, place)
    }

    fn of_names(model: &Dance, names: &[String], kind: Kind, place: impl Fn(usize) -> String) -> Self {
        let known = model.classes().len();
        let mut classes = class_ids(model.classes());
        let labels: Vec<u32> = names.iter().map(|name| id_or_next(&mut classes, name)).collect();
        let unknown = labels.iter().filter(|&&label| label as usize >= known).count();
        let warning = labels.iter().position(|&label| label as usize >= known).map(|row| {
            let kinds = if kind == model.label_kind() {
                String::new()
            } else {
                let (own, here) = (model.label_kind().plural(), kind.plural());
                format!(". The model's labels are {own}, these are {here}; labels are matched by name")
            };
            format!(
                "{unknown} of {} rows carry a label that the model does not know (the first is `{}`, {}); {}{kinds}",
                names.len(),
                names[row],
                place(row),
                if model.allows_new_labels() {
                    "sets with \"a new label\" cover it"
                } else {
                    "no set can contain it, so these rows count as not covered"
                }
            )
        });
        let classes = labels.iter().fold(known, |most, &label| most.max(label as usize + 1));
        let mut beyond = vec![String::new(); classes - known];
        for (&label, name) in labels.iter().zip(names) {
            if let Some(place) = (label as usize).checked_sub(known) {
                beyond[place].clone_from(name);
            }
        }
        Self { labels, classes, unknown: beyond, warning }
    }

    /// Returns the name of a class.
    pub(crate) fn name(&self, model: &Dance, class: usize) -> String {
        let known = model.classes();
        known.get(class).unwrap_or_else(|| &self.unknown[class - known.len()]).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dance::Matrix;
    use dance::data::Source;

    #[test]
    fn classes_come_in_the_order_of_their_names() {
        let data = |classes: &[&str], labels: &[u32]| Dataset {
            embeddings: Matrix::zeros(labels.len(), 1),
            labels: labels.to_vec(),
            classes: classes.iter().map(|&name| name.into()).collect(),
            ids: None,
            prototypes: None,
            rows: (0..labels.len() as u32).collect(),
            source: Source::default(),
            label_kind: Kind::Text,
            id_kind: Kind::Text,
            picked: None,
        };
        let sorted = in_order_of_names(data(&["fox", "unused", "cat"], &[0, 2, 0]));
        assert_eq!((sorted.classes, sorted.labels), (vec!["cat".into(), "fox".into()], vec![1, 0, 1]));
        let sorted = in_order_of_names(data(&["10", "9"], &[0, 1]));
        assert_eq!(sorted.classes, ["9", "10"]);
    }
}
