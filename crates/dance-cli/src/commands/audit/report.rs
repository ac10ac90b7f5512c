//! An audit in words, as a table and as JSON.

use dance::Dataset;
use dance::model::{Audit, Copies, LabelError, ModelPoint, SeenAs, Space};
use serde_json::{Value, json};

use crate::output::{Column, Frame};
use dance_page::text::pluralize;

pub(super) struct Report<'a> {
    pub(super) data: &'a Dataset,
    /// As the user called it.
    pub(super) name: String,
    /// The model's file.
    pub(super) model: Option<String>,
    /// The part of every point, where there is a column that says so.
    pub(super) parts: Option<&'a [String]>,
    pub(super) found: &'a Audit,
    pub(super) fdr: f64,
}

/// One line of the table.
#[derive(Default)]
pub(super) struct Finding {
    pub(super) kind: &'static str,
    pub(super) row: Option<usize>,
    pub(super) label: String,
    pub(super) suggested: String,
    pub(super) value: f64,
    pub(super) points: String,
    /// Where copies were found, and which parts they are in.
    pub(super) space: &'static str,
    pub(super) parts: String,
}

/// Points that stand for a group.
const EXAMPLES: usize = 3;

/// Kinds of findings, in the order in which they are listed.
pub(super) const ERROR: &str = "label error";
pub(super) const ACROSS: &str = "copies across parts";
pub(super) const COPIES: &str = "near copies";
pub(super) const OUTLIER: &str = "outlier";
pub(super) const ALIKE: &str = "classes alike";
pub(super) const TWOFOLD: &str = "class is two";
pub(super) const RARE: &str = "rare class";
pub(super) const SEEN: &str = "seen before";

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
    pub(super) fn named(&self, place: u32) -> String {
        let id = self.id(place as usize);
        if id.is_empty() { format!("row {}", self.row(place as usize)) } else { id }
    }

    fn names(&self, places: &[u32]) -> String {
        places.iter().map(|&place| self.named(place)).collect::<Vec<_>>().join("; ")
    }

    /// A point of the model.
    fn named_there(&self, point: &ModelPoint) -> String {
        let name = match (&point.id, point.row) {
            (Some(id), _) => id.clone(),
            (None, Some(row)) => format!("row {row}"),
            (None, None) => "a point".into(),
        };
        let part = match point.part {
            SeenAs::FitPoint => "fit",
            SeenAs::CalibrationPoint => "calibration",
        };
        format!("{name} of the {part} part of {}", self.model.as_deref().unwrap_or("the model"))
    }

    /// The points of a group of copies, each with the part that it is said to be in.
    fn members(&self, group: &Copies) -> String {
        let own = group.rows.iter().map(|&place| match self.parts {
            Some(parts) => format!("{} ({})", self.named(place), parts[place as usize]),
            None => self.named(place),
        });
        let seen = |point: &ModelPoint| self.named_there(point);
        own.chain(group.model.iter().map(seen)).collect::<Vec<_>>().join("; ")
    }

    /// One of the groups that a class is: how many, and those nearest to its centre.
    pub(super) fn group(&self, group: &[u32]) -> String {
        format!("{} points: {}", group.len(), self.names(&group[..group.len().min(EXAMPLES)]))
    }

    /// What was found, a line each.
    pub(super) fn summary(&self) -> Vec<(&'static str, String)> {
        let found = self.found;
        let share = found
            .error_share
            .map_or(String::new(), |share| format!("; about {:.1} % of all labels are wrong", 100.0 * share));
        let listed = match found.label_errors.len() {
            0 => "none listed".into(),
            count => format!("{count} listed, of which about {:.0} % are right", 100.0 * self.fdr),
        };
        let points: usize = found.copies.iter().map(|group| group.rows.len()).sum();
        let across = found.copies.iter().filter(|group| group.across).count();
        let across = match across {
            0 => String::new(),
            _ => format!(", {across} of them across parts: what one part learns, another one knows"),
        };
        let order: Vec<&str> =
            found.order.iter().filter(|order| order.ordered).map(|order| order.by).collect();
        let order = if order.is_empty() {
            "as if drawn at random".into()
        } else {
            format!("not random, by {}: shuffle before the file is cut into parts", order.join(" and "))
        };
        let mut lines = vec![
            ("label errors", format!("{listed}{share}")),
            (
                "near copies",
                format!("{points} points in {}{across}", pluralize(found.copies.len(), "group", "groups")),
            ),
            ("outliers", found.outliers.len().to_string()),
            ("classes alike", pluralize(found.alike.len(), "pair", "pairs")),
            ("classes that are two", found.twofold.len().to_string()),
            ("rare classes", found.rare.len().to_string()),
            ("order of rows", order),
            ("rule", found.rule.into()),
        ];
        if !found.seen.is_empty() {
            lines.push((
                "seen before",
                format!(
                    "{} points fitted or calibrated the model: their labels judge themselves",
                    found.seen.len()
                ),
            ));
        }
        lines
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let found = self.found;
        let error = |error: &LabelError| Finding {
            kind: ERROR,
            row: Some(error.row),
            label: self.class(error.label),
            suggested: self.class(error.suggested),
            value: error.probability.unwrap_or(error.p_value),
            points: self.names(&error.neighbors),
            ..Finding::default()
        };
        let mut all: Vec<Finding> = found.label_errors.iter().map(error).collect();
        all.extend(found.copies.iter().map(|group| Finding {
            kind: if group.across { ACROSS } else { COPIES },
            value: (group.rows.len() + group.model.len()) as f64,
            points: self.members(group),
            space: space(group.space),
            parts: group.parts.join("; "),
            ..Finding::default()
        }));
        all.extend(found.outliers.iter().map(|outlier| Finding {
            kind: OUTLIER,
            row: Some(outlier.row),
            label: self.class(self.data.labels[outlier.row]),
            value: outlier.deviations,
            points: self.names(&outlier.neighbors),
            ..Finding::default()
        }));
        all.extend(found.alike.iter().map(|alike| Finding {
            kind: ALIKE,
            label: self.class(alike.classes[0]),
            suggested: self.class(alike.classes[1]),
            value: alike.shares[0].min(alike.shares[1]),
            ..Finding::default()
        }));
        all.extend(found.twofold.iter().map(|twofold| Finding {
            kind: TWOFOLD,
            label: self.class(twofold.class),
            value: twofold.p_value,
            points: twofold.groups.each_ref().map(|group| self.group(group)).join(" | "),
            ..Finding::default()
        }));
        all.extend(found.rare.iter().map(|&(class, count)| Finding {
            kind: RARE,
            label: self.class(class),
            value: count as f64,
            ..Finding::default()
        }));
        all.extend(found.seen.iter().map(|seen| Finding {
            kind: SEEN,
            row: Some(seen.row),
            label: self.class(self.data.labels[seen.row]),
            value: 1.0,
            points: self.named_there(&seen.point),
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
        frame.push("points", texts(&|finding| finding.points.clone()));
        frame.push("space", texts(&|finding| finding.space.into()));
        frame.push("parts", texts(&|finding| finding.parts.clone()));
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
            "copies": found.copies.iter().map(|group| json!({
                "rows": rows(&group.rows), "ids": group.rows.iter().map(|&place| self.id(place as usize)).collect::<Vec<_>>(),
                "model": group.model, "space": group.space, "parts": group.parts, "across": group.across,
            })).collect::<Vec<_>>(),
            "outliers": found.outliers.iter().map(|outlier| json!({
                "row": self.row(outlier.row), "id": self.id(outlier.row), "deviations": outlier.deviations,
                "neighbors": rows(&outlier.neighbors),
            })).collect::<Vec<_>>(),
            "alike": found.alike.iter().map(|alike| json!({
                "classes": alike.classes.map(|class| self.class(class)), "shares": alike.shares,
            })).collect::<Vec<_>>(),
            "twofold": found.twofold.iter().map(|twofold| json!({
                "class": self.class(twofold.class), "p_value": twofold.p_value,
                "groups": twofold.groups.each_ref().map(|group| rows(group)),
            })).collect::<Vec<_>>(),
            "rare": found.rare.iter().map(|&(class, count)| json!({ "class": self.class(class), "points": count })).collect::<Vec<_>>(),
            "order": found.order,
            "seen": found.seen.iter().map(|seen| json!({
                "row": self.row(seen.row), "id": self.id(seen.row), "point": seen.point,
            })).collect::<Vec<_>>(),
            "warnings": warnings,
        })
    }
}

fn space(space: Space) -> &'static str {
    match space {
        Space::Given => "given",
        Space::Learned => "learned",
        Space::Both => "both",
    }
}
