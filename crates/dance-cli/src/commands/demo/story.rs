//! What the demo finds out: split, fit, calibrate, judge.

use std::time::Instant;

use anyhow::Context;
use dance::backend::Cpu;
use dance::metrics::Metrics;
use dance::mix::Mix;
use dance::sets::Sets;
use dance::tune::Evaluation;
use dance::{Config, Dance, Dataset, PredictOptions, Scored, split};
use serde::Serialize;

use crate::args::Shared;
use crate::progress::Progress;

const SHARES: [f64; 3] = [0.4, 0.4, 0.2];
pub(super) const ALPHAS: [f64; 2] = [0.1, 0.05];
pub(super) const METHODS: [(&str, Mix); 3] =
    [("k-NN set", Mix::Fixed(0.0)), ("CLR set", Mix::Fixed(1.0)), ("DANCE", Mix::Auto)];
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
    /// How many DANCE sets have 0, 1, 2 … labels at the first level.
    pub(super) sizes: Vec<usize>,
    pub(super) trace: Vec<Evaluation>,
    pub(super) accuracy: f64,
    pub(super) seconds: f64,
}

/// One method at one level.
#[derive(Serialize)]
pub(super) struct Judged {
    pub(super) method: &'static str,
    pub(super) mix: f64,
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
        let parts = split::stratified(&data.labels, &SHARES, shared.seed)?;
        let [kernel, calibration, test] = [0, 1, 2].map(|part| data.select(&parts[part]));
        let backend = Cpu::new(shared.threads)?;
        let mut config = Config::default();
        config.tune.evaluations = evaluations;
        config.tune.seed = shared.seed;
        config.rfm.seed = shared.seed;
        config.dance.seed = shared.seed;
        let model = Dance::fit(&backend, &kernel, &config, progress)
            .with_context(|| format!("fitting {name}"))?
            .calibrate(&backend, &calibration, progress)
            .context("calibrating")?;
        let scored = model.score(&backend, &test.embeddings, PredictOptions::default())?;

        let levels = |alphas: &[f64]| -> dance::Result<Vec<Judged>> {
            let pairs = alphas.iter().flat_map(|&alpha| METHODS.map(|method| (alpha, method)));
            pairs.map(|(alpha, (method, mix))| judge(&model, &scored, &test, alpha, method, mix)).collect()
        };
        let results = levels(&ALPHAS)?;
        let curve = levels(&CURVE.step_by(2).map(|percent| percent as f64 / 100.0).collect::<Vec<_>>())?;
        for alpha in ALPHAS {
            for warning in model.calibration().thresholds(alpha)?.warnings() {
                progress.warn(&format!("alpha {alpha}: {warning}"));
            }
        }
        let sets = model.decide(&scored, ALPHAS[0])?.sets;
        let mut sizes = vec![0; sets.iter().map(<[u32]>::len).max().unwrap_or(0) + 1];
        for set in sets.iter() {
            sizes[set.len()] += 1;
        }
        Ok(Self {
            examples: examples(&model, &scored, &test, &sets),
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
    test: &Dataset,
    alpha: f64,
    method: &'static str,
    mix: Mix,
) -> dance::Result<Judged> {
    let thresholds = model.calibration().thresholds_with(alpha, mix)?;
    let classes = model.classes().len();
    let sets = thresholds.sets(&scored.scores, classes);
    let best = scored.best.as_ref().map(|best| best.labels.as_slice());
    Ok(Judged {
        method,
        mix: thresholds.mix,
        metrics: Metrics::new(&sets, &test.labels, classes, alpha, best)?,
    })
}

/// Five test points, by rules and not by hand.
fn examples(model: &Dance, scored: &Scored, test: &Dataset, sets: &Sets) -> Vec<Example> {
    let length = |row: usize| sets.get(row).len();
    let covered = |row: usize| sets.contains(row, test.labels[row]);
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
        set.sort_by(|&a, &b| scored.scores.get(row, a).0.total_cmp(&scored.scores.get(row, b).0));
        Some(Example {
            why,
            text: test.ids.as_ref().map_or_else(|| format!("test point {row}"), |ids| ids[row].clone()),
            truth: name(test.labels[row]),
            prediction: scored.best.as_ref().map_or_else(String::new, |best| name(best.labels[row])),
            set: set.into_iter().map(name).collect(),
            covered: covered(row),
        })
    };
    picks.into_iter().filter_map(example).collect()
}
