//! Tuning and fit on so few points that none can be held out.
//!
//! Settings are validated by leaving one point out at a time. The output at point i of a regression without point i has
//! a closed form: `y_i - β_i / ((K + λI)⁻¹)_ii`. Here `y_i` is the one-hot label, `β_i` are the coefficients, K is the
//! kernel matrix, and λ is the ridge parameter.
//!
//! The output is unbiased under the identity metric only, because a learned metric depends on every label. So no metric
//! is learned. A point takes no part in the validation if its class has no other point. If no point takes part, the
//! default kernel is used: a bandwidth of one median distance and shape 1, clamped to the configured ranges.

use std::time::Instant;

use super::search::Search;
use super::{Job, TuneConfig, Tuned, median_distance};
use crate::context::{Context, Evaluation, Event, Quality};
use crate::device::FitSession;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::classifier::OutputScale;
use crate::machine::rfm::{Part, Rfm};
use crate::numeric::counts_of;
use crate::numeric::matrix::Matrix;

/// Tunes and fits a kernel machine without held-out points. With a `basis`, the points are coordinates in it.
pub(super) fn fit(job: Job<'_>, points: Part, basis: Option<&Matrix>) -> Result<Tuned> {
    let Job { device, classes, rfm, config, context } = job;
    let none = Part::none(points.embeddings.cols());
    job.check_memory([&points, &none], basis, None)?;
    let unit = median_distance(&points, context)?;
    let n = points.labels.len();
    let validation = rows_with_peers(&points.labels);
    let trials = if validation.is_empty() { 1 } else { config.trials() };
    context.warn(format!(
        "{n} points of {} classes are too few to hold some out: settings are validated by leaving one out, and no \
         metric is learned",
        points.labels.iter().collect::<std::collections::BTreeSet<_>>().len()
    ));
    context.notice(&Event::SearchBegins { evaluations: trials, points: n, of: n });
    // The search, with one leave-one-out validation per setting.
    let mut session = device.open_fit(points.fit_points(classes, &none, basis, trials > 1), context)?;
    let (mut search, mut trace) = (Search::new(config), Vec::new());
    let (mut winner, mut failure): (Option<(Kernel, Quality)>, Option<Error>) = (None, None);
    while trace.len() < trials {
        context.check()?;
        let begin = Instant::now();
        let (bandwidth, shape) =
            if validation.is_empty() { default_setting(config) } else { search.next(&trace, validation.len()) };
        let kernel = Kernel::new(bandwidth * unit, shape)?;
        let result = leave_one_out(&mut *session, kernel, rfm.ridge, &validation, &points.labels, context);
        let quality = match result {
            Ok((quality, _)) => quality,
            Err(error @ Error::NotPositiveDefinite { .. }) => {
                failure = Some(error);
                Quality::WORST
            }
            Err(error) => return Err(error),
        };
        let seconds = begin.elapsed().as_secs_f64();
        let evaluation = Evaluation { bandwidth, shape, points: n, rounds: 0, quality, seconds };
        context.notice(&Event::Evaluated(evaluation));
        trace.push(evaluation);
        if quality.loss.is_finite() && winner.is_none_or(|(_, before)| quality.beats(&before)) {
            winner = Some((kernel, quality));
        }
    }
    let Some((kernel, quality)) = winner else {
        return Err(failure.unwrap_or(Error::Data("no setting was tried".into())));
    };
    // Solve the best setting again: its leave-one-out outputs calibrate the probabilities, and its regression is the
    // machine.
    let (_, outputs) = leave_one_out(&mut *session, kernel, rfm.ridge, &validation, &points.labels, context)?;
    let own: Vec<u32> = validation.iter().map(|&row| points.labels[row]).collect();
    let scale = OutputScale::calibrated(&outputs, &own, context);
    session.keep()?;
    session.choose()?;
    let machine = session.chosen()?;
    drop(session);
    Ok(Tuned {
        rfm: Rfm::new(kernel, points, 0, machine, context)?,
        rows: (0..n).collect(),
        validation_rows: Vec::new(),
        scale,
        validation: quality,
        fidelity: match trace.len() {
            1 => format!("1 kernel on {n} points; with so few of them no metric was learned"),
            trials => format!(
                "{trials} kernels were tried on {n} points, each validated by leaving one out; \
                 with so few no metric was learned"
            ),
        },
        #[cfg(test)]
        unit,
        #[cfg(test)]
        trace,
    })
}

/// Returns the rows of the points whose class has at least one other point.
fn rows_with_peers(labels: &[u32]) -> Vec<usize> {
    let counts = counts_of(labels, labels.iter().max().map_or(0, |&label| label as usize + 1));
    (0..labels.len()).filter(|&row| counts[labels[row] as usize] > 1).collect()
}

/// Returns the default bandwidth and shape. They are one median distance and 1, clamped to the configured ranges.
fn default_setting(config: &TuneConfig) -> (f64, f64) {
    (1.0f64.clamp(config.bandwidth.0, config.bandwidth.1), 1.0f64.clamp(config.shape.0, config.shape.1))
}

/// Fits the regression with the given kernel. Returns the leave-one-out outputs at the rows `validation`, and the
/// quality of these outputs.
fn leave_one_out(
    session: &mut dyn FitSession,
    kernel: Kernel,
    ridge: f64,
    validation: &[usize],
    labels: &[u32],
    context: &Context<'_>,
) -> Result<(Quality, Matrix)> {
    session.begin(None, context)?;
    session.solve(kernel, ridge, context)?;
    if validation.is_empty() {
        return Ok((Quality { accuracy: 0.0, loss: 1.0 }, Matrix::zeros(0, 0)));
    }
    let outputs = session.leave_one_out(context)?.select(validation);
    let own: Vec<u32> = validation.iter().map(|&row| labels[row]).collect();
    Ok((Quality::of(&outputs, &own), outputs))
}
