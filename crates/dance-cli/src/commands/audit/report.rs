//! The report of an audit: a summary, a table and JSON.

use dance::Dataset;
use dance::model::{Audit, Copies, LabelError, ModelPart, ModelPoint};
use serde_json::{Value, json};

use crate::output::{Column, Frame};
use dance_page::text::pluralize;

pub(super) struct Report<'a> {
    pub(super) data: &'a Dataset,
    /// The name of the data, as the user gave it.
    pub(super) name: String,
    /// The name of the model's file.
    pub(super) model: Option<String>,
    /// The part of every point, where a column names it.
    pub(super) parts: Option<&'a [String]>,
    pub(super) audit: &'a Audit,
    pub(super) fdr: f64,
}

/// One row of the table.
#[derive(Default)]
pub(super) struct Finding {
    pub(super) kind: &'static str,
    pub(super) row: Option<usize>,
    pub(super) label: String,
    pub(super) suggested: String,
    pub(super) value: f64,
    pub(super) points: String,
    /// The points with their labels, for people; empty where labels say nothing more.
    pub(super) labeled: String,
    /// The space in which copies were audit, and their parts.
    pub(super) space: &'static str,
    pub(super) parts: String,
}

/// The number of points that represent a group.
const EXAMPLES: usize = 3;

// The kinds of findings, in the order of the table.
pub(super) const ERROR: &str = "label error";
pub(super) const ACROSS: &str = "copies across parts";
pub(super) const COPIES: &str = "near copies";
pub(super) const OUTLIER: &str = "outlier";
pub(super) const ALIKE: &str = "classes alike";
pub(super) const TWOFOLD: &str = "class is two";
pub(super) const RARE: &str = "rare class";
pub(super) const OVERLAP: &str = "point of the model";

impl Report<'_> {
    fn class(&self, class: u32) -> String {
        self.data.classes.get(class as usize).cloned().unwrap_or_default()
    }

    /// Returns the row of a point in the file.
    fn row(&self, place: usize) -> u32 {
        self.data.rows[place]
    }

    fn id(&self, place: usize) -> String {
        self.data.ids.as_ref().and_then(|ids| ids.get(place)).cloned().unwrap_or_default()
    }

    /// Returns the name of a point: its id, or its row.
    pub(super) fn named(&self, place: u32) -> String {
        let id = self.id(place as usize);
        if id.is_empty() { format!("row {}", self.row(place as usize)) } else { id }
    }

    fn names(&self, places: &[u32]) -> String {
        places.iter().map(|&place| self.named(place)).collect::<Vec<_>>().join("; ")
    }

    /// Returns the name of a point with its label.
    fn labeled(&self, place: u32) -> String {
        format!("{} ({})", self.named(place), self.class(self.data.labels[place as usize]))
    }

    fn labeled_names(&self, places: &[u32]) -> String {
        places.iter().map(|&place| self.labeled(place)).collect::<Vec<_>>().join("; ")
    }

    /// Returns the name of a point of the model.
    fn named_in_model(&self, point: &ModelPoint) -> String {
        let name = match (&point.id, point.row) {
            (Some(id), _) => id.clone(),
            (None, Some(row)) => format!("row {row}"),
            (None, None) => "a point".into(),
        };
        let part = match point.part {
            ModelPart::FitPoint => "fit",
            ModelPart::CalibrationPoint => "calibration",
        };
        format!("{name} of the {part} part of {}", self.model.as_deref().unwrap_or("the model"))
    }

    /// Returns the points of a group of copies, each with its part. `name` gives the name of a point.
    fn members(&self, group: &Copies, name: impl Fn(u32) -> String) -> String {
        let own = group.rows.iter().map(|&place| match self.parts {
            Some(parts) => format!("{} ({})", name(place), parts[place as usize]),
            None => name(place),
        });
        let of_model = group.model.iter().map(|point| self.named_in_model(point));
        own.chain(of_model).collect::<Vec<_>>().join("; ")
    }

    /// Returns the size of a group of a class, and the points nearest to its centre.
    pub(super) fn group(&self, group: &[u32]) -> String {
        format!("{} points: {}", group.len(), self.names(&group[..group.len().min(EXAMPLES)]))
    }

    /// Returns the number of findings of every kind, as names and values.
    pub(super) fn summary(&self) -> Vec<(&'static str, String)> {
        let audit = self.audit;
        let share = audit
            .error_share
            .map_or(String::new(), |share| format!("; about {:.1} % of all labels are wrong", 100.0 * share));
        // Sentences that appear only where there is a finding.
        let listed = match audit.label_errors.len() {
            0 => "none listed".into(),
            count => format!("{count} listed, of which about {:.0} % are false alarms", 100.0 * self.fdr),
        };
        let points: usize = audit.copies.iter().map(|group| group.rows.len()).sum();
        let across = audit.copies.iter().filter(|group| group.across).count();
        let across = match across {
            0 => String::new(),
            _ => format!(", {across} of them across parts, which are therefore not independent"),
        };
        let order = match &audit.ordered_by[..] {
            [] => "random".into(),
            by => format!("not random, by {}: shuffle rows before a split by position", by.join(" and ")),
        };
        let mut lines = vec![
            ("label errors", format!("{listed}{share}")),
            ("near copies", format!("{points} points in {}{across}", pluralize(audit.copies.len(), "group", "groups"))),
            ("outliers", audit.outliers.len().to_string()),
            ("classes alike", pluralize(audit.alike.len(), "pair", "pairs")),
            ("classes that are two", audit.twofold.len().to_string()),
            ("rare classes", audit.rare.len().to_string()),
            ("order of rows", order),
            ("rule", audit.rule.into()),
        ];
        if !audit.seen.is_empty() {
            let text = format!(
                "{} points fitted or calibrated the model: their labels are tested by themselves",
                audit.seen.len()
            );
            lines.push((OVERLAP, text));
        }
        lines
    }

    /// Returns all findings, kind by kind.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let audit = self.audit;
        let error = |error: &LabelError| Finding {
            kind: ERROR,
            row: Some(error.row),
            label: self.class(error.label),
            suggested: self.class(error.suggested),
            value: error.probability.unwrap_or(error.p_value),
            points: self.names(audit.neighbors(error.row)),
            labeled: self.labeled_names(audit.neighbors(error.row)),
            ..Finding::default()
        };
        let mut all: Vec<Finding> = audit.label_errors.iter().map(error).collect();
        // Copies are groups of points; outliers are single points.
        all.extend(audit.copies.iter().map(|group| Finding {
            kind: if group.across { ACROSS } else { COPIES },
            value: (group.rows.len() + group.model.len()) as f64,
            points: self.members(group, |place| self.named(place)),
            labeled: self.members(group, |place| self.labeled(place)),
            space: group.space,
            parts: group.parts.join("; "),
            ..Finding::default()
        }));
        all.extend(audit.outliers.iter().map(|&(row, deviations)| Finding {
            kind: OUTLIER,
            row: Some(row),
            label: self.class(self.data.labels[row]),
            value: deviations,
            points: self.names(audit.neighbors(row)),
            labeled: self.labeled_names(audit.neighbors(row)),
            ..Finding::default()
        }));
        // Findings about classes have no row.
        all.extend(audit.alike.iter().map(|&([one, other], shares)| Finding {
            kind: ALIKE,
            label: self.class(one),
            suggested: self.class(other),
            value: shares[0].min(shares[1]),
            ..Finding::default()
        }));
        all.extend(audit.twofold.iter().map(|(class, p_value, groups)| Finding {
            kind: TWOFOLD,
            label: self.class(*class),
            value: *p_value,
            points: groups.each_ref().map(|group| self.group(group)).join(" | "),
            ..Finding::default()
        }));
        all.extend(audit.rare.iter().map(|&(class, count)| Finding {
            kind: RARE,
            label: self.class(class),
            value: count as f64,
            ..Finding::default()
        }));
        all.extend(audit.seen.iter().map(|(row, point)| Finding {
            kind: OVERLAP,
            row: Some(*row),
            label: self.class(self.data.labels[*row]),
            value: 1.0,
            points: self.named_in_model(point),
            ..Finding::default()
        }));
        all
    }

    /// Returns all findings as columns.
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

    /// Returns everything as JSON, with rows and labels as in the file.
    pub(super) fn json(&self, warnings: &[String]) -> Value {
        let rows = |places: &[u32]| places.iter().map(|&place| self.row(place as usize)).collect::<Vec<_>>();
        let audit = self.audit;
        let error = |error: &LabelError| {
            json!({
                "row": self.row(error.row), "id": self.id(error.row), "label": self.class(error.label),
                "suggested": self.class(error.suggested), "probability": error.probability,
                "p_value": error.p_value, "neighbors": rows(audit.neighbors(error.row)),
            })
        };
        let of_model = |point: &ModelPoint| json!({ "part": point.part, "row": point.row, "id": point.id });
        // Places among the points become rows of the file, and class ids become names.
        json!({
            "data": self.name,
            "points": self.data.len(),
            "classes": self.data.classes.len(),
            "fdr": self.fdr,
            "rule": audit.rule,
            "error_share": audit.error_share,
            "label_errors": audit.label_errors.iter().map(error).collect::<Vec<_>>(),
            "odds": audit.odds,
            "copies": audit.copies.iter().map(|group| json!({
                "rows": rows(&group.rows),
                "ids": group.rows.iter().map(|&place| self.id(place as usize)).collect::<Vec<_>>(),
                "model": group.model.iter().map(of_model).collect::<Vec<_>>(),
                "space": group.space, "parts": group.parts, "across": group.across,
            })).collect::<Vec<_>>(),
            "outliers": audit.outliers.iter().map(|&(row, deviations)| json!({
                "row": self.row(row), "id": self.id(row), "deviations": deviations,
                "neighbors": rows(audit.neighbors(row)),
            })).collect::<Vec<_>>(),
            "alike": audit.alike.iter().map(|(classes, shares)| json!({
                "classes": classes.map(|class| self.class(class)), "shares": shares,
            })).collect::<Vec<_>>(),
            "twofold": audit.twofold.iter().map(|(class, p_value, groups)| json!({
                "class": self.class(*class), "p_value": p_value,
                "groups": groups.each_ref().map(|group| rows(group)),
            })).collect::<Vec<_>>(),
            "rare": audit.rare.iter().map(|&(class, count)| json!({
                "class": self.class(class), "points": count,
            })).collect::<Vec<_>>(),
            "order": audit.order.iter().map(|&(by, evidence)| json!({
                "by": by, "evidence": evidence, "ordered": audit.ordered_by.contains(&by),
            })).collect::<Vec<_>>(),
            "seen": audit.seen.iter().map(|(row, point)| json!({
                "row": self.row(*row), "id": self.id(*row), "point": of_model(point),
            })).collect::<Vec<_>>(),
            "warnings": warnings,
        })
    }
}
