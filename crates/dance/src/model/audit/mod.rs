//! What is wrong with a labelled set: labels, copies, outliers, classes, order.
//!
//! Nothing is fitted that could remember a point: labels are judged [by all other points](crate::model::audit::label_errors::LabelErrors), everything else
//! by neighbors in the space as given, normalised to length 1, or by points that took no part in finding it ([`Twofold`]). With a model whose calibration points are trusted, labels are judged by
//! its p-values instead, copies are looked for in its metric too and among its own points, and what it has seen before is named.

mod copies;
mod label_errors;
mod left_out;
mod twofold;

use serde::Serialize;

pub use self::copies::{Copies, SeenPoint, Space};
pub use self::label_errors::{LabelErrors, benjamini_hochberg};
use self::left_out::left_out;
pub use self::twofold::Twofold;
use super::dance::Dance;
use crate::conformal::PredictOptions;
use crate::context::Context;
use crate::data::{Dataset, Normalize, Normalizer};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Part;
use crate::neighbors::{Index, Neighbors};

use crate::stream::{Martingale, NOVELTY_NEIGHBORS};

/// Robust standard deviations of the log distance beyond which a point is an outlier.
const FAR: f64 = 5.0;
/// Classes with fewer points are too rare to say anything about.
pub const RARE: usize = 5;
/// Two classes are one where each is taken for the other at least this often.
const ALIKE: f64 = 0.3;
/// Rows that others are compared with when the order is judged.
const FIRST: usize = 20;

/// What to ask of an audit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditOptions<'a> {
    /// Rate of false discoveries of the list of label errors, and of that of classes that are two.
    pub fdr: f64,
    /// Probability of calling a random order none.
    pub false_alarm: f64,
    /// Seed of the folds and of what breaks ties.
    pub seed: u64,
    /// Which part of a split every point is in, where that is known.
    pub parts: Option<&'a [String]>,
}

/// A label that is probably wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelError {
    /// Its place in the data set.
    pub row: usize,
    /// The class it was given, and the one that fits best beside it.
    pub label: u32,
    /// See there.
    pub suggested: u32,
    /// The probability that it is an error; `None` where trusted points decide.
    pub probability: Option<f64>,
    /// The p-value of the given label.
    pub p_value: f64,
    /// Nearest points.
    pub neighbors: Vec<u32>,
}

/// A point far from all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlier {
    /// Its place in the data set.
    pub row: usize,
    /// How far, in robust standard deviations of the logarithm of the distance to the 5th neighbor.
    pub deviations: f64,
    /// Nearest points.
    pub neighbors: Vec<u32>,
}

/// Two classes that are taken for each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alike {
    /// The classes.
    pub classes: [u32; 2],
    /// The share of each that is taken for the other.
    pub shares: [f64; 2],
}

/// Whether rows are in random order, by one thing they have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// `label` or `distance`.
    pub by: &'static str,
    /// Evidence against a random order; it starts at 1.
    pub evidence: f64,
    /// Whether that is beyond chance.
    pub ordered: bool,
}

/// What is wrong with a labelled data set. Rows are places in the data set, classes its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// Labels that are probably wrong, most suspicious first.
    pub label_errors: Vec<LabelError>,
    /// For every point, how much more probable the best other label is, as a log ratio.
    pub odds: Vec<f64>,
    /// The share of labels that are errors, as estimated; `None` where trusted points decide.
    pub error_share: Option<f64>,
    /// The rule behind the list, and when it holds.
    pub rule: &'static str,
    /// Groups of near copies, those across parts first.
    pub copies: Vec<Copies>,
    /// Points far from all others, farthest first.
    pub outliers: Vec<Outlier>,
    /// Classes that may be one.
    pub alike: Vec<Alike>,
    /// Classes that are two, clearest first.
    pub twofold: Vec<Twofold>,
    /// Classes that are too rare, with their points.
    pub rare: Vec<(u32, usize)>,
    /// Whether rows are in random order.
    pub order: Vec<Order>,
    /// Points that the model has seen before.
    pub seen: Vec<SeenPoint>,
}

impl Audit {
    /// Audits `data`; with a `model`, by its calibration points.
    pub fn new(
        device: &dyn Device,
        data: &Dataset,
        model: Option<&Dance>,
        options: AuditOptions<'_>,
        context: &Context<'_>,
    ) -> Result<Self> {
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
        let classes = data.classes.len();
        if data.class_counts().iter().filter(|&&count| count > 0).count() < 2 || data.len() < 10 {
            return Err(Error::Data("an audit needs at least ten points of at least two classes".into()));
        }
        let mut embeddings = data.embeddings.clone();
        let normalizer = Normalizer::fit(Normalize::L2, &embeddings);
        normalizer.apply_named("the data", &mut embeddings, |row| data.rows[row] as usize)?;
        let points = Part { embeddings, labels: data.labels.clone() };
        let index = Index::open(device, points.embeddings.clone(), context)?;
        let near = index.search_own(data.len(), NOVELTY_NEIGHBORS.min(data.len() - 1), context)?;
        let (copies, seen) =
            copies::find(device, data, (&points.embeddings, &near), model, options, context)?;
        let asked = (options.fdr, options.seed);
        let twofold = twofold::find(&points.embeddings, data, &copies, asked, context);
        let logs = left_out(device, &points, classes, options.seed, context)?;
        let judged = LabelErrors::new(&logs, classes, &data.labels, context);
        let named = |row: usize| near.ids(row).to_vec();
        let (label_errors, rule) = match model {
            None => {
                let of = |row: usize| LabelError {
                    row,
                    label: data.labels[row],
                    suggested: judged.suggested[row],
                    probability: Some(judged.probability[row]),
                    p_value: judged.p_values[row],
                    neighbors: named(row),
                };
                let list = judged.list(options.fdr).into_iter().map(of).collect();
                (
                    list,
                    "an estimate: holds if right labels fall as class probabilities by all other points say or on the nearer half of the classes, the rarer the farther, and errors on all alike; errors between near classes stay out",
                )
            }
            Some(model) => (
                trusted(model, data, &judged, options.fdr, &near, context)?,
                "Benjamini-Hochberg on conformal p-values: holds if the model's calibration points are labelled right and come from the same source",
            ),
        };
        let far: Vec<f64> =
            (0..data.len()).map(|row| near.squared(row).last().copied().unwrap_or(0.0)).collect();
        Ok(Self {
            label_errors,
            error_share: model.is_none().then_some(judged.share),
            rule,
            copies,
            outliers: outliers(&far, &near),
            alike: alike(&judged.best, &data.labels, classes),
            twofold,
            rare: rare(data),
            order: vec![
                order(
                    "label",
                    &data.labels.iter().map(|&label| f64::from(label)).collect::<Vec<_>>(),
                    options,
                )?,
                order("distance", &far, options)?,
            ],
            seen,
            odds: judged.odds,
        })
    }
}

/// The error level at which the method dance divides α between its two scores, for the p-values of labels.
const LEVEL: f64 = 0.05;

/// The list by the p-values of a model whose calibration points are trusted.
fn trusted(
    model: &Dance,
    data: &Dataset,
    judged: &LabelErrors,
    fdr: f64,
    near: &Neighbors,
    context: &Context<'_>,
) -> Result<Vec<LabelError>> {
    let scored = model.score(&data.embeddings, PredictOptions::default().best(false), context)?;
    let decision = model.decide(LEVEL)?;
    let p_value = |(row, id): (usize, Option<u32>)| {
        // A label the model has never seen conforms to nothing it knows.
        let counts = scored.counts.get(row, id.unwrap_or(u32::MAX));
        decision.p_value(&scored.counts, counts)
    };
    let p_values: Vec<f64> = model.class_ids(data).into_iter().enumerate().map(p_value).collect();
    let of = |row: usize| LabelError {
        row,
        label: data.labels[row],
        suggested: judged.suggested[row],
        probability: None,
        p_value: p_values[row],
        neighbors: near.ids(row).to_vec(),
    };
    Ok(benjamini_hochberg(&p_values, fdr).into_iter().map(of).collect())
}

/// Points whose distance to their 5th neighbor stands out.
fn outliers(far: &[f64], near: &Neighbors) -> Vec<Outlier> {
    let logs: Vec<f64> = far.iter().map(|squared| 0.5 * squared.max(f64::MIN_POSITIVE).ln()).collect();
    let median = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let center = median(&logs);
    // The median deviation of a normal law is 0.6745 standard deviations.
    let spread = median(&logs.iter().map(|log| (log - center).abs()).collect::<Vec<_>>()) / 0.6745;
    let of = |(row, log): (usize, &f64)| {
        let deviations = (log - center) / spread.max(1e-12);
        (deviations > FAR).then(|| Outlier { row, deviations, neighbors: near.ids(row).to_vec() })
    };
    let mut found: Vec<Outlier> = logs.iter().enumerate().filter_map(of).collect();
    found.sort_by(|a, b| b.deviations.total_cmp(&a.deviations));
    found
}

/// Classes that are taken for each other by all other points.
fn alike(best: &[u32], labels: &[u32], classes: usize) -> Vec<Alike> {
    let mut taken = std::collections::BTreeMap::new();
    let mut counts = vec![0usize; classes];
    for (&label, &best) in labels.iter().zip(best) {
        counts[label as usize] += 1;
        *taken.entry((label, best)).or_insert(0usize) += 1;
    }
    let share = |a: u32, b: u32| {
        taken.get(&(a, b)).map_or(0.0, |&count| count as f64 / counts[a as usize].max(1) as f64)
    };
    let pairs = taken.keys().filter(|(a, b)| a < b);
    let enough = |a: u32| counts[a as usize] >= 2 * RARE;
    pairs
        .filter(|&&(a, b)| enough(a) && enough(b) && share(a, b) >= ALIKE && share(b, a) >= ALIKE)
        .map(|&(a, b)| Alike { classes: [a, b], shares: [share(a, b), share(b, a)] })
        .collect()
}

fn rare(data: &Dataset) -> Vec<(u32, usize)> {
    let counts = data.class_counts();
    let few = counts.iter().enumerate().filter(|&(_, &count)| count > 0 && count < RARE);
    few.map(|(class, &count)| (class as u32, count)).collect()
}

/// A martingale over the rows: each is ranked among those before it.
fn order(by: &'static str, scores: &[f64], options: AuditOptions<'_>) -> Result<Order> {
    let first = FIRST.min(scores.len() / 2).max(1);
    let mut martingale = Martingale::new(scores[..first].to_vec(), options.seed)?;
    for &score in &scores[first..] {
        martingale.bet(score);
    }
    let evidence = martingale.largest();
    // Two things are looked at, each at half of the probability.
    Ok(Order { by, evidence, ordered: evidence >= 2.0 / options.false_alarm })
}
