//! The labels of a table: their names, the rows without a label, and the place of every label in the file, for
//! messages.

use std::collections::BTreeSet;

use super::labels::{Kind, RawLabels, doubtful};
use super::table::Table;
use crate::error::{Error, Result};

/// Facts about the file of a table and the file of its labels, for messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FileDetails {
    /// The name of the file of labels, if labels have a file of their own.
    pub(super) labels_file: Option<String>,
    /// The line number of every row's label, if the labels come from a text file.
    pub(super) lines: Option<Vec<u32>>,
    /// Rows whose label is null, ascending.
    pub(super) missing: Vec<usize>,
    /// The row number in the file of every point; `None` if all rows of the file are in the table.
    pub(super) rows: Option<Vec<u32>>,
    /// The names of the file's arrays, tensors or columns.
    pub(super) columns: Vec<String>,
    /// The name of the array, tensor or column of labels.
    pub(super) label_column: String,
    /// True if the user has set which label means "no label", so that every other label is a class.
    pub(super) unlabeled_set: bool,
}

impl Table {
    /// Returns the name of every row's label. A row without a label is an error. A name such as `nan`, which often
    /// means "no label", is an error too unless it is among the `known` classes.
    pub fn label_names(&self, known: &[String]) -> Result<Vec<String>> {
        let Some(labels) = &self.labels else {
            return Err(Error::MissingKey {
                path: self.origin.as_str().into(),
                key: self.details.label_column.clone(),
                found: self.details.columns.clone(),
                help: "Points without labels can only be predicted: name the labels by the setting \
                       `label_column`, or give a file of labels by the setting `labels`",
            });
        };
        let names = labels.clone().into_names().map_err(|(row, value)| {
            self.wrong_label(row, &format!("{value} is no whole number; a label is a class, not a measurement"))
        })?;
        // Rows without a label.
        let mut missing: Vec<usize> = (0..names.len()).filter(|&row| names[row].is_empty()).collect();
        missing.extend(&self.details.missing);
        missing.sort_unstable();
        missing.dedup(); // a null may also have become an empty text
        if !missing.is_empty() {
            return Err(Error::Data(format!(
                "{}: no label at {}; the setting `unlabeled`, with an empty text, leaves out rows without a label",
                self.label_origin(),
                self.list(&missing)
            )));
        }
        // Names that often mean "no label".
        let all = names.iter().chain(known).map(String::as_str);
        let is_known = |label: &str| known.iter().any(|known| known == label);
        if let Some(label) = doubtful(all).filter(|label| !self.details.unlabeled_set && !is_known(label)) {
            let rows: Vec<usize> = (0..names.len()).filter(|&row| names[row] == label).collect();
            return Err(Error::Data(format!(
                "{}: the label is {label} at {}; if that means no label, the setting `unlabeled` with the value \
                 {label} leaves these rows out; if it is a class, set `unlabeled` to an empty text",
                self.label_origin(),
                self.list(&rows)
            )));
        }
        // If there are class names, integer labels are their indices.
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

    /// Returns the type of the label names. It is the type of the labels, or text if the table has class names or no
    /// labels.
    pub fn label_kind(&self) -> Kind {
        match (&self.labels, &self.class_names) {
            (Some(labels), None) => labels.kind(),
            _ => Kind::Text,
        }
    }

    /// Drops the rows that have this `label` or no label. Returns the other rows and the number of dropped rows. Every
    /// label that is left counts as a class, even one that often means "no label".
    pub fn leave_out_unlabeled(self, label: &str) -> Result<(Self, usize)> {
        let (rows, origin) = (self.embeddings.rows(), self.label_origin().to_owned());
        let none = || Error::Data(format!("{origin}: no row has a label other than `{label}`"));
        let table = self.without_label(label).ok_or_else(none)?;
        let out = rows - table.embeddings.rows();
        Ok((table, out))
    }

    /// Returns the rows that have a label other than `label`, or `None` if there are none. Every label that is left
    /// counts as a class, even one that often means "no label".
    pub(super) fn without_label(self, label: &str) -> Option<Self> {
        let Some(labels) = &self.labels else { return Some(self) };
        let mut out: BTreeSet<usize> = labels.rows_of(label).into_iter().collect();
        out.extend(&self.details.missing);
        let rows: Vec<usize> = (0..labels.len()).filter(|row| !out.contains(row)).collect();
        let mut table = (!rows.is_empty()).then(|| self.select(&rows))?;
        table.details.unlabeled_set = true;
        Some(table)
    }

    /// Returns the place of a row's label in its file as text: `row 17` or, in a text file, `line 18`.
    pub fn place(&self, row: usize) -> String {
        match self.details.lines.as_ref().and_then(|lines| lines.get(row)) {
            Some(line) => format!("line {line}"),
            None => format!("row {}", self.row(row)),
        }
    }

    /// Returns the row number in the file of the point at index `row` of this table.
    pub fn row(&self, row: usize) -> u32 {
        self.details.rows.as_ref().and_then(|rows| rows.get(row).copied()).unwrap_or(row as u32)
    }

    fn label_origin(&self) -> &str {
        self.details.labels_file.as_deref().unwrap_or(&self.origin)
    }

    /// Returns the places in the file of the first three of these `rows` as text, with the number of further rows.
    fn list(&self, rows: &[usize]) -> String {
        const SHOWN: usize = 3;
        let shown: Vec<String> = rows.iter().take(SHOWN).map(|&row| self.place(row)).collect();
        let more = rows.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", shown.join(", "))
    }

    /// Returns the error for the label at index `row`, which cannot be used; `problem` says why.
    pub(super) fn wrong_label(&self, row: usize, problem: &str) -> Error {
        Error::Data(format!("{}: label at {}: {problem}", self.label_origin(), self.place(row)))
    }

    /// Returns the error for an integer label that is not the index of a class name. `value` is the label, and
    /// `classes` the number of class names.
    fn outside(&self, row: usize, value: i64, classes: usize) -> Error {
        let most = classes.saturating_sub(1);
        let problem = format!(
            "{value} is outside 0…{most}, the range of the {classes} class names; labels count from 0, and the setting \
             `unlabeled` with the value {value} leaves such rows out"
        );
        self.wrong_label(row, &problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::assert_refused;
    use crate::numeric::matrix::Matrix;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// Tests that a name that may mean "no label" never becomes a class by accident.
    #[test]
    fn rows_without_a_label_are_refused_or_left_out() {
        let points = || Matrix::new(vec![1.0, 2.0, 3.0, 4.0, 5.0], 5, 1).unwrap();
        let of = |labels| Table { labels: Some(labels), ..Table::new("test", points()).unwrap() };
        let signs = || of(RawLabels::Integers(vec![0, -1, 1, -1, 1]));
        assert_refused(
            signs().into_dataset(),
            &["test: the label is -1 at row 1, row 3;", "`unlabeled` with the value -1"],
        );
        let floats = of(RawLabels::Floats(vec![0.0, f64::NAN, 1.0, 1.0, 0.0]));
        assert_refused(floats.into_dataset(), &["no label at row 1;", "`unlabeled`"]);
        let empty = of(RawLabels::Names(names(&["", "a", "b", "", "a"])));
        assert_refused(empty.into_dataset(), &["no label at row 0, row 3;"]);
        assert_refused(of(RawLabels::Floats(vec![0.5; 5])).into_dataset(), &["row 0", "0.5 is no whole number"]);

        let (left, out) = signs().leave_out_unlabeled("-1").unwrap();
        let data = left.into_dataset().unwrap();
        assert_eq!((out, data.rows, data.labels), (2, vec![0, 2, 4], vec![0, 1, 1]));
        let (left, out) = signs().leave_out_unlabeled("").unwrap();
        assert_eq!((out, left.into_dataset().unwrap().classes), (0, names(&["-1", "0", "1"])));
        assert_eq!(signs().into_dataset_for(&names(&["-1"])).unwrap().classes.len(), 3);
        let none = of(RawLabels::Integers(vec![-1; 5])).leave_out_unlabeled("-1");
        assert_refused(none, &["no row has a label other than `-1`"]);
    }
}
