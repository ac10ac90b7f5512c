//! The story as a page with charts.

use super::story::{ALPHAS, Example, Judged, METHODS, Story};
use super::words;
use crate::report::{self, Line, escape, table};

/// Title, name of the x axis and lines of a chart.
type Chart = (&'static str, &'static str, Vec<Line>);

pub(super) fn of(story: &Story) -> String {
    let [kernel, calibration, test] = story.points;
    let fitted = story.model.fitted();
    let intro = format!(
        "<p>{} points of {} dimensions in {} classes ({}): {kernel} fitted a kernel, {calibration} calibrated it, and the \
         {test} below took no part. The classifier alone is right on {:.1} % of them. A prediction set should hold the \
         true label with probability 1 - alpha.</p><p><small>Guarantee: {}.</small></p>",
        kernel + calibration + test,
        story.dimensions,
        story.model.classes().len(),
        escape(&story.data),
        100.0 * story.accuracy,
        escape(story.model.guarantee())
    );
    let rows: Vec<Vec<String>> = story.results.iter().map(words::cells).collect();
    let (coverage, size) = curves(story);
    let charts = figure(&report::curves(coverage.0, coverage.1, &coverage.2, true))
        + &figure(&report::curves(size.0, size.1, &size.2, false));
    let results = table(&words::HEADER, &rows)
        + "<p><small>Cov: share of sets with the true label. Size: mean number of labels. CCV: mean distance of a class's \
           coverage from 1 - alpha, in per cent; chance alone gives the floor. mix: the paper's share of alpha for the CLR set.</small></p>"
        + &charts;
    let sizes = figure(&report::bars(
        &format!("Test points by labels in their set (exact, fuse), alpha {}", ALPHAS[0]),
        "labels in the set",
        &story.sizes,
    ));
    let tuning = format!("<p>{}.</p>", escape(&fitted.fidelity)) + &figure(&trace(story));
    let examples: String = story.examples.iter().map(example).collect();
    report::page(
        "DANCE: prediction sets on embeddings",
        &[
            ("What was done", intro),
            ("Coverage and size", results),
            ("How large the sets are", sizes),
            ("The search for a kernel", tuning),
            ("Five points", format!("<dl>{examples}</dl>")),
        ],
    )
}

/// What was promised against what came out, for every method.
pub(super) fn curves(story: &Story) -> (Chart, Chart) {
    let lines = |value: fn(&Judged) -> f64| {
        METHODS
            .iter()
            .map(|&(method, _)| Line {
                name: method,
                points: story
                    .curve
                    .iter()
                    .filter(|judged| judged.method == method)
                    .map(|judged| (1.0 - judged.metrics.alpha, value(judged)))
                    .collect(),
            })
            .collect()
    };
    (
        (
            "Coverage on unseen points",
            "coverage asked for, 1 - alpha",
            lines(|judged| judged.metrics.coverage),
        ),
        ("Labels in a set (mean)", "coverage asked for, 1 - alpha", lines(|judged| judged.metrics.size)),
    )
}

fn trace(story: &Story) -> String {
    let each: Vec<(f64, f64)> =
        (1..).map(f64::from).zip(story.trace.iter().map(|trial| trial.score.accuracy)).collect();
    let mut best = 0.0f64;
    let best = each.iter().map(|&(trial, accuracy)| {
        best = best.max(accuracy);
        (trial, best)
    });
    let best = Line { name: "best so far", points: best.collect() };
    let lines = [Line { name: "tried", points: each }, best];
    report::curves("Validation accuracy of the settings tried", "trial", &lines, false)
}

fn figure(svg: &str) -> String {
    format!("<span class=\"chart\">{svg}</span>\n")
}

fn example(example: &Example) -> String {
    let Example { why, text, truth, prediction, set, covered } = example;
    let class = if *covered { "" } else { " class=\"miss\"" };
    format!(
        "<dt>{}</dt><dd{class}>{}: <b>{{{}}}</b> <small>truth: {}; best single answer: {}</small></dd>\n",
        escape(text),
        escape(why),
        escape(&set.join(", ")),
        escape(truth),
        escape(prediction)
    )
}
