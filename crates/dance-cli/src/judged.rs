//! How good a model's sets are: judged by true labels at every level, and told in a table.

use std::io::{self, Write};

use dance::conformal::{ByClass, Decision, MethodName};
use dance::evaluation::breakdown::{Breakdown, Portion};
use dance::evaluation::metrics::Metrics;
use dance::evaluation::{CoverageBand, ProbabilityMetrics};
use dance::machine::Classified;
use dance::scores::Sets;
use dance::scores::threshold::smallest_alpha;
use dance::{Context, Dance, Matrix, PredictOptions, Prediction};
use dance_page::table::Table;
use dance_page::text::paragraph;
use serde::Serialize;

use crate::data::Truth;
use crate::output::{Cells, Column, Frame};
use crate::parse::Alphas;
use crate::progress::Progress;

/// The sets of one level, judged.
#[derive(Debug, Serialize)]
pub(crate) struct Judged {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mix: Option<f64>,
    #[serde(flatten)]
    pub(crate) metrics: Metrics,
    /// Between which coverage lies by chance, 95 times in 100, if the promise holds.
    by_chance: (f64, f64),
    /// How often it would be as low as it is.
    pub(crate) as_low: f64,
    /// The same where it may differ.
    portions: Breakdown,
}

/// The model's sets of some points at every level.
pub(crate) struct Answered<'a> {
    model: &'a Dance,
    classified: Option<Classified>,
    predictions: Vec<Prediction>,
}

impl<'a> Answered<'a> {
    pub(crate) fn new(
        model: &'a Dance,
        points: &Matrix,
        alphas: &Alphas,
        context: &Context<'_>,
    ) -> dance::Result<Self> {
        let scored = model.score(points, PredictOptions::default(), context)?;
        let predict = |&alpha: &f64| Ok(model.predict(&scored, &model.decide(alpha)?));
        let predictions = alphas.0.iter().map(predict).collect::<dance::Result<_>>()?;
        Ok(Self { model, classified: scored.classified, predictions })
    }

    /// Judges the sets of the points at `rows` by the true labels, which may lie beyond the model's classes.
    pub(crate) fn judge(&self, truth: &Truth, rows: &[usize]) -> dance::Result<Vec<Judged>> {
        let pick = |labels: &[u32]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
        let best = self.classified.as_ref().map(|classified| pick(&classified.labels));
        let labels = pick(&truth.labels);
        let confidence = self.classified.as_ref().map(|all| {
            let largest = |&row: &usize| all.probabilities.row(row).iter().copied().fold(0.0, f32::max);
            rows.iter().map(largest).collect::<Vec<f32>>()
        });
        let judge = |Prediction { sets, decision, none_of_these, .. }: &Prediction| {
            let alpha = decision.alpha;
            let sets =
                with_none(sets, none_of_these.as_deref(), truth, self.model.classes().len()).select(rows);
            let metrics = Metrics::new(&sets, &labels, truth.classes, alpha, best.as_deref())?;
            let portions = Breakdown::new(&sets, &labels, confidence.as_deref())?;
            let band = CoverageBand::new(decision.calibration_points, rows.len(), alpha);
            // Below the smallest alpha every label that the model knows is in every set: only others are missed.
            let promised = alpha >= smallest_alpha(decision.calibration_points);
            let as_low = if promised { band.at_most(metrics.coverage) } else { 1.0 };
            let (low, high) = band.interval(0.95);
            // Two scores that decide together promise at least 1 - alpha, and give more; so do classes by themselves.
            let together =
                matches!(self.model.fitted().config.conformal.by_class, ByClass::All | ByClass::Balanced);
            let tight = together
                && matches!(self.model.predictor().method(), MethodName::Fuse | MethodName::Posterior);
            let by_chance = (low, if tight { high } else { 1.0 });
            Ok(Judged { mix: decision.mix, metrics, by_chance, as_low, portions })
        };
        self.predictions.iter().map(judge).collect()
    }

    /// How good the class probabilities of the points at `rows` are.
    pub(crate) fn judge_probabilities(
        &self,
        truth: &Truth,
        rows: &[usize],
    ) -> dance::Result<Option<ProbabilityMetrics>> {
        let labels: Vec<u32> = rows.iter().map(|&row| truth.labels[row]).collect();
        let judge = |all: &Classified| ProbabilityMetrics::new(&all.probabilities.select(rows), &labels);
        self.classified.as_ref().map(judge).transpose()
    }

    /// How often every class is covered at every level, and how large its sets are.
    pub(crate) fn per_class(&self, truth: &Truth, rows: &[usize]) -> Frame {
        let (mut alphas, mut names, mut numbers, mut hits, mut shares, mut sizes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Prediction { sets, decision, .. } in &self.predictions {
            let mut counts = vec![[0usize; 3]; truth.classes];
            for &row in rows {
                let [points, covered, size] = &mut counts[truth.labels[row] as usize];
                *points += 1;
                *covered += usize::from(sets.contains(row, truth.labels[row]));
                *size += sets.get(row).len();
            }
            for (class, [points, covered, size]) in counts.into_iter().enumerate().filter(|(_, c)| c[0] > 0) {
                alphas.push(decision.alpha);
                names.push(truth.name(self.model, class));
                numbers.push(points as i64);
                hits.push(covered as i64);
                shares.push(covered as f64 / points as f64);
                sizes.push(size as f64 / points as f64);
            }
        }
        let mut frame = Frame::default();
        frame.push("alpha", Column::numbers(alphas));
        frame.push("class", Column::Flat(Cells::named(&names, self.model.label_kind())));
        frame.push("points", Column::integers(numbers));
        frame.push("covered", Column::integers(hits));
        frame.push("coverage", Column::numbers(shares));
        frame.push("size", Column::numbers(sizes));
        frame
    }
}

/// Sets with "none of these" as a label: that of the point where the model does not know it, one more where it does.
fn with_none(sets: &Sets, none: Option<&[bool]>, truth: &Truth, known: usize) -> Sets {
    let Some(none) = none else { return sets.clone() };
    let mut all = Sets::default();
    for (row, (set, &none)) in sets.iter().zip(none).enumerate() {
        all.labels.extend_from_slice(set);
        if none {
            let label = truth.labels[row] as usize;
            all.labels.push(if label >= known { label } else { truth.classes } as u32);
        }
        all.offsets.push(all.labels.len());
    }
    all
}

/// Judges the model's sets at every level by the true labels.
pub(crate) fn judge(
    model: &Dance,
    points: &Matrix,
    truth: &Truth,
    alphas: &Alphas,
    context: &Context<'_>,
) -> dance::Result<Vec<Judged>> {
    let every: Vec<usize> = (0..points.rows()).collect();
    Answered::new(model, points, alphas, context)?.judge(truth, &every)
}

/// What the columns mean, for someone who sees them for the first time.
pub(crate) const LEGEND: &str =
    "  Cov: share of sets with the true label, to be compared with 1 - alpha. By chance: where it lies
  95 times in 100 if the promise holds. Size: labels per set. Empty, single: share of sets with no
  and with one label. Right: how often that one is true. Acc: how often the classifier's own best
  label is. CCV: how far classes stray from 1 - alpha, in per cent. Floor: what chance alone gives.
  Under: the part from classes covered too little. Dev: the root mean square of how far classes
  stray, chance taken off. SSCV: as CCV, over sets of similar size.";

/// What labels nobody has seen do to coverage; `None` where there is nothing to say.
pub(crate) fn unseen_words(model: &Dance) -> Option<String> {
    let unseen = model.unseen().filter(|unseen| unseen.single > 0)?;
    if model.fitted().config.conformal.new_labels {
        return Some(format!(
            "about {:.1} % (± {:.1}) of new points carry a label that no point here has; sets hold \"none of these\" where that may be",
            100.0 * unseen.share(),
            200.0 * unseen.standard_error()
        ));
    }
    Some(format!(
        "about {:.1} % (± {:.1}) of new points carry a label that no point here has, and no set can hold it: coverage is at \
         most about {:.1} %",
        100.0 * unseen.share(),
        200.0 * unseen.standard_error(),
        100.0 * (1.0 - unseen.share())
    ))
}

/// What should be known about sets of one level: too few points for it, or too many new labels.
pub(crate) fn level_warnings(model: &Dance, decision: &Decision) -> Vec<String> {
    let mut warnings = decision.warnings();
    let lost = decision.unseen_alpha.is_none();
    if let Some(unseen) = model.unseen().filter(|unseen| lost && unseen.share() >= decision.alpha) {
        warnings.push(format!(
            "{:.1} % of the calibration points carry a label that no other point has, more than alpha: a set must hold nearly \
             every label, and still misses new labels. Take a larger alpha, or more points of rare classes",
            100.0 * unseen.share()
        ));
    }
    warnings
}

/// Warns of every level by its name.
pub(crate) fn warn_of_levels(model: &Dance, alphas: &[f64], progress: &Progress) -> dance::Result<()> {
    for &alpha in alphas {
        for warning in level_warnings(model, &model.decide(alpha)?) {
            progress.warn(&format!("alpha {alpha}: {warning}"));
        }
    }
    Ok(())
}

/// All metrics, one row per level.
pub(crate) fn write_metrics(out: &mut dyn Write, judged: &[Judged]) -> io::Result<()> {
    let mixed = judged.iter().any(|judged| judged.mix.is_some());
    let mut header = vec![
        "alpha",
        "mix",
        "Acc",
        "Cov",
        "by chance",
        "Size",
        "CCV",
        "floor",
        "under",
        "dev",
        "SSCV",
        "empty",
        "single",
        "right",
    ];
    header.retain(|name| mixed || *name != "mix");
    let rows: Vec<Vec<String>> = judged
        .iter()
        .map(|Judged { mix, metrics, by_chance, .. }| {
            let mut cells = vec![metrics.alpha.to_string()];
            if mixed {
                cells.push(mix.map_or("-".into(), |mix| mix.to_string()));
            }
            cells.extend([
                metrics.accuracy.map_or("-".into(), share),
                share(metrics.coverage),
                format!("{}-{}", share(by_chance.0), share(by_chance.1)),
                format!("{:.2}", metrics.size),
                format!("{:.2}", metrics.class_violation),
                format!("{:.2}", metrics.class_violation_floor),
                format!("{:.2}", metrics.class_undercoverage),
                format!("{:.2}", metrics.class_deviation),
                format!("{:.2}", metrics.size_violation),
                share(metrics.empty),
                share(metrics.singletons),
                metrics.singleton_hits.map_or("-".into(), share),
            ]);
            cells
        })
        .collect();
    write!(out, "{}", Table::from_text(header, rows).to_text())
}

/// Coverage where it may differ, a line per level and kind.
pub(crate) fn write_portions(out: &mut dyn Write, judged: &[Judged]) -> io::Result<()> {
    for Judged { metrics, portions, .. } in judged {
        let kinds = [
            ("confidence", &portions.by_confidence),
            ("set size", &portions.by_size),
            ("class frequency", &portions.by_frequency),
        ];
        for (kind, portions) in kinds.into_iter().filter(|(_, portions)| !portions.is_empty()) {
            let each = portions.iter().map(|Portion { name, points, coverage, .. }| {
                format!("{name} {} ({points} points)", share(*coverage))
            });
            let text = each.collect::<Vec<_>>().join(", ");
            let label = format!("  alpha {}, coverage by {kind}: ", metrics.alpha);
            writeln!(out, "{}", paragraph(&label, &text))?;
        }
    }
    Ok(())
}

fn share(value: f64) -> String {
    format!("{value:.3}")
}
