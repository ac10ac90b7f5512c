//! Audit of a labelled data set: label errors, near copies, outliers, suspicious classes, and order of rows.
//!
//! No result about a point depends on a fit to that point. Labels are tested by experts that are trained on [all other
//! points](crate::model::audit::label_errors::LabelErrors). Copies and outliers follow from neighbors in the given
//! space, normalised to length 1. Tests for two modes in a class use other points than those that located the modes
//! ([`TwofoldClass`]). With a model whose calibration labels are trusted, the model's p-values test the labels instead.
//! Copies are then searched in the model's metric and among its points too, and data points that the model holds are
//! listed.

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

/// A point is an outlier if its log distance is more than this many robust standard deviations above the median.
const FAR: f64 = 5.0;
/// The number of points below which a class is rare.
pub const RARE: usize = 5;
/// Two classes may be one class if at least this share of the points of each fits the other class best.
const CONFUSED: f64 = 0.3;
/// The number of rows at the beginning that are not tested for order; the first tested row is ranked among them.
const FIRST: usize = 20;

/// The settings of an audit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditOptions<'a> {
    /// The false discovery rate of the list of label errors, and of the list of classes with two modes.
    pub fdr: f64,
    /// The probability of a false alarm, in the tests of order, if the order of rows is random.
    pub false_alarm: f64,
    /// The seed of random draws and of broken ties.
    pub seed: u64,
    /// The part of a split to which each point belongs, such as `train` or `test`, if known.
    pub parts: Option<&'a [String]>,
}

/// A label that is probably wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelError {
    /// The row of the point in the data set.
    pub row: usize,
    /// The class id of the given label.
    pub label: u32,
    /// The class id of the most probable other label.
    pub suggested: u32,
    /// The probability that the label is an error; `None` if a model tests the labels.
    pub probability: Option<f64>,
    /// The p-value of the given label.
    pub p_value: f64,
    /// The rows of the nearest points.
    pub neighbors: Vec<u32>,
}

/// A point far from all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlier {
    /// The row of the point in the data set.
    pub row: usize,
    /// The logarithm of the distance to the 5th neighbor, in robust standard deviations above the median.
    pub deviations: f64,
    /// The rows of the nearest points.
    pub neighbors: Vec<u32>,
}

/// Two classes that are confused with each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConfusedClasses {
    /// The ids of the two classes.
    pub classes: [u32; 2],
    /// The share of points of each class that fit the other class best.
    pub shares: [f64; 2],
}

/// The result of a test whether one property of the rows is in random order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// The property: `label` or `distance`.
    pub by: &'static str,
    /// The largest capital of a martingale that bets against a random order; it starts at 1.
    pub evidence: f64,
    /// True if the test rejects a random order.
    pub ordered: bool,
}

/// The findings about a labelled data set. Points are row numbers of the data set, classes are class ids.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// Labels that are probably wrong, most suspicious first.
    pub label_errors: Vec<LabelError>,
    /// The logarithm of the odds of the most probable other label against the given label, for every point.
    pub odds: Vec<f64>,
    /// The estimated share of labels that are errors; `None` if a model tests the labels.
    pub error_share: Option<f64>,
    /// The rule that selects the label errors, and its assumptions, in words.
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
    /// Data points that the model holds.
    pub seen: Vec<OverlapPoint>,
}

impl Audit {
    /// Audits `data`. With a `model`, the p-values of the model test the labels.
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
        // Copies are found first, since only one point of each group counts in the test for two modes.
        let (copies, seen) = copies::find(device, data, (&points.embeddings, &near), model, options, context)?;
        let twofold = twofold::find(&points.embeddings, data, &copies, (options.fdr, options.seed), context);
        // Labels are tested by a trusted model, or by all other points.
        let logs = left_out(device, &points, classes, options.seed, context)?;
        let errors = LabelErrors::new(&logs, classes, &data.labels, context);
        let (label_errors, rule) = match model {
            None => (estimated(data, &errors, options.fdr, &near), ESTIMATED_RULE),
            Some(model) => (trusted(model, data, &errors, options.fdr, &near, context)?, TRUSTED_RULE),
        };
        // Outliers and the test of order use the squared distance to the last of the neighbors.
        let far: Vec<f64> = (0..data.len()).map(|row| near.squared(row).last().copied().unwrap_or(0.0)).collect();
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

/// Returns an error if a setting is out of range or the data set is too small.
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

/// Returns the label errors at the false discovery rate `fdr`, from their estimated probabilities.
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

/// The error level α for which p-values of labels are computed. Only the method dance depends on it, since it divides α
/// between its two scores.
const LEVEL: f64 = 0.05;

/// Returns the label errors at the false discovery rate `fdr`, from the p-values of a model whose calibration labels
/// are trusted.
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
        // A label that the model does not have gets the counts of an unlisted label.
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

/// Finds points whose distance to their 5th neighbor is unusually large. `far` holds the squared distances to it.
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

/// Finds pairs of classes in which many points of each fit the other class best. `best` is the most probable label of
/// each point.
fn confused_classes(best: &[u32], labels: &[u32], classes: usize) -> Vec<ConfusedClasses> {
    let mut pair_counts = std::collections::BTreeMap::new();
    let mut counts = vec![0usize; classes];
    for (&label, &best) in labels.iter().zip(best) {
        counts[label as usize] += 1;
        *pair_counts.entry((label, best)).or_insert(0usize) += 1;
    }
    let share =
        |a: u32, b: u32| pair_counts.get(&(a, b)).map_or(0.0, |&count| count as f64 / counts[a as usize].max(1) as f64);
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

/// Tests whether `scores`, one per row, are in random order, by a martingale that ranks every score among those before
/// it.
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
