//! The memory of a fit, estimated before it is allocated.

use super::Job;
use crate::device::{FitSize, most_that_fit};
use crate::error::{Error, Result, human_bytes};
use crate::event::Event;
use crate::machine::Part;
use crate::numeric::matrix::Matrix;

/// Reports the memory of the fit, warns if the device has less, and returns an error above the configured limit.
/// `sampled` is the number of points in the search if it uses a sample. The points are coordinates in `basis`, if there
/// is one.
pub(super) fn check(
    Job { device, classes, config, context, .. }: Job<'_>,
    [train, validation]: [&Part; 2],
    basis: Option<&Matrix>,
    sampled: Option<usize>,
) -> Result<()> {
    let (n, m, d) = (train.labels.len(), validation.labels.len(), train.embeddings.cols());
    let bytes =
        |train, held_out, several| device.fit_bytes(FitSize { train, held_out, dimensions: d, classes, several });
    let several = config.trials() > 1;
    // The largest of search, confirmation and refit, beside the points themselves.
    let search = bytes(sampled.unwrap_or(n), m, several);
    let confirm = sampled.map_or(0, |_| bytes(n, m, config.confirm > 1));
    let refit = if config.refit { bytes(n + m, 0, false) } else { 0 };
    let full = basis.map_or(d, Matrix::cols);
    let copies = 4 * (2 * (n + m) * full.max(d)) as u64;
    let needed = copies + search.max(confirm).max(refit).max(root(d, basis.map(Matrix::cols)));
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
        "the fit takes up to {} of memory and {} has {} free: it may be slow or be killed. Fit fewer points ({hint})",
        human_bytes(needed),
        device.name(),
        human_bytes(limit)
    )));
    Ok(())
}

/// Returns the number of bytes that the metric's root takes at its peak. In f64 these are the metric, its eigenvectors
/// with their workspace, their products and the root, each d×d; in f32 the root itself. If points are coordinates in a
/// span, d is small, and the f32 root has the `before` dimensions of the original points.
fn root(d: usize, before: Option<usize>) -> u64 {
    let square = |side: usize| (side as u64).pow(2);
    8 * 6 * square(d) + 4 * square(before.unwrap_or(d))
}
