//! `report.html`: one file that needs no network. Style and script are inlined; every plot is SVG; names from data files are
//! escaped.

use super::{all_tables, figures};
use crate::experiment::Results;
use crate::html::{document, escape};

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
    document("Prediction sets, compared", "dance bench report", &body)
}
