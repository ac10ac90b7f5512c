//! The split of calibration points that selects the mix. It does not depend on the order of points or classes.

use std::collections::HashMap;

use crate::data::split;
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;

/// The share of the points whose scores give thresholds while the mix is selected.
const THRESHOLD_SHARE: f64 = 0.8;
/// The smallest number of points on which a mix is selected.
const LEAST_TUNING_POINTS: usize = 5;
/// The tag of the random stream that halves the calibration points.
const HALVES_PURPOSE: u64 = 0x4a1f;

/// Returns the row indices in an order that depends on the points alone: sorted by coordinates.
pub(super) fn canonical_order(points: &Matrix) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..points.rows()).collect();
    rows.sort_by(|&a, &b| {
        let pairs = points.row(a).iter().zip(points.row(b));
        pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

/// Returns the row indices of two random halves: the first half selects the mix, and the second, which may be larger by
/// one, gives thresholds. The draw of a point follows from the seed and its coordinates, so the order of the points
/// does not matter.
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

/// The split on which a mix is selected. Row indices ascend.
pub(super) struct TuningSplit {
    /// The rows of the points that give thresholds (80 %).
    pub(super) threshold_rows: Vec<usize>,
    /// The rows of the points whose sets are measured (20 %).
    pub(super) measured_rows: Vec<usize>,
}

/// Splits `rows` for the selection of a mix, stratified by class; `None` if there are too few rows.
pub(super) fn tuning_split(rows: &[usize], labels: &[u32], seed: u64) -> Result<Option<TuningSplit>> {
    if rows.len() < LEAST_TUNING_POINTS {
        return Ok(None);
    }
    // Number the classes by their first appearance, so that their ids do not change the split.
    let mut place = HashMap::new();
    let classes: Vec<u32> = rows
        .iter()
        .map(|&row| {
            let next = place.len() as u32;
            *place.entry(labels[row]).or_insert(next)
        })
        .collect();
    let shares = [THRESHOLD_SHARE, 1.0 - THRESHOLD_SHARE];
    let parts = match split::stratified(&classes, &shares, seed) {
        // Every class has one point, so the split cannot be stratified.
        Err(Error::Data(_)) => split::uniform(rows.len(), &shares, seed)?,
        parts => parts?,
    };
    let in_order = |part: Vec<usize>| {
        let mut part: Vec<usize> = part.into_iter().map(|place| rows[place]).collect();
        part.sort_unstable();
        part
    };
    let mut parts = parts.into_iter().map(in_order);
    Ok(parts
        .next()
        .zip(parts.next())
        .map(|(threshold_rows, measured_rows)| TuningSplit { threshold_rows, measured_rows }))
}
