//! `dance explain`: why each label is, or is not, in the set of one point.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use dance::conformal::{Calibration, Decision, MethodName};
use dance::data::Value;
use dance::model::ReferencePoint;
use dance::{Dance, PredictOptions};
use dance_page::table::Table;
use dance_page::terminal;
use dance_page::text::{escape_line, paragraph, truncate};
use serde::Serialize;
use serde_json::json;

use crate::args::Shared;
use crate::data::{Columns, check_there};
use crate::judged::level_warnings;
use crate::parse;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  dance explain model.dance test.npz --row 3
  dance explain model.dance test.npz --row 3 --alpha 0.05 --json

A label is in the set if its p-value exceeds alpha: the share of calibration points that conform no better than this point
would with that label. Rank: which place the nearest point with the label has among the neighbors. Loss: how far the points with
the label lie from the nearest neighbor of all (next to 0 for its own label); none if no neighbor carries it. Probability: the
kernel machine's. Where scores are fused, the p-value of the rank breaks ties with the probability. Models with `--combine union`
have two p-values, one for rank and one for loss, and each must exceed its own share of alpha. Neighbors: the nearest points
that carry the label, by id or else by row of the file that was given to fit or recalibrate; `fit` marks those that fitted the kernel.";

/// Neighbors listed for a label, and the most letters they take in the table.
const NEIGHBORS: usize = 5;
const NEIGHBOR_WIDTH: usize = 22;

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings
    #[arg(value_name = "DATA")]
    data: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// The row to explain, counted from 0
    #[arg(long, value_name = "N")]
    row: usize,
    /// Error level
    #[arg(long, value_name = "LEVEL", default_value_t = 0.1, value_parser = parse::alpha, allow_hyphen_values = true)]
    alpha: f64,
    /// Most labels to show; those in the set are always shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// What speaks for a label. An absent score: no neighbor carries it.
#[derive(Serialize)]
struct Reason<'a> {
    label: Value<'a>,
    in_set: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    p_value: Option<f64>,
    rank: Option<f64>,
    rank_p_value: f64,
    loss: Option<f64>,
    loss_p_value: f64,
    probability: f32,
    /// Reference points that carry it, nearest first.
    neighbors: Vec<ReferencePoint<'a>>,
}

impl Explain {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        check_there(&self.model)?;
        check_there(&self.data)?;
        self.columns.format_of(&self.data)?;
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let file = self.columns.points_for(&self.data, &model)?;
        let rows = file.embeddings().rows();
        if self.row >= rows {
            bail!("{}: has rows 0 to {}, not {}", self.data.display(), rows - 1, self.row);
        }
        let point = file.embeddings().select(&[self.row]);
        let options = PredictOptions::default().support(1).probabilities(true);
        let scored =
            model.score(&point, options, &context).with_context(|| self.data.display().to_string())?;
        let decided = model.predict(&scored, &model.decide(self.alpha)?);
        let all = &scored.counts;
        let (predictor, reference_labels) = (model.predictor(), model.predictor().reference_labels());
        let combined = predictor.method() != MethodName::Dance;
        for warning in level_warnings(&model, &decided.decision) {
            progress.warn(&warning);
        }

        let near = scored.neighbors.as_ref().and_then(|all| all.first()).map_or(&[][..], Vec::as_slice);
        let mut reasons: Vec<Reason<'_>> = (0..model.classes().len() as u32)
            .map(|label| {
                let (rank, loss) = scored.scores.get(0, label);
                let counts = all.get(0, label);
                let carry = near.iter().filter(|&&id| reference_labels[id as usize] == label);
                Reason {
                    label: model.label_kind().value(&model.classes()[label as usize]),
                    in_set: decided.sets.contains(0, label),
                    p_value: combined.then(|| all.p_value(counts.combined)),
                    rank: rank.is_finite().then_some(rank),
                    rank_p_value: all.p_value(counts.rank),
                    loss: loss.is_finite().then_some(loss),
                    loss_p_value: all.p_value(counts.contrast),
                    probability: scored.classified.as_ref().map_or(0.0, |all| all.probability(0, label)),
                    neighbors: carry.take(NEIGHBORS).map(|&id| model.reference_point(id)).collect(),
                }
            })
            .collect();
        let order = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
        reasons.sort_by(|a, b| {
            let p_values = b.p_value.unwrap_or(0.0).total_cmp(&a.p_value.unwrap_or(0.0));
            (!a.in_set).cmp(&!b.in_set).then(p_values).then(order(a.rank).total_cmp(&order(b.rank)))
        });
        let in_set = reasons.iter().filter(|reason| reason.in_set).count();
        let hidden = reasons.len() - reasons.len().min(self.top.max(in_set));
        reasons.truncate(self.top.max(in_set));
        let best = decided.best.as_ref().map_or("", |best| &model.classes()[best.labels[0] as usize]);
        let written = model.label_kind().value(best);
        let decision = &decided.decision;
        let finite = |which: usize| {
            decision.thresholds.map(|both| both[which].value).filter(|value| value.is_finite())
        };
        let id = file.ids.as_ref().map(|ids| ids[self.row].as_str());
        let written_id = id.map(|id| file.id_kind.value(id));

        let mut out = terminal::stdout(shared.json);
        if shared.json {
            let report = json!({
                "row": self.row,
                "id": written_id,
                "alpha": self.alpha,
                "calibration": predictor.mode(),
                "method": predictor.method(),
                "mix": decision.mix,
                "prediction": written,
                "rank_threshold": finite(0),
                "loss_threshold": finite(1),
                "labels": reasons,
                "guarantee": model.guarantee(),
            });
            writeln!(out, "{report}")?;
            return Ok(());
        }
        let id = id.map_or(String::new(), |id| format!(": {}", escape_line(id)));
        writeln!(out, "row {}{id}", self.row)?;
        let best = escape_line(best);
        writeln!(
            out,
            "the best single answer is {best}; at alpha {} the set holds {in_set} of {} labels",
            self.alpha,
            model.classes().len()
        )?;
        writeln!(out, "in the set: {}\n", rule(decision, predictor.mode()))?;
        let rows: Vec<Vec<String>> = reasons.iter().map(cells).collect();
        let mut head =
            vec!["label", "in set", "rank", "p of rank", "loss", "p of loss", "prob.", "neighbors"];
        if combined {
            head.insert(2, "p-value");
        }
        write!(out, "{}", Table::from_text(head, rows).to_text())?;
        if hidden > 0 {
            writeln!(out, "  … and {hidden} labels that are farther away (--top)")?;
        }
        writeln!(out, "\n{}", paragraph("guarantee: ", &model.guarantee()))?;
        Ok(())
    }
}

/// What lets a label in, in words.
fn rule(decision: &Decision, mode: Calibration) -> String {
    match (decision.thresholds, mode) {
        (None, _) => format!("p-value above {}", decision.alpha),
        (Some([rank, contrast]), Calibration::Full) => {
            format!("p of the rank above {:.3} and p of the loss above {:.3}", rank.alpha, contrast.alpha)
        }
        (Some([rank, contrast]), _) => {
            format!("rank at most {} and loss at most {}", threshold(rank.value), threshold(contrast.value))
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

/// A label or an id as people write it.
fn called_by(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_owned(),
        Value::Boolean(value) => if value { "True" } else { "False" }.into(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
    }
}

/// A neighbor by its id, or else by its row.
fn called(point: &ReferencePoint<'_>) -> String {
    let name = match (point.id, point.row) {
        (Some(id), _) => called_by(id),
        (None, Some(row)) => row.to_string(),
        (None, None) => "?".into(),
    };
    if point.of_fit { format!("fit {name}") } else { name }
}

fn cells(reason: &Reason<'_>) -> Vec<String> {
    let neighbors = reason.neighbors.iter().map(called).collect::<Vec<_>>().join(", ");
    let mut cells = vec![called_by(reason.label), if reason.in_set { "yes" } else { "no" }.into()];
    cells.extend(reason.p_value.map(|p| format!("{p:.3}")));
    cells.extend([
        reason.rank.map_or("none".into(), shown),
        format!("{:.3}", reason.rank_p_value),
        reason.loss.map_or("none".into(), shown),
        format!("{:.3}", reason.loss_p_value),
        format!("{:.3}", reason.probability),
        if neighbors.is_empty() { "-".into() } else { truncate(&neighbors, NEIGHBOR_WIDTH).into_owned() },
    ]);
    cells
}
