//! The charts of coverage where it may differ: among points the classifier is sure of and those it is not, rare labels and frequent ones.

use dance_page::chart::{Chart, Kind};
use serde_json::json;

use super::compared::{called, drawn, each_alpha, percent};
use super::summary::{Parts, ours, portion_coverage};
use crate::experiment::{Method, Results};

/// Fifths of the points, as a breakdown calls them.
const FIFTHS: [&str; 5] = ["lowest", "low", "middle", "high", "highest"];

/// For every α a chart by confidence and one by class frequency; none where records do not have them.
pub(super) fn charts(results: &Results) -> Vec<Chart> {
    let of = |by: &By| {
        each_alpha(results, |alpha, rows, (lead, _)| {
            let methods: Vec<Method> = rows.iter().map(|row| row.0).collect();
            chart(results, by, alpha, &methods, *lead)
        })
    };
    BY.iter().flat_map(of).flatten().collect()
}

/// A way to take points apart, and its words.
struct By {
    id: &'static str,
    parts: Parts,
    label: &'static str,
    /// What the lowest fifth is.
    lowest: &'static str,
    caption: &'static str,
}

const BY: [By; 2] = [
    By {
        id: "confidence",
        parts: |all| &all.by_confidence,
        label: "fifths by the kernel machine's confidence",
        lowest: "of the points the classifier is least sure of",
        caption: "Each line is a method, grey those of others: point at one for its name. A set must be larger where the classifier is unsure; \
                  whoever makes it no larger covers less there.",
    },
    By {
        id: "frequency",
        parts: |all| &all.by_frequency,
        label: "fifths by the frequency of the label",
        lowest: "of the points with the rarest labels",
        caption: "Each line is a method, grey those of others: point at one for its name. The promise is about all points together; frequent \
                  labels can pay for rare ones.",
    },
];

fn chart(results: &Results, by: &By, alpha: f64, methods: &[Method], lead: Method) -> Option<Chart> {
    let at = |method: Method, name: &str| portion_coverage(results, method, alpha, by.parts, name);
    // Equal frequencies are in one fifth, so that some may have no points.
    let words: Vec<&str> = FIFTHS.into_iter().filter(|name| at(lead, name).is_some()).collect();
    if words.len() < 2 {
        return None; // nothing to tell apart
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
            "series": methods.iter().map(series).collect::<Vec<_>>(), "words": words, "promised": [(0, 1.0 - alpha), (last, 1.0 - alpha)],
            "x": { "label": by.label, "format": "number" }, "y": { "label": "coverage", "format": "percent" },
        }),
    })
}
