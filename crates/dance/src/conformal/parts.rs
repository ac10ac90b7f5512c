//! Which calibration points select the mix. A seed draws the same points however they are listed and classes are named.

use std::collections::HashMap;

use crate::data::split;
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;

use crate::method::ConformalConfig;
use crate::method::MethodName;
use crate::method::Mix;

/// Share of the points whose scores give thresholds while the mix is selected.
const THRESHOLD_SHARE: f64 = 0.8;
/// Below this many points no mix is selected; it is 0.
const LEAST_TUNING_POINTS: usize = 5;
/// The stream of random numbers that halves the calibration points.
const HALVES_PURPOSE: u64 = 0x4a1f;

/// Rows in an order that depends on the points alone, so that a seed draws the same points however they are listed.
pub(super) fn canonical_order(points: &Matrix) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..points.rows()).collect();
    rows.sort_by(|&a, &b| {
        let pairs = points.row(a).iter().zip(points.row(b));
        pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

/// A random half to learn from, and the rest. The larger half gives thresholds. Every point has a draw of its own, made of the
/// seed and its coordinates: it does not matter how points are listed, and unlike a shuffle of a sorted list it does not take
/// the same places of an order under the same seed.
pub(super) fn halves(points: &Matrix, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut rows = canonical_order(points);
    if rows.len() < 2 {
        return Err(Error::Data(format!(
            "{} calibration point cannot be halved to select the mix; use more, or give a fixed mix",
            rows.len()
        )));
    }
    let draw = |row: usize| {
        let coordinates = points.row(row).iter().map(|value| u64::from(value.to_bits()));
        random::uniform_of(&[seed, HALVES_PURPOSE].into_iter().chain(coordinates).collect::<Vec<_>>())
    };
    rows.sort_by_cached_key(|&row| draw(row).to_bits());
    let rest = rows.split_off(rows.len() / 2);
    Ok((rows, rest))
}

/// The 80/20 split on which the mix is selected: points that give thresholds, points whose sets are judged; ascending.
/// `None` when there is no mix, it is fixed, or there are too few points.
pub(super) fn tuning_parts(
    rows: &[usize],
    labels: &[u32],
    config: &ConformalConfig,
) -> Result<Option<[Vec<usize>; 2]>> {
    let needless =
        config.mix != Mix::Auto || matches!(config.method, MethodName::Fuse | MethodName::Posterior);
    if needless || rows.len() < LEAST_TUNING_POINTS {
        return Ok(None);
    }
    // Classes by their first appearance, so that their names do not change the split either.
    let mut place = HashMap::new();
    let classes: Vec<u32> = rows
        .iter()
        .map(|&row| {
            let next = place.len() as u32;
            *place.entry(labels[row]).or_insert(next)
        })
        .collect();
    let shares = [THRESHOLD_SHARE, 1.0 - THRESHOLD_SHARE];
    let parts = match split::stratified(&classes, &shares, config.seed) {
        // Only classes of one point: nothing to stratify.
        Err(Error::Data(_)) => split::uniform(rows.len(), &shares, config.seed)?,
        parts => parts?,
    };
    let in_order = |part: Vec<usize>| {
        let mut part: Vec<usize> = part.into_iter().map(|place| rows[place]).collect();
        part.sort_unstable();
        part
    };
    Ok(<[Vec<usize>; 2]>::try_from(parts).ok().map(|parts| parts.map(in_order)))
}
