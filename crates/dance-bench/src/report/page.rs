//! `report.html`: one file that needs no network. Styles, scripts and numbers are inlined; names from data files are escaped.

use super::summary::data_sets;
use super::{all_tables, compared, differences, fits};
use crate::experiment::Results;
use dance_page::chart::{Chart, figures};
use dance_page::html::{Document, escape};
use dance_page::table::Table;
use dance_page::text::pluralize;

/// The whole page.
pub fn html(results: &Results) -> String {
    let plan = &results.plan;
    let alphas = plan.alphas.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut body = format!(
        "<header><h1>Prediction sets, compared</h1><p>{}, {}, α = {alphas}; {} % fit the kernel, {} % calibrate, \
         {} % test. All methods share one split and, where they use it, one kernel. {}</p></header>",
        pluralize(data_sets(results).len(), "data set", "data sets"),
        pluralize(plan.seeds, "seed", "seeds"),
        100.0 * plan.split[0],
        100.0 * plan.split[1],
        100.0 * plan.split[2],
        plan.about_data(),
    );
    for failure in &results.failures {
        body += &format!(
            "<p class=\"failure\">{} could not be used: {}</p>",
            escape(&failure.data),
            escape(&failure.problem)
        );
    }
    let sections: [(&str, &str, Vec<Chart>); 9] = [
        ("Coverage", "Does a set hold the true label as often as was asked?", compared::coverage(results)),
        (
            "Size and balance",
            "What that costs in labels, and how evenly classes are covered.",
            compared::size(results),
        ),
        ("Sets by their size", "All data sets and seeds together.", compared::shares(results)),
        (
            "Coverage of the classes",
            "The promise is about all points together; this is how far classes stray.",
            compared::classes(results),
        ),
        (
            "Where coverage differs",
            "What holds on average need not hold in every part. The same points for every method.",
            differences::charts(results),
        ),
        ("Ablations", "One setting varied, means over data sets and seeds.", fits::ablations(results)),
        ("The search for a kernel", "", fits::tuning(results).into_iter().collect()),
        (
            "What the metric does",
            "Points of the ten most frequent classes: principal components of the embeddings, then of the learned kernel.",
            fits::pictures(results),
        ),
        ("Fit time", "", fits::fit_time(results).into_iter().collect()),
    ];
    for (title, note, charts) in sections.iter().filter(|section| !section.2.is_empty()) {
        let note = if note.is_empty() { String::new() } else { format!("<p>{note}</p>") };
        body += &format!("<section><h2>{title}</h2>{note}{}</section>", figures(charts));
    }
    body += &all_tables(results).iter().map(Table::to_html).collect::<String>();
    body += "<section><h2>Guarantees</h2><ul>";
    for method in &plan.methods {
        body += &format!("<li>{}: {}</li>", escape(method.title()), escape(method.guarantee()));
    }
    body += "</ul></section>";
    Document { title: "Prediction sets, compared", marker: "dance bench report", body: &body }.to_html()
}
