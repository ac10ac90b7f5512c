//! The labels of a table: their names, the rows that have none, and where each is in the file that the user gave.

use std::collections::BTreeSet;

use super::kind::Kind;
use super::labels::{RawLabels, doubtful};
use super::table::Table;
use crate::error::{Error, Result};

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
        missing.sort_unstable();
        missing.dedup(); // what a file has as null may come as an empty text too
        if !missing.is_empty() {
            return Err(Error::Data(format!(
                "{}: no label at {}; --unlabelled '' leaves out rows without one",
                self.label_origin(),
                self.list(&missing)
            )));
        }
        let all = names.iter().chain(known).map(String::as_str);
        let is_known = |label: &str| known.iter().any(|known| known == label);
        if let Some(label) = doubtful(all).filter(|label| !self.places.said && !is_known(label)) {
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
        let (rows, origin) = (self.embeddings.rows(), self.label_origin().to_owned());
        let none = || Error::Data(format!("{origin}: no row has a label but `{label}`"));
        let table = self.labelled(label).ok_or_else(none)?;
        let out = rows - table.embeddings.rows();
        Ok((table, out))
    }

    /// The rows that have a label, and another than this, where there are any; every label is then a class.
    pub(super) fn labelled(self, label: &str) -> Option<Self> {
        let Some(labels) = &self.labels else { return Some(self) };
        let mut out: BTreeSet<usize> = labels.rows_of(label).into_iter().collect();
        out.extend(&self.places.missing);
        let rows: Vec<usize> = (0..labels.len()).filter(|row| !out.contains(row)).collect();
        let mut table = (!rows.is_empty()).then(|| self.select(&rows))?;
        table.places.said = true;
        Some(table)
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

    pub(super) fn wrong_label(&self, row: usize, problem: &str) -> Error {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::assert_refused;
    use crate::numeric::matrix::Matrix;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// Nothing that may mean "no label" becomes a class by accident.
    #[test]
    fn rows_without_a_label_are_refused_or_left_out() {
        let points = || Matrix::new(vec![1.0, 2.0, 3.0, 4.0, 5.0], 5, 1).unwrap();
        let of = |labels| Table { labels: Some(labels), ..Table::new("test", points()).unwrap() };
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
}
