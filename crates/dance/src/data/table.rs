//! What a file of embeddings holds.
//!
//! Shape, finiteness and labels are checked once, here; everything after trusts a [`Dataset`].

use std::collections::BTreeSet;

use super::classes::Classes;
use super::dataset::{Dataset, Source};
use super::kind::Kind;
use super::labels::{RawLabels, doubtful};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, check_finite};

/// What a file of embeddings holds. Only `embeddings` is always there.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file's name, for messages.
    pub(super) origin: String,
    /// One row per point; every number finite, at least one row and one column.
    pub(super) embeddings: Matrix,
    /// One label per row.
    pub labels: Option<RawLabels>,
    /// Names of the classes; integer labels index them.
    pub class_names: Option<Vec<String>>,
    /// One name per row, shown to people in place of the row number.
    pub ids: Option<Vec<String>>,
    /// What the ids are.
    pub id_kind: Kind,
    /// One embedding per class (of a text encoder, say).
    pub prototypes: Option<Matrix>,
    pub(super) places: Places,
}

/// Where things were in the files, as the user knows them: for messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places {
    /// The file of the labels, where it is one of their own.
    pub(super) labels_in: Option<String>,
    /// The line that each row's label is on, in a text file.
    pub(super) lines: Option<Vec<u32>>,
    /// Rows whose label is null, ascending.
    pub(super) missing: Vec<usize>,
    /// The row of each point, where some were left out.
    pub(super) rows: Option<Vec<u32>>,
    /// What the file holds: arrays, tensors or columns.
    pub(super) columns: Vec<String>,
    /// The name under which labels were looked for.
    pub(super) label_column: String,
    /// Whether somebody has said which label means none, so that every other is a class.
    pub(super) said: bool,
}

impl Table {
    /// Embeddings by themselves; `origin` names them in messages. Labels and the rest are set afterwards.
    pub fn new(origin: impl Into<String>, embeddings: Matrix) -> Result<Self> {
        let origin = origin.into();
        let (rows, cols) = (embeddings.rows(), embeddings.cols());
        if rows == 0 || cols == 0 {
            return Err(Error::Data(format!(
                "{origin}: embeddings are {rows} × {cols}; at least one row and one column are needed"
            )));
        }
        check_finite(&origin, &embeddings)?;
        Ok(Self {
            origin,
            embeddings,
            labels: None,
            class_names: None,
            ids: None,
            id_kind: Kind::Text,
            prototypes: None,
            places: Places { label_column: "labels".into(), ..Places::default() },
        })
    }

    /// The file's name.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// One row per point; every number is finite.
    pub fn embeddings(&self) -> &Matrix {
        &self.embeddings
    }

    /// Checks that the parts fit together.
    pub fn checked(self) -> Result<Self> {
        let (rows, cols) = (self.embeddings.rows(), self.embeddings.cols());
        let length = |what: &str, expected: usize, found: usize| {
            if expected == found {
                return Ok(());
            }
            Err(Error::Shape {
                what: format!("{}: {what}", self.origin),
                expected: expected.to_string(),
                found: found.to_string(),
            })
        };
        if let Some(labels) = &self.labels {
            length("number of labels (one per row of embeddings)", rows, labels.len())?;
        }
        if let Some(ids) = &self.ids {
            length("number of ids (one per row of embeddings)", rows, ids.len())?;
        }
        if let Some(names) = &self.class_names {
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
                return Err(Error::Data(format!(
                    "{}: the class name `{twice}` occurs twice; every class needs a name of its own",
                    self.origin
                )));
            }
        }
        if let Some(prototypes) = &self.prototypes {
            length("columns of prototypes (as many as embeddings have)", cols, prototypes.cols())?;
            check_finite(&format!("{}: prototypes", self.origin), prototypes)?;
            if let Some(names) = &self.class_names {
                length("rows of prototypes (one per class name)", names.len(), prototypes.rows())?;
            }
        }
        Ok(self)
    }

    /// Encodes the labels and checks that the points can be learned from: labels for all, at least two classes.
    pub fn into_dataset(self) -> Result<Dataset> {
        self.into_dataset_for(&[])
    }

    /// As [`into_dataset`](Self::into_dataset), for a model whose classes are `known`: what is a class there is one here.
    pub fn into_dataset_for(self, known: &[String]) -> Result<Dataset> {
        let table = self.checked()?;
        let (names, label_kind) = (table.label_names(known)?, table.label_kind());
        let (classes, labels) = encode(&table, &names, label_kind)?;
        if let Some(prototypes) = &table.prototypes
            && prototypes.rows() != classes.len()
        {
            return Err(Error::Shape {
                what: format!("{}: rows of prototypes (one per class)", table.origin),
                expected: classes.len().to_string(),
                found: prototypes.rows().to_string(),
            });
        }
        let dataset = Dataset {
            rows: table.places.rows.unwrap_or_else(|| (0..labels.len() as u32).collect()),
            source: Source::default(),
            embeddings: table.embeddings,
            labels,
            classes,
            ids: table.ids,
            prototypes: table.prototypes,
            label_kind,
            id_kind: table.id_kind,
        };
        match dataset.class_counts().iter().filter(|&&count| count > 0).count() {
            0 | 1 => Err(Error::Data(format!(
                "{}: all {} points carry the same label; at least two classes are needed",
                table.origin,
                dataset.len()
            ))),
            _ => Ok(dataset),
        }
    }

    /// The name of every row's label, of which those in `known` are classes whatever they look like. Refuses rows that have none,
    /// and labels that often mean none.
    pub fn label_names(&self, known: &[String]) -> Result<Vec<String>> {
        let Some(labels) = &self.labels else {
            return Err(Error::MissingKey {
                path: self.origin.as_str().into(),
                key: self.places.label_column.clone(),
                found: self.places.columns.clone(),
                help: "Points without labels can only be predicted: name the labels with --label-column, or give them with --labels",
            });
        };
        let names = labels.clone().into_names().map_err(|(row, value)| {
            self.wrong_label(row, &format!("{value} is no whole number, and labels are classes"))
        })?;
        let mut missing: Vec<usize> = (0..names.len()).filter(|&row| names[row].is_empty()).collect();
        missing.extend(&self.places.missing);
        if !missing.is_empty() {
            return Err(Error::Data(format!(
                "{}: no label at {}; --unlabelled '' leaves out rows without one",
                self.label_origin(),
                self.list(&missing)
            )));
        }
        let unknown =
            names.iter().map(String::as_str).filter(|name| !known.iter().any(|known| known == name));
        if let Some(label) = doubtful(unknown).filter(|_| !self.places.said) {
            let rows: Vec<usize> = (0..names.len()).filter(|&row| names[row] == label).collect();
            return Err(Error::Data(format!(
                "{}: the label is {label} at {}; where that means none, --unlabelled {label} leaves these rows out, and where it \
                 is a class, --unlabelled '' says so",
                self.label_origin(),
                self.list(&rows)
            )));
        }
        match (&self.class_names, labels) {
            (Some(classes), RawLabels::Integers(values)) => {
                let name = |(row, value): (usize, &i64)| {
                    let class = usize::try_from(*value).ok().and_then(|class| classes.get(class));
                    class.cloned().ok_or_else(|| self.outside(row, *value, classes.len()))
                };
                values.iter().enumerate().map(name).collect()
            }
            _ => Ok(names),
        }
    }

    /// What the labels are, where integers that number class names stand for those.
    pub fn label_kind(&self) -> Kind {
        match (&self.labels, &self.class_names) {
            (Some(labels), None) => labels.kind(),
            _ => Kind::Text,
        }
    }

    /// Leaves out rows that have no label, or this one, and takes every other label for a class; how many were left out.
    pub fn leave_out_unlabelled(self, label: &str) -> Result<(Self, usize)> {
        let Some(labels) = &self.labels else { return Ok((self, 0)) };
        let mut out: BTreeSet<usize> = labels.rows_of(label).into_iter().collect();
        out.extend(&self.places.missing);
        let rows: Vec<usize> = (0..labels.len()).filter(|row| !out.contains(row)).collect();
        if rows.is_empty() {
            return Err(Error::Data(format!("{}: no row has a label but `{label}`", self.label_origin())));
        }
        let pick = |places: &Vec<u32>| rows.iter().map(|&row| places[row]).collect();
        let places = Places {
            lines: self.places.lines.as_ref().map(pick),
            rows: Some(rows.iter().map(|&row| self.row(row)).collect()),
            missing: Vec::new(),
            said: true,
            ..self.places.clone()
        };
        let table = Self {
            embeddings: self.embeddings.select(&rows),
            labels: Some(labels.select(&rows)),
            ids: self.ids.as_ref().map(|ids| rows.iter().map(|&row| ids[row].clone()).collect()),
            places,
            ..self
        };
        Ok((table, out.len()))
    }

    /// Where the label of a row is in its file: `row 17` or, in a text file, `line 18`.
    pub fn place(&self, row: usize) -> String {
        match self.places.lines.as_ref().and_then(|lines| lines.get(row)) {
            Some(line) => format!("line {line}"),
            None => format!("row {}", self.row(row)),
        }
    }

    /// The row of a point in its file.
    pub fn row(&self, row: usize) -> u32 {
        self.places.rows.as_ref().and_then(|rows| rows.get(row).copied()).unwrap_or(row as u32)
    }

    fn label_origin(&self) -> &str {
        self.places.labels_in.as_deref().unwrap_or(&self.origin)
    }

    /// The first places, and how many more.
    fn list(&self, rows: &[usize]) -> String {
        const SHOWN: usize = 3;
        let shown: Vec<String> = rows.iter().take(SHOWN).map(|&row| self.place(row)).collect();
        let more = rows.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", shown.join(", "))
    }

    fn wrong_label(&self, row: usize, problem: &str) -> Error {
        Error::Data(format!("{}: label at {}: {problem}", self.label_origin(), self.place(row)))
    }

    fn outside(&self, row: usize, value: i64, classes: usize) -> Error {
        let most = classes.saturating_sub(1);
        let problem = format!(
            "{value} is outside 0…{most}, the range of the {classes} class names; labels count from 0, and --unlabelled {value} \
             leaves such rows out"
        );
        self.wrong_label(row, &problem)
    }
}

/// Classes are the given names in their order or, without names, the labels that occur, sorted (numbers as numbers).
fn encode(table: &Table, labels: &[String], kind: Kind) -> Result<(Vec<String>, Vec<u32>)> {
    let classes = table.class_names.clone().unwrap_or_else(|| {
        let mut occurring: Vec<String> =
            labels.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
        if matches!(kind, Kind::Integer | Kind::Float) {
            occurring.sort_by_key(|name| name.parse::<i64>().unwrap_or(i64::MAX));
        }
        occurring
    });
    let numbers = Classes::new(&classes);
    let encoded = labels.iter().enumerate().map(|(row, label)| {
        let problem = || format!("`{label}` is not among the {} class names", classes.len());
        numbers.id(label).ok_or_else(|| table.wrong_label(row, &problem()))
    });
    let encoded = encoded.collect::<Result<Vec<_>>>()?;
    Ok((classes, encoded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::assert_refused;

    fn table(rows: &[&[f32]], labels: Option<RawLabels>) -> Table {
        Table { labels, ..Table::new("test", matrix(rows)).unwrap() }
    }

    fn matrix(rows: &[&[f32]]) -> Matrix {
        Matrix::new(rows.concat(), rows.len(), rows.first().map_or(0, |row| row.len())).unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_good_table_passes_unchanged() {
        let mut good = table(&[&[1.0, 2.0], &[3.0, 4.0]], Some(RawLabels::Integers(vec![0, 1])));
        good.ids = Some(names(&["a", "b"]));
        good.class_names = Some(names(&["x", "y", "z"]));
        good.prototypes = Some(matrix(&[&[0.0, 1.0], &[1.0, 0.0], &[1.0, 1.0]]));
        assert_eq!(good.clone().checked().unwrap(), good);
    }

    #[test]
    fn sizes_that_disagree_are_refused() {
        let rows: &[&[f32]] = &[&[1.0, 2.0], &[3.0, 4.0]];
        assert_refused(Table::new("test", matrix(&[])), &["test", "0 × 0"]);
        assert_refused(Table::new("test", matrix(&[&[], &[]])), &["2 × 0"]);
        let three = Some(RawLabels::Integers(vec![0, 1, 2]));
        assert_refused(table(rows, three).checked(), &["test", "number of labels", "expected 2, found 3"]);
        let ids = Table { ids: Some(names(&["a"])), ..table(rows, None) };
        assert_refused(ids.checked(), &["number of ids", "expected 2, found 1"]);
        let narrow = Table { prototypes: Some(matrix(&[&[1.0]])), ..table(rows, None) };
        assert_refused(narrow.checked(), &["columns of prototypes", "expected 2, found 1"]);
        let class_names = Some(names(&["x", "y"]));
        let few = Table { prototypes: Some(matrix(&[&[1.0, 2.0]])), class_names, ..table(rows, None) };
        assert_refused(few.checked(), &["rows of prototypes", "expected 2, found 1"]);
        let twice = Table { class_names: Some(names(&["x", "y", "x"])), ..table(rows, None) };
        assert_refused(twice.checked(), &["`x` occurs twice"]);
    }

    #[test]
    fn numbers_that_are_not_finite_name_row_and_column() {
        let bad = Table::new("test", matrix(&[&[1.0, 2.0], &[3.0, f32::NAN]]));
        assert_refused(bad, &["test: row 1, column 1 is NaN"]);
        let prototypes = Some(matrix(&[&[f32::INFINITY, 0.0]]));
        let bad = Table { prototypes, ..table(&[&[1.0, 2.0]], None) };
        assert_refused(bad.checked(), &["prototypes: row 0, column 0 is inf"]);
    }

    #[test]
    fn labels_become_indices_of_sorted_classes() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0], &[3.0]];
        let numbers = table(rows, Some(RawLabels::Integers(vec![10, -2, 9]))).into_dataset().unwrap();
        assert_eq!(numbers.classes, ["-2", "9", "10"]);
        assert_eq!((numbers.labels, numbers.label_kind), (vec![2, 0, 1], Kind::Integer));
        let floats = table(rows, Some(RawLabels::Floats(vec![10.0, 9.0, 9.0]))).into_dataset().unwrap();
        assert_eq!((floats.classes, floats.label_kind), (names(&["9", "10"]), Kind::Float));
        let words = table(rows, Some(RawLabels::Names(names(&["b", "a", "b"])))).into_dataset().unwrap();
        assert_eq!(words.classes, ["a", "b"]);
        assert_eq!(words.labels, [1, 0, 1]);
        assert_eq!(words.class_counts(), [1, 2]);
    }

    #[test]
    fn class_names_keep_their_order_and_may_go_unused() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0]];
        let class_names = || Some(names(&["z", "y", "x"]));
        for labels in [RawLabels::Integers(vec![2, 0]), RawLabels::Names(names(&["x", "z"]))] {
            let dataset =
                Table { class_names: class_names(), ..table(rows, Some(labels)) }.into_dataset().unwrap();
            assert_eq!(dataset.classes, ["z", "y", "x"]);
            assert_eq!(dataset.labels, [2, 0]);
        }
        for (label, parts) in [(3, ["row 1", "3 is outside 0…2"]), (-1, ["row 1", "-1 is outside 0…2"])] {
            let labels = Some(RawLabels::Integers(vec![0, label]));
            assert_refused(
                Table { class_names: class_names(), ..table(rows, labels) }.into_dataset(),
                &parts,
            );
        }
        let labels = Some(RawLabels::Names(names(&["x", "w"])));
        let unknown = Table { class_names: class_names(), ..table(rows, labels) };
        assert_refused(unknown.into_dataset(), &["row 1", "`w` is not among the 3 class names"]);
    }

    /// Nothing that may mean "no label" becomes a class by accident.
    #[test]
    fn rows_without_a_label_are_refused_or_left_out() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0], &[3.0], &[4.0], &[5.0]];
        let of = |labels: RawLabels| table(rows, Some(labels));
        let signs = || of(RawLabels::Integers(vec![0, -1, 1, -1, 1]));
        assert_refused(
            signs().into_dataset(),
            &["test: the label is -1 at row 1, row 3;", "--unlabelled -1"],
        );
        let floats = of(RawLabels::Floats(vec![0.0, f64::NAN, 1.0, 1.0, 0.0]));
        assert_refused(floats.into_dataset(), &["no label at row 1;", "--unlabelled"]);
        let empty = of(RawLabels::Names(names(&["", "a", "b", "", "a"])));
        assert_refused(empty.into_dataset(), &["no label at row 0, row 3;"]);
        assert_refused(
            of(RawLabels::Floats(vec![0.5; 5])).into_dataset(),
            &["row 0", "0.5 is no whole number"],
        );

        let (left, out) = signs().leave_out_unlabelled("-1").unwrap();
        let data = left.into_dataset().unwrap();
        assert_eq!((out, data.rows, data.labels), (2, vec![0, 2, 4], vec![0, 1, 1]));
        let (left, out) = signs().leave_out_unlabelled("").unwrap();
        assert_eq!((out, left.into_dataset().unwrap().classes), (0, names(&["-1", "0", "1"])));
        assert_eq!(signs().into_dataset_for(&names(&["-1"])).unwrap().classes.len(), 3);
        let none = of(RawLabels::Integers(vec![-1; 5])).leave_out_unlabelled("-1");
        assert_refused(none, &["no row has a label but `-1`"]);
    }

    #[test]
    fn a_dataset_needs_labels_of_two_classes_and_a_prototype_for_each() {
        let rows: &[&[f32]] = &[&[1.0], &[2.0]];
        assert_refused(table(rows, None).into_dataset(), &["test", "no `labels`"]);
        let one = Some(RawLabels::Integers(vec![4, 4]));
        assert_refused(table(rows, one).into_dataset(), &["same label", "two classes"]);
        let short = Some(RawLabels::Integers(vec![4]));
        assert_refused(table(rows, short).into_dataset(), &["number of labels", "expected 2, found 1"]);
        let prototypes = Some(matrix(&[&[1.0], &[2.0], &[3.0]]));
        let three = Table { prototypes, ..table(rows, Some(RawLabels::Integers(vec![0, 1]))) };
        assert_refused(three.into_dataset(), &["rows of prototypes", "expected 2, found 3"]);
    }
}
