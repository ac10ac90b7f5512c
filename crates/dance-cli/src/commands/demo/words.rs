//! The results of the demo as text and as JSON.

use std::io::{self, Write};
use std::path::Path;

use dance_page::table::Table;
use dance_page::text::{paragraph, pluralize};
use serde_json::{Value, json};

use super::story::{ALPHAS, Example, MethodMetrics, Story};

pub(super) const HEADER: [&str; 9] = ["", "alpha", "mix", "Cov", "Size", "dev", "CCV", "floor", "empty"];

pub(super) fn write(out: &mut dyn Write, story: &Story) -> io::Result<()> {
    let fitted = story.model.fitted();
    let [kernel, calibration, test] = story.points;
    writeln!(
        out,
        "{}: {} points, {} dimensions, {} classes\n",
        story.data,
        kernel + calibration + test,
        story.dimensions,
        story.model.classes().len()
    )?;
    // The steps.
    let fit = format!(
        "On {kernel} points (40 %) a kernel machine learns a metric that brings points of a class close together: {}. \
         Chosen: shape {:.2}, {} of metric learning. Its single best label is right on {:.1} % of the test points, and \
         wrong on {:.1} %.",
        fitted.fidelity,
        fitted.kernel().shape(),
        pluralize(fitted.rounds(), "round", "rounds"),
        100.0 * story.accuracy,
        100.0 * (1.0 - story.accuracy)
    );
    writeln!(out, "{}\n", paragraph("1. Fit. ", &fit))?;
    let calibrate = format!(
        "{calibration} other points (40 %) calibrate: a label is in the set of a new point if its p-value exceeds \
         alpha. The p-value is the share of calibration points that conform no better. The default, {}, is compared \
         with other methods on the same kernel and points, among them the paper's (`dance fit --paper`).",
        story.default_method()
    );
    writeln!(out, "{}\n", paragraph("2. Calibrate. ", &calibrate))?;
    let evaluate = format!(
        "{test} points (20 %) took no part so far. A set should contain the true label in 1 - alpha of cases (Cov), \
         with as few labels as possible (Size)."
    );
    writeln!(out, "{}\n", paragraph("3. Test. ", &evaluate))?;

    // The results.
    write!(out, "{}", Table::from_text(HEADER, story.results.iter().map(cells)).to_text())?;
    let legend = "root mean square deviation of class coverage from 1 - alpha, without the part due to chance, in \
                  per cent. CCV: mean distance of class coverage from 1 - alpha, in per cent; chance alone gives the \
                  floor. mix: share of alpha for the contrastive score.";
    writeln!(out, "\n{}", paragraph("   dev: ", legend))?;
    writeln!(out, "   Guarantee: {}.\n", story.model.guarantee())?;
    writeln!(out, "4. Five test points and their sets at alpha {}:\n", ALPHAS[0])?;
    for example in &story.examples {
        let Example { why, text, truth, prediction, set, covered } = example;
        writeln!(out, "   {text}")?;
        let verdict = if *covered { "contains the true label" } else { "misses the true label" };
        let best = if truth == prediction {
            format!("the single best label is right: {truth}")
        } else {
            format!("the single best label is {prediction}, the true label is {truth}")
        };
        writeln!(out, "     {}: {{{}}} {verdict}; {best}", why, set.join(", "))?;
    }
    writeln!(out, "\nThe demo took {:.1} s.", story.seconds)?;
    writeln!(out, "Your own embeddings: dance fit embeddings.npz -o model.dance")
}

pub(super) fn cells(row: &MethodMetrics) -> Vec<String> {
    let MethodMetrics { method, mix, metrics } = row;
    vec![
        (*method).to_owned(),
        metrics.alpha.to_string(),
        mix.map_or("-".into(), |mix| mix.to_string()),
        format!("{:.3}", metrics.coverage),
        format!("{:.2}", metrics.size),
        format!("{:.1}", metrics.class_deviation),
        format!("{:.2}", metrics.class_violation),
        format!("{:.2}", metrics.class_violation_floor),
        format!("{:.3}", metrics.empty),
    ]
}

pub(super) fn json(story: &Story, report: Option<&Path>, warnings: &[String]) -> Value {
    let fitted = story.model.fitted();
    json!({
        "data": story.data,
        "kernel_points": story.points[0],
        "calibration_points": story.points[1],
        "test_points": story.points[2],
        "dimensions": story.dimensions,
        "classes": story.model.classes().len(),
        "accuracy": story.accuracy,
        "bandwidth": fitted.kernel().bandwidth(),
        "shape": fitted.kernel().shape(),
        "rounds": fitted.rounds(),
        "fidelity": fitted.fidelity,
        "results": story.results,
        "examples": story.examples,
        "set_sizes": story.sizes,
        "trace": story.trace,
        "guarantee": story.model.guarantee(),
        "report": report.map(|path| path.display().to_string()),
        "warnings": warnings,
        "seconds": story.seconds,
    })
}
