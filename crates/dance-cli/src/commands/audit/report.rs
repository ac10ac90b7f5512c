//! An audit in words, as a table, as JSON and as a page.

use dance::Dataset;
use dance::model::{Audit, LabelError};
use dance_bench::chart::{Chart, figures};
use dance_bench::html::{document, escape};
use dance_bench::report::cells::{Cell, Table};
use serde_json::{Value, json};

use crate::output::{Column, Frame};
use crate::table::counted;

/// The comment by which a report of ours is known.
const MARK: &str = "dance audit report";
/// Most findings of a kind that the page shows; the files have all.
const SHOWN: usize = 200;

pub(super) struct Report<'a> {
    pub(super) data: &'a Dataset,
    /// As the user called it.
    pub(super) name: String,
    pub(super) found: &'a Audit,
    pub(super) fdr: f64,
}

/// One line of the table.
#[derive(Default)]
struct Finding {
    kind: &'static str,
    row: Option<usize>,
    label: String,
    suggested: String,
    value: f64,
    points: Vec<u32>,
}

impl Report<'_> {
    fn class(&self, class: u32) -> String {
        self.data.classes.get(class as usize).cloned().unwrap_or_default()
    }

    /// A row as the file counts it.
    fn row(&self, place: usize) -> u32 {
        self.data.rows[place]
    }

    fn id(&self, place: usize) -> String {
        self.data.ids.as_ref().and_then(|ids| ids.get(place)).cloned().unwrap_or_default()
    }

    /// A point by its id, or by its row.
    fn named(&self, place: u32) -> String {
        let id = self.id(place as usize);
        if id.is_empty() { format!("row {}", self.row(place as usize)) } else { id }
    }

    fn names(&self, places: &[u32]) -> String {
        places.iter().map(|&place| self.named(place)).collect::<Vec<_>>().join("; ")
    }

    /// What was found, a line each.
    pub(super) fn summary(&self) -> Vec<(&'static str, String)> {
        let found = self.found;
        let share = found
            .error_share
            .map_or(String::new(), |share| format!("; about {:.1} % of all labels are", 100.0 * share));
        let points: usize = found.copies.iter().map(Vec::len).sum();
        let order: Vec<&str> =
            found.order.iter().filter(|order| order.ordered).map(|order| order.by).collect();
        let order = if order.is_empty() {
            "as if drawn at random".into()
        } else {
            format!("not random, by {}: shuffle before the file is cut into parts", order.join(" and "))
        };
        let mut lines = vec![
            (
                "label errors",
                format!(
                    "{} listed, of which about {:.0} % are right{share}",
                    found.label_errors.len(),
                    100.0 * self.fdr
                ),
            ),
            ("near copies", format!("{points} points in {}", counted(found.copies.len(), "group", "groups"))),
            ("outliers", found.outliers.len().to_string()),
            ("classes alike", counted(found.alike.len(), "pair", "pairs")),
            ("rare classes", found.rare.len().to_string()),
            ("order of rows", order),
            ("rule", found.rule.into()),
        ];
        if found.seen > 0 {
            lines.push((
                "seen before",
                format!(
                    "{} points fitted or calibrated the model: their labels judge themselves",
                    found.seen
                ),
            ));
        }
        lines
    }

    fn findings(&self) -> Vec<Finding> {
        let found = self.found;
        let error = |error: &LabelError| Finding {
            kind: "label error",
            row: Some(error.row),
            label: self.class(error.label),
            suggested: self.class(error.suggested),
            value: error.probability.unwrap_or(error.p_value),
            points: error.neighbors.clone(),
        };
        let mut all: Vec<Finding> = found.label_errors.iter().map(error).collect();
        all.extend(found.copies.iter().map(|group| Finding {
            kind: "near copies",
            value: group.len() as f64,
            points: group.clone(),
            ..Finding::default()
        }));
        all.extend(found.outliers.iter().map(|outlier| Finding {
            kind: "outlier",
            row: Some(outlier.row),
            label: self.class(self.data.labels[outlier.row]),
            value: outlier.deviations,
            points: outlier.neighbors.clone(),
            ..Finding::default()
        }));
        all.extend(found.alike.iter().map(|alike| Finding {
            kind: "classes alike",
            label: self.class(alike.classes[0]),
            suggested: self.class(alike.classes[1]),
            value: alike.shares[0].min(alike.shares[1]),
            ..Finding::default()
        }));
        all.extend(found.rare.iter().map(|&(class, count)| Finding {
            kind: "rare class",
            label: self.class(class),
            value: count as f64,
            ..Finding::default()
        }));
        all
    }

    /// All findings as columns.
    pub(super) fn frame(&self) -> Frame {
        let all = self.findings();
        let mut frame = Frame::default();
        let row = |finding: &Finding| finding.row.map_or(-1, |row| i64::from(self.row(row)));
        let texts = |of: &dyn Fn(&Finding) -> String| Column::texts(all.iter().map(of).collect());
        frame.push("finding", texts(&|finding| finding.kind.into()));
        frame.push("row", Column::integers(all.iter().map(row).collect()));
        frame.push("id", texts(&|finding| finding.row.map_or(String::new(), |row| self.id(row))));
        frame.push("label", texts(&|finding| finding.label.clone()));
        frame.push("suggested", texts(&|finding| finding.suggested.clone()));
        frame.push("value", Column::numbers(all.iter().map(|finding| finding.value).collect()));
        frame.push("points", texts(&|finding| self.names(&finding.points)));
        frame
    }

    /// Everything, with rows and labels as the file has them.
    pub(super) fn json(&self, warnings: &[String]) -> Value {
        let rows = |places: &[u32]| places.iter().map(|&place| self.row(place as usize)).collect::<Vec<_>>();
        let found = self.found;
        let error = |error: &LabelError| {
            json!({
                "row": self.row(error.row), "id": self.id(error.row), "label": self.class(error.label),
                "suggested": self.class(error.suggested), "probability": error.probability, "p_value": error.p_value,
                "neighbors": rows(&error.neighbors),
            })
        };
        json!({
            "data": self.name,
            "points": self.data.len(),
            "classes": self.data.classes.len(),
            "fdr": self.fdr,
            "rule": found.rule,
            "error_share": found.error_share,
            "label_errors": found.label_errors.iter().map(error).collect::<Vec<_>>(),
            "odds": found.odds,
            "copies": found.copies.iter().map(|group| rows(group)).collect::<Vec<_>>(),
            "outliers": found.outliers.iter().map(|outlier| json!({
                "row": self.row(outlier.row), "id": self.id(outlier.row), "deviations": outlier.deviations,
                "neighbors": rows(&outlier.neighbors),
            })).collect::<Vec<_>>(),
            "alike": found.alike.iter().map(|alike| json!({
                "classes": alike.classes.map(|class| self.class(class)), "shares": alike.shares,
            })).collect::<Vec<_>>(),
            "rare": found.rare.iter().map(|&(class, count)| json!({ "class": self.class(class), "points": count })).collect::<Vec<_>>(),
            "order": found.order,
            "seen": found.seen,
            "warnings": warnings,
        })
    }

    pub(super) fn page(&self) -> String {
        let title = format!("Audit of {}", self.name);
        let lines: String = self
            .summary()
            .into_iter()
            .map(|(what, value)| format!("<li><strong>{what}</strong>: {}</li>", escape(&value)))
            .collect();
        let mut sorted = self.found.odds.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        sorted.truncate(SHOWN.max(2 * self.found.label_errors.len()));
        let points: Vec<(usize, f64)> = (1..).zip(sorted).collect();
        let against = self.found.odds.iter().filter(|odds| **odds > 0.0).count();
        let chart = Chart {
            kind: "lines",
            id: "odds".into(),
            headline: format!("Another label is more probable for {against} of {} points", self.data.len()),
            caption: "Points by how much more probable the best other label is (log ratio, out of fold). Many of them are hard, not wrong.".into(),
            data: json!({
                "series": [{ "name": "points", "ours": true, "named": false, "points": points }],
                "x": { "label": "points, most suspicious first", "format": "number" },
                "y": { "label": "log ratio", "format": "number" },
            }),
        };
        let rows = self.findings().into_iter().take(SHOWN).map(|finding| {
            vec![
                Cell::text(finding.kind),
                Cell::text(finding.row.map_or(String::new(), |row| self.named(row as u32))),
                Cell::text(finding.label),
                Cell::text(finding.suggested),
                Cell::number(finding.value, 3),
                Cell::text(self.names(&finding.points)),
            ]
        });
        let table = Table {
            title: "Findings".into(),
            note: format!(
                "The first {SHOWN}; findings.csv has all. Value: the probability of a label error (its p-value where a model judges), \
                           points in a group, deviations of an outlier, the smaller share that is taken for the other class, points of a rare class."
            ),
            columns: ["Finding", "Point", "Label", "Suggested", "Value", "Nearest points"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        };
        let body = format!(
            "<header><h1>{}</h1><ul>{lines}</ul></header><section>{}</section><section>{}</section>",
            escape(&title),
            figures(&[chart]),
            table.to_html()
        );
        document(&title, MARK, &body)
    }
}
