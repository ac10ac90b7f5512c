//! Reports: the [tables] of an experiment as Markdown, CSV and text, and one self-contained [page] with charts and
//! sortable tables.

mod compared;
mod csv;
mod differences;
mod fits;
mod methods;
pub mod page;
pub mod summary;
pub mod tables;

use std::path::Path;

use crate::experiment::Results;
use dance::Result;
use dance::whole_file::WholeFile;
use dance_page::table::Table;

pub use csv::to_csv;

/// Returns every table of a run that has rows.
pub fn all_tables(results: &Results) -> Vec<Table> {
    let mut all = vec![tables::main(results), tables::against_paper(results)];
    all.extend(results.plan.alphas.iter().map(|&alpha| tables::per_data_set(results, alpha)));
    all.extend(results.plan.alphas.iter().map(|&alpha| tables::differences(results, alpha)));
    all.push(tables::probabilities(results));
    all.push(tables::ablations(results));
    all.push(tables::times(results));
    all.retain(|table| !table.rows.is_empty());
    all
}

/// Writes `tables.md`, `tables.csv` and `report.html` into a folder.
pub fn write(results: &Results, folder: &Path) -> Result<()> {
    let tables = all_tables(results);
    let join = |form: fn(&Table) -> String| tables.iter().map(form).collect::<Vec<_>>().join("\n");
    WholeFile::write(folder.join("tables.md"), join(Table::to_markdown).as_bytes())?;
    WholeFile::write(folder.join("tables.csv"), join(to_csv).as_bytes())?;
    WholeFile::write(folder.join("report.html"), page::html(results).as_bytes())
}
