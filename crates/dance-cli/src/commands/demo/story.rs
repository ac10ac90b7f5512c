//! The results of the demo: split, fit, calibration and evaluation of several methods.

use std::time::Instant;

use anyhow::Context;
use dance::conformal::{ByClass, ConformalConfig, MethodName, Mix};
use dance::data::split;
use dance::evaluation::metrics::Metrics;
use dance::{Config, Dance, Dataset, Evaluation, Fitted, PredictOptions, Prediction, Sampling, Scored};
use serde::Serialize;

use crate::args::Shared;
use crate::data::Truth;
use crate::progress::Progress;

const SHARES: [f64; 3] = [0.4, 0.4, 0.2];
pub(super) const ALPHAS: [f64; 2] = [0.1, 0.05];
/// Error levels of the curves, in hundredths.
const CURVE: std::ops::RangeInclusive<usize> = 2..=30;

/// The place of a method in tables and charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The default of `dance fit`.
    Default,
    /// Another method or setting. Charts leave it out, because its curve would cover the default's.
    Alternative,
    /// A method of the paper.
    Paper,
}

/// A method with its name in tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) role: Role,
}

pub(super) struct Story {
    pub(super) data: String,
    /// The numbers of kernel, calibration and test points.
    pub(super) points: [usize; 3],
    pub(super) dimensions: usize,
    pub(super) model: Dance,
    pub(super) methods: Vec<Method>,
    /// Every method at the levels of [`ALPHAS`].
    pub(super) results: Vec<MethodMetrics>,
    /// Every method at the levels of [`CURVE`].
    pub(super) curve: Vec<MethodMetrics>,
    pub(super) examples: Vec<Example>,
    /// The number of sets with 0, 1, 2 … labels at the first level.
    pub(super) sizes: Vec<usize>,
    pub(super) trace: Vec<Evaluation>,
    /// The accuracy of the kernel machine's single best label. The paper's methods predict it.
    pub(super) accuracy: f64,
    pub(super) seconds: f64,
}

/// The metrics of one method at one level.
#[derive(Serialize)]
pub(super) struct MethodMetrics {
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

/// A calibrated model with the scores of the test points.
struct Calibrated {
    model: Dance,
    scored: Scored,
}

/// A row of the results: a method on a calibrated model.
struct Variant<'a> {
    method: Method,
    calibrated: &'a Calibrated,
    mix: Mix,
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
        let mut config = Config::default().seed(shared.seed);
        config.tune.evaluations = evaluations;
        let model = Fitted::fit(device, &kernel, &config, &context)
            .with_context(|| format!("fitting {name}"))?
            .calibrate(device, &calibration, &context)
            .context("calibrating")?;

        // All methods share the kernel and the points.
        let score = |model: Dance| -> dance::Result<Calibrated> {
            let scored = model.score(&test.embeddings, PredictOptions::default(), &context)?;
            Ok(Calibrated { model, scored })
        };
        let quiet = context.silent();
        let other = |settings: ConformalConfig| -> dance::Result<Calibrated> {
            score(model.recalibrate(device, &calibration, Sampling::Random, Some(settings), &quiet)?)
        };
        let paper = other(ConformalConfig::paper().seed(shared.seed))?;
        let default_is_fuse = model.method() == MethodName::Fuse;
        let (balanced, fuse) = if default_is_fuse {
            (None, None) // there is no memory for the posterior
        } else {
            let fuse = config.conformal.with_method(MethodName::Fuse);
            (Some(other(config.conformal.by_class(ByClass::Balanced))?), Some(other(fuse)?))
        };
        let default = score(model.clone())?;

        let variant = |name, role, calibrated, mix| Variant { method: Method { name, role }, calibrated, mix };
        let mut variants =
            vec![variant(if default_is_fuse { "fuse" } else { "posterior" }, Role::Default, &default, Mix::Auto)];
        for (name, calibrated) in [("posterior, balanced", &balanced), ("fuse", &fuse)] {
            let calibrated = calibrated.as_ref();
            variants.extend(calibrated.map(|found| variant(name, Role::Alternative, found, Mix::Auto)));
        }
        variants.push(variant("paper: DANCE", Role::Paper, &paper, Mix::Auto));
        variants.push(variant("paper: k-NN set", Role::Paper, &paper, Mix::Fixed(0.0)));
        variants.push(variant("paper: CLR set", Role::Paper, &paper, Mix::Fixed(1.0)));

        let truth = Truth::of(&model, &test);
        if let Some(warning) = &truth.warning {
            progress.warn(warning);
        }
        let levels = |alphas: &[f64]| -> dance::Result<Vec<MethodMetrics>> {
            let pairs = alphas.iter().flat_map(|&alpha| variants.iter().map(move |variant| (alpha, variant)));
            pairs.map(|(alpha, variant)| variant.evaluate(&truth, alpha)).collect()
        };
        let results = levels(&ALPHAS)?;
        let curve = levels(&CURVE.step_by(2).map(|percent| percent as f64 / 100.0).collect::<Vec<_>>())?;
        for alpha in ALPHAS {
            for warning in model.decide(alpha)?.warnings() {
                progress.warn(&format!("alpha {alpha}: {warning}"));
            }
        }

        // Examples and set sizes are those of the default at the first level.
        let prediction = model.predict(&default.scored, &model.decide(ALPHAS[0])?);
        let mut sizes = vec![0; prediction.sets.iter().map(<[u32]>::len).max().unwrap_or(0) + 1];
        for set in prediction.sets.iter() {
            sizes[set.len()] += 1;
        }
        Ok(Self {
            examples: examples(&default, &prediction, &test, &truth),
            accuracy: results.last().and_then(|paper| paper.metrics.accuracy).unwrap_or(f64::NAN),
            points: [kernel.len(), calibration.len(), test.len()],
            dimensions: data.embeddings.cols(),
            trace: progress.trace(),
            seconds: begin.elapsed().as_secs_f64(),
            methods: variants.iter().map(|variant| variant.method).collect(),
            data: name,
            model,
            results,
            curve,
            sizes,
        })
    }

    /// Returns the name of the default method.
    pub(super) fn default_method(&self) -> &'static str {
        self.methods[0].name
    }

    /// Returns the methods that charts show.
    pub(super) fn charted_methods(&self) -> impl Iterator<Item = &'static str> {
        self.methods.iter().filter(|method| method.role != Role::Alternative).map(|method| method.name)
    }

    /// Returns whether a method is one of the paper's.
    pub(super) fn is_paper(&self, name: &str) -> bool {
        self.methods.iter().any(|method| method.name == name && method.role == Role::Paper)
    }
}

impl Variant<'_> {
    fn evaluate(&self, truth: &Truth, alpha: f64) -> dance::Result<MethodMetrics> {
        let Calibrated { model, scored } = self.calibrated;
        let decision = model.decide_with(alpha, self.mix)?;
        let sets = model.predict(scored, &decision).sets;
        let best = scored.classified.as_ref().map(|classified| classified.labels.as_slice());
        Ok(MethodMetrics {
            method: self.method.name,
            mix: decision.mix,
            metrics: Metrics::new(&sets, &truth.labels, truth.classes, alpha, best)?,
        })
    }
}

/// Returns up to five test points, selected by rules.
fn examples(
    Calibrated { model, scored }: &Calibrated,
    prediction: &Prediction,
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
    let best = |row: usize| scored.classified.as_ref().map_or_else(String::new, |all| name(all.labels[row]));
    let example = |(why, row): (&'static str, Option<usize>)| {
        let row = row?;
        let set = sets.get(row);
        let order = scored.conforming(row, set);
        Some(Example {
            why,
            text: test.ids.as_ref().map_or_else(|| format!("test point {row}"), |ids| ids[row].clone()),
            truth: test.classes[test.labels[row] as usize].clone(),
            prediction: best(row),
            set: order.into_iter().map(|place| name(set[place])).collect(),
            covered: covered(row),
        })
    };
    picks.into_iter().filter_map(example).collect()
}
