//! Tables of an experiment: the paper's Tables 1 and 4, class probabilities, coverage in parts of the points, ablations
//! and times.

use super::summary::{Parts, data_sets, deviation, mean, portion_coverage, summarize};
use crate::experiment::{Case, Method, Results};
use dance::evaluation::ProbabilityMetrics;
use dance_page::table::{Cell, Table};
use dance_page::text::pluralize;

/// Returns the main table: means over data sets, at every α of the run.
pub fn main(results: &Results) -> Table {
    main_at(results, &results.plan.alphas)
}

/// Returns the main table at the given α.
pub fn main_at(results: &Results, alphas: &[f64]) -> Table {
    let data = data_sets(results);
    let mut columns = vec!["Method".to_owned(), "Acc".to_owned()];
    for alpha in alphas {
        for name in ["Size ± sd", "Cov ± sd", "Cov range", "CCV", "Empty"] {
            columns.push(if alphas.len() == 1 { name.into() } else { format!("{name} (α={alpha})") });
        }
    }
    // The title and the note, with the noise floor of CCV.
    let floors = alphas.iter().filter_map(|&alpha| {
        let summary = results.plan.methods.iter().find_map(|&method| summarize(results, &data, method, alpha))?;
        Some(format!("{:.2} at α = {alpha}", summary.floor))
    });
    let mut title = format!(
        "Mean over {} and {}",
        pluralize(data.len(), "data set", "data sets"),
        pluralize(results.plan.seeds, "seed", "seeds")
    );
    if let [alpha] = alphas {
        title += &format!(" at α = {alpha}");
    }
    let mut note = format!(
        "Best size and CCV bold, second underlined. ± is the standard deviation over seeds. CCV of perfect coverage, \
         from chance alone: {}. Sets of all labels have a CCV of 100·α.",
        floors.collect::<Vec<_>>().join(", ")
    );
    if !results.plan.about_data().is_empty() {
        note = format!("{} {note}", results.plan.about_data());
    }
    // One row per method; a method that did not run has its reason.
    let mut table = Table { title, note, columns, rows: Vec::new() };
    for &method in &results.plan.methods {
        let mut row = vec![Cell::text(method.title())];
        for &alpha in alphas {
            if let Some(summary) = summarize(results, &data, method, alpha) {
                if row.len() == 1 {
                    row.push(Cell::number(summary.accuracy, 3));
                }
                row.push(with_spread(summary.size, summary.size_spread, 2));
                row.push(with_spread(summary.coverage, summary.coverage_spread, 3));
                let (low, high) = summary.coverage_range;
                row.push(Cell { value: Some(low), ..Cell::text(format!("({low:.3}, {high:.3})")) });
                row.push(Cell::number(summary.violation, 3));
                row.push(Cell::number(summary.empty, 3));
            } else {
                if row.len() == 1 {
                    row.push(Cell::text("–"));
                }
                // The reason stands in the first group of columns.
                let why = if row.len() == 2 { reason(results, method) } else { "–".into() };
                row.extend(["–", "–", &why, "–", "–"].map(Cell::text));
            }
        }
        table.rows.push(row);
    }
    for place in 0..alphas.len() {
        table.mark_smallest(2 + 5 * place, 0..table.rows.len());
        table.mark_smallest(5 + 5 * place, 0..table.rows.len());
    }
    table
}

/// Returns set sizes relative to the paper's: every method against the smaller of the k-NN set and the DANCE set on
/// each data set. The table is empty without these two.
pub fn against_paper(results: &Results) -> Table {
    let data = data_sets(results);
    let mut table = Table {
        title: "Size against the better of the paper's k-NN set and DANCE (geometric mean over data sets)".into(),
        note: "Compare the coverage in the table above: a method that covers less has smaller sets for that reason \
               alone."
            .into(),
        columns: vec!["Method".to_owned()],
        rows: Vec::new(),
    };
    table.columns.extend(results.plan.alphas.iter().map(|alpha| format!("α={alpha}")));
    let size = |data: &String, method, alpha| {
        summarize(results, std::slice::from_ref(data), method, alpha).map(|summary| summary.size)
    };
    for &method in &results.plan.methods {
        let ratio = |alpha: f64| -> Option<f64> {
            let mut logarithms = 0.0;
            for data in &data {
                let paper = size(data, Method::KnnSet, alpha)?.min(size(data, Method::Dance, alpha)?);
                logarithms += (size(data, method, alpha)? / paper).ln();
            }
            Some((logarithms / data.len().max(1) as f64).exp())
        };
        let ratios: Option<Vec<f64>> = results.plan.alphas.iter().map(|&alpha| ratio(alpha)).collect();
        if let Some(ratios) = ratios {
            let cells = ratios.into_iter().map(|ratio| Cell::number(ratio, 3));
            table.rows.push(std::iter::once(Cell::text(method.title())).chain(cells).collect());
        }
    }
    for place in 0..results.plan.alphas.len() {
        table.mark_smallest(1 + place, 0..table.rows.len());
    }
    table
}

/// Returns one row per data set and method, at one α.
pub fn per_data_set(results: &Results, alpha: f64) -> Table {
    let names =
        ["Data set", "Classes", "Test", "Method", "Acc", "Size ± sd", "Cov ± sd", "CCV", "Floor", "Empty", "Mix"];
    let mut table = Table {
        title: format!("Data sets at α = {alpha}"),
        note: "Floor is the CCV of perfect coverage, from chance alone.".into(),
        columns: names.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    // The best of every data set are marked.
    for data in data_sets(results) {
        let first = table.rows.len();
        let Some(case) = results.cases.iter().find(|case| case.data == data) else { continue };
        for &method in &results.plan.methods {
            let mut row = vec![
                Cell::text(&data),
                Cell::number(case.classes as f64, 0),
                Cell::number(case.parts[2] as f64, 0),
                Cell::text(method.title()),
            ];
            if let Some(summary) = summarize(results, std::slice::from_ref(&data), method, alpha) {
                row.extend([
                    Cell::number(summary.accuracy, 3),
                    with_spread(summary.size, summary.size_spread, 2),
                    with_spread(summary.coverage, summary.coverage_spread, 3),
                    Cell::number(summary.violation, 3),
                    Cell::number(summary.floor, 2),
                    Cell::number(summary.empty, 3),
                    summary.mix.map_or_else(|| Cell::text("–"), |mix| Cell::number(mix, 2)),
                ]);
            } else {
                row.push(Cell::text(reason(results, method)));
                row.extend(std::iter::repeat_n(Cell::text("–"), 6));
            }
            table.rows.push(row);
        }
        let rows = first..table.rows.len();
        table.mark_smallest(5, rows.clone());
        table.mark_smallest(7, rows);
    }
    table
}

/// Returns the quality of class probabilities on every data set, all seeds together: the kernel machine's, and those of
/// methods with their own.
pub fn probabilities(results: &Results) -> Table {
    let names = ["Data set", "Probabilities of", "Test points", "Acc", "Log loss", "Brier", "ECE"];
    let mut table = Table {
        title: "Class probabilities".into(),
        note: "Over the test points of all seeds together; least log loss, Brier score and ECE bold. The posterior \
               (full) is trained on calibration labels too, and Conf-OT uses the test points. ECE: mean distance of a \
               probability from the share of right predictions, in 15 groups of equal width."
            .into(),
        columns: names.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for data in data_sets(results) {
        let first = table.rows.len();
        let cases = || results.cases.iter().filter(|case| case.data == data);
        let mut row = |name: &str, all: &ProbabilityMetrics| {
            table.rows.push(vec![
                Cell::text(&data),
                Cell::text(name),
                Cell::number(all.points as f64, 0),
                Cell::number(all.accuracy(), 3),
                Cell::number(all.log_loss(), 3),
                Cell::number(all.brier(), 3),
                Cell::number(all.calibration_error(), 3),
            ]);
        };
        let mut kernel = ProbabilityMetrics::default();
        cases().for_each(|case| kernel.merge(&case.probabilities));
        row("kernel machine", &kernel);
        for &method in &results.plan.methods {
            let mut own = ProbabilityMetrics::default();
            let posteriors = cases().flat_map(|case| &case.posteriors);
            posteriors.filter(|own| own.method == method).for_each(|posterior| own.merge(&posterior.metrics));
            // The probabilities of Conf-OT do not depend on the score, and are listed once.
            if own.points > 0 && method != Method::ConfOtRaps {
                row(method.posterior(), &own);
            }
        }
        for column in 4..=6 {
            table.mark_smallest(column, first..table.rows.len());
        }
    }
    table
}

/// Returns the coverage in parts of the points, one row per method, at one α. The table is empty if no record has it.
pub fn differences(results: &Results, alpha: f64) -> Table {
    let portions: [(&str, Parts, &str); 7] = [
        ("Low confidence", |all| &all.by_confidence, "lowest"),
        ("High", |all| &all.by_confidence, "highest"),
        ("Rare", |all| &all.by_frequency, "lowest"),
        ("Frequent", |all| &all.by_frequency, "highest"),
        ("Sets of 0-1", |all| &all.by_size, "0 or 1"),
        ("of 2-3", |all| &all.by_size, "2 to 3"),
        ("of 4-10", |all| &all.by_size, "4 to 10"),
    ];
    let names = ["Method", "Macro", "Dev"].into_iter().chain(portions.map(|portion| portion.0));
    let mut table = Table {
        title: format!("Coverage in parts of the points at α = {alpha}"),
        note: "Macro: mean coverage of classes, each with the same weight. Dev: deviation of classes from 1 - α, in \
               points, without sampling noise. Then the coverage of parts of the points of all data sets and seeds: \
               the fifths with the lowest and the highest confidence of the kernel machine, the fifths with the \
               rarest and the most frequent labels, and sets by their number of labels."
            .into(),
        columns: names.map(str::to_owned).collect(),
        rows: Vec::new(),
    };
    let data = data_sets(results);
    for &method in &results.plan.methods {
        let Some(summary) = summarize(results, &data, method, alpha) else { continue };
        let mut row = vec![
            Cell::text(method.title()),
            Cell::number(summary.macro_coverage, 3),
            Cell::number(summary.deviation, 2),
        ];
        row.extend(portions.map(|(_, parts, name)| {
            let share = portion_coverage(results, method, alpha, parts, name);
            share.map_or_else(|| Cell::text("–"), |share| Cell::number(share, 3))
        }));
        table.rows.push(row);
    }
    table.mark_smallest(2, 0..table.rows.len());
    table
}

/// Returns the seconds of every data set, as means over seeds.
pub fn times(results: &Results) -> Table {
    let names = ["Data set", "Points", "Fit points", "Fit", "Mix grid", "Inference", "Probabilities", "Neighbors"];
    let mut table = Table {
        title: "Times".into(),
        note: "Seconds of wall clock, means over seeds. Fit is the whole search. Mix grid is the calibration of DANCE \
               with all mixes. Inference is for all test points."
            .into(),
        columns: names.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for data in data_sets(results) {
        let cases: Vec<&Case> = results.cases.iter().filter(|case| case.data == data).collect();
        let Some(first) = cases.first() else { continue };
        let over = |value: &dyn Fn(&Case) -> f64| mean(cases.iter().map(|case| value(case)));
        table.rows.push(vec![
            Cell::text(&data),
            Cell::number(first.points as f64, 0),
            Cell::number(first.parts[0] as f64, 0),
            Cell::number(over(&|case| case.seconds.fit), 2),
            Cell::number(over(&|case| case.seconds.mix), 3),
            Cell::number(over(&|case| case.seconds.inference), 3),
            Cell::number(over(&|case| case.seconds.probabilities), 3),
            Cell::number(over(&|case| case.seconds.neighbors), 3),
        ]);
    }
    table
}

/// Returns one row per ablation, value and α, as means over data sets and seeds. The table is empty without ablations.
pub fn ablations(results: &Results) -> Table {
    let names = ["Varied", "Value", "α", "Size ± sd", "Cov", "CCV"];
    let mut table = Table {
        title: "Ablations".into(),
        note: "Means over data sets and seeds; ± is the standard deviation over seeds.".into(),
        columns: names.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for (ablation, value, alpha) in ablation_keys(results) {
        let found_in = |case: &Case| {
            let found = case
                .ablations
                .iter()
                .find(|point| point.ablation.name() == ablation && point.value == value && point.alpha == alpha);
            found.map(|point| (case.data.clone(), point.metrics.clone()))
        };
        let points: Vec<_> = results.cases.iter().filter_map(found_in).collect();
        let spreads = data_sets(results)
            .into_iter()
            .map(|data| deviation(points.iter().filter(|(name, _)| *name == data).map(|(_, metrics)| metrics.size)));
        table.rows.push(vec![
            Cell::text(ablation),
            Cell { value: value.parse().ok(), ..Cell::text(&value) },
            Cell::number(alpha, 3),
            with_spread(mean(points.iter().map(|(_, metrics)| metrics.size)), mean(spreads), 2),
            Cell::number(mean(points.iter().map(|(_, metrics)| metrics.coverage)), 3),
            Cell::number(mean(points.iter().map(|(_, metrics)| metrics.class_violation)), 3),
        ]);
    }
    table
}

/// Returns every ablation, value and α, in the order of the first case.
pub(crate) fn ablation_keys(results: &Results) -> Vec<(&'static str, String, f64)> {
    let first = results.cases.iter().find(|case| !case.ablations.is_empty());
    let points = first.map(|case| &case.ablations[..]).unwrap_or_default();
    points.iter().map(|point| (point.ablation.name(), point.value.clone(), point.alpha)).collect()
}

/// Makes a cell of a mean and its standard deviation.
fn with_spread(value: f64, spread: f64, decimals: usize) -> Cell {
    // One seed has no spread.
    if spread == 0.0 {
        return Cell::number(value, decimals);
    }
    Cell { value: Some(value), ..Cell::text(format!("{value:.decimals$} ± {spread:.decimals$}")) }
}

/// Returns the reason why a method did not run.
fn reason(results: &Results, method: Method) -> String {
    let skipped = results.cases.iter().flat_map(|case| &case.skipped).find(|skipped| skipped.method == method);
    skipped.map_or_else(|| "did not run".into(), |skipped| skipped.reason.clone())
}
