//! `report.html`: one file that needs no network. Styles, scripts and numbers are inside it, and names from data files
//! are escaped. A list of its sections stands below the header.

use super::summary::data_sets;
use super::{all_tables, compared, differences, fits, methods};
use crate::experiment::Results;
use dance_page::chart::{Chart, figures};
use dance_page::html::{Document, escape};
use dance_page::table::Table;
use dance_page::text::pluralize;

/// Returns the page as one HTML file.
pub fn html(results: &Results) -> String {
    let plan = &results.plan;
    let alphas = plan.alphas.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    // The header, then the data sets that could not be used.
    let mut body = format!(
        "<header><h1>Prediction sets, compared</h1><p>{}, {}, α = {alphas}; {} % of the points fit, {} % calibrate, \
         {} % test. All methods share one split and, if they use it, one kernel machine. {}</p>\
         <p>The names are explained under <a href=\"#methods\">Methods</a> and \
         <a href=\"#measures\">Measures</a>.</p></header>",
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
    // Sections of charts; a section without charts is left out.
    let sections: [(&str, &str, Vec<Chart>); 9] = [
        ("Coverage", "The share of sets with the true label, against the target 1 - α.", compared::coverage(results)),
        (
            "Size and balance",
            "The mean number of labels in a set, and the differences in coverage between classes.",
            compared::size(results),
        ),
        ("Sets by their size", "All data sets and seeds together.", compared::shares(results)),
        (
            "Coverage of the classes",
            "The guarantee holds for all points together. Single classes are covered more or less.",
            compared::classes(results),
        ),
        (
            "Coverage in parts of the points",
            "An average guarantee need not hold in every part. The parts are the same for every method.",
            differences::charts(results),
        ),
        ("Ablations", "One setting varied, means over data sets and seeds.", fits::ablations(results)),
        ("The search for a kernel", "", fits::tuning(results).into_iter().collect()),
        (
            "The learned metric",
            "Points of the ten most frequent classes: principal components of the embeddings, then of the learned \
             kernel.",
            fits::pictures(results),
        ),
        ("Fit time", "", fits::fit_time(results).into_iter().collect()),
    ];
    for (title, note, charts) in sections.iter().filter(|section| !section.2.is_empty()) {
        let note = if note.is_empty() { String::new() } else { format!("<p>{note}</p>") };
        body += &format!("<section><h2>{title}</h2>{note}{}</section>", figures(charts));
    }
    // What the names mean, with the guarantee of every method; then all numbers.
    body += &methods::section(results);
    body += &methods::measures();
    body += &all_tables(results).iter().map(Table::to_html).collect::<String>();
    Document { title: "Prediction sets, compared", marker: "dance bench report", body: &body }.to_html()
}
