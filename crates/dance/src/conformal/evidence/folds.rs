//! What every label looks like to experts that have not seen the point: out-of-fold log posteriors, for an audit of the labels.
//!
//! Two experts in closed form, fitted on four fifths of the points and asked about the fifth: prototypes in the space in which points of a
//! class scatter alike, and kernel ridge regression in the space as given (Laplace kernel, one median distance wide). A conditional
//! logit on all out-of-fold evidence says what each counts. Nothing is searched over but the shrinkage of the covariance.
//!
//! Cost: five times an eigendecomposition (10d³), and a regression on at most [`MOST`] points (n³/3).

use super::weights::{Evidences, log_sum};
use super::whitening::{Whitening, packed_columns};
use super::wide::{Targets, Wide};
use crate::context::{Context, Silent};
use crate::data::{Normalizer, split};
use crate::device::{Device, cpu};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::{Classifier, OutputScale, Part, Rfm, RfmConfig};
use crate::random::Random;

/// Folds; every point is judged by the others.
const FOLDS: usize = 5;
/// Most points of a regression; a seeded sample of them where there are more.
const MOST: usize = 6000;
/// Labels may be wrong, so the regression does not follow them to the last point.
const RIDGE: f64 = 0.1;
/// The least that an output of the regression counts.
const FLOOR: f32 = 1e-3;
/// The stream of random numbers that samples points for a regression.
const SAMPLE_PURPOSE: u64 = 0xf01d;

/// Log posteriors of every label, points × classes, each point by experts that were fitted without it and its fold. `points` are
/// normalised.
pub(crate) fn out_of_fold(
    device: &dyn Device,
    points: &Part,
    classes: usize,
    seed: u64,
    context: &Context<'_>,
) -> Result<Vec<f64>> {
    let n = points.labels.len();
    let shares = [1.0 / FOLDS as f64; FOLDS];
    let folds = match split::stratified(&points.labels, &shares, seed) {
        // Only classes of one point: nothing to stratify.
        Err(Error::Data(_)) => split::uniform(n, &shares, seed)?,
        folds => folds?,
    };
    let wide = Wide::of(&points.embeddings);
    let mut tables = [Wide::zeros(n, classes), Wide::zeros(n, classes)];
    for (number, held) in folds.iter().enumerate() {
        context.check()?;
        let mut others = vec![true; n];
        for &row in held {
            others[row] = false;
        }
        let rows: Vec<usize> = (0..n).filter(|&row| others[row]).collect();
        let labels: Vec<u32> = rows.iter().map(|&row| points.labels[row]).collect();
        let said = [
            prototypes(&wide.select(&rows), &labels, classes, &wide.select(held), context),
            regression(device, points, rows, held, classes, seed ^ number as u64, context)?,
        ];
        for (table, said) in tables.iter_mut().zip(&said) {
            for (place, &row) in held.iter().enumerate() {
                table.row_mut(row).copy_from_slice(said.row(place));
            }
        }
    }
    let evidences = Evidences { tables: tables.iter().collect(), labels: &points.labels, context };
    let weights = evidences.fit(&[0, 1]).weights;
    let mut logs = Vec::with_capacity(n * classes);
    for row in 0..n {
        let both = tables[0].row(row).iter().zip(tables[1].row(row));
        let sums: Vec<f64> = both.map(|(one, two)| weights[0] * one + weights[1] * two).collect();
        let total = log_sum(&sums);
        logs.extend(sums.iter().map(|sum| sum - total));
    }
    Ok(logs)
}

/// `D/k - ‖(x-μ)W‖²` for every class.
fn prototypes(points: &Wide, labels: &[u32], classes: usize, asked: &Wide, context: &Context<'_>) -> Wide {
    let whitening = Whitening::new(points, labels, classes, None, context);
    let (mut means, mut counts) = (Wide::zeros(classes, points.cols()), vec![0.0; classes]);
    for (row, &label) in labels.iter().enumerate() {
        counts[label as usize] += 1.0;
        means.row_mut(label as usize).iter_mut().zip(points.row(row)).for_each(|(sum, value)| *sum += value);
    }
    for (class, &count) in counts.iter().enumerate() {
        means.row_mut(class).iter_mut().for_each(|sum| *sum /= f64::max(count, 1.0));
    }
    let white = packed_columns(&whitening.map);
    let targets = Targets::new(&means.times(&white, context));
    let mut said = targets.squared(&asked.times(&white, context), context);
    for row in 0..said.rows() {
        for (value, &count) in said.row_mut(row).iter_mut().zip(&counts) {
            *value = if count > 0.0 { whitening.spread / count - *value } else { -whitening.nothing };
        }
    }
    said
}

/// Logs of the outputs of a kernel ridge regression.
fn regression(
    device: &dyn Device,
    points: &Part,
    mut rows: Vec<usize>,
    held: &[usize],
    classes: usize,
    seed: u64,
    context: &Context<'_>,
) -> Result<Wide> {
    if rows.len() > MOST {
        Random::new(seed, SAMPLE_PURPOSE).shuffle(&mut rows);
        rows.truncate(MOST);
        rows.sort_unstable();
    }
    let part = points.select(&rows);
    let unit = cpu::median_distance(&part.embeddings, context);
    if unit <= 0.0 {
        return Ok(Wide::zeros(held.len(), classes)); // most points are the same: nothing to say
    }
    let quiet = context.with_observer(&Silent);
    let config = RfmConfig::default().rounds(0).ridge(RIDGE);
    let machine = Rfm::fit(device, part, classes, Kernel::new(unit, 1.0)?, &config, &quiet)?;
    let scale = OutputScale::clamp(FLOOR);
    let classifier = Classifier::open(device, &machine, &Normalizer::None, scale, context)?;
    let found = classifier.classify(&points.embeddings.select(held), context)?.probabilities;
    Ok(Wide::of_fn(held.len(), classes, |row, class| f64::from(found.row(row)[class]).max(1e-12).ln()))
}
