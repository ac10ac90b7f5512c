//! Audit of a labelled data set: label errors, near copies, outliers, suspicious classes, and order of rows.
//!
//! No result about a point depends on a fit to that point. Experts that are trained on all other points test its label
//! (`label_errors.rs`). Copies and outliers follow from neighbors among the embeddings, scaled to length 1. For the
//! search for classes with two modes, some points locate the modes and other points test them (`twofold.rs`).
//!
//! If a model with trusted calibration labels is given, the model's p-values test the labels instead. Near copies are
//! then also searched in the metric that the model has learned and among its points. Data points that the model holds
//! are listed.

mod copies;
mod label_errors;
mod left_out;
mod twofold;

pub use self::copies::Copies;
use self::label_errors::LabelErrors;
pub use self::label_errors::benjamini_hochberg;
use self::left_out::left_out;
use super::dance::Dance;
use super::model_point::ModelPoint;
use super::select::median;
use crate::conformal::PredictOptions;
use crate::context::Context;
use crate::data::{Dataset, Normalize, Normalizer};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Part;
use crate::neighbors::Index;
use crate::numeric::matrix::Ragged;
use crate::scores::calibration::NOVELTY_NEIGHBORS;
use crate::stream::Martingale;

/// The number of robust standard deviations above the median from which a point is an outlier. The logarithm of its
/// distance to the 5th neighbor is compared.
const FAR: f64 = 5.0;
/// A class with fewer points than this is rare.
pub const RARE: usize = 5;
/// Two classes may be one class if at least this share of the points of each fits the other class best.
const CONFUSED: f64 = 0.3;
/// The number of first rows that the test of order only uses for comparison. The first tested row is ranked among them.
const FIRST: usize = 20;

/// The settings of an audit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditOptions<'a> {
    /// The false discovery rate of the list of label errors, and of the list of classes with two modes: the largest
    /// expected share of false entries.
    pub fdr: f64,
    /// An upper bound on the probability of a false alarm: rows are in random order, and a test of order rejects that.
    pub false_alarm: f64,
    /// The seed of all random draws, and of the random order of tied values.
    pub seed: u64,
    /// For each point, the name of the part that holds it in the user's split, such as `train` or `test`; `None`
    /// without a split.
    pub parts: Option<&'a [String]>,
}

/// A label of the data set that is probably wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelError {
    /// The row of the point in the data set.
    pub row: usize,
    /// The class id of the label in the data set.
    pub label: u32,
    /// The class id of the most probable other label.
    pub suggested: u32,
    /// The probability that the label is an error; `None` if a model tests the labels.
    pub probability: Option<f64>,
    /// The p-value of the given label: the conformal p-value of the model, if one tests the labels. Otherwise it is the
    /// share of points whose given label has no larger log posterior.
    pub p_value: f64,
}

/// The findings about a labelled data set. A row is an index of a point in the data set, and a class is given by its
/// class id.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// The rows of the five nearest other points, for every point, nearest first.
    pub(crate) neighbors: Ragged<u32>,
    /// Labels that are probably wrong, most suspicious first.
    pub label_errors: Vec<LabelError>,
    /// For every point, the logarithm of the odds of the most probable other label against the given label.
    pub odds: Vec<f64>,
    /// The estimated share of labels that are errors; `None` if a model tests the labels.
    pub error_share: Option<f64>,
    /// The rule that selects the label errors, and its assumptions, as a sentence for outputs.
    pub rule: &'static str,
    /// Groups of near copies. Groups with points in several parts come first.
    pub copies: Vec<Copies>,
    /// The outliers, farthest first: each one's row, and the logarithm of its distance to the 5th neighbor. The
    /// logarithm is given in robust standard deviations above the median.
    pub outliers: Vec<(usize, f64)>,
    /// Pairs of classes that may be one class, with two shares. The first is the share of the first class's points that
    /// fit the second class best, the second the reverse.
    pub alike: Vec<([u32; 2], [f64; 2])>,
    /// Classes that may be two, smallest p-value first. The p-value tests the hypothesis that the class has one mode
    /// along every line. Then come the rows of the two groups, the larger group first, each sorted by the distance to
    /// the centre of the group.
    pub twofold: Vec<(u32, f64, [Vec<u32>; 2])>,
    /// Classes with fewer than [`RARE`] points, and their numbers of points.
    pub rare: Vec<(u32, usize)>,
    /// The tests whether rows are in random order, by `label` and by `distance` to the neighbors. The number is the
    /// largest capital of a test martingale that starts at 1; a large capital speaks against random order.
    pub order: Vec<(&'static str, f64)>,
    /// The names in `order` (`label`, `distance`) whose test rejects a random order of rows.
    pub ordered_by: Vec<&'static str>,
    /// The data points that the model holds: the row of each one, and the equal point of the model.
    pub seen: Vec<(usize, ModelPoint)>,
}

impl Audit {
    /// Returns the rows of the five points that are nearest to the point at `row`, nearest first.
    pub fn neighbors(&self, row: usize) -> &[u32] {
        self.neighbors.row(row)
    }

    /// Audits `data`. If a `model` is given, its p-values test the labels. Fewer than ten points, or than two classes
    /// with points, are an error.
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
            None => (estimated(data, &errors, options.fdr), ESTIMATED_RULE),
            Some(model) => (trusted(model, data, &errors, options.fdr, context)?, TRUSTED_RULE),
        };
        // Outliers and the test of order use the squared distance to the last of the neighbors.
        let far: Vec<f64> = (0..data.len()).map(|row| near.squared(row).last().copied().unwrap_or(0.0)).collect();
        let labels: Vec<f64> = data.labels.iter().map(|&label| f64::from(label)).collect();
        let order = vec![("label", evidence(&labels, options)?), ("distance", evidence(&far, options)?)];
        // Two properties are tested, each at half of the probability of a false alarm.
        let is_ordered = |&(by, evidence): &(_, f64)| (evidence >= 2.0 / options.false_alarm).then_some(by);
        Ok(Self {
            neighbors: (0..data.len()).map(|row| near.ids(row).iter().copied()).collect(),
            label_errors,
            error_share: model.is_none().then_some(errors.share),
            rule,
            copies,
            outliers: outliers(&far),
            alike: confused_classes(&errors.best, &data.labels, classes),
            twofold,
            rare: rare(data),
            ordered_by: order.iter().filter_map(is_ordered).collect(),
            order,
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

/// Lists label errors at the false discovery rate `fdr` by the estimated probability of each error.
fn estimated(data: &Dataset, errors: &LabelErrors, fdr: f64) -> Vec<LabelError> {
    let label_error = |row: usize| LabelError {
        row,
        label: data.labels[row],
        suggested: errors.suggested[row],
        probability: Some(errors.probability[row]),
        p_value: errors.p_values[row],
    };
    errors.list(fdr).into_iter().map(label_error).collect()
}

/// The error level α at which a model computes p-values of labels. Only p-values of the method
/// [`Dance`](crate::method::MethodName::Dance) depend on it.
const LEVEL: f64 = 0.05;

/// Lists label errors at the false discovery rate `fdr` by the p-values of a model whose calibration labels are
/// trusted.
fn trusted(
    model: &Dance,
    data: &Dataset,
    errors: &LabelErrors,
    fdr: f64,
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
    };
    Ok(benjamini_hochberg(&p_values, fdr).into_iter().map(label_error).collect())
}

/// Finds outliers, farthest first. Returns the row and the logarithm of the distance of each, in robust standard
/// deviations above the median. `far` holds the squared distance of each point to its 5th neighbor.
fn outliers(far: &[f64]) -> Vec<(usize, f64)> {
    let logs: Vec<f64> = far.iter().map(|squared| 0.5 * squared.max(f64::MIN_POSITIVE).ln()).collect();
    let center = median(logs.clone()).unwrap_or(0.0);
    // The median deviation of a normal law is 0.6745 standard deviations.
    let deviation = median(logs.iter().map(|log| (log - center).abs()).collect()).unwrap_or(0.0);
    let spread = deviation / 0.6745;
    let outlier = |(row, log): (usize, &f64)| {
        let deviations = (log - center) / spread.max(1e-12);
        (deviations > FAR).then_some((row, deviations))
    };
    let mut found: Vec<(usize, f64)> = logs.iter().enumerate().filter_map(outlier).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Finds pairs of classes in which many points of each class fit the other class best, and the shares of these points.
/// `best` holds the most probable label of each point.
fn confused_classes(best: &[u32], labels: &[u32], classes: usize) -> Vec<([u32; 2], [f64; 2])> {
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
        .map(|&(a, b)| ([a, b], [share(a, b), share(b, a)]))
        .collect()
}

/// Returns the classes with fewer than [`RARE`] points, and their numbers of points.
fn rare(data: &Dataset) -> Vec<(u32, usize)> {
    let counts = data.class_counts();
    let few = counts.iter().enumerate().filter(|&(_, &count)| count > 0 && count < RARE);
    few.map(|(class, &count)| (class as u32, count)).collect()
}

/// Returns the largest capital of a test martingale that ranks the score of every row among the scores of earlier rows.
/// A large capital shows that `scores`, one per row, are not in random order.
fn evidence(scores: &[f64], options: AuditOptions<'_>) -> Result<f64> {
    let first = FIRST.min(scores.len() / 2).max(1);
    let mut martingale = Martingale::new(scores[..first].to_vec(), options.seed)?;
    for &score in &scores[first..] {
        martingale.bet(score);
    }
    Ok(martingale.largest())
}
