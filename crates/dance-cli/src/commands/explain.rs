//! `dance explain`: the scores and p-values that decide which labels are in the set of one point.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use dance::conformal::{Decision, Prediction};
use dance::data::Value;
use dance::model::{ModelPart, ModelPoint};
use dance::scores::Counts;
use dance::{Dance, PredictOptions, Scored, Table as Points};
use dance_page::table::Table;
use dance_page::terminal;
use dance_page::text::{escape_line, paragraph, truncate};
use serde::Serialize;
use serde_json::json;

use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabelColumns, check_there};
use crate::evaluation::level_warnings;
use crate::parse;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  dance explain model.dance test.npz --row 3
  dance explain model.dance test.npz --row 3 --alpha 0.05 --json

A label is in the set if its p-value exceeds alpha. The p-value is the share of calibration points
that conform no better than this point would with that label. The other columns:
  prob.      probability of the label
  neighbors  nearest points with the label: ids, or rows of the file given to fit or recalibrate;
             `fit` marks points that fitted the kernel
  rank       place of the label's nearest point among the neighbors (methods fuse and dance)
  contrast   contrastive score: smallest contrastive loss of the neighbors with the label, near 0
             for the label of the nearest neighbor (methods fuse and dance)
  p of rank, p of contrast
             p-values of the two scores; each must exceed its share of alpha (method dance)
Rank and contrast are `none` if no neighbor carries the label.";

/// Neighbors listed for a label.
const NEIGHBORS: usize = 5;
/// Most characters of the neighbors in the table.
const NEIGHBOR_WIDTH: usize = 22;

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Row to explain, counted from 0
    #[arg(long, value_name = "N")]
    row: usize,
    /// Error level [default: the first one given to `fit`]
    #[arg(long, value_name = "LEVEL", value_parser = parse::alpha, allow_hyphen_values = true)]
    alpha: Option<f64>,
    /// Maximum number of labels to show; labels of the set are always shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    files: LabelColumns,
}

/// The scores and p-values of one label.
#[derive(Serialize)]
struct LabelReport<'a> {
    label: Value<'a>,
    in_set: bool,
    p_value: f64,
    probability: f32,
    /// The rank and the contrastive score, in the methods that have them.
    #[serde(flatten)]
    scores: Option<NeighborScores>,
    /// The p-values of the two scores, in the method dance.
    #[serde(flatten)]
    p_values: Option<ScorePValues>,
    /// Reference points that carry the label, nearest first.
    neighbors: Vec<ModelPoint<Value<'a>>>,
}

/// The rank and the contrastive score of a label; `None` where no neighbor carries it.
#[derive(Serialize)]
struct NeighborScores {
    rank: Option<f64>,
    contrast: Option<f64>,
}

#[derive(Serialize)]
struct ScorePValues {
    rank_p_value: f64,
    contrast_p_value: f64,
}

/// A point with its prediction.
struct Explained<'a> {
    model: &'a Dance,
    scored: &'a Scored,
    prediction: &'a Prediction,
}

impl Explain {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&FileFormat::default())
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        check_there(&self.model)?;
        check_there(&self.data)?;
        self.columns().format_of(&self.data)?;
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let file = self.columns().points_for(&self.data, &model)?;
        let rows = file.embeddings().rows();
        if self.row >= rows {
            bail!("{}: has rows 0 to {}, not {}", self.data.display(), rows - 1, self.row);
        }
        let alpha = self.alpha.unwrap_or_else(|| model.fitted().config.alphas[0]);
        let point = file.embeddings().select(&[self.row]);
        let options = PredictOptions::default().support(1).probabilities(true);
        let scored = model.score(&point, options, &context).with_context(|| self.data.display().to_string())?;
        let prediction = model.predict(&scored, &model.decide(alpha)?);
        for warning in level_warnings(&model, &prediction.decision) {
            progress.warn(&warning);
        }

        let explained = Explained { model: &model, scored: &scored, prediction: &prediction };
        let mut labels = explained.labels();
        let all = labels.len();
        labels.truncate(self.top.max(prediction.sets.get(0).len()));
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{}", self.json(&explained, &labels, &file))?;
        } else {
            self.write(&mut out, &explained, &labels, &file)?;
            if all > labels.len() {
                writeln!(out, "  … and {} labels with smaller p-values (--top)", all - labels.len())?;
            }
            writeln!(out, "\n{}", paragraph("guarantee: ", &model.guarantee()))?;
        }
        Ok(())
    }

    fn json(&self, explained: &Explained<'_>, labels: &[LabelReport<'_>], file: &Points) -> serde_json::Value {
        let (model, decision) = (explained.model, &explained.prediction.decision);
        let id = file.ids.as_ref().map(|ids| file.id_kind.value(&ids[self.row]));
        let finite = |score: usize| {
            decision.thresholds.map(|thresholds| thresholds[score].value).filter(|value| value.is_finite())
        };
        json!({
            "row": self.row,
            "id": id,
            "alpha": decision.alpha,
            "method": model.method(),
            "calibration": model.calibration(),
            "mix": decision.mix,
            "prediction": model.label_kind().value(explained.best_label()),
            "rank_threshold": finite(0),
            "contrast_threshold": finite(1),
            "labels": labels,
            "guarantee": model.guarantee(),
        })
    }

    fn write(
        &self,
        out: &mut dyn Write,
        explained: &Explained<'_>,
        labels: &[LabelReport<'_>],
        file: &Points,
    ) -> std::io::Result<()> {
        let id = file.ids.as_ref().map_or(String::new(), |ids| format!(": {}", escape_line(&ids[self.row])));
        writeln!(out, "row {}{id}", self.row)?;
        writeln!(
            out,
            "the most probable label is {}; at alpha {} the set has {} of {} labels",
            escape_line(explained.best_label()),
            explained.prediction.decision.alpha,
            explained.prediction.sets.get(0).len(),
            explained.model.classes().len()
        )?;
        writeln!(out, "in the set: {}\n", rule(&explained.prediction.decision))?;
        let mut head = vec!["label", "in set", "p-value", "prob."];
        let first = labels.first();
        if first.is_some_and(|label| label.scores.is_some()) {
            head.extend(["rank", "contrast"]);
        }
        if first.is_some_and(|label| label.p_values.is_some()) {
            head.extend(["p of rank", "p of contrast"]);
        }
        head.push("neighbors");
        write!(out, "{}", Table::from_text(head, labels.iter().map(cells)).to_text())
    }
}

impl<'a> Explained<'a> {
    /// Returns all labels: those of the set first, then by p-value and probability.
    fn labels(&self) -> Vec<LabelReport<'a>> {
        let mut labels: Vec<_> = (0..self.model.classes().len() as u32).map(|label| self.label(label)).collect();
        labels.sort_by(|a, b| {
            let p_values = b.p_value.total_cmp(&a.p_value);
            b.in_set.cmp(&a.in_set).then(p_values).then(b.probability.total_cmp(&a.probability))
        });
        labels
    }

    fn label(&self, label: u32) -> LabelReport<'a> {
        let Self { model, scored, prediction } = *self;
        let all = &scored.counts;
        let counts = all.get(0, label);
        let reference_labels = model.reference_labels();
        let near = scored.neighbors.as_ref().map_or(&[][..], |all| &all[0][..]);
        let carry = near.iter().filter(|&&id| reference_labels[id as usize] == label);
        let finite = |score: f64| score.is_finite().then_some(score);
        let scores = scored.neighbor_scores(0, label);
        LabelReport {
            label: model.label_kind().value(&model.classes()[label as usize]),
            in_set: prediction.sets.contains(0, label),
            p_value: prediction.decision.p_value(all, counts),
            probability: scored.classified.as_ref().map_or(0.0, |all| all.probability(0, label)),
            scores: scores.map(|(rank, contrast)| NeighborScores { rank: finite(rank), contrast: finite(contrast) }),
            p_values: match counts {
                Counts::One(_) => None,
                Counts::Both { rank, contrast } => {
                    Some(ScorePValues { rank_p_value: all.p_value(rank), contrast_p_value: all.p_value(contrast) })
                }
            },
            neighbors: carry.take(NEIGHBORS).map(|&id| model.reference_point(id)).collect(),
        }
    }

    /// Returns the name of the most probable label.
    fn best_label(&self) -> &'a str {
        let best = self.scored.classified.as_ref().and_then(|classified| classified.labels.first());
        best.map_or("", |&label| &self.model.classes()[label as usize])
    }
}

/// Returns the condition for a label to be in the set, in words.
fn rule(decision: &Decision) -> String {
    match &decision.thresholds {
        None => format!("p-value above {}", decision.alpha),
        Some([rank, contrast]) => {
            format!(
                "rank at most {} and contrastive score at most {}",
                threshold(rank.value),
                threshold(contrast.value)
            )
        }
    }
}

fn threshold(value: f64) -> String {
    if value.is_finite() { shown(value) } else { "anything".into() }
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e6 {
        format!("{value}")
    } else if value.abs() >= 1e-3 {
        format!("{value:.3}")
    } else {
        format!("{value:.1e}")
    }
}

/// Returns a label or an id as plain text.
fn plain(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_owned(),
        Value::Boolean(value) => if value { "True" } else { "False" }.into(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
    }
}

/// Returns the id of a neighbor, or its row where it has no id.
fn neighbor_name(point: &ModelPoint<Value<'_>>) -> String {
    let name = match (point.id, point.row) {
        (Some(id), _) => plain(id),
        (None, Some(row)) => row.to_string(),
        (None, None) => "?".into(),
    };
    if point.part == ModelPart::FitPoint { format!("fit {name}") } else { name }
}

fn cells(report: &LabelReport<'_>) -> Vec<String> {
    let neighbors = report.neighbors.iter().map(neighbor_name).collect::<Vec<_>>().join(", ");
    let mut cells = vec![
        plain(report.label),
        if report.in_set { "yes" } else { "no" }.into(),
        format!("{:.3}", report.p_value),
        format!("{:.3}", report.probability),
    ];
    if let Some(NeighborScores { rank, contrast }) = &report.scores {
        cells.extend([rank, contrast].map(|score| score.map_or("none".into(), shown)));
    }
    if let Some(ScorePValues { rank_p_value, contrast_p_value }) = &report.p_values {
        cells.extend([rank_p_value, contrast_p_value].map(|p_value| format!("{p_value:.3}")));
    }
    cells.push(if neighbors.is_empty() { "-".into() } else { truncate(&neighbors, NEIGHBOR_WIDTH).into_owned() });
    cells
}
