//! Tuning: Bayesian optimisation of the kernel's bandwidth and shape by accuracy on validation points (the paper,
//! §4.1.2), then the fit.
//!
//! 1. **Search**: [`evaluations`](TuneConfig::evaluations) pairs of bandwidth and shape are tried. The first few are
//!    spread evenly; a Gaussian process on (log bandwidth, shape) chooses the others by expected improvement. Each
//!    trial is a whole loop of the RFM (recursive feature machine). A trial ends after two iterations without
//!    improvement, and averages the AGOP (average gradient outer product) over at most 4,000 points. With more than
//!    [`search_points`](TuneConfig::search_points) training points, trials use a stratified sample of that size, and
//!    are evaluated on all validation points.
//! 2. **Confirm**: if the search used a sample, the best few pairs are tried again on all training points.
//! 3. **Refit** (optional): the best pair is fitted on training and validation points together, with as many iterations
//!    as its trial needed. This is valid, because none of these points is a calibration point.
//!
//! Few points are validated by leaving out one at a time: with under ten validation points, or with at most 1,500
//! points and fewer than four per class. The metric then stays the identity (`few.rs`).
//!
//! Bandwidths are multiples of the median distance among training points under the identity metric, so that one range
//! suits all data.

mod few;
mod gaussian_process;
mod search;

use serde::{Deserialize, Serialize};

use super::classifier::OutputScale;
use super::rfm::{Part, Rfm, RfmConfig, Span};
use crate::context::{Context, Evaluation, Event, Quality};
use crate::data::split;
use crate::device::{Device, cpu, most_that_fit};
use crate::error::{Error, Result, human_bytes};
use crate::numeric::matrix::Matrix;
use crate::setters::setters;

use search::{Stage, Winner, best_places};

/// The number of iterations without improvement after which a trial of the search ends. A refit has no such limit.
const TRIAL_PATIENCE: usize = 2;
/// The largest number of points over which a trial of the search averages the AGOP (average gradient outer product).
const TRIAL_AGOP_POINTS: usize = 4000;
/// The largest share of the training points that the sample for the search may have. A larger sample would save too
/// little.
const LARGEST_SAMPLE: f64 = 0.75;

/// The settings of tuning: the ranges of bandwidth and shape, the number of trials, and the points that the trials use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TuneConfig {
    /// The number of kernels, pairs of bandwidth and shape, to try.
    pub evaluations: usize,
    /// The least and the largest bandwidth to try, in multiples of the median distance between training points. If they
    /// are equal, the bandwidth is fixed.
    pub bandwidth: (f64, f64),
    /// The least and the largest shape of the kernel to try (see [`kernel`](crate::kernel)). If they are equal, the
    /// shape is fixed.
    pub shape: (f64, f64),
    /// The share of the points that are held out for validation, between 0 and 1.
    pub validation: f64,
    /// The largest number of training points in a trial. If there are more, trials use a sample; with `None` trials use
    /// all training points.
    pub search_points: Option<usize>,
    /// The number of kernels that are tried again on all training points, if the first trials used a sample.
    pub confirm: usize,
    /// `true` fits the best kernel once more, on training and validation points together.
    pub refit: bool,
    /// The seed of the validation split, the sample and the search.
    pub seed: u64,
    /// The largest number of bytes that the fit may have allocated at one time; `None` sets no limit.
    pub memory: Option<u64>,
}

setters!(TuneConfig {
    evaluations: usize,
    bandwidth: (f64, f64),
    shape: (f64, f64),
    validation: f64,
    search_points: Option<usize>,
    confirm: usize,
    refit: bool,
    seed: u64,
    memory: Option<u64>,
});

impl Default for TuneConfig {
    fn default() -> Self {
        Self {
            evaluations: 25,
            bandwidth: (0.1, 20.0),
            shape: (0.5, 2.0),
            validation: 0.2,
            search_points: Some(3000),
            confirm: 2,
            refit: true,
            seed: 0,
            memory: None,
        }
    }
}

impl TuneConfig {
    /// Returns [`Error::Config`] if a setting is outside its range.
    fn check(&self) -> Result<()> {
        if self.evaluations == 0 {
            return Err(Error::config("evaluations", 0, "at least 1"));
        }
        let range = |name, (low, high): (f64, f64), least: f64, expected| {
            if low.is_finite() && high.is_finite() && low >= least && low <= high && low > 0.0 {
                return Ok(());
            }
            Err(Error::config(name, format!("{low}…{high}"), expected))
        };
        range("bandwidth", self.bandwidth, 0.0, "a positive number of median distances, or a range of them")?;
        range("shape", self.shape, 0.5, "at least 0.5, or a range from there")?;
        if !(self.validation > 0.0 && self.validation < 1.0) {
            return Err(Error::config("validation", self.validation, "between 0 and 1, such as 0.2"));
        }
        if self.search_points.is_some_and(|points| points < 2) {
            return Err(Error::config("search_points", "below 2", "at least 2"));
        }
        Ok(())
    }

    /// Returns the number of kernels that will be tried. It is 1 if bandwidth and shape are fixed.
    fn trials(&self) -> usize {
        let fixed = self.bandwidth.0 == self.bandwidth.1 && self.shape.0 == self.shape.1;
        if fixed { 1 } else { self.evaluations }
    }
}

/// A tuned and fitted kernel machine.
#[derive(Clone, Debug)]
pub(crate) struct Tuned {
    /// The kernel machine.
    pub(crate) rfm: Rfm,
    /// The rows of the points that the machine was fitted on: all points after a refit, otherwise the training points.
    pub(crate) rows: Vec<usize>,
    /// The rows of the validation points, on which the machine was not fitted; empty after a refit.
    pub(crate) validation_rows: Vec<usize>,
    /// The map from the machine's outputs to class probabilities, calibrated on held-out points.
    pub(crate) scale: OutputScale,
    /// The quality of the chosen kernel on the validation points, before any refit.
    pub(crate) validation: Quality,
    /// A sentence for reports on the numbers of points on which the kernels were tried, confirmed and refitted.
    pub(crate) fidelity: String,
    /// The median distance between training points, of which bandwidths are multiples.
    #[cfg(test)]
    pub(super) unit: f64,
    /// All trials in order; those on all training points come after those on a sample.
    #[cfg(test)]
    pub(super) trace: Vec<Evaluation>,
}

/// Tunes and fits a kernel machine on normalised points, whose labels are below `classes`.
pub(crate) fn fit(
    device: &dyn Device,
    points: Part,
    classes: usize,
    rfm: &RfmConfig,
    config: &TuneConfig,
    context: &Context<'_>,
) -> Result<Tuned> {
    rfm.check()?;
    config.check()?;
    if points.labels.iter().all(|label| *label == points.labels[0]) {
        return Err(Error::Data("all points carry the same label; at least two classes are needed".into()));
    }
    let job = Job { device, classes, rfm, config, context };
    // Points that are fewer than their dimensions are fitted in their span.
    let small = config.memory.is_none_or(|most| Span::bytes(&points.embeddings) <= most);
    let Some(span) = small.then(|| Span::of(&points.embeddings, context)).flatten() else {
        return job.fit(points, None);
    };
    let Part { embeddings, labels } = points;
    let mut tuned = job.fit(Part { embeddings: span.coordinates.clone(), labels }, Some(&span.basis))?;
    tuned.rfm = span.expand(tuned.rfm, embeddings.select(&tuned.rows), context);
    Ok(tuned)
}

/// The inputs of a tuned fit, except for the points.
#[derive(Clone, Copy)]
struct Job<'a> {
    device: &'a dyn Device,
    classes: usize,
    rfm: &'a RfmConfig,
    config: &'a TuneConfig,
    context: &'a Context<'a>,
}

impl Job<'_> {
    /// Tunes and fits a machine. With a `basis`, the points are coordinates in it.
    fn fit(self, points: Part, basis: Option<&Matrix>) -> Result<Tuned> {
        let Self { device, classes, rfm, config, context } = self;
        let Some([kept, held_out]) = parts(&points.labels, config)? else {
            return few::fit(self, points, basis);
        };
        let (train, validation) = (points.select(&kept), points.select(&held_out));

        // A sample saves time only if it is much smaller, and if several settings are tried.
        let worthwhile = |most: &usize| (*most as f64) < LARGEST_SAMPLE * train.labels.len() as f64;
        let sampled = config.search_points.filter(|most| worthwhile(most) && config.trials() > 1);
        self.check_memory([&train, &validation], basis, sampled)?;
        let unit = median_distance(&train, context)?;
        let stage = Stage { device, validation: &validation, basis, classes, unit, context };
        let mut trace = Vec::new();
        let trial = RfmConfig {
            patience: rfm.patience.or(Some(TRIAL_PATIENCE)),
            agop_points: Some(rfm.agop_points.map_or(TRIAL_AGOP_POINTS, |points| points.min(TRIAL_AGOP_POINTS))),
            ..*rfm
        };

        // Search and confirm.
        let sample = sampled.map(|most| sample(&train, most, config.seed)).transpose()?;
        let searched = sample.as_ref().unwrap_or(&train);
        context.notice(&Event::SearchBegins {
            evaluations: config.trials(),
            points: searched.labels.len(),
            of: train.labels.len(),
        });
        let mut winner = stage.search(searched, &trial, config, &mut trace)?;
        if sample.is_some() {
            let candidates = best_places(&trace, config.confirm.max(1));
            context.notice(&Event::Confirming { candidates: candidates.len() });
            winner = stage.confirm(&train, &trial, &candidates, &mut trace)?;
        }
        let (searched, all) = (searched.labels.len(), points.labels.len());
        let fidelity = describe(&trace, searched, [kept.len(), held_out.len()], rfm, config.refit);
        let Winner { kernel, best, quality, machine, held_out: outputs } = winner;
        drop(sample);
        let scale = OutputScale::calibrated(&outputs, &validation.labels, context);
        // Refit on all points, or keep the winner.
        let (rfm, rows, validation_rows) = if config.refit {
            drop((train, validation, machine));
            context.notice(&Event::Refitting { points: all });
            // The refit has as many iterations as the best trial needed.
            let rounds = RfmConfig { rounds: best.round, patience: None, ..*rfm };
            let rfm = Rfm::fit(device, points, basis, classes, kernel, &rounds, context)?;
            (rfm, (0..all).collect(), Vec::new())
        } else {
            drop(points);
            (Rfm::new(kernel, train, best.round, machine, context)?, kept, held_out)
        };
        Ok(Tuned {
            rfm,
            rows,
            validation_rows,
            scale,
            validation: quality,
            fidelity,
            #[cfg(test)]
            unit,
            #[cfg(test)]
            trace,
        })
    }

    /// Reports the memory that the fit needs. Warns if the device has less, and returns [`Error::Memory`] above the
    /// configured limit. `sampled` is the number of training points in the search if the search uses a sample. With a
    /// `basis`, the points are coordinates in it.
    fn check_memory(
        self,
        [train, validation]: [&Part; 2],
        basis: Option<&Matrix>,
        sampled: Option<usize>,
    ) -> Result<()> {
        let Self { device, classes, config, context, .. } = self;
        let (n, m, d) = (train.labels.len(), validation.labels.len(), train.embeddings.cols());
        let bytes = |points, held_out, several| {
            device.fit_bytes(train.fit_points(classes, validation, basis, several), points, held_out)
        };
        let several = config.trials() > 1;
        // The largest of search, confirmation and refit, beside the points themselves.
        let search = bytes(sampled.unwrap_or(n), m, several);
        let confirm = sampled.map_or(0, |_| bytes(n, m, config.confirm > 1));
        let refit = if config.refit { bytes(n + m, 0, false) } else { 0 };
        let full = basis.map_or(d, Matrix::cols);
        let copies = 4 * (2 * (n + m) * full.max(d)) as u64;
        let needed = copies + search.max(confirm).max(refit).max(root_bytes(d, basis.map(Matrix::cols)));
        context.notice(&Event::Memory { bytes: needed });
        let too_small = |bytes: &u64| needed > *bytes;
        let Some(limit) = config.memory.or(device.free_bytes()).filter(too_small) else { return Ok(()) };
        let fits = most_that_fit(n + m, |points| bytes(points, 0, several) <= limit);
        let hint = format!("about {fits} would fit in {}", human_bytes(limit));
        if config.memory.is_some() {
            let what = format!("fitting {} points of {full} dimensions", n + m);
            let hint = format!("Raise the limit, or fit on fewer points ({hint})");
            return Err(Error::Memory { what, needed, limit, hint });
        }
        context.notice(&Event::Warning(format!(
            "the fit takes up to {} of memory and {} has {} free: it may be slow or be killed. \
             Fit fewer points ({hint})",
            human_bytes(needed),
            device.name(),
            human_bytes(limit)
        )));
        Ok(())
    }
}

/// Returns the rows of the points for training and for validation; `None` if the points are too few to hold some out.
fn parts(labels: &[u32], config: &TuneConfig) -> Result<Option<[Vec<usize>; 2]>> {
    const LEAST_VALIDATION: usize = 10;
    const LEAST_PER_CLASS: usize = 4;
    /// The largest number of points for which leave-one-out validation is used. With more points, the validation would
    /// cost more than the fit.
    const FEW: usize = 1500;
    let mut occurring = labels.to_vec();
    occurring.sort_unstable();
    occurring.dedup();
    let n = labels.len();
    if n <= FEW && n < LEAST_PER_CLASS * occurring.len() {
        return Ok(None);
    }
    let shares = [1.0 - config.validation, config.validation];
    let parts = split::stratified(labels, &shares, config.seed).ok();
    let parts: Option<[Vec<usize>; 2]> = parts.and_then(|parts| parts.try_into().ok());
    match parts {
        Some([_, held_out]) if held_out.len() < LEAST_VALIDATION && n >= 5 * LEAST_VALIDATION => Err(Error::config(
            "validation",
            config.validation,
            "a share that leaves at least ten validation points, such as 0.2",
        )),
        Some([_, held_out]) if held_out.len() < LEAST_VALIDATION => Ok(None),
        parts => Ok(parts),
    }
}

/// Returns the median distance among the training points, of which bandwidths are multiples. Fails with [`Error::Data`]
/// if it is 0 or overflows.
fn median_distance(train: &Part, context: &Context<'_>) -> Result<f64> {
    let unit = cpu::median_distance(&train.embeddings, context);
    if unit > 0.0 && unit.is_finite() {
        return Ok(unit);
    }
    if unit != 0.0 {
        return Err(Error::Data(
            "distances between the training points overflow single precision; scale the embeddings down, or \
             normalise them (normalize)"
                .into(),
        ));
    }
    Err(Error::Data(
        "at least half of all pairs of training points are identical, so there is no distance to learn from; \
         check that the embeddings vary from row to row"
            .into(),
    ))
}

/// Returns a sample of about `most` points, in which every class keeps its share.
fn sample(part: &Part, most: usize, seed: u64) -> Result<Part> {
    let share = most as f64 / part.labels.len() as f64;
    let parts = split::stratified(&part.labels, &[share, 1.0 - share], seed)?;
    Ok(part.select(&parts[0]))
}

/// Returns the sentence on numbers of points for [`Tuned::fidelity`]. `searched` is the number of training points in
/// the search; `train` and `validation` are the numbers of all training and validation points.
fn describe(
    trace: &[Evaluation],
    searched: usize,
    [train, validation]: [usize; 2],
    rfm: &RfmConfig,
    refit: bool,
) -> String {
    let trials = trace.iter().filter(|trial| trial.points == searched).count();
    let confirmed = trace.len() - trials;
    let settings = if trials == 1 { "1 kernel was".into() } else { format!("{trials} kernels were") };
    let mut text = format!("{settings} tried on {searched} points and evaluated on {validation} others");
    if confirmed > 0 {
        text += &format!(", the best {confirmed} again on {train}");
    }
    if train > TRIAL_AGOP_POINTS {
        text += &format!(" (metrics averaged over {TRIAL_AGOP_POINTS})");
    }
    if refit {
        let all = train + validation;
        text += &format!("; the best was fitted once more on all {all}");
        if let Some(points) = rfm.agop_points.filter(|&points| points < all) {
            text += &format!(" (its metric averaged over {points})");
        }
    }
    text
}

/// Returns the largest number of bytes that computing the root of a metric in `d` dimensions has allocated at one time.
/// In f64 these are six d×d matrices: the metric, its eigenvectors with their workspace, their products and the root.
/// In f32 it is the root alone. If the points are coordinates in their span, `before` is the number of original
/// dimensions, which the root in f32 has.
fn root_bytes(d: usize, before: Option<usize>) -> u64 {
    let square = |side: usize| (side as u64).pow(2);
    8 * 6 * square(d) + 4 * square(before.unwrap_or(d))
}
