//! An audit as a page: a table for every kind of finding.

use dance_page::chart::{Chart, Kind, figures};
use dance_page::html::{Document, escape};
use dance_page::table::{Cell, Emphasis, Table};
use serde_json::json;

use super::report::{ACROSS, ALIKE, COPIES, ERROR, Finding, OUTLIER, RARE, Report, TWOFOLD};

/// The comment by which a report of ours is known.
const MARK: &str = "dance audit report";
/// Most findings of a kind that the page shows; the files have all.
const SHOWN: usize = 200;

/// What a column of a table shows of a finding.
type Shown<'a> = (&'a str, &'a dyn Fn(&Finding) -> Cell);

pub(super) fn page(report: &Report<'_>) -> String {
    let title = format!("Audit of {}", report.name);
    let lines: String = report
        .summary()
        .into_iter()
        .map(|(what, value)| format!("<li><strong>{what}</strong>: {}</li>", escape(&value)))
        .collect();
    let body = format!(
        "<header><h1>{}</h1><ul>{lines}</ul></header><section>{}</section>{}",
        escape(&title),
        figures(&[odds(report)]),
        tables(report)
    );
    Document { title: &title, marker: MARK, body: &body }.to_html()
}

/// How much more probable the best other label is.
fn odds(report: &Report<'_>) -> Chart {
    let mut sorted = report.found.odds.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.truncate(SHOWN.max(2 * report.found.label_errors.len()));
    let points: Vec<(usize, f64)> = (1..).zip(sorted).collect();
    let against = report.found.odds.iter().filter(|odds| **odds > 0.0).count();
    Chart {
        kind: Kind::Lines,
        id: "odds".into(),
        headline: format!("Another label is more probable for {against} of {} points", report.data.len()),
        caption: "Points by how much more probable the best other label is (log ratio, judged by all other points). Many of them are hard, not wrong.".into(),
        data: json!({
            "series": [{ "name": "points", "ours": true, "named": false, "points": points }],
            "x": { "label": "points, most suspicious first", "format": "number" },
            "y": { "label": "log ratio", "format": "number" },
        }),
    }
}

fn tables(report: &Report<'_>) -> String {
    let all = report.findings();
    let table = |title: &str, kinds: &[&str], note: &str, columns: &[Shown<'_>]| {
        let found: Vec<&Finding> = all.iter().filter(|finding| kinds.contains(&finding.kind)).collect();
        if found.is_empty() {
            return String::new();
        }
        let more = match found.len() {
            count if count > SHOWN => format!(" The first {SHOWN} of {count}; findings.csv has all."),
            _ => String::new(),
        };
        let row = |finding: &&Finding| columns.iter().map(|(_, show)| show(finding)).collect();
        let table = Table {
            title: title.into(),
            note: format!("{note}{more}"),
            columns: columns.iter().map(|&(name, _)| name.into()).collect(),
            rows: found.iter().take(SHOWN).map(row).collect(),
        };
        let empty = |at: &usize| table.rows.iter().all(|row| row[*at].text.is_empty());
        let empty: Vec<&str> = (0..columns.len()).filter(empty).map(|at| columns[at].0).collect();
        table.without(&empty).to_html()
    };
    let point =
        |finding: &Finding| Cell::text(finding.row.map_or(String::new(), |row| report.named(row as u32)));
    let label = |finding: &Finding| Cell::text(finding.label.as_str());
    let suggested = |finding: &Finding| Cell::text(finding.suggested.as_str());
    let value = |finding: &Finding| Cell::number(finding.value, 3);
    let count = |finding: &Finding| Cell::number(finding.value, 0);
    let tiny =
        |finding: &Finding| Cell { text: format!("{:.1e}", finding.value), ..Cell::number(finding.value, 0) };
    let points = |finding: &Finding| Cell::text(finding.points.as_str());
    let flag = |finding: &Finding| match finding.kind {
        ACROSS => Cell { emphasis: Emphasis::Best, ..Cell::text("across parts") },
        _ => Cell::default(),
    };
    let space = |finding: &Finding| Cell::text(finding.space);
    let parts = |finding: &Finding| Cell::text(finding.parts.as_str());
    let judged = if report.model.is_some() { "p-value" } else { "Probability" };
    [
        table(
            "Label errors",
            &[ERROR],
            "Labels that are probably wrong, most suspicious first, with the label that fits best.",
            &[("Point", &point), ("Label", &label), ("Suggested", &suggested), (judged, &value), ("Nearest points", &points)],
        ),
        table(
            "Near copies",
            &[ACROSS, COPIES],
            "Groups of points much nearer to each other than points usually are: in the space as given, in the metric that the model has \
             learned, or in both. A group across parts breaks the promise: what one part learns, another one knows.",
            &[("Points", &count), ("Which", &points), ("Flag", &flag), ("Space", &space), ("Parts", &parts)],
        ),
        table(
            "Outliers",
            &[OUTLIER],
            "Points far from all others, in robust standard deviations of the log distance to the fifth neighbor.",
            &[("Point", &point), ("Label", &label), ("Deviations", &value), ("Nearest points", &points)],
        ),
        table(
            "Classes that may be one",
            &[ALIKE],
            "Each is taken for the other where all other points judge; the smaller of the two shares.",
            &[("Class", &label), ("Class", &suggested), ("Share", &value)],
        ),
        table(
            "Classes that are two",
            &[TWOFOLD],
            "Their points fall apart into two groups with a gap between them that chance does not explain, judged by points that did not \
             find the groups. Each group with the points nearest to its centre; audit.json has all.",
            &[("Class", &label), ("p-value", &tiny), ("Groups", &points)],
        ),
        table(
            "Rare classes",
            &[RARE],
            "Too few points to say anything about.",
            &[("Class", &label), ("Points", &count)],
        ),
    ]
    .concat()
}
