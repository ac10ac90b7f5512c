//! What a fit takes, before it takes it.

use super::TuneConfig;
use crate::context::Context;
use crate::device::{Device, FitSize};
use crate::error::{Error, Result, human_bytes};
use crate::event::Event;
use crate::machine::Part;

/// Says what the fit will take, warns where the device has less, and refuses above the limit given.
pub(super) fn check(
    device: &dyn Device,
    [train, validation]: [&Part; 2],
    classes: usize,
    sampled: Option<usize>,
    config: &TuneConfig,
    context: &Context<'_>,
) -> Result<()> {
    let (n, m, d) = (train.labels.len(), validation.labels.len(), train.embeddings.cols());
    let bytes = |train, held_out, several| {
        device.fit_bytes(FitSize { train, held_out, dimensions: d, classes, several })
    };
    let several = config.trials() > 1;
    // The largest of what the search, the confirmation and the refit allocate, beside the points themselves.
    let search = bytes(sampled.unwrap_or(n), m, several);
    let confirm = sampled.map_or(0, |_| bytes(n, m, config.confirm > 1));
    let refit = if config.refit { bytes(n + m, 0, false) } else { 0 };
    let copies = 4 * (2 * (n + m) * d) as u64;
    let needed = copies + search.max(confirm).max(refit);
    context.notice(&Event::Memory { bytes: needed });
    let too_small = |bytes: &u64| needed > *bytes;
    let Some(limit) = config.memory.or(device.free_bytes()).filter(too_small) else { return Ok(()) };
    let (mut fits, mut too_many) = (0, n + m);
    while too_many - fits > 1 {
        let middle = usize::midpoint(fits, too_many);
        if bytes(middle, 0, several) <= limit { fits = middle } else { too_many = middle }
    }
    let hint = format!("about {fits} would fit in {}", human_bytes(limit));
    if config.memory.is_some() {
        let what = format!("fitting {} points of {d} dimensions", n + m);
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
