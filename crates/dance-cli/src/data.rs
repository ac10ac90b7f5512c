//! Files of embeddings as commands see them.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use dance::data::io::{self, EXTENSIONS, ReadOptions};
use dance::data::{Classes, RawLabels};
use dance::{Dance, Dataset, Table};

/// Where in the file things are.
#[derive(Args, Clone, Debug)]
pub(crate) struct Columns {
    /// Labels from a file of their own: .npy, or .txt, .csv, .tsv with one label per line
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Column of labels in a .csv, .tsv or .parquet file
    #[arg(long, value_name = "NAME", default_value = "label")]
    pub(crate) label_column: String,
    /// Column of ids in such a file; `id` if there is one
    #[arg(long, value_name = "NAME")]
    pub(crate) id_column: Option<String>,
}

impl Columns {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            labels: self.labels.clone(),
            label_column: self.label_column.clone(),
            id_column: self.id_column.clone(),
        }
    }

    /// Refuses what cannot be read, before anything heavy.
    pub(crate) fn check(&self, path: &Path) -> anyhow::Result<()> {
        check_extension(path)?;
        for path in std::iter::once(path).chain(self.labels.as_deref()) {
            check_there(path)?;
        }
        Ok(())
    }

    pub(crate) fn table(&self, path: &Path) -> anyhow::Result<Table> {
        Ok(io::read(path, &self.options())?)
    }

    /// Labelled points. Classes are those that occur, in the order of their names: the same data gives the same model
    /// whatever file it comes from.
    pub(crate) fn dataset(&self, path: &Path) -> anyhow::Result<Dataset> {
        Ok(in_order_of_names(self.table(path)?.into_dataset()?))
    }
}

fn check_extension(path: &Path) -> anyhow::Result<()> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if !EXTENSIONS.contains(&extension.as_str()) {
        let known = EXTENSIONS.map(|extension| format!(".{extension}")).join(", ");
        bail!("{}: cannot tell its format by its name; {known} can be read", path.display());
    }
    Ok(())
}

/// A file that does not exist is known before another one is worked on for minutes.
pub(crate) fn check_there(path: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{}: {error}", path.display()),
    }
}

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

/// True labels as the model numbers them; labels it has never seen get numbers beyond its classes.
pub(crate) struct Truth {
    pub(crate) labels: Vec<u32>,
    /// Classes with those that the model has never seen.
    pub(crate) classes: usize,
    /// Names of those.
    unknown: Vec<String>,
    /// What to warn of.
    pub(crate) warning: Option<String>,
}

impl Truth {
    pub(crate) fn new(model: &Dance, table: &Table) -> anyhow::Result<Self> {
        Ok(Self::of_names(model, &label_names(table)?))
    }

    pub(crate) fn of(model: &Dance, data: &Dataset) -> Self {
        let names = data.labels.iter().map(|&label| data.classes[label as usize].clone());
        Self::of_names(model, &names.collect::<Vec<_>>())
    }

    fn of_names(model: &Dance, names: &[String]) -> Self {
        let known = model.classes().len();
        let mut classes = Classes::new(model.classes());
        let labels: Vec<u32> = names.iter().map(|name| classes.id_or_next(name)).collect();
        let unknown = labels.iter().filter(|&&label| label as usize >= known).count();
        let warning = labels.iter().position(|&label| label as usize >= known).map(|row| {
            format!(
                "{unknown} of {} rows carry a label that the model has never seen (the first is `{}`, row {row}); \
                 no set can hold it, so they count as not covered",
                names.len(),
                names[row]
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
}

impl Truth {
    /// The name of a class.
    pub(crate) fn name(&self, model: &Dance, class: usize) -> String {
        let known = model.classes();
        known.get(class).unwrap_or_else(|| &self.unknown[class - known.len()]).clone()
    }
}

/// The name of every row's label.
pub(crate) fn label_names(table: &Table) -> anyhow::Result<Vec<String>> {
    match (&table.labels, &table.class_names) {
        (None, _) => bail!(
            "{}: has no labels, which judging sets needs; give them with --labels FILE or --label-column NAME",
            table.origin()
        ),
        (Some(RawLabels::Names(names)), _) => Ok(names.clone()),
        (Some(RawLabels::Integers(numbers)), None) => Ok(numbers.iter().map(ToString::to_string).collect()),
        (Some(RawLabels::Integers(numbers)), Some(names)) => {
            let name = |(row, number): (usize, &i64)| {
                let name = usize::try_from(*number).ok().and_then(|number| names.get(number)).cloned();
                name.ok_or_else(|| {
                    anyhow::anyhow!(
                        "{}: label at row {row}: {number} is outside 0…{}, the range of the class names",
                        table.origin(),
                        names.len().saturating_sub(1)
                    )
                })
            };
            numbers.iter().enumerate().map(name).collect()
        }
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
        };
        let sorted = in_order_of_names(data(&["fox", "unused", "cat"], &[0, 2, 0]));
        assert_eq!((sorted.classes, sorted.labels), (vec!["cat".into(), "fox".into()], vec![1, 0, 1]));
        let sorted = in_order_of_names(data(&["10", "9"], &[0, 1]));
        assert_eq!(sorted.classes, ["9", "10"]);
    }
}
