//! The story as a page with charts.

use super::story::{ALPHAS, Example, Judged, Story, default_method, drawn_methods, is_paper};
use super::words;
use dance::evaluation::CoverageBand;
use dance_page::chart::{Chart, Kind, figures};
use dance_page::html::{Document, escape, has_marker};
use dance_page::table::Table;
use serde_json::{Value, json};

/// The comment by which a report of ours is known: it may be overwritten without asking.
const MARK: &str = "dance demo report";

pub(super) fn is_ours(bytes: &[u8]) -> bool {
    has_marker(bytes, MARK)
}

pub(super) fn of(story: &Story) -> String {
    let title = "DANCE: prediction sets on embeddings";
    let [kernel, calibration, test] = story.points;
    let lead = ours(story, ALPHAS[0]);
    let body = format!(
        "<header><h1>{title}</h1><p class=\"lead\">Asked for sets that hold the true label {:.0} % of the time, \
         <strong>{:.1} %</strong> of {test} sets on unseen points do, with <strong>{:.2} labels</strong> each on average.</p>\
         <p>{} points of {} dimensions in {} classes ({}): {kernel} fitted a kernel, {calibration} calibrated it, and the {test} \
         took no part. The classifier alone is right on {:.1} % of them.</p>\
         <p><small>Guarantee: {}.</small></p></header>\
         <section><h2>Coverage and size</h2>{}</section>{}\
         <section><h2>Sets, and the search for a kernel</h2>{}</section>\
         <section><h2>Five points</h2><ul class=\"examples\">{}</ul></section>",
        100.0 * (1.0 - lead.metrics.alpha),
        100.0 * lead.metrics.coverage,
        lead.metrics.size,
        kernel + calibration + test,
        story.dimensions,
        story.model.classes().len(),
        escape(&story.data),
        100.0 * story.accuracy,
        escape(&story.model.guarantee()),
        figures(&curves(story)),
        results(story).to_html(),
        figures(&[sizes(story), search(story)]),
        story.examples.iter().map(example).collect::<String>(),
    );
    Document { title, marker: MARK, body: &body }.to_html()
}

/// What our default gives at a level.
fn ours(story: &Story, alpha: f64) -> &Judged {
    let at = |judged: &&Judged| judged.method == default_method() && judged.metrics.alpha == alpha;
    story.results.iter().find(at).unwrap_or(&story.results[0])
}

/// Every method at every level, as the terminal shows it.
fn results(story: &Story) -> Table {
    let columns = words::HEADER.map(|name| if name.is_empty() { "method" } else { name });
    Table {
        title: "Every method at every level".into(),
        note: "Cov: share of sets with the true label. Size: mean number of labels. dev: how far classes stray from \
               1 - alpha beyond chance, in per cent. CCV: the mean distance; chance alone gives the floor. mix: the paper's share of alpha for the CLR set."
            .into(),
        ..Table::from_text(columns, story.results.iter().map(words::cells))
    }
}

/// What was promised against what came out, for every method.
fn curves(story: &Story) -> [Chart; 2] {
    let lines = |value: fn(&Judged) -> f64| -> Vec<Value> {
        let of = |method: &'static str| {
            let judged = story.curve.iter().rev().filter(|judged| judged.method == method);
            let points: Vec<(f64, f64)> =
                judged.map(|judged| (1.0 - judged.metrics.alpha, value(judged))).collect();
            json!({ "name": method, "ours": method == default_method(), "named": true, "points": points })
        };
        drawn_methods().map(of).collect()
    };
    let asked = json!({ "label": "asked for", "format": "percent" });
    let mut alphas: Vec<f64> = story.curve.iter().map(|judged| judged.metrics.alpha).collect();
    alphas.sort_by(|a, b| b.total_cmp(a));
    alphas.dedup();
    let band = |&alpha: &f64| {
        let (low, high) = CoverageBand::new(story.points[1], story.points[2], alpha).interval(0.95);
        (1.0 - alpha, low, high)
    };
    let promised: Vec<(f64, f64)> = alphas.iter().map(|alpha| (1.0 - alpha, 1.0 - alpha)).collect();
    let lead = ours(story, ALPHAS[0]);
    let (level, metrics) = (100.0 * (1.0 - lead.metrics.alpha), &lead.metrics);
    let paper = story
        .results
        .iter()
        .filter(|judged| judged.metrics.alpha == metrics.alpha && is_paper(judged.method));
    let smallest = paper.map(|judged| judged.metrics.size).fold(f64::INFINITY, f64::min);
    [
        Chart {
            kind: Kind::Lines,
            id: "coverage".into(),
            headline: format!("Asked for {level:.0} %, {:.1} % of sets hold the true label", 100.0 * metrics.coverage),
            caption: "On points the model never saw. Dashed: exactly what was asked. Shaded: where coverage lies 95 times in 100 if \
                      the promise holds."
                .into(),
            data: json!({ "series": lines(|judged| judged.metrics.coverage), "band": alphas.iter().map(band).collect::<Vec<_>>(),
                "promised": promised, "x": asked, "y": { "label": "sets that hold the true label", "format": "percent" } }),
        },
        Chart {
            kind: Kind::Lines,
            id: "size".into(),
            headline: format!(
                "That costs {:.2} labels per set; the smallest of the paper's sets has {smallest:.2}",
                metrics.size
            ),
            caption: "The same kernel and the same points for all of them.".into(),
            data: json!({ "series": lines(|judged| judged.metrics.size), "x": asked, "y": { "label": "labels per set", "zero": true, "format": "number" } }),
        },
    ]
}

fn sizes(story: &Story) -> Chart {
    let all = story.sizes.iter().sum::<usize>().max(1) as f64;
    let single = story.sizes.get(1).copied().unwrap_or(0) as f64 / all;
    Chart {
        kind: Kind::Sizes,
        id: "sizes".into(),
        headline: format!("{:.0} % of sets are a single label at alpha {}", 100.0 * single, ALPHAS[0]),
        caption: "Test points by the number of labels in their set (exact, fuse).".into(),
        data: json!(story.sizes),
    }
}

fn search(story: &Story) -> Chart {
    let each: Vec<(usize, f64)> = (1..).zip(story.trace.iter().map(|trial| trial.quality.accuracy)).collect();
    let mut best = 0.0f64;
    let so_far: Vec<(usize, f64)> = each
        .iter()
        .map(|&(trial, accuracy)| {
            best = best.max(accuracy);
            (trial, best)
        })
        .collect();
    Chart {
        kind: Kind::Lines,
        id: "search".into(),
        headline: format!(
            "The best of {} settings is right on {:.1} % of the points that judged them",
            each.len(),
            100.0 * best
        ),
        caption: format!("{}.", story.model.fitted().fidelity),
        data: json!({
            "series": [{ "name": "best so far", "ours": true, "named": true, "steps": true, "points": so_far }], "dots": each,
            "x": { "label": "settings tried", "format": "number" }, "y": { "label": "validation accuracy", "format": "percent" },
        }),
    }
}

fn example(example: &Example) -> String {
    let Example { why, text, truth, prediction, set, covered } = example;
    let chip = |label: &String| {
        format!("<span class=\"chip{}\">{}</span>", if label == truth { " true" } else { "" }, escape(label))
    };
    let set: String = match &set[..] {
        [] => "<span class=\"chip empty\">empty</span>".into(),
        labels => labels.iter().map(chip).collect(),
    };
    format!(
        "<li class=\"card{}\"><p>{}</p>{set} <small>{}; truth: {}; best single answer: {}</small></li>",
        if *covered { "" } else { " miss" },
        escape(text),
        escape(why),
        escape(truth),
        escape(prediction)
    )
}
