//! Coverage and size of a model's sets at every level, measured by true labels, and their tables.

use std::io::{self, Write};

use dance::conformal::{ByClass, Decision, MethodName};
use dance::evaluation::breakdown::{Breakdown, Portion};
use dance::evaluation::metrics::Metrics;
use dance::evaluation::{ProbabilityMetrics, coverage_at_most, coverage_interval};
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

/// Metrics of the sets at one level.
#[derive(Debug, Serialize)]
pub(crate) struct LevelMetrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mix: Option<f64>,
    #[serde(flatten)]
    pub(crate) metrics: Metrics,
    /// The interval that contains the coverage 95 times in 100 if the guarantee holds.
    by_chance: (f64, f64),
    /// The probability of a coverage this low or lower if the guarantee holds.
    pub(crate) as_low: f64,
    /// Coverage of parts of the points: by confidence, set size and class frequency.
    portions: Breakdown,
}

/// A model's sets of some points at every level.
pub(crate) struct Predictions<'a> {
    model: &'a Dance,
    classified: Option<Classified>,
    /// The sets of every level.
    levels: Vec<Prediction>,
}

impl<'a> Predictions<'a> {
    pub(crate) fn new(
        model: &'a Dance,
        points: &Matrix,
        alphas: &Alphas,
        context: &Context<'_>,
    ) -> dance::Result<Self> {
        let scored = model.score(points, PredictOptions::default().probabilities(true), context)?;
        let predict = |&alpha: &f64| Ok(model.predict(&scored, &model.decide(alpha)?));
        let levels = alphas.0.iter().map(predict).collect::<dance::Result<_>>()?;
        Ok(Self { model, classified: scored.classified, levels })
    }

    /// Evaluates the sets of the points at `rows` by their true labels, which may lie beyond the model's classes.
    pub(crate) fn evaluate(&self, truth: &Truth, rows: &[usize]) -> dance::Result<Vec<LevelMetrics>> {
        let pick = |labels: &[u32]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
        let best = self.classified.as_ref().map(|classified| pick(&classified.labels));
        let labels = pick(&truth.labels);
        let confidence = self.classified.as_ref().map(|all| {
            let largest = |&row: &usize| all.probabilities.row(row).iter().copied().fold(0.0, f32::max);
            rows.iter().map(largest).collect::<Vec<f32>>()
        });
        let evaluate = |Prediction { sets, decision, new_label, .. }: &Prediction| {
            let alpha = decision.alpha;
            let known = self.model.classes().len();
            let sets = with_new_label(sets, new_label.as_deref(), truth, known).select(rows);
            let metrics = Metrics::new(&sets, &labels, truth.classes, alpha, best.as_deref())?;
            let portions = Breakdown::new(&sets, &labels, confidence.as_deref())?;
            let (calibration, test) = (decision.calibration_points, rows.len());
            // Below the smallest alpha every label that the model knows is in every set: only others are missed.
            let is_reachable = alpha >= smallest_alpha(calibration);
            let as_low = if is_reachable { coverage_at_most(metrics.coverage, calibration, test, alpha) } else { 1.0 };
            let (low, high) = coverage_interval(calibration, test, alpha);
            let by_chance = (low, if self.is_tight() { high } else { 1.0 });
            Ok(LevelMetrics { mix: decision.mix, metrics, by_chance, as_low, portions })
        };
        self.levels.iter().map(evaluate).collect()
    }

    /// Returns whether the coverage has an upper bound. Two scores that decide together cover more than 1 - α, and so
    /// do sets with a guarantee for every class or cluster.
    fn is_tight(&self) -> bool {
        let model = self.model;
        matches!(model.by_class(), ByClass::All | ByClass::Balanced) && model.method() != MethodName::Dance
    }

    /// Evaluates the class probabilities of the points at `rows`.
    pub(crate) fn evaluate_probabilities(
        &self,
        truth: &Truth,
        rows: &[usize],
    ) -> dance::Result<Option<ProbabilityMetrics>> {
        let labels: Vec<u32> = rows.iter().map(|&row| truth.labels[row]).collect();
        let evaluate = |all: &Classified| ProbabilityMetrics::new(&all.probabilities.select(rows), &labels);
        self.classified.as_ref().map(evaluate).transpose()
    }

    /// Returns the coverage and the set size of every class at every level.
    pub(crate) fn per_class(&self, truth: &Truth, rows: &[usize]) -> Frame {
        let (mut alphas, mut names, mut numbers, mut hits, mut shares, mut sizes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Prediction { sets, decision, .. } in &self.levels {
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

/// Adds "a new label" to sets as a label of its own: the true label where the model does not know it, one that no point
/// has where it does.
fn with_new_label(sets: &Sets, new_label: Option<&[bool]>, truth: &Truth, known: usize) -> Sets {
    let Some(new_label) = new_label else { return sets.clone() };
    let extended = |(row, (set, &new)): (usize, (&[u32], &bool))| {
        let label = truth.labels[row] as usize;
        let added = if label >= known { label } else { truth.classes } as u32;
        set.iter().copied().chain(new.then_some(added)).collect::<Vec<_>>()
    };
    sets.iter().zip(new_label).enumerate().map(extended).collect()
}

/// Evaluates the model's sets of all `points` at every level by the true labels.
pub(crate) fn evaluate(
    model: &Dance,
    points: &Matrix,
    truth: &Truth,
    alphas: &Alphas,
    context: &Context<'_>,
) -> dance::Result<Vec<LevelMetrics>> {
    let every: Vec<usize> = (0..points.rows()).collect();
    Predictions::new(model, points, alphas, context)?.evaluate(truth, &every)
}

/// The meaning of the columns of [`write_metrics`].
pub(crate) const LEGEND: &str = "  \
  Acc: accuracy of the single most probable label. Cov: coverage, the share of sets with the true
  label; compare it with 1 - alpha. By chance: the interval that contains Cov 95 times in 100 if the
  guarantee holds. Size: mean number of labels per set. CCV: mean distance of a class's coverage from
  1 - alpha, in per cent. Floor: the CCV that chance alone gives. Under: the part of CCV from classes
  below 1 - alpha. Dev: root mean square deviation of class coverage without the part due to chance.
  SSCV: the largest distance of coverage from 1 - alpha over sets of similar size, in per cent.
  Empty, single: share of sets with no label and with one label. Right: how often that one is true.";

/// Describes the share of new labels and its effect on coverage; `None` if the calibration points show none.
pub(crate) fn new_label_text(model: &Dance) -> Option<String> {
    let (share, error) = model.new_label_share().filter(|(share, _)| *share > 0.0)?;
    let (share, error) = (100.0 * share, 200.0 * error);
    let effect = if model.allows_new_labels() {
        "sets may contain \"a new label\"".to_owned()
    } else {
        format!("no set can contain it, so coverage is at most about {:.1} %", 100.0 - share)
    };
    Some(format!("about {share:.1} % (± {error:.1}) of new points carry a label that no point here has; {effect}"))
}

/// Returns warnings about one level: too few points for it, or too many new labels.
pub(crate) fn level_warnings(model: &Dance, decision: &Decision) -> Vec<String> {
    let mut warnings = decision.warnings();
    let uncovered = decision.new_label_alpha.is_none();
    if let Some((share, _)) = model.new_label_share().filter(|(share, _)| uncovered && *share >= decision.alpha) {
        warnings.push(format!(
            "{:.1} % of the calibration points carry a label that no other point has, more than alpha: sets contain \
             nearly every label and still miss new labels. Use a larger alpha, or more points of rare classes",
            100.0 * share
        ));
    }
    warnings
}

/// Prints the warnings about every level.
pub(crate) fn warn_of_levels(model: &Dance, alphas: &[f64], progress: &Progress) -> dance::Result<()> {
    for &alpha in alphas {
        for warning in level_warnings(model, &model.decide(alpha)?) {
            progress.warn(&format!("alpha {alpha}: {warning}"));
        }
    }
    Ok(())
}

/// Writes all metrics, one row per level.
pub(crate) fn write_metrics(out: &mut dyn Write, levels: &[LevelMetrics]) -> io::Result<()> {
    let has_mix = levels.iter().any(|level| level.mix.is_some());
    let mut header = vec!["alpha", "mix", "Acc", "Cov", "by chance", "Size", "CCV", "floor", "under", "dev"];
    header.extend(["SSCV", "empty", "single", "right"]);
    header.retain(|name| has_mix || *name != "mix");
    let row = |LevelMetrics { mix, metrics, by_chance, .. }: &LevelMetrics| {
        let mut cells = vec![metrics.alpha.to_string()];
        if has_mix {
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
    };
    write!(out, "{}", Table::from_text(header, levels.iter().map(row)).to_text())
}

/// Writes the coverage of parts of the points, one line per level and kind of part.
pub(crate) fn write_portions(out: &mut dyn Write, levels: &[LevelMetrics]) -> io::Result<()> {
    for LevelMetrics { metrics, portions, .. } in levels {
        let kinds = [
            ("confidence", &portions.by_confidence),
            ("set size", &portions.by_size),
            ("class frequency", &portions.by_frequency),
        ];
        for (kind, portions) in kinds.into_iter().filter(|(_, portions)| !portions.is_empty()) {
            let each = portions
                .iter()
                .map(|Portion { name, points, coverage, .. }| format!("{name} {} ({points} points)", share(*coverage)));
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
