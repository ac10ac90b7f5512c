//! Audit of a labelled data set: label errors, copies, outliers, suspicious classes, order of rows.
//!
//! No result about a point depends on a fit to that point. Labels are tested by experts that are trained on [all
//! other points](crate::model::audit::label_errors::LabelErrors). Copies and outliers follow from neighbors in the
//! given space, normalised to length 1. Classes with two modes are tested on points that did not find the modes
//! ([`TwofoldClass`]). With a model whose calibration points are trusted, its p-values test the labels instead.
//! Copies are then searched in its metric and among its points too, and points that the model holds are listed.

mod copies;
mod label_errors;
mod left_out;
mod twofold;

use serde::Serialize;

pub use self::copies::{Copies, OverlapPoint, Space};
pub use self::label_errors::{LabelErrors, benjamini_hochberg};
use self::left_out::left_out;
pub use self::twofold::TwofoldClass;
use super::dance::Dance;
use crate::conformal::PredictOptions;
use crate::context::Context;
use crate::data::{Dataset, Normalize, Normalizer};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Part;
use crate::model::median::median;
use crate::neighbors::{Index, Neighbors};
use crate::stream::{Martingale, NOVELTY_NEIGHBORS};

/// Robust standard deviations of the log distance beyond which a point is an outlier.
const FAR: f64 = 5.0;
/// The number of points below which a class is rare.
pub const RARE: usize = 5;
/// The share of confused points of each of two classes from which on they may be one class.
const CONFUSED: f64 = 0.3;
/// The number of rows at the beginning with which the first tested row is compared.
const FIRST: usize = 20;

/// The settings of an audit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditOptions<'a> {
    /// The false discovery rate of the label errors, and of the classes with two modes.
    pub fdr: f64,
    /// The probability of a false alarm for a random order.
    pub false_alarm: f64,
    /// The seed of random draws and of broken ties.
    pub seed: u64,
    /// The part of a split of every point, if it is known.
    pub parts: Option<&'a [String]>,
}

/// A label that is probably wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelError {
    /// The place of the point in the data set.
    pub row: usize,
    /// The given class.
    pub label: u32,
    /// The most probable other class.
    pub suggested: u32,
    /// The probability that the label is an error; `None` with a model.
    pub probability: Option<f64>,
    /// The p-value of the given label.
    pub p_value: f64,
    /// The nearest points.
    pub neighbors: Vec<u32>,
}

/// A point far from all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlier {
    /// The place of the point in the data set.
    pub row: usize,
    /// The distance to the 5th neighbor, as robust standard deviations of its logarithm above the median.
    pub deviations: f64,
    /// The nearest points.
    pub neighbors: Vec<u32>,
}

/// Two classes that are confused with each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConfusedClasses {
    /// The classes.
    pub classes: [u32; 2],
    /// The share of points of each class that fit the other class best.
    pub shares: [f64; 2],
}

/// The test of one property of the rows for a random order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// The property: `label` or `distance`.
    pub by: &'static str,
    /// The largest capital of a martingale that bets against a random order; it starts at 1.
    pub evidence: f64,
    /// True if the order is not random, at the level of false alarms.
    pub ordered: bool,
}

/// The findings about a labelled data set. Rows are places in the data set, classes are its class ids.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// Labels that are probably wrong, most suspicious first.
    pub label_errors: Vec<LabelError>,
    /// The log odds of the best other label against the given label, for every point.
    pub odds: Vec<f64>,
    /// The estimated share of labels that are errors; `None` with a model.
    pub error_share: Option<f64>,
    /// The rule that makes the list of label errors, and its assumptions.
    pub rule: &'static str,
    /// Groups of near copies, those across parts first.
    pub copies: Vec<Copies>,
    /// Points far from all others, farthest first.
    pub outliers: Vec<Outlier>,
    /// Pairs of classes that may be one class.
    pub alike: Vec<ConfusedClasses>,
    /// Classes with two modes, smallest p-value first.
    pub twofold: Vec<TwofoldClass>,
    /// Rare classes with their numbers of points.
    pub rare: Vec<(u32, usize)>,
    /// Tests of the order of rows.
    pub order: Vec<Order>,
    /// Points that the model holds.
    pub seen: Vec<OverlapPoint>,
}

impl Audit {
    /// Audits `data`. With a `model`, labels are tested by its calibration points.
    pub fn new(
        device: &dyn Device,
        data: &Dataset,
        model: Option<&Dance>,
        options: AuditOptions<'_>,
        context: &Context<'_>,
    ) -> Result<Self> {
        check(data, options)?;
        let classes = data.classes.len();
        // Neighbors in the given space, with all points normalised to length 1.
        let mut embeddings = data.embeddings.clone();
        let normalizer = Normalizer::fit(Normalize::L2, &embeddings);
        normalizer.apply_named("the data", &mut embeddings, |row| data.rows[row] as usize)?;
        let points = Part { embeddings, labels: data.labels.clone() };
        let index = Index::open(device, points.embeddings.clone(), context)?;
        let near = index.search_own(data.len(), NOVELTY_NEIGHBORS.min(data.len() - 1), context)?;
        // Copies come first: only one of each group counts in the test for two modes.
        let (copies, seen) =
            copies::find(device, data, (&points.embeddings, &near), model, options, context)?;
        let twofold = twofold::find(&points.embeddings, data, &copies, (options.fdr, options.seed), context);
        // Labels are tested by a trusted model, or by all other points.
        let logs = left_out(device, &points, classes, options.seed, context)?;
        let errors = LabelErrors::new(&logs, classes, &data.labels, context);
        let (label_errors, rule) = match model {
            None => (estimated(data, &errors, options.fdr, &near), ESTIMATED_RULE),
            Some(model) => (trusted(model, data, &errors, options.fdr, &near, context)?, TRUSTED_RULE),
        };
        // Outliers and the order follow from the distance to the last of the neighbors.
        let far: Vec<f64> =
            (0..data.len()).map(|row| near.squared(row).last().copied().unwrap_or(0.0)).collect();
        let labels: Vec<f64> = data.labels.iter().map(|&label| f64::from(label)).collect();
        Ok(Self {
            label_errors,
            error_share: model.is_none().then_some(errors.share),
            rule,
            copies,
            outliers: outliers(&far, &near),
            alike: confused_classes(&errors.best, &data.labels, classes),
            twofold,
            rare: rare(data),
            order: vec![order("label", &labels, options)?, order("distance", &far, options)?],
            seen,
            odds: errors.odds,
        })
    }
}

/// Refuses settings out of range, and data that is too small.
fn check(data: &Dataset, options: AuditOptions<'_>) -> Result<()> {
    if !(options.fdr > 0.0 && options.fdr < 1.0) {
        return Err(Error::config("fdr", options.fdr, "between 0 and 1, such as 0.1"));
    }
    if let Some(parts) = options.parts.filter(|parts| parts.len() != data.len()) {
        return Err(Error::Shape {
            what: "parts (one per point)".into(),
            expected: data.len().to_string(),
            found: parts.len().to_string(),
        });
    }
    if data.class_counts().iter().filter(|&&count| count > 0).count() < 2 || data.len() < 10 {
        return Err(Error::Data("an audit needs at least ten points of at least two classes".into()));
    }
    Ok(())
}

const ESTIMATED_RULE: &str = "an estimate: holds if right labels follow the class probabilities predicted from all \
     other points, or fall on the nearer half of the classes, the farther the less often, and if errors fall on all \
     classes equally; errors between near classes are not listed";
const TRUSTED_RULE: &str = "Benjamini-Hochberg on conformal p-values: holds if the labels of the model's calibration \
     points are right and the points come from the same source";

/// Lists label errors by their estimated probability.
fn estimated(data: &Dataset, errors: &LabelErrors, fdr: f64, near: &Neighbors) -> Vec<LabelError> {
    let label_error = |row: usize| LabelError {
        row,
        label: data.labels[row],
        suggested: errors.suggested[row],
        probability: Some(errors.probability[row]),
        p_value: errors.p_values[row],
        neighbors: near.ids(row).to_vec(),
    };
    errors.list(fdr).into_iter().map(label_error).collect()
}

/// The error level at which the method dance divides α between its two scores, for the p-values of labels.
const LEVEL: f64 = 0.05;

/// Lists label errors by the p-values of a model whose calibration points are trusted.
fn trusted(
    model: &Dance,
    data: &Dataset,
    errors: &LabelErrors,
    fdr: f64,
    near: &Neighbors,
    context: &Context<'_>,
) -> Result<Vec<LabelError>> {
    let scored = model.score(&data.embeddings, PredictOptions::default().best(false), context)?;
    let decision = model.decide(LEVEL)?;
    let p_value = |(row, id): (usize, Option<u32>)| {
        // A label that the model does not have gets the counts of labels that are not listed.
        let counts = scored.counts.get(row, id.unwrap_or(u32::MAX));
        decision.p_value(&scored.counts, counts)
    };
    let p_values: Vec<f64> = model.class_ids(data).into_iter().enumerate().map(p_value).collect();
    let label_error = |row: usize| LabelError {
        row,
        label: data.labels[row],
        suggested: errors.suggested[row],
        probability: None,
        p_value: p_values[row],
        neighbors: near.ids(row).to_vec(),
    };
    Ok(benjamini_hochberg(&p_values, fdr).into_iter().map(label_error).collect())
}

/// Finds points whose distance to their 5th neighbor is unusually large, from the squared distances `far`.
fn outliers(far: &[f64], near: &Neighbors) -> Vec<Outlier> {
    let logs: Vec<f64> = far.iter().map(|squared| 0.5 * squared.max(f64::MIN_POSITIVE).ln()).collect();
    let center = median(logs.clone()).unwrap_or(0.0);
    // The median deviation of a normal law is 0.6745 standard deviations.
    let deviation = median(logs.iter().map(|log| (log - center).abs()).collect()).unwrap_or(0.0);
    let spread = deviation / 0.6745;
    let outlier = |(row, log): (usize, &f64)| {
        let deviations = (log - center) / spread.max(1e-12);
        (deviations > FAR).then(|| Outlier { row, deviations, neighbors: near.ids(row).to_vec() })
    };
    let mut found: Vec<Outlier> = logs.iter().enumerate().filter_map(outlier).collect();
    found.sort_by(|a, b| b.deviations.total_cmp(&a.deviations));
    found
}

/// Finds pairs of classes of which many points fit the other class best.
fn confused_classes(best: &[u32], labels: &[u32], classes: usize) -> Vec<ConfusedClasses> {
    let mut pair_counts = std::collections::BTreeMap::new();
    let mut counts = vec![0usize; classes];
    for (&label, &best) in labels.iter().zip(best) {
        counts[label as usize] += 1;
        *pair_counts.entry((label, best)).or_insert(0usize) += 1;
    }
    let share = |a: u32, b: u32| {
        pair_counts.get(&(a, b)).map_or(0.0, |&count| count as f64 / counts[a as usize].max(1) as f64)
    };
    let pairs = pair_counts.keys().filter(|(a, b)| a < b);
    let enough = |a: u32| counts[a as usize] >= 2 * RARE;
    pairs
        .filter(|&&(a, b)| enough(a) && enough(b) && share(a, b) >= CONFUSED && share(b, a) >= CONFUSED)
        .map(|&(a, b)| ConfusedClasses { classes: [a, b], shares: [share(a, b), share(b, a)] })
        .collect()
}

/// Returns the rare classes with their numbers of points.
fn rare(data: &Dataset) -> Vec<(u32, usize)> {
    let counts = data.class_counts();
    let few = counts.iter().enumerate().filter(|&(_, &count)| count > 0 && count < RARE);
    few.map(|(class, &count)| (class as u32, count)).collect()
}

/// Tests the order of rows by a martingale, which ranks every row among those before it.
fn order(by: &'static str, scores: &[f64], options: AuditOptions<'_>) -> Result<Order> {
    let first = FIRST.min(scores.len() / 2).max(1);
    let mut martingale = Martingale::new(scores[..first].to_vec(), options.seed)?;
    for &score in &scores[first..] {
        martingale.bet(score);
    }
    let evidence = martingale.largest();
    // Two properties are tested, each at half of the probability of a false alarm.
    Ok(Order { by, evidence, ordered: evidence >= 2.0 / options.false_alarm })
}
