//! Reference points, their norms, and how far a product with them may be wrong.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::matrix::Matrix;

/// Reference points in mapped space, ready to be searched.
#[derive(Clone, Debug)]
pub struct Reference {
    pub(super) points: Matrix,
    /// The points moved to their mean, when that makes them much shorter: rounding errors shrink with the norms.
    pub(super) moved: Option<Matrix>,
    pub(super) center: Option<Vec<f32>>,
    /// Squared norms of the (moved) points.
    pub(super) norms: Vec<f32>,
    pub(super) largest_norm: f64,
    /// What decides between points at the same distance; the index where there are none.
    keys: Option<Vec<f64>>,
}

impl Reference {
    /// `points` are already mapped by the metric's root.
    pub fn new(points: Matrix) -> Self {
        let center = mean(&points);
        let norm = center.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        let rows = (0..points.rows()).into_par_iter();
        let average = rows.map(|row| squared_norm(points.row(row))).collect::<Vec<_>>().iter().sum::<f64>()
            / points.rows().max(1) as f64;
        let center = (norm > 0.25 * average && average.is_finite()).then_some(center);
        let moved = center.as_ref().map(|center| {
            let mut moved = points.clone();
            let cols = moved.cols().max(1);
            moved.as_mut_slice().par_chunks_mut(cols).for_each(|row| subtract(row, center));
            moved
        });
        let used = moved.as_ref().unwrap_or(&points);
        let norms: Vec<f64> =
            (0..used.rows()).into_par_iter().map(|row| squared_norm(used.row(row))).collect();
        let largest_norm = norms.iter().copied().fold(0.0, f64::max);
        let norms = norms.iter().map(|&norm| norm as f32).collect();
        Self { norms, largest_norm, points, moved, center, keys: None }
    }

    /// Ties in distance go to the smaller key, then to the lower index. One key a point.
    pub fn with_keys(mut self, keys: Vec<f64>) -> Self {
        debug_assert_eq!(keys.len(), self.len());
        self.keys = Some(keys);
        self
    }

    /// The key of a point; 0 where there are none.
    pub fn key(&self, id: u32) -> f64 {
        self.keys.as_ref().map_or(0.0, |keys| keys[id as usize])
    }

    /// The order of neighbors: by distance, key, index.
    pub(super) fn nearer(&self, a: &(f64, u32), b: &(f64, u32)) -> Ordering {
        let keys = || self.key(a.1).total_cmp(&self.key(b.1));
        a.0.total_cmp(&b.0).then_with(keys).then(a.1.cmp(&b.1))
    }

    /// The points as given.
    pub fn points(&self) -> &Matrix {
        &self.points
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.rows()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An upper bound on twice the error of `‖r‖² - 2·q·r` as computed, for a query of the given squared norm: the dot
    /// product (`d·u·‖q‖‖r‖`, doubled), the moving of both points, and the last roundings.
    pub(super) fn slack(&self, query_norm: f64) -> f64 {
        let unit = f64::from(f32::EPSILON) / 2.0;
        let (query, reference) = (query_norm.sqrt(), self.largest_norm.sqrt());
        let d = self.points.cols() as f64;
        let error = unit * (2.1 * d * query * reference + 8.0 * (query + reference).powi(2));
        2.0 * error + d * f64::from(f32::MIN_POSITIVE)
    }
}

pub(super) fn squared_norm(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).powi(2)).sum()
}

pub(super) fn subtract(row: &mut [f32], center: &[f32]) {
    for (value, center) in row.iter_mut().zip(center) {
        *value -= center;
    }
}

fn mean(points: &Matrix) -> Vec<f32> {
    let mut sums = vec![0.0f64; points.cols()];
    for row in 0..points.rows() {
        for (sum, &value) in sums.iter_mut().zip(points.row(row)) {
            *sum += f64::from(value);
        }
    }
    sums.iter().map(|sum| (sum / points.rows().max(1) as f64) as f32).collect()
}
