//! What the demo finds out: split, fit, calibrate, judge.

use std::time::Instant;

use anyhow::Context;
use dance::conformal::{ByClass, ConformalConfig, MethodName, Mix};
use dance::data::split;
use dance::evaluation::metrics::Metrics;
use dance::{
    Config, Dance, Dataset, Evaluation, Fitted, PredictOptions, Prediction, Sampling, Scored, Silent,
};
use serde::Serialize;

use crate::args::Shared;
use crate::data::Truth;
use crate::progress::Progress;

const SHARES: [f64; 3] = [0.4, 0.4, 0.2];
pub(super) const ALPHAS: [f64; 2] = [0.1, 0.05];
/// The default of `dance fit`, what else it can do, and the paper's sets, all on the same kernel.
const METHODS: [(&str, Way); 6] = [
    ("exact, fuse", Way::Default),
    ("exact, fuse, class-fair", Way::Fair),
    ("exact, evidence", Way::Evidence),
    ("paper: DANCE", Way::Paper(Mix::Auto)),
    ("paper: k-NN set", Way::Paper(Mix::Fixed(0.0))),
    ("paper: CLR set", Way::Paper(Mix::Fixed(1.0))),
];

/// How sets are made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Default,
    Fair,
    Evidence,
    Paper(Mix),
}

/// What the default is called.
pub(super) fn default_method() -> &'static str {
    METHODS[0].0
}

/// What is drawn: the default and the paper's. Curves of what else there is would lie on the default's.
pub(super) fn drawn_methods() -> impl Iterator<Item = &'static str> {
    let drawn = METHODS.iter().filter(|(_, way)| matches!(way, Way::Default | Way::Paper(_)));
    drawn.map(|(name, _)| *name)
}

/// The paper's.
pub(super) fn is_paper(method: &str) -> bool {
    METHODS.iter().any(|&(name, way)| name == method && matches!(way, Way::Paper(_)))
}
/// Error levels of the curves, in hundredths.
const CURVE: std::ops::RangeInclusive<usize> = 2..=30;

pub(super) struct Story {
    pub(super) data: String,
    pub(super) points: [usize; 3],
    pub(super) dimensions: usize,
    pub(super) model: Dance,
    pub(super) results: Vec<Judged>,
    /// The same methods over many levels.
    pub(super) curve: Vec<Judged>,
    pub(super) examples: Vec<Example>,
    /// How many sets have 0, 1, 2 … labels at the first level.
    pub(super) sizes: Vec<usize>,
    pub(super) trace: Vec<Evaluation>,
    pub(super) accuracy: f64,
    pub(super) seconds: f64,
}

/// One method at one level.
#[derive(Serialize)]
pub(super) struct Judged {
    pub(super) method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mix: Option<f64>,
    #[serde(flatten)]
    pub(super) metrics: Metrics,
}

/// A test point and its set at the first level.
#[derive(Serialize)]
pub(super) struct Example {
    pub(super) why: &'static str,
    pub(super) text: String,
    pub(super) truth: String,
    pub(super) prediction: String,
    pub(super) set: Vec<String>,
    pub(super) covered: bool,
}

impl Story {
    pub(super) fn new(
        name: String,
        data: &Dataset,
        evaluations: usize,
        shared: &Shared,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let parts = split::uniform(data.len(), &SHARES, shared.seed)?;
        let [kernel, calibration, test] = [0, 1, 2].map(|part| data.select(&parts[part]));
        let (device, context) = (shared.device()?, shared.context(progress)?);
        let mut config = Config::default();
        config.tune.evaluations = evaluations;
        config.tune.seed = shared.seed;
        config.rfm.seed = shared.seed;
        config.conformal.seed = shared.seed;
        let model = Fitted::fit(device, &kernel, &config, &context)
            .with_context(|| format!("fitting {name}"))?
            .calibrate(device, &calibration, &context)
            .context("calibrating")?;
        let quiet = context.with_observer(&Silent);
        let other = |settings: ConformalConfig| {
            model.recalibrate(device, &calibration, Sampling::Random, Some(settings), &quiet)
        };
        let fair = other(config.conformal.by_class(ByClass::Balanced)).context("evening out classes")?;
        let evidence =
            other(config.conformal.method(MethodName::Posterior)).context("weighing up evidence")?;
        let paper = other(ConformalConfig::paper().seed(shared.seed))?;
        let ask = |model: &Dance| model.score(&test.embeddings, PredictOptions::default(), &context);
        let (scored, paper_scored) = (ask(&model)?, ask(&paper)?);
        let (fair_scored, evidence_scored) = (ask(&fair)?, ask(&evidence)?);

        let truth = Truth::of(&model, &test);
        if let Some(warning) = &truth.warning {
            progress.warn(warning);
        }
        let levels = |alphas: &[f64]| -> dance::Result<Vec<Judged>> {
            let pairs = alphas.iter().flat_map(|&alpha| METHODS.map(|method| (alpha, method)));
            let judge = |(alpha, (method, way)): (f64, (&'static str, Way))| {
                let (model, scored, mix) = match way {
                    Way::Default => (&model, &scored, Mix::Auto),
                    Way::Fair => (&fair, &fair_scored, Mix::Auto),
                    Way::Evidence => (&evidence, &evidence_scored, Mix::Auto),
                    Way::Paper(mix) => (&paper, &paper_scored, mix),
                };
                judge(model, scored, &truth, alpha, method, mix)
            };
            pairs.map(judge).collect()
        };
        let results = levels(&ALPHAS)?;
        let curve = levels(&CURVE.step_by(2).map(|percent| percent as f64 / 100.0).collect::<Vec<_>>())?;
        for alpha in ALPHAS {
            for warning in model.decide(alpha)?.warnings() {
                progress.warn(&format!("alpha {alpha}: {warning}"));
            }
        }
        let prediction = model.predict(&scored, &model.decide(ALPHAS[0])?);
        let mut sizes = vec![0; prediction.sets.iter().map(<[u32]>::len).max().unwrap_or(0) + 1];
        for set in prediction.sets.iter() {
            sizes[set.len()] += 1;
        }
        Ok(Self {
            examples: examples(&model, &prediction, &scored, &test, &truth),
            accuracy: results.first().and_then(|judged| judged.metrics.accuracy).unwrap_or(f64::NAN),
            points: [kernel.len(), calibration.len(), test.len()],
            dimensions: data.embeddings.cols(),
            trace: progress.trace(),
            seconds: begin.elapsed().as_secs_f64(),
            data: name,
            model,
            results,
            curve,
            sizes,
        })
    }
}

fn judge(
    model: &Dance,
    scored: &Scored,
    truth: &Truth,
    alpha: f64,
    method: &'static str,
    mix: Mix,
) -> dance::Result<Judged> {
    let decision = model.predictor().decide_with(alpha, mix)?;
    let sets = scored.counts.sets(decision.cut, model.classes().len());
    let best = scored.classified.as_ref().map(|classified| classified.labels.as_slice());
    Ok(Judged {
        method,
        mix: decision.mix,
        metrics: Metrics::new(&sets, &truth.labels, truth.classes, alpha, best)?,
    })
}

/// Five test points, by rules and not by hand.
fn examples(
    model: &Dance,
    prediction: &Prediction,
    scored: &Scored,
    test: &Dataset,
    truth: &Truth,
) -> Vec<Example> {
    let sets = &prediction.sets;
    let length = |row: usize| sets.get(row).len();
    let covered = |row: usize| sets.contains(row, truth.labels[row]);
    let rows = 0..sets.len();
    let picks = [
        ("the first set of one label", rows.clone().find(|&row| length(row) == 1)),
        ("the first set of two", rows.clone().find(|&row| length(row) == 2)),
        ("the first set of three or more", rows.clone().find(|&row| length(row) >= 3)),
        ("the largest set", rows.clone().rev().max_by_key(|&row| length(row))),
        ("the first set that misses", rows.clone().find(|&row| !covered(row))),
    ];
    let name = |label: u32| model.classes()[label as usize].clone();
    let example = |(why, row): (&'static str, Option<usize>)| {
        let row = row?;
        let mut set = sets.get(row).to_vec();
        set.sort_by_key(|&label| std::cmp::Reverse(scored.counts.get(row, label).combined));
        Some(Example {
            why,
            text: test.ids.as_ref().map_or_else(|| format!("test point {row}"), |ids| ids[row].clone()),
            truth: test.classes[test.labels[row] as usize].clone(),
            prediction: prediction.best.as_ref().map_or_else(String::new, |best| name(best.labels[row])),
            set: set.into_iter().map(name).collect(),
            covered: covered(row),
        })
    };
    picks.into_iter().filter_map(example).collect()
}
