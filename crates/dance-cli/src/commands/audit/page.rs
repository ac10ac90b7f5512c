//! The HTML page of an audit: a table for every kind of finding.

use dance_page::chart::{Chart, Kind, figures};
use dance_page::html::{Document, escape};
use dance_page::table::{Cell, Emphasis, Table};
use serde_json::json;

use super::report::{ACROSS, ALIKE, COPIES, ERROR, Finding, OUTLIER, RARE, Report, TWOFOLD};

/// The comment that marks a report of an audit.
const MARK: &str = "dance audit report";
/// Most findings of a kind on the page. The files have all of them.
const SHOWN: usize = 200;

/// The explanation of the words of the page.
const TERMS: &str = "<section><h2>Terms</h2><dl class=\"terms card\">\
    <dt>False alarms (--fdr)</dt><dd>The share of right labels that the list of label errors may hold, on average.</dd>\
    <dt>Probability</dt><dd>The probability that the label in the file is wrong, predicted from all other points.</dd>\
    <dt>p-value</dt><dd>With a model: the share of calibration points that fit their label no better than the point \
    fits its label in the file.</dd>\
    <dt>Given space</dt><dd>Distances between the embeddings as they are in the file.</dd>\
    <dt>Learned space</dt><dd>Distances in the metric that the model learned. It brings points of a class \
    together.</dd>\
    <dt>Deviations</dt><dd>The distance of a point from its fifth neighbor, on a log scale, in robust standard \
    deviations: 0 is usual, above 5 is rare.</dd>\
    <dt>Parts</dt><dd>The parts of a split, such as train and test, from the column that --parts names.</dd>\
    </dl></section>";

/// A column of a table: its name, and its cell for a finding.
type TableColumn<'a> = (&'a str, &'a dyn Fn(&Finding) -> Cell);

pub(super) fn page(report: &Report<'_>) -> String {
    let title = format!("Audit of {}", report.name);
    let lines: String = report
        .summary()
        .into_iter()
        .map(|(name, value)| format!("<li><strong>{name}</strong>: {}</li>", escape(&value)))
        .collect();
    let body = format!(
        "<header><h1>{}</h1><ul>{lines}</ul></header><section><h2>Suspicious labels</h2>{}</section>{}{TERMS}",
        escape(&title),
        figures(&[odds(report)]),
        tables(report)
    );
    Document { title: &title, marker: MARK, body: &body }.to_html()
}

/// Returns the chart of how much more probable the best other label is.
fn odds(report: &Report<'_>) -> Chart {
    let mut sorted = report.audit.odds.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.truncate(SHOWN.max(2 * report.audit.label_errors.len()));
    let points: Vec<(usize, f64)> = (1..).zip(sorted).collect();
    let against = report.audit.odds.iter().filter(|odds| **odds > 0.0).count();
    Chart {
        kind: Kind::Lines,
        id: "odds".into(),
        headline: format!("Another label is more probable for {against} of {} points", report.data.len()),
        caption: "Natural log of a ratio: the probability of the best other label to that of the label in the file. \
                  Above 0, the other label is more probable; at 2.3, ten times. Many of these points are ambiguous, \
                  not wrong."
            .into(),
        data: json!({
            "series": [{ "name": "points", "ours": true, "named": false, "points": points }],
            "x": { "label": "points, most suspicious first", "format": "number" },
            "y": { "label": "log ratio", "format": "number" },
        }),
    }
}

fn tables(report: &Report<'_>) -> String {
    let all = report.findings();
    // A table shows the findings of some kinds, without columns that are empty.
    let table = |title: &str, kinds: &[&str], note: &str, columns: &[TableColumn<'_>]| {
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
    // The cells of columns.
    let point = |finding: &Finding| Cell::text(finding.row.map_or(String::new(), |row| report.named(row as u32)));
    let label = |finding: &Finding| Cell::text(finding.label.as_str());
    let suggested = |finding: &Finding| Cell::text(finding.suggested.as_str());
    let value = |finding: &Finding| Cell::number(finding.value, 3);
    let count = |finding: &Finding| Cell::number(finding.value, 0);
    let tiny = |finding: &Finding| Cell { text: format!("{:.1e}", finding.value), ..Cell::number(finding.value, 0) };
    // Neighbors are named with their labels, by which a person judges the finding.
    let points = |finding: &Finding| match finding.labeled.as_str() {
        "" => Cell::text(finding.points.as_str()),
        labeled => Cell::text(labeled),
    };
    let flag = |finding: &Finding| match finding.kind {
        ACROSS => Cell { emphasis: Emphasis::Best, ..Cell::text("across parts") },
        _ => Cell::default(),
    };
    let space = |finding: &Finding| Cell::text(finding.space);
    let parts = |finding: &Finding| Cell::text(finding.parts.as_str());
    let score = if report.model.is_some() { "p-value" } else { "Probability" };
    [
        table(
            "Label errors",
            &[ERROR],
            "Labels that are probably wrong, most suspicious first, with the label that fits best. The nearest points \
             are named with their labels.",
            &[
                ("Point", &point),
                ("Label", &label),
                ("Suggested", &suggested),
                (score, &value),
                ("Nearest points", &points),
            ],
        ),
        table(
            "Near copies",
            &[ACROSS, COPIES],
            "Groups of points much closer to each other than usual: in the given space, in the model's learned metric, \
             or in both. A group across parts invalidates the guarantee, because the parts are not independent.",
            &[("Points", &count), ("Members", &points), ("Flag", &flag), ("Space", &space), ("Parts", &parts)],
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
            "Pairs of classes that are confused with each other, by all other points: the smaller of the two shares.",
            &[("Class", &label), ("Class", &suggested), ("Share", &value)],
        ),
        table(
            "Classes that are two",
            &[TWOFOLD],
            "Classes of two groups with a gap between them that chance does not explain. The test uses points that did \
             not form the groups. Each group is shown by the points nearest to its centre; audit.json has all.",
            &[("Class", &label), ("p-value", &tiny), ("Groups", &points)],
        ),
        table(
            "Rare classes",
            &[RARE],
            "Classes with too few points for any statement.",
            &[("Class", &label), ("Points", &count)],
        ),
    ]
    .concat()
}
