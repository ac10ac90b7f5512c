//! The results of the demo as an HTML page with charts.

use super::story::{ALPHAS, Example, Method, MethodMetrics, Story};
use super::words;
use dance::evaluation::coverage_interval;
use dance_page::chart::{Chart, Kind, figures};
use dance_page::html::{Document, escape, has_marker};
use dance_page::table::Table;
use serde_json::{Value, json};

/// The comment that marks a report of the demo, which may be overwritten.
const MARK: &str = "dance demo report";

pub(super) fn is_ours(bytes: &[u8]) -> bool {
    has_marker(bytes, MARK)
}

pub(super) fn of(story: &Story) -> String {
    let title = "DANCE: prediction sets on embeddings";
    let [kernel, calibration, test] = story.points;
    let lead = default_at(story, ALPHAS[0]);
    let (low, high) = coverage_interval(calibration, test, lead.metrics.alpha);
    let body = format!(
        "<header><h1>{title}</h1><div class=\"statements\">\
         <div class=\"card promised\"><h2>Promised</h2><p class=\"lead\"><strong>at least {:.0} %</strong> of sets \
         contain the true label, on average over new points.</p><p><small>Guarantee: {}.</small></p></div>\
         <div class=\"card measured\"><h2>Measured</h2><p class=\"lead\"><strong>{:.1} %</strong> of {test} sets on \
         new points do, with <strong>{:.2} labels</strong> each on average.</p>\
         <p><small>If the guarantee holds, the share is between {:.1} % and {:.1} %, 95 times in 100.</small></p></div>\
         </div><p>{} points of {} dimensions in {} classes ({}): {kernel} fitted a kernel, {calibration} calibrated \
         it, and the other {test} are test points. The kernel alone is right on {:.1} % of the test points.</p>\
         </header>\
         <section><h2>Coverage and size</h2>{}</section>{}\
         <section><h2>Sets, and the search for a kernel</h2>{}</section>\
         <section><h2>Five points</h2><ul class=\"legend\"><li><strong>Bold</strong> best answer</li>\
         <li><span class=\"chip\">name</span> label in the set</li>\
         <li><span class=\"chip true\">✓ name</span> true label, in the set</li></ul>\
         <ul class=\"examples\">{}</ul></section>{}",
        100.0 * (1.0 - lead.metrics.alpha),
        escape(&story.model.guarantee()),
        100.0 * lead.metrics.coverage,
        lead.metrics.size,
        100.0 * low,
        100.0 * high,
        kernel + calibration + test,
        story.dimensions,
        story.model.classes().len(),
        escape(&story.data),
        100.0 * story.accuracy,
        figures(&curves(story)),
        results(story).to_html(),
        figures(&[sizes(story), search(story)]),
        story.examples.iter().map(example).collect::<String>(),
        terms(story),
    );
    Document { title, marker: MARK, body: &body }.to_html()
}

/// Returns the metrics of the default method at a level.
fn default_at(story: &Story, alpha: f64) -> &MethodMetrics {
    let is_wanted = |row: &&MethodMetrics| row.method == story.default_method() && row.metrics.alpha == alpha;
    story.results.iter().find(is_wanted).unwrap_or(&story.results[0])
}

/// Returns the table of every method at every level.
fn results(story: &Story) -> Table {
    let columns = words::HEADER.map(|name| if name.is_empty() { "method" } else { name });
    Table {
        title: "Every method at every level".into(),
        note: "Cov: share of sets with the true label. Size: mean number of labels per set. dev: root mean square \
               deviation of class coverage from 1 - alpha, without the part due to chance, in per cent. CCV: mean \
               distance of class coverage from 1 - alpha, in per cent; chance alone gives the floor. mix: share of \
               alpha for the contrastive score."
            .into(),
        ..Table::from_text(columns, story.results.iter().map(words::cells))
    }
}

/// Returns the charts of coverage and of set size against the target coverage.
fn curves(story: &Story) -> [Chart; 2] {
    let lines = |value: fn(&MethodMetrics) -> f64| -> Vec<Value> {
        let line = |method: &'static str| {
            let rows = story.curve.iter().rev().filter(|row| row.method == method);
            let points: Vec<(f64, f64)> = rows.map(|row| (1.0 - row.metrics.alpha, value(row))).collect();
            let is_default = method == story.default_method();
            json!({ "name": method, "ours": is_default, "named": true, "points": points })
        };
        story.charted_methods().map(line).collect()
    };
    let target_axis = json!({ "label": "target coverage", "format": "percent" });
    let mut alphas: Vec<f64> = story.curve.iter().map(|row| row.metrics.alpha).collect();
    alphas.sort_by(|a, b| b.total_cmp(a));
    alphas.dedup();
    let band = |&alpha: &f64| {
        let (low, high) = coverage_interval(story.points[1], story.points[2], alpha);
        (1.0 - alpha, low, high)
    };
    let promised: Vec<(f64, f64)> = alphas.iter().map(|alpha| (1.0 - alpha, 1.0 - alpha)).collect();
    let lead = default_at(story, ALPHAS[0]);
    let (level, metrics) = (100.0 * (1.0 - lead.metrics.alpha), &lead.metrics);
    // The headline compares the default with the smallest of the paper's sets at the same level.
    let is_paper = |row: &&MethodMetrics| row.metrics.alpha == metrics.alpha && story.is_paper(row.method);
    let paper = story.results.iter().filter(is_paper);
    let smallest = paper.map(|row| row.metrics.size).fold(f64::INFINITY, f64::min);
    [
        Chart {
            kind: Kind::Lines,
            id: "coverage".into(),
            headline: format!(
                "At a target of {level:.0} %, {:.1} % of sets contain the true label",
                100.0 * metrics.coverage
            ),
            caption: "On test points. Dashed: the target. Shaded: the interval that contains the coverage 95 times in \
                      100 if the guarantee holds."
                .into(),
            data: json!({
                "series": lines(|row| row.metrics.coverage),
                "band": alphas.iter().map(band).collect::<Vec<_>>(),
                "promised": promised,
                "x": target_axis,
                "y": { "label": "sets with the true label", "format": "percent" },
            }),
        },
        Chart {
            kind: Kind::Lines,
            id: "size".into(),
            headline: format!(
                "Sets have {:.2} labels on average; the smallest of the paper's methods has {smallest:.2}",
                metrics.size
            ),
            caption: "All methods use the same kernel and the same points.".into(),
            data: json!({
                "series": lines(|row| row.metrics.size),
                "x": target_axis,
                "y": { "label": "labels per set", "zero": true, "format": "number" },
            }),
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
        caption: format!("Test points by the number of labels in their set (method {}).", story.default_method()),
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
            "The best of {} settings is right on {:.1} % of the validation points",
            each.len(),
            100.0 * best
        ),
        caption: format!("{}.", story.model.fitted().fidelity),
        data: json!({
            "series": [{ "name": "best so far", "ours": true, "named": true, "steps": true, "points": so_far }],
            "dots": each,
            "x": { "label": "settings tried", "format": "number" },
            "y": { "label": "validation accuracy", "format": "percent" },
        }),
    }
}

fn example(example: &Example) -> String {
    let Example { why, text, truth, prediction, set, covered } = example;
    let chip = |label: &String| {
        let (class, sign) = if label == truth { (" true", "✓ ") } else { ("", "") };
        format!("<span class=\"chip{class}\">{sign}{}</span>", escape(label))
    };
    let set: String = match &set[..] {
        [] => "<span class=\"chip empty\">empty</span>".into(),
        labels => labels.iter().map(chip).collect(),
    };
    format!(
        "<li class=\"card{}\"><p>{}</p><strong>{}</strong> {set} <small>{}; true label: {}</small></li>",
        if *covered { "" } else { " miss" },
        escape(text),
        escape(prediction),
        escape(why),
        escape(truth),
    )
}

/// Returns the section that explains the methods of the demo.
fn terms(story: &Story) -> String {
    let explanation = |name: &str| match name {
        "posterior" => {
            "The default of dance fit: a stack of several classifiers gives probabilities, which the sets use."
        }
        "posterior, balanced" => "The posterior, with coverage balanced between the classes.",
        "fuse" => "One score from the ranks of neighbors and their contrast. It needs no probabilities.",
        "paper: DANCE" => "The paper's method: the union of the k-NN set and the CLR set, which share alpha.",
        "paper: k-NN set" => "A label is in if enough of the nearest neighbors carry it.",
        "paper: CLR set" => "Contrastive score: nearest neighbors with the label against those without it.",
        _ => "",
    };
    let entry = |method: &Method| format!("<dt>{}</dt><dd>{}</dd>", method.name, explanation(method.name));
    let entries: String = story.methods.iter().map(entry).collect();
    format!("<section><h2>Methods</h2><dl class=\"terms card\">{entries}</dl></section>")
}
