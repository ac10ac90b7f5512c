//! A case: one data set under one seed. It is split and fitted once, and every method runs at every α on the same
//! kernel machine, probabilities and neighbors.

use std::sync::Mutex;
use std::time::Instant;

use super::ablate;
use super::long_tail;
use super::method::Method;
use super::picture::Picture;
use super::plan::Plan;
use super::record::{Case, CurvePoint, Posterior, Record, Seconds, Skipped, by_class, histogram};
use super::runner::Runner;
use dance::data::split;
use dance::device::Device;
use dance::evaluation::breakdown::Breakdown;
use dance::evaluation::metrics::Metrics;
use dance::scores::calibration::smallest_alpha;
use dance::{Context, Dataset, Error, Evaluation, Event, Fitted, Observer, Result, Sampling};

/// Error levels of the coverage curve.
const LEVELS: [f64; 6] = [0.02, 0.05, 0.1, 0.15, 0.2, 0.3];

/// The parts of a split.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) fit: &'a Dataset,
    pub(crate) calibration: &'a Dataset,
    pub(crate) test: &'a Dataset,
}

/// Runs one case.
pub(crate) fn run(
    device: &dyn Device,
    data: &Dataset,
    name: &str,
    hash: &str,
    seed: u64,
    plan: &Plan,
    context: &Context<'_>,
) -> Result<Case> {
    // A long tail where one is wanted, then the split.
    let tail = plan.zipf.map(|power| data.select(&long_tail::rows(data, power, seed)));
    let data = tail.as_ref().unwrap_or(data);
    let rows = if plan.config.sampling == Sampling::Stratified {
        split::stratified(&data.labels, &plan.split, seed)?
    } else {
        split::uniform(data.len(), &plan.split, seed)?
    };
    let [fit, calibration, test] = [0, 1, 2].map(|part| data.select(&rows[part]));
    // Warnings are kept with the results.
    let tap = Tap::new(context);
    let context = &context.with_observer(&tap);
    tap.check_classes(data, &fit, &calibration, &test);
    for &alpha in plan.alphas.iter().filter(|&&alpha| alpha < smallest_alpha(calibration.len())) {
        tap.notice(&Event::Warning(format!(
            "{} calibration points support no alpha below {:.3e}: at {alpha} every label passes",
            calibration.len(),
            smallest_alpha(calibration.len())
        )));
    }

    // One fit, which all methods share.
    let mut seconds = Seconds::default();
    let fitted = timed(&mut seconds.fit, || Fitted::fit(device, &fit, &plan.config_for(seed), context))?;
    let parts = Parts { fit: &fit, calibration: &calibration, test: &test };
    let mut runner = Runner::new(device, &fitted, parts, seed, &mut seconds, context)?;
    let confidence = runner.confidence();
    let (mut records, mut skipped, mut curve, mut posteriors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Every method at every level.
    for &method in &plan.methods {
        if let Some(reason) = runner.refusal(method) {
            skipped.push(Skipped { method, reason });
            continue;
        }
        runner.prepare(method, &mut seconds)?;
        if let Some(metrics) = runner.own_probability_metrics()? {
            posteriors.push(Posterior { method, metrics });
        }
        for &alpha in &plan.alphas {
            let begin = Instant::now();
            let (sets, mix) = runner.sets(method, alpha)?;
            let elapsed = begin.elapsed().as_secs_f64();
            if method == Method::Dance {
                seconds.mix += elapsed;
            }
            let best = Some(runner.best());
            records.push(Record {
                data: name.to_owned(),
                seed,
                method,
                alpha,
                metrics: Metrics::new(&sets, &test.labels, data.classes.len(), alpha, best)?,
                mix,
                guarantee: method.guarantee().to_owned(),
                seconds: elapsed,
                sizes: histogram(&sets),
                class_coverage: by_class(&sets, &test.labels, data.classes.len()),
                breakdown: Breakdown::new(&sets, &test.labels, Some(&confidence))?,
            });
        }
        // NCP is tuned for each level, which would take longer than all the rest, so its curve has the plan's levels
        // only.
        let levels = if method == Method::NcpRaps { &plan.alphas[..] } else { &LEVELS[..] };
        for &alpha in levels {
            let known = records.iter().find(|record| record.method == method && record.alpha == alpha);
            let (coverage, size) = if let Some(record) = known {
                (record.metrics.coverage, record.metrics.size)
            } else {
                let sets = runner.sets(method, alpha)?.0;
                let metrics = Metrics::new(&sets, &test.labels, data.classes.len(), alpha, None)?;
                (metrics.coverage, metrics.size)
            };
            curve.push(CurvePoint { method, alpha, coverage, size });
        }
    }
    // The results of the fit as a whole.
    let picture = if seed == plan.seed { runner.picture(&fitted, &data.classes) } else { None };
    let ablations = ablate::run(device, &fitted, &parts, &plan.ablations, &plan.alphas, context)?;
    let probabilities = runner.probability_metrics()?;
    let (trace, warnings) = tap.into_parts();
    Ok(Case {
        data: name.to_owned(),
        data_hash: hash.to_owned(),
        seed,
        points: data.len(),
        dimensions: data.embeddings.cols(),
        classes: data.classes.len(),
        parts: [fit.len(), calibration.len(), test.len()],
        probabilities,
        posteriors,
        warnings,
        seconds,
        trace,
        records,
        skipped,
        curve,
        ablations,
        picture,
    })
}

/// Adds the wall-clock seconds of `work` to `total`.
pub(crate) fn timed<T>(total: &mut f64, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    let result = work();
    *total += begin.elapsed().as_secs_f64();
    result
}

impl Runner<'_> {
    /// Projects the calibration points into the plane.
    fn picture(&self, fitted: &Fitted, classes: &[String]) -> Option<Picture> {
        let kernel = fitted.kernel();
        Picture::new(&self.calibration_points, self.index.points(), self.calibration_labels(), classes, kernel)
    }
}

/// An observer that passes events on and keeps the trace and the warnings.
struct Tap<'a> {
    inner: &'a Context<'a>,
    trace: Mutex<Vec<Evaluation>>,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Tap<'a> {
    fn new(inner: &'a Context<'a>) -> Self {
        Self { inner, trace: Mutex::default(), warnings: Mutex::default() }
    }

    /// Warns of classes that are missing from a part.
    fn check_classes(&self, data: &Dataset, fit: &Dataset, calibration: &Dataset, test: &Dataset) {
        let counts = data.class_counts();
        for (name, part) in [("kernel fit", fit), ("calibration", calibration), ("test", test)] {
            let own = part.class_counts();
            let missing = counts.iter().zip(&own).filter(|(all, own)| **all > 0 && **own == 0).count();
            if missing > 0 {
                self.notice(&Event::Warning(format!(
                    "{missing} classes have no point in the {name} part of the split"
                )));
            }
        }
    }

    fn into_parts(self) -> (Vec<Evaluation>, Vec<String>) {
        let mut trace = self.trace.into_inner().unwrap_or_default();
        // A failed trial has an infinite loss, which JSON cannot hold.
        for evaluation in &mut trace {
            evaluation.quality.loss = evaluation.quality.loss.min(f64::MAX);
        }
        (trace, self.warnings.into_inner().unwrap_or_default())
    }
}

impl Observer for Tap<'_> {
    fn notice(&self, event: &Event) {
        match event {
            Event::Evaluated(evaluation) => {
                if let Ok(mut trace) = self.trace.lock() {
                    trace.push(*evaluation);
                }
            }
            Event::Warning(text) => {
                if let Ok(mut warnings) = self.warnings.lock()
                    && !warnings.contains(text)
                {
                    warnings.push(text.clone());
                }
            }
            _ => {}
        }
        self.inner.notice(event);
    }

    fn interrupted(&self) -> bool {
        self.inner.check().is_err()
    }
}

/// Puts the name of the data set before an error.
pub(crate) fn about(name: &str, error: Error) -> Error {
    match error {
        Error::Interrupted => Error::Interrupted,
        other => Error::Data(format!("{name}: {other}")),
    }
}
