//! The points of the page: people look at them, review their labels, and coverage is measured on them.

use std::collections::BTreeMap;

use axum::body::Bytes;
use dance::conformal::{ByClass, MethodName};
use dance::data::{Kind, class_ids};
use dance::evaluation::coverage_interval;
use dance::evaluation::metrics::Metrics;
use dance::numeric::random::Random;
use dance::scores::Sets;
use dance::{Context, Dance, Matrix, PredictOptions, Scored};
use serde::Serialize;
use serde_json::{Value, json};

use crate::journal::hash_of;
use crate::level::{self, Level};
use crate::names::value_of;

/// The most points of the page; from larger files so many are drawn at random.
const MOST: usize = 10_000;
/// The problem of requests for points of the page on a server without them.
pub(crate) const NO_POINTS: &str = "this server has no points of its own; start it with --points FILE";
/// The random streams that draw the points of the page, and order those of the audit.
const DRAW_PURPOSE: u64 = 0x5e41;
const AUDIT_PURPOSE: u64 = 0x5e42;
/// The number of points for each point of the audit.
const AUDIT_SHARE: usize = 5;

/// The points of the page, as they were read.
#[derive(Clone, Debug)]
pub struct Reviewable {
    /// The name of the file they were read from.
    pub origin: String,
    /// One row per point.
    pub embeddings: Matrix,
    /// The id of each point, or the name of its picture.
    pub ids: Option<Vec<String>>,
    /// The kind of the ids: text or whole numbers.
    pub id_kind: Kind,
    /// The label of each point in the file.
    pub labels: Option<Vec<String>>,
    /// The row of each point in the file.
    rows: Vec<usize>,
    /// The places of the points of the audit, in the order of the review.
    audit: Vec<usize>,
    /// The hash of each point, by which the journal knows it.
    pub(crate) hashes: Vec<u64>,
}

impl Reviewable {
    /// Takes points from a file called `origin`. Their ids are of `id_kind`.
    pub fn new(
        origin: String,
        embeddings: Matrix,
        ids: Option<Vec<String>>,
        id_kind: Kind,
        labels: Option<Vec<String>>,
    ) -> Self {
        let rows: Vec<usize> = (0..embeddings.rows()).collect();
        let all = Self { origin, embeddings, ids, id_kind, labels, rows, audit: Vec::new(), hashes: Vec::new() };
        let mut all = all.drawn().with_audit();
        all.hashes = (0..all.len()).map(|place| hash_of(all.embeddings.row(place))).collect();
        all
    }

    /// Draws at most [`MOST`] of the points.
    fn drawn(self) -> Self {
        let all = self;
        if all.rows.len() <= MOST {
            return all;
        }
        let mut drawn = all.rows.clone();
        Random::new(0, DRAW_PURPOSE).shuffle(&mut drawn);
        drawn.truncate(MOST);
        drawn.sort_unstable();
        let pick = |texts: &Option<Vec<String>>| {
            texts.as_ref().map(|texts| drawn.iter().map(|&row| texts[row].clone()).collect())
        };
        Self {
            embeddings: all.embeddings.select(&drawn),
            ids: pick(&all.ids),
            labels: pick(&all.labels),
            rows: drawn,
            ..all
        }
    }

    /// Draws the audit, a fifth of the points, at random and before anyone has looked at them. Only its points get
    /// the provenance "random", and they get no other. So the labels of the audit are like those of new points.
    fn with_audit(mut self) -> Self {
        self.audit = (0..self.rows.len()).collect();
        Random::new(0, AUDIT_PURPOSE).shuffle(&mut self.audit);
        self.audit.truncate(self.rows.len().div_ceil(AUDIT_SHARE));
        self
    }

    /// Returns whether a point belongs to the audit.
    pub(crate) fn is_audited(&self, place: usize) -> bool {
        self.audit.contains(&place)
    }

    /// Returns the id of a point, or else its row.
    pub(crate) fn name(&self, place: usize) -> Value {
        self.ids.as_ref().map_or_else(|| self.rows[place].into(), |ids| value_of(self.id_kind, &ids[place]))
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// The scores of the points of the page by one model.
pub(crate) struct PageScores {
    /// The response of `/page-api/points`.
    pub(crate) json: Bytes,
    scored: Scored,
    /// The true labels by class id. A label that the model does not know has [the id of a new label](level::new_label).
    truth: Option<Vec<u32>>,
    /// The places of the points that took no part in the fit or the calibration.
    unused: Vec<usize>,
    pub(crate) curve: Vec<LevelCoverage>,
}

/// The sets at one level.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LevelCoverage {
    pub(crate) alpha: f64,
    /// Share of sets with the true label.
    pub(crate) coverage: f64,
    /// The lower end of the band in which coverage lies 95 times in 100 if the guarantee holds.
    pub(crate) low: f64,
    /// The upper end of the band.
    pub(crate) high: f64,
    /// Labels per set.
    pub(crate) size: f64,
    /// Share of sets without a label.
    pub(crate) empty: f64,
    /// Share of sets with one label.
    pub(crate) singletons: f64,
}

/// The sets of the points of one class at one level.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClassCoverage {
    pub(crate) class: Value,
    pub(crate) points: usize,
    pub(crate) covered: usize,
    /// The lower end of the band in which the coverage of so many points lies 95 times in 100 if the class is covered
    /// like all points.
    pub(crate) low: f64,
    /// The upper end of the band.
    pub(crate) high: f64,
    /// Labels per set.
    pub(crate) size: f64,
}

impl PageScores {
    pub(crate) fn new(model: &Dance, points: &Reviewable, context: &Context<'_>) -> dance::Result<Self> {
        let mut scored = model.score(&points.embeddings, PredictOptions::default().probabilities(true), context)?;
        // The page shows the best answer of each point; coverage needs no probabilities.
        let classified = scored.classified.take();
        let seen = model.seen(&points.embeddings)?;
        let truth = points.labels.as_ref().map(|labels| {
            let classes = class_ids(model.classes());
            labels.iter().map(|label| classes.get(label.as_str()).copied().unwrap_or(level::new_label(model))).collect()
        });
        let used: Vec<bool> = seen.iter().map(Option::is_some).collect();
        let unused = (0..used.len()).filter(|&place| !used[place]).collect();
        let mut json = json(model, points, &scored, truth.as_deref(), &used)?;
        if let Some(best) = classified {
            let of_point = |(row, &label): (usize, &u32)| best.probability(row, label);
            json["probabilities"] = json!(best.labels.iter().enumerate().map(of_point).collect::<Vec<_>>());
            json["predictions"] = json!(best.labels);
        }
        let mut scores = Self { json: json.to_string().into(), scored, truth, unused, curve: Vec::new() };
        if scores.truth.is_some() && !scores.unused.is_empty() {
            let curve = level::alphas().map(|alpha| scores.at_level(model, alpha));
            scores.curve = curve.collect::<dance::Result<_>>()?;
        }
        Ok(scores)
    }

    /// Returns the number of points that coverage is measured on, and of all points.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.unused.len(), self.scored.len())
    }

    /// Returns the sets of the points that coverage is measured on, and their true labels.
    fn sets(&self, model: &Dance, alpha: f64) -> dance::Result<(Sets, Vec<u32>)> {
        let prediction = model.predict(&self.scored, &model.decide(alpha)?);
        let sets = level::with_new_label(model, prediction).select(&self.unused);
        let truth = self.truth.as_deref().unwrap_or_default();
        Ok((sets, self.unused.iter().filter_map(|&place| truth.get(place)).copied().collect()))
    }

    fn at_level(&self, model: &Dance, alpha: f64) -> dance::Result<LevelCoverage> {
        let (sets, truth) = self.sets(model, alpha)?;
        let metrics = Metrics::new(&sets, &truth, model.classes().len() + 1, alpha, None)?;
        let (low, high) = band(model, truth.len(), alpha);
        let Metrics { coverage, size, empty, singletons, .. } = metrics;
        Ok(LevelCoverage { alpha, coverage, low, high, size, empty, singletons })
    }

    /// Returns the coverage of every class at one level, and the number of sets with 0, 1, 2 … labels.
    pub(crate) fn by_class(&self, model: &Dance, alpha: f64) -> dance::Result<(Vec<ClassCoverage>, Vec<usize>)> {
        let (sets, truth) = self.sets(model, alpha)?;
        let mut sizes = vec![0; sets.iter().map(<[u32]>::len).max().unwrap_or(0) + 1];
        let mut classes = vec![[0usize; 3]; model.classes().len() + 1];
        for (row, set) in sets.iter().enumerate() {
            sizes[set.len()] += 1;
            if let Some(&label) = truth.get(row) {
                let [points, covered, labels] = &mut classes[label as usize];
                *points += 1;
                *covered += usize::from(sets.contains(row, label));
                *labels += set.len();
            }
        }
        let of_class = |(class, &[points, covered, labels]): (usize, &[usize; 3])| {
            let (low, high) = band(model, points, alpha);
            let name = model.classes().get(class);
            let class = name.map(|name| value_of(model.label_kind(), name));
            let class = class.unwrap_or_else(|| "(labels that the model does not know)".into());
            ClassCoverage { class, points, covered, low, high, size: labels as f64 / points as f64 }
        };
        let classes = classes.iter().enumerate().filter(|(_, [points, ..])| *points > 0).map(of_class);
        Ok((classes.collect(), sizes))
    }
}

/// The level of the p-values of given labels, which depend on it where two scores share it.
const P_VALUE_ALPHA: f64 = 0.1;

/// Returns the response of `/page-api/points`. `levels` has, for each point, the labels and their levels in turn.
fn json(
    model: &Dance,
    points: &Reviewable,
    scored: &Scored,
    truth: Option<&[u32]>,
    used: &[bool],
) -> dance::Result<serde_json::Value> {
    // A label that the model does not know has no p-value.
    let decision = model.decide(P_VALUE_ALPHA)?;
    let p_value = |(row, &label): (usize, &u32)| {
        let known = label < level::new_label(model);
        known.then(|| decision.p_value(&scored.counts, scored.counts.get(row, label)))
    };
    let p_of_label = truth.map(|truth| truth.iter().enumerate().map(p_value).collect::<Vec<_>>());
    let flat = |labels: &BTreeMap<u32, Level>| -> Vec<serde_json::Value> {
        labels.iter().flat_map(|(label, level)| [json!(label), json!(level)]).collect()
    };
    let label = |name: &String| value_of(model.label_kind(), name);
    Ok(json!({
        "origin": points.origin,
        "classes": model.classes().iter().map(label).collect::<Vec<_>>(),
        "names": (0..points.len()).map(|place| points.name(place)).collect::<Vec<_>>(),
        "named": points.ids.is_some(),
        "labels": points.labels.as_ref().map(|labels| labels.iter().map(label).collect::<Vec<_>>()),
        "levels": level::of_points(model, scored)?.iter().map(flat).collect::<Vec<_>>(),
        "p_of_label": p_of_label,
        "nearest": scored.nearest,
        "novelty": scored.novelty,
        "used": used,
        "random": points.audit,
    }))
}

/// Returns the band in which the coverage of so many points lies 95 times in 100 if the guarantee holds. Where one
/// score is compared among all points, coverage is 1 - alpha in the mean. With two scores, with classes by themselves
/// and with new labels it is larger, and the band has no upper end.
pub(crate) fn band(model: &Dance, points: usize, alpha: f64) -> (f64, f64) {
    let (low, high) = coverage_interval(model.calibration_points(), points, alpha);
    let among_all = matches!(model.by_class(), ByClass::All | ByClass::Balanced) && !model.allows_new_labels();
    (low, if among_all && model.method() != MethodName::Dance { high } else { 1.0 })
}
