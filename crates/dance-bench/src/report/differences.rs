//! Charts of coverage in parts of the points: by the classifier's confidence, and by the frequency of labels.

use dance_page::chart::{Chart, Kind};
use serde_json::json;

use super::compared::{called, drawn, each_alpha, percent};
use super::summary::{Parts, ours, portion_coverage};
use crate::experiment::{Method, Results};

/// Names of the fifths of the points in a breakdown.
const FIFTHS: [&str; 5] = ["lowest", "low", "middle", "high", "highest"];

/// Returns a chart by confidence and one by class frequency for every α, if records have them.
pub(super) fn charts(results: &Results) -> Vec<Chart> {
    let charts_of = |by: &By| {
        each_alpha(results, |alpha, rows, (lead, _)| {
            let methods: Vec<Method> = rows.iter().map(|row| row.0).collect();
            chart(results, by, alpha, &methods, *lead)
        })
    };
    BY.iter().flat_map(charts_of).flatten().collect()
}

/// A division of the points, and its words in a chart.
struct By {
    id: &'static str,
    parts: Parts,
    label: &'static str,
    /// The lowest fifth, in words.
    lowest: &'static str,
    caption: &'static str,
}

const BY: [By; 2] = [
    By {
        id: "confidence",
        parts: |all| &all.by_confidence,
        label: "fifths by the kernel machine's confidence",
        lowest: "of the points with the lowest confidence",
        caption: "Each line is a method, baselines in grey: point at a line for its name. Sets must be larger where \
                  the classifier is unsure. Methods with sets of equal size cover less there.",
    },
    By {
        id: "frequency",
        parts: |all| &all.by_frequency,
        label: "fifths by the frequency of the label",
        lowest: "of the points with the rarest labels",
        caption: "Each line is a method, baselines in grey: point at a line for its name. The guarantee holds for all \
                  points together: rare labels may be covered less, frequent labels more.",
    },
];

/// Makes the chart of one division at one α; `None` if fewer than two parts have points.
fn chart(results: &Results, by: &By, alpha: f64, methods: &[Method], lead: Method) -> Option<Chart> {
    let at = |method: Method, name: &str| portion_coverage(results, method, alpha, by.parts, name);
    // Equal frequencies fall into one fifth, so that others may have no points.
    let words: Vec<&str> = FIFTHS.into_iter().filter(|name| at(lead, name).is_some()).collect();
    if words.len() < 2 {
        return None;
    }
    let lowest = at(lead, words.first()?)?;
    let series = |&method: &Method| {
        let points: Vec<(usize, f64)> =
            words.iter().enumerate().filter_map(|(place, name)| Some((place, at(method, name)?))).collect();
        drawn(results, method, json!({ "named": Some(method) == ours(results), "points": points }))
    };
    let last = words.len() - 1;
    Some(Chart {
        kind: Kind::Lines,
        id: format!("{}-{alpha}", by.id),
        headline: format!("α = {alpha}: {} covers {} {}", called(results, lead), percent(lowest), by.lowest),
        caption: by.caption.into(),
        data: json!({
            "series": methods.iter().map(series).collect::<Vec<_>>(), "words": words,
            "promised": [(0, 1.0 - alpha), (last, 1.0 - alpha)],
            "x": { "label": by.label, "format": "number" }, "y": { "label": "coverage", "format": "percent" },
        }),
    })
}
