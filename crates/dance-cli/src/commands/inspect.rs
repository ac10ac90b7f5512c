//! `dance inspect`: the contents of a file of embeddings or of a model.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use dance::conformal::ByClass;
use dance::data::io::Format;
use dance::device::Cpu;
use dance::model::new_label_share;
use dance::scores::calibration::smallest_alpha;
use dance::{Context, Dance, Dataset, Table};
use dance_page::terminal;
use dance_page::text::{escape_line, pluralize};
use serde_json::{Map, Value, json};

use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabelColumns, check_there};
use crate::evaluation::level_warnings;
use crate::flags::with_flags;
use crate::parse::Alphas;

pub(crate) const EXAMPLE: &str = "Example:
  dance inspect embeddings.parquet
  dance inspect model.dance --json";

/// The fewest points of a class that can be in every part of a split.
const FEW: usize = 3;

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// File of embeddings or model
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    files: LabelColumns,
}

impl Inspect {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&FileFormat::default())
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        let mut out = terminal::stdout(shared.json);
        let file = &*self.file;
        check_there(file)?;
        // A pipe cannot be looked at and then read.
        let metadata = file.is_file().then(|| model_metadata(file)).flatten();
        let is_data = Format::of(file).is_some();
        let report = if metadata.is_none() && is_data {
            self.columns().format_of(file)?;
            data_report(&self.columns().everything(file)?)
        } else {
            let model = Dance::load(&Cpu, file, &Context::new(shared.threads)?)?;
            model_report(&model, &metadata.unwrap_or_default(), &Alphas::or_of(None, &model))?
        };
        if shared.json {
            writeln!(out, "{report}")?;
            return Ok(());
        }
        writeln!(out, "{}", file.display())?;
        for (key, value) in report.as_object().into_iter().flatten().filter(|(key, _)| *key != "warnings") {
            writeln!(out, "  {:<24}{}", key.replace('_', " "), escape_line(&words(value)))?;
        }
        for warning in report["warnings"].as_array().into_iter().flatten() {
            writeln!(out, "  warning: {}", escape_line(&words(warning)))?;
        }
        Ok(())
    }
}

/// The longest header in bytes, which is the limit of the safetensors reader.
const LONGEST_HEADER: u64 = 100_000_000;

/// Returns the metadata of a model file without checking it; `None` if the file is not a model.
fn model_metadata(path: &Path) -> Option<Map<String, Value>> {
    // Checked before the file is opened: opening a pipe would wait for its other end.
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER || length > size {
        return None;
    }
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).ok()?;
    let Value::Object(mut header) = serde_json::from_slice(&header).ok()? else { return None };
    match header.remove("__metadata__") {
        Some(Value::Object(metadata)) if metadata.contains_key("checksum") => Some(metadata),
        _ => None,
    }
}

fn data_report(table: &Table) -> Value {
    let (rows, dimensions) = (table.embeddings().rows(), table.embeddings().cols());
    let lengths = (0..rows)
        .map(|row| table.embeddings().row(row).iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt());
    let (least, most) =
        lengths.fold((f64::INFINITY, 0.0f64), |(least, most), length| (least.min(length), most.max(length)));
    // Rows are equal if all bits of their numbers are.
    let bits = |row: usize| table.embeddings().row(row).iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let different = (0..rows).map(bits).collect::<HashSet<_>>().len();
    let mut warnings = Vec::new();
    if least == 0.0 {
        warnings.push("a row is all zeros, which --normalize l2 refuses".to_owned());
    }
    if different < rows {
        let repeated = pluralize(rows - different, "row repeats", "rows repeat");
        warnings.push(format!("{repeated} another one"));
    }
    let mut report = json!({
        "kind": "embeddings",
        "rows": rows,
        "dimensions": dimensions,
        "length_of_rows": format!("{least:.4} to {most:.4}"),
        "ids": table.ids.is_some(),
        "prototypes": table.prototypes.is_some(),
        "labels": table.labels.is_some(),
        "encoder": table.encoder.as_ref().map(ToString::to_string),
    });
    // Classes are counted as `fit` would count them.
    if table.labels.is_none() {
        warnings.push("no labels: usable for predict, not for fit or evaluate".to_owned());
    } else {
        let kind = table.label_kind();
        match table.clone().into_dataset() {
            Ok(data) => {
                report["label_kind"] = json!(kind);
                add_classes(&mut report, &data, &mut warnings);
            }
            Err(error) => warnings.push(with_flags(&error.to_string())),
        }
    }
    report["warnings"] = json!(warnings);
    report
}

fn add_classes(report: &mut Value, data: &Dataset, warnings: &mut Vec<String>) {
    let counts = data.class_counts();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&class| std::cmp::Reverse(counts[class]));
    let show = |class: usize| format!("{} ({})", data.classes[class], counts[class]);
    report["classes"] = json!(counts.len());
    if let (Some(&most), Some(&fewest)) = (order.first(), order.last()) {
        report["largest_class"] = json!(show(most));
        report["smallest_class"] = json!(show(fewest));
    }
    let few = counts.iter().filter(|&&count| count > 0 && count < FEW).count();
    let none = counts.iter().filter(|&&count| count == 0).count();
    if few > 0 {
        warnings.push(format!(
            "{} fewer than {FEW} points and cannot be in every part of a split",
            pluralize(few, "class has", "classes have")
        ));
    }
    let (share, error) = new_label_share(&data.labels, data.classes.len());
    let single = counts.iter().filter(|&&count| count == 1).count();
    if single > 0 {
        warnings.push(format!(
            "{} of their class: about {:.1} % (± {:.1}) of new points carry a new label",
            pluralize(single, "point is the only one", "points are the only ones"),
            100.0 * share,
            200.0 * error
        ));
    }
    if none > 0 {
        warnings.push(format!("{} no point", pluralize(none, "class name has", "class names have")));
    }
}

fn model_report(model: &Dance, metadata: &Map<String, Value>, alphas: &Alphas) -> anyhow::Result<Value> {
    let fitted = model.fitted();
    let text = |key: &str| metadata.get(key).cloned().unwrap_or_default();
    // Thresholds and warnings of every level.
    let mut warnings = Vec::new();
    let mut levels = Vec::new();
    for &alpha in &alphas.0 {
        let decision = model.decide(alpha)?;
        warnings
            .extend(level_warnings(model, &decision).into_iter().map(|warning| format!("alpha {alpha}: {warning}")));
        let mut level = json!({ "alpha": alpha });
        if let Some([rank, contrast]) = &decision.thresholds {
            level["mix"] = json!(decision.mix);
            level["rank_threshold"] = json!(finite(rank.value));
            level["contrast_threshold"] = json!(finite(contrast.value));
        }
        levels.push(level);
    }
    // Facts of the file come from its metadata, the others from the loaded model.
    Ok(json!({
        "kind": "model",
        "format": text("format"),
        "written_by": text("versions"),
        "dimensions": fitted.dimensions(),
        "encoder": model.encoder().map(ToString::to_string),
        "classes": model.classes().len(),
        "class_names": model.classes(),
        "kernel_points": fitted.points().rows(),
        "reference_points": model.reference_labels().len(),
        "calibration_scores": model.calibration_points(),
        "smallest_alpha": smallest_alpha(model.calibration_points()),
        "method": model.method(),
        "calibration": model.calibration(),
        "by_class": model.by_class(),
        "new_labels": model.allows_new_labels(),
        "clusters": clusters(model),
        "experts": model.experts(),
        "class_offsets": class_offsets(model),
        "guarantee": model.guarantee(),
        "new_label_share": model.new_label_share().map(|(share, _)| share),
        "probabilities": fitted.probability_scale(),
        "bandwidth": fitted.kernel().bandwidth(),
        "shape": fitted.kernel().shape(),
        "rounds": fitted.rounds(),
        "validation_accuracy": fitted.validation.accuracy,
        "fidelity": fitted.fidelity,
        "levels": levels,
        "config": fitted.config,
        "fit_data_sha256": text("fit_data_sha256"),
        "calibration_data_sha256": text("calibration_data_sha256"),
        "warnings": warnings,
    }))
}

/// Returns the class offsets, unless every query determines its own.
fn class_offsets(model: &Dance) -> Option<&[f64]> {
    let is_fixed = model.by_class() != ByClass::Balanced;
    model.class_offsets().filter(|_| is_fixed)
}

/// Returns the number of clusters of classes, where each has a guarantee of its own.
fn clusters(model: &Dance) -> Option<usize> {
    let has_clusters = model.by_class() == ByClass::Clusters;
    model.clusters().filter(|_| has_clusters)
}

/// Returns a threshold for JSON, which has no infinity: `None` lets every label pass.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Returns a value as plain text: without quotes, long lists cut short.
fn words(value: &Value) -> String {
    const SHOWN: usize = 8;
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.into(),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() && value.abs() >= 1e-4 => format!("{value:.4}"),
            Some(value) if number.is_f64() => format!("{value:.2e}"),
            _ => number.to_string(),
        },
        Value::Null => "none".into(),
        Value::Array(values) => {
            let shown = values.iter().take(SHOWN).map(words).collect::<Vec<_>>().join(", ");
            let more = values.len().saturating_sub(SHOWN);
            if more > 0 { format!("{shown} and {more} more") } else { shown }
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key} {}", words(value)));
            format!("({})", entries.collect::<Vec<_>>().join(", "))
        }
    }
}
