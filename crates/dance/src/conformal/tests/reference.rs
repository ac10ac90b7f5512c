//! A brute-force reference for tests: conformal prediction written again from the formulas. It is quadratic, in f64, on
//! one thread, and shares nothing with the library but the kernel's two parameters. Test data are here too.

use crate::Matrix;
use crate::numeric::random::Random;

/// Labelled points of a test.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) points: Matrix,
    pub(crate) labels: Vec<u32>,
}

impl Data {
    /// Returns the points at `rows` with their labels.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self { points: self.points.select(rows), labels: rows.iter().map(|&row| self.labels[row]).collect() }
    }

    pub(crate) fn empty(dimensions: usize) -> Self {
        Self { points: Matrix::zeros(0, dimensions), labels: Vec::new() }
    }

    pub(crate) fn push(&mut self, point: impl Iterator<Item = f32>, label: u32) {
        let cols = self.points.cols();
        let mut values = self.points.as_slice().to_vec();
        values.extend(point);
        self.labels.push(label);
        self.points = Matrix::new(values, self.labels.len(), cols).unwrap();
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn range(&self, rows: std::ops::Range<usize>) -> Self {
        self.select(&rows.collect::<Vec<_>>())
    }
}

/// Returns random points in overlapping Gaussian blobs, one blob per class.
pub(crate) fn blobs(n: usize, d: usize, classes: u32, spread: f64, seed: u64) -> Data {
    let mut random = Random::new(seed, 1);
    let centers: Vec<f64> =
        (0..classes as usize * d).map(|at| crate::numeric::random::uniform_of(&[9, at as u64]) * 2.0).collect();
    let mut points = Vec::with_capacity(n * d);
    let mut labels = Vec::with_capacity(n);
    for _ in 0..n {
        let class = random.below(classes as usize);
        points.extend((0..d).map(|at| (centers[class * d + at] + spread * random.normal()) as f32));
        labels.push(class as u32);
    }
    Data { points: Matrix::new(points, n, d).unwrap(), labels }
}

/// Returns random points with whole coordinates. Most distances tie, and many points coincide.
pub(crate) fn lattice(n: usize, d: usize, classes: u32, side: usize, seed: u64) -> Data {
    let mut random = Random::new(seed, 2);
    let points = (0..n * d).map(|_| random.below(side) as f32).collect();
    let labels = (0..n).map(|_| random.below(classes as usize) as u32).collect();
    Data { points: Matrix::new(points, n, d).unwrap(), labels }
}

/// Returns the expected `m` neighbors of a query: pairs of a squared distance and an index, nearest first. Ties are
/// ordered by index, and the point `skip` is left out.
pub(crate) fn neighbors(reference: &Matrix, query: &[f32], skip: Option<usize>, m: usize) -> Vec<(f64, usize)> {
    let mut all: Vec<(f64, usize)> = (0..reference.rows())
        .filter(|&row| Some(row) != skip)
        .map(|row| (squared(reference.row(row), query), row))
        .collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all.truncate(m);
    all
}

pub(crate) fn squared(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum()
}

/// The settings of the neighbor scores and the kernel in a test.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) rank_neighbors: usize,
    pub(crate) contrast_neighbors: usize,
    pub(crate) temperature: f64,
    pub(crate) bandwidth: f64,
    pub(crate) shape: f64,
}

/// Returns the expected rank score `S_knn` of every class. The point `skip` is no neighbor.
pub(crate) fn rank_scores(
    reference: &Data,
    query: &[f32],
    skip: Option<usize>,
    classes: usize,
    s: Settings,
) -> Vec<f64> {
    let near = neighbors(&reference.points, query, skip, s.rank_neighbors);
    (0..classes)
        .map(|class| {
            let place = near.iter().position(|&(_, id)| reference.labels[id] as usize == class);
            place.map_or(f64::INFINITY, |place| place as f64 + 1.0)
        })
        .collect()
}

/// Returns the expected contrastive score `S_clr` of every class. The point `skip` is no neighbor.
pub(crate) fn contrast_scores(
    reference: &Data,
    query: &[f32],
    skip: Option<usize>,
    classes: usize,
    s: Settings,
) -> Vec<f64> {
    let near = neighbors(&reference.points, query, skip, s.contrast_neighbors);
    let near: Vec<_> = near.iter().map(|&(_, id)| (reference.points.row(id), reference.labels[id])).collect();
    (0..classes as u32).map(|class| contrast_of(&near, class, s)).collect()
}

/// Returns the expected contrastive score `S_clr` of one class. `near` holds the points and labels of the neighbors,
/// nearest first.
pub(crate) fn contrast_of(near: &[(&[f32], u32)], class: u32, s: Settings) -> f64 {
    let Some(&(anchor, _)) = near.first() else { return f64::INFINITY };
    let distance = |point: &[f32]| {
        let r = squared(anchor, point).sqrt();
        -2.0 * (-(r / s.bandwidth).powf(1.0 / s.shape)).exp_m1()
    };
    // Sorted, so that equal neighborhoods tie exactly: the order in which a query sees them is no part of the formula.
    let mut terms: Vec<f64> = near[1..].iter().map(|(point, _)| (-distance(point) / s.temperature).exp()).collect();
    terms.sort_by(f64::total_cmp);
    let others: f64 = terms.iter().sum();
    let loss = |place: usize| {
        let d = if place == 0 { 0.0 } else { distance(near[place].0) };
        d / s.temperature + others.ln_1p()
    };
    (0..near.len()).filter(|&place| near[place].1 == class).map(loss).fold(f64::INFINITY, f64::min)
}

/// Returns the expected threshold in whole-number arithmetic: the `⌈(1-α)(n+1)⌉`-th smallest of n scores. The level α
/// is given in ten-thousandths.
pub(crate) fn threshold(scores: &[f64], ten_thousandths: usize) -> f64 {
    let mut sorted = scores.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let index = ((10_000 - ten_thousandths) * (sorted.len() + 1)).div_ceil(10_000);
    if index > sorted.len() { f64::INFINITY } else { sorted[index - 1] }
}

/// Returns the labels whose rank score and contrastive score are both within their thresholds.
pub(crate) fn set(rank: &[f64], contrast: &[f64], rank_threshold: f64, contrast_threshold: f64) -> Vec<u32> {
    (0..rank.len() as u32)
        .filter(|&y| rank[y as usize] <= rank_threshold && contrast[y as usize] <= contrast_threshold)
        .collect()
}
