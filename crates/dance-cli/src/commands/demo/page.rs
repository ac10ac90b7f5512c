//! The story as a page with charts.

use super::story::{ALPHAS, Example, Judged, METHODS, Story};
use super::words;
use dance_bench::html::{document, escape};
use dance_bench::plot::{Chart, Series, Style};

/// The comment by which a report of ours is known: it may be overwritten without asking.
const MARK: &str = "dance demo report";

pub(super) fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(format!("<!doctype html>\n<!-- {MARK} -->\n").as_bytes())
}

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
        escape(&story.model.guarantee())
    );
    let rows: Vec<Vec<String>> = story.results.iter().map(words::cells).collect();
    let charts = figures(&curves(story));
    let results = table(&words::HEADER, &rows)
        + "<p><small>Cov: share of sets with the true label. Size: mean number of labels. CCV: mean distance of a class's \
           coverage from 1 - alpha, in per cent; chance alone gives the floor. mix: the paper's share of alpha for the CLR set.</small></p>"
        + &charts;
    let counts = (0u32..).map(f64::from).zip(story.sizes.iter().map(|&count| count as f64));
    let sizes = figures(&[Chart {
        id: "sizes".into(),
        title: format!("Test points by labels in their set (exact, fuse), alpha {}", ALPHAS[0]),
        x: "labels in the set".into(),
        y: "test points".into(),
        series: vec![series("points", 0, Style::Bars, counts.collect())],
        ..Chart::default()
    }]);
    let tuning = format!("<p>{}.</p>", escape(&fitted.fidelity)) + &figures(&[trace(story)]);
    let examples: String = story.examples.iter().map(example).collect();
    let title = "DANCE: prediction sets on embeddings";
    let mut body = format!("<header><h1>{title}</h1></header>");
    for (heading, text) in [
        ("What was done", intro),
        ("Coverage and size", results),
        ("How large the sets are", sizes),
        ("The search for a kernel", tuning),
        ("Five points", format!("<dl>{examples}</dl>")),
    ] {
        body += &format!("<section><h2>{heading}</h2>{text}</section>");
    }
    document(title, MARK, &body)
}

fn figures(charts: &[Chart]) -> String {
    format!("<div class=\"figures\">{}</div>", charts.iter().map(Chart::to_html).collect::<String>())
}

fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
    };
    let head = cells("th", &mut header.iter().copied());
    let row = |row: &Vec<String>| format!("<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str)));
    let body: String = rows.iter().map(row).collect();
    format!("<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>")
}

fn series(name: &str, color: usize, style: Style, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), points, style, color }
}

/// What was promised against what came out, for every method.
pub(super) fn curves(story: &Story) -> [Chart; 2] {
    let lines = |value: fn(&Judged) -> f64| -> Vec<Series> {
        let of = |(color, &(method, _)): (usize, &(&'static str, _))| {
            let judged = story.curve.iter().filter(|judged| judged.method == method);
            let points = judged.map(|judged| (1.0 - judged.metrics.alpha, value(judged))).collect();
            series(method, color, Style::Line, points)
        };
        METHODS.iter().enumerate().map(of).collect()
    };
    let chart = |id: &str, title: &str, y: &str, series: Vec<Series>| Chart {
        id: id.into(),
        title: title.into(),
        x: "coverage asked for, 1 - alpha".into(),
        y: y.into(),
        series,
        legend: true,
        ..Chart::default()
    };
    let mut coverage = lines(|judged| judged.metrics.coverage);
    let levels: Vec<f64> = story.curve.iter().map(|judged| 1.0 - judged.metrics.alpha).collect();
    let ends = [levels.iter().copied().fold(1.0, f64::min), levels.iter().copied().fold(0.0, f64::max)];
    coverage.push(series("as promised", 15, Style::Line, ends.map(|level| (level, level)).to_vec()));
    [
        chart("coverage", "Coverage on unseen points", "coverage", coverage),
        chart("size", "Labels in a set (mean)", "labels", lines(|judged| judged.metrics.size)),
    ]
}

fn trace(story: &Story) -> Chart {
    let each: Vec<(f64, f64)> =
        (1..).map(f64::from).zip(story.trace.iter().map(|trial| trial.quality.accuracy)).collect();
    let mut best = 0.0f64;
    let so_far = each.iter().map(|&(trial, accuracy)| {
        best = best.max(accuracy);
        (trial, best)
    });
    let so_far = series("best so far", 0, Style::Line, so_far.collect());
    Chart {
        id: "search".into(),
        title: "Validation accuracy of the settings tried".into(),
        x: "trial".into(),
        y: "accuracy".into(),
        series: vec![series("tried", 9, Style::Dots, each), so_far],
        legend: true,
        ..Chart::default()
    }
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
