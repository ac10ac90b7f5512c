//! `report.html`: one file that needs no network. Style and script are inlined; every plot is SVG; names from data files are
//! escaped.

use super::cells::escape;
use super::{all_tables, figures};
use crate::experiment::Results;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
pub fn html(results: &Results) -> String {
    let plan = &results.plan;
    let alphas = plan.alphas.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut body = format!(
        "<header><h1>Prediction sets, compared</h1><p>{} data sets, {} seeds, α = {alphas}; {} % fit the kernel, {} % calibrate, \
         {} % test. All methods share one split and one kernel; rows that say refit have it fitted once more with the validation points.</p></header>",
        super::summary::data_sets(results).len(),
        plan.seeds,
        100.0 * plan.split[0],
        100.0 * plan.split[1],
        100.0 * plan.split[2],
    );
    for failure in &results.failures {
        body += &format!(
            "<p class=\"failure\">{} could not be used: {}</p>",
            escape(&failure.data),
            escape(&failure.problem)
        );
    }
    for section in figures::sections(results) {
        let figures: String = section.charts.iter().map(crate::plot::Chart::to_html).collect();
        if !figures.is_empty() {
            body += &format!(
                "<section><h2>{}</h2><p>{}</p><div class=\"figures\">{figures}</div></section>",
                escape(&section.title),
                escape(&section.note)
            );
        }
    }
    body += &all_tables(results).iter().map(super::cells::Table::to_html).collect::<String>();
    body += "<section><h2>Guarantees</h2><ul>";
    for method in &plan.methods {
        body += &format!("<li>{}: {}</li>", escape(method.title()), escape(method.guarantee()));
    }
    body += "</ul></section>";
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>Prediction sets, compared</title>\
         <link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style></head><body><main>{body}</main>\
         <script>{SCRIPT}</script></body></html>\n"
    )
}
