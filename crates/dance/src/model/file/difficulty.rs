//! How hard fit points are to the kernel machine, in a model file: where classes are evened out or put into clusters.

use super::tensors::Reader;
use crate::conformal::Difficulty;
use crate::error::Result;
use crate::model::Fitted;
use crate::scores::Clusters;

pub(super) fn read(
    reader: &Reader<'_>,
    clusters: Option<Clusters>,
    fitted: &Fitted,
) -> Result<Option<Difficulty>> {
    if !fitted.config.conformal.asks_difficulty() {
        return Ok(None);
    }
    let Some(clusters) = clusters.filter(Clusters::is_sound) else {
        return Err(
            reader.problem("metadata `clusters` is missing or none that a fit makes; the file is damaged")
        );
    };
    let name = "fit_probabilities";
    let points = fitted.rfm.labels.len();
    let probabilities = if reader.has(name) { reader.shares(name, points)? } else { Vec::new() };
    Ok(Some(Difficulty { probabilities, clusters }))
}
