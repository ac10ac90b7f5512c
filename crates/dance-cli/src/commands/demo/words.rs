//! The story in words, and as JSON.

use std::io::{self, Write};
use std::path::Path;

use dance_page::table::Table;
use dance_page::text::pluralize;
use serde_json::{Value, json};

use super::story::{Example, Judged, Story};

pub(super) const HEADER: [&str; 9] = ["", "alpha", "mix", "Cov", "Size", "dev", "CCV", "floor", "empty"];

pub(super) fn tell(out: &mut dyn Write, story: &Story) -> io::Result<()> {
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
    writeln!(
        out,
        "1. Fit. On {kernel} points (40 %) a kernel machine learned which directions of the embeddings"
    )?;
    writeln!(out, "   tell the classes apart: {}.", fitted.fidelity)?;
    writeln!(
        out,
        "   Chosen: shape {:.2}, {} of metric learning. It is right on {:.1} % of points it never saw,",
        fitted.rfm.kernel.shape(),
        pluralize(fitted.rfm.rounds, "round", "rounds"),
        100.0 * story.accuracy
    )?;
    writeln!(
        out,
        "   so one answer per point would be wrong {:.1} % of the time.\n",
        100.0 * (1.0 - story.accuracy)
    )?;
    writeln!(
        out,
        "2. Calibrate. {calibration} other points (40 %) said how far down the list of neighbors (rank), how deep into the"
    )?;
    writeln!(
        out,
        "   neighborhood (contrastive loss) and how far down the class probabilities the true label can be. A label is"
    )?;
    writeln!(
        out,
        "   in the set when, all three weighed up, it conforms better than a share alpha of these points."
    )?;
    writeln!(
        out,
        "   Below stand, on the same kernel: classes covered more alike (`dance fit --combine fuse --class-fair`), a posterior"
    )?;
    writeln!(
        out,
        "   that learns from the calibration points' labels too (`--combine evidence`), and the paper's sets (`--paper`).\n"
    )?;
    writeln!(
        out,
        "3. Test. {test} points (20 %) that took no part. A set should hold the true label in 1 - alpha of cases"
    )?;
    writeln!(out, "   (Cov), with as few labels as possible (Size):\n")?;
    write!(out, "{}", Table::from_text(HEADER, story.results.iter().map(cells)).to_text())?;
    writeln!(
        out,
        "\n   dev: how far classes stray from 1 - alpha beyond chance, in per cent. CCV: the mean distance; chance alone gives the floor."
    )?;
    writeln!(out, "   Guarantee: {}.\n", story.model.guarantee())?;
    writeln!(out, "4. Five test points and their sets at alpha {}:\n", super::story::ALPHAS[0])?;
    for example in &story.examples {
        let Example { why, text, truth, prediction, set, covered } = example;
        writeln!(out, "   {text}")?;
        let verdict = if *covered { "holds the truth" } else { "misses the truth" };
        let best = if truth == prediction {
            format!("the best single answer is right: {truth}")
        } else {
            format!("the best single answer is {prediction}, the truth is {truth}")
        };
        writeln!(out, "     {}: {{{}}} {verdict}; {best}", why, set.join(", "))?;
    }
    writeln!(out, "\nAll of it took {:.1} s.", story.seconds)?;
    writeln!(out, "Your own embeddings: dance fit embeddings.npz -o model.dance")
}

pub(super) fn cells(judged: &Judged) -> Vec<String> {
    let Judged { method, mix, metrics } = judged;
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
        "bandwidth": fitted.rfm.kernel.bandwidth(),
        "shape": fitted.rfm.kernel.shape(),
        "rounds": fitted.rfm.rounds,
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
