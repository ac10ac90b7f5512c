//! The points of the page: what people look at, judge the promise by and review.

use std::collections::BTreeMap;

use axum::body::Bytes;
use dance::conformal::MethodName;
use dance::data::Classes;
use dance::evaluation::CoverageBand;
use dance::evaluation::metrics::Metrics;
use dance::numeric::random::Random;
use dance::scores::Sets;
use dance::{Context, Dance, Matrix, PredictOptions, Scored};
use serde::Serialize;
use serde_json::json;

use crate::level::{self, Level};

/// More points than a person looks through; of more, as many are drawn at random.
const MOST: usize = 10_000;
/// The streams of random numbers that draw them, and that put them in the order of the audit.
const DRAW_PURPOSE: u64 = 0x5e41;
const AUDIT_PURPOSE: u64 = 0x5e42;
/// One of so many points is of the audit.
const AUDIT_SHARE: usize = 5;

/// Points for the page, as they were read.
#[derive(Clone, Debug)]
pub struct Reviewable {
    /// What they were read from.
    pub origin: String,
    /// One row per point.
    pub embeddings: Matrix,
    /// What each is called: a text, or the name of a picture.
    pub ids: Option<Vec<String>>,
    /// The label each came with.
    pub labels: Option<Vec<String>>,
    /// Its row in what it was read from.
    rows: Vec<usize>,
    /// Places of the points of the audit, in the order in which they come up.
    audit: Vec<usize>,
}

impl Reviewable {
    /// Points from a file called `origin`.
    pub fn new(
        origin: String,
        embeddings: Matrix,
        ids: Option<Vec<String>>,
        labels: Option<Vec<String>>,
    ) -> Self {
        let rows: Vec<usize> = (0..embeddings.rows()).collect();
        let all = Self { origin, embeddings, ids, labels, rows, audit: Vec::new() };
        all.drawn().with_audit()
    }

    /// At most [`MOST`] of the points.
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
            origin: all.origin,
            rows: drawn,
            audit: Vec::new(),
        }
    }

    /// Draws the audit: a fifth of the points, at random and before anyone has looked at them. Nothing else may pick those, and nothing
    /// else counts as drawn by chance; so what the audit finds is like what new points will bring.
    fn with_audit(mut self) -> Self {
        self.audit = (0..self.rows.len()).collect();
        Random::new(0, AUDIT_PURPOSE).shuffle(&mut self.audit);
        self.audit.truncate(self.rows.len().div_ceil(AUDIT_SHARE));
        self
    }

    /// Whether a point is of the audit.
    pub(crate) fn audited(&self, place: usize) -> bool {
        self.audit.contains(&place)
    }

    /// What a point is called: its id, or else its row.
    pub(crate) fn name(&self, place: usize) -> String {
        self.ids.as_ref().map_or_else(|| self.rows[place].to_string(), |ids| ids[place].clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// What a model says about the points of the page.
pub(crate) struct Reviewed {
    /// What the page needs to draw them, as JSON.
    pub(crate) json: Bytes,
    /// What is known of each before a level is chosen.
    scored: Scored,
    /// True labels as the model numbers them; a label it does not know is one beyond.
    truth: Option<Vec<u32>>,
    /// Places of the points that the model has not seen: those that may judge it.
    fresh: Vec<usize>,
    pub(crate) curve: Vec<Judged>,
}

/// How good the sets are at one level.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Judged {
    pub(crate) alpha: f64,
    /// Share of sets with the true label.
    pub(crate) coverage: f64,
    /// Between which it lies by chance, 95 times in 100, if the promise holds.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Labels per set.
    pub(crate) size: f64,
    /// Share of sets without a label.
    pub(crate) empty: f64,
    /// Share of sets with one label.
    pub(crate) singletons: f64,
}

/// How one class fares at one level.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OfClass {
    pub(crate) class: String,
    pub(crate) points: usize,
    pub(crate) covered: usize,
    /// Between which the share of covered points lies by chance if the class is covered as all are together.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Labels per set.
    pub(crate) size: f64,
}

impl Reviewed {
    pub(crate) fn new(model: &Dance, points: &Reviewable, context: &Context<'_>) -> dance::Result<Self> {
        let scored = model.score(&points.embeddings, PredictOptions::default(), context)?;
        let levels = level::of_points(model, &scored)?;
        let seen = model.seen(&points.embeddings)?;
        let classes = Classes::new(model.classes());
        let unknown = model.classes().len() as u32;
        let truth: Option<Vec<u32>> = points
            .labels
            .as_ref()
            .map(|labels| labels.iter().map(|label| classes.id(label).unwrap_or(unknown)).collect());
        let combined = model.predictor().method() != MethodName::Dance;
        let p_of_truth = truth.as_ref().filter(|_| combined).map(|truth| -> Vec<Option<f64>> {
            let p = |(row, &label): (usize, &u32)| {
                (label < unknown).then(|| scored.counts.p_value(scored.counts.get(row, label).combined))
            };
            truth.iter().enumerate().map(p).collect()
        });
        let flat = |labels: &BTreeMap<u32, Level>| -> Vec<serde_json::Value> {
            labels.iter().flat_map(|(label, level)| [json!(label), json!(level)]).collect()
        };
        let json = json!({
            "origin": points.origin,
            "classes": model.classes(),
            "names": (0..points.len()).map(|place| points.name(place)).collect::<Vec<_>>(),
            "named": points.ids.is_some(),
            "labels": points.labels,
            "levels": levels.iter().map(flat).collect::<Vec<_>>(),
            "best": scored.classified.as_ref().map(|all| &all.labels),
            "p_of_label": p_of_truth,
            "nearest": scored.nearest,
            "novelty": scored.novelty,
            "seen": seen.iter().map(Option::is_some).collect::<Vec<_>>(),
            "audit": points.audit,
        });
        let fresh = (0..seen.len()).filter(|&place| seen[place].is_none()).collect();
        let mut reviewed = Self { json: json.to_string().into(), scored, truth, fresh, curve: Vec::new() };
        if reviewed.truth.is_some() && !reviewed.fresh.is_empty() {
            let judged = level::alphas().map(|alpha| reviewed.judge(model, alpha));
            reviewed.curve = judged.collect::<dance::Result<_>>()?;
        }
        Ok(reviewed)
    }

    /// Points that may judge the model, and all.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.fresh.len(), self.scored.len())
    }

    /// The sets of the points that may judge the model, and their true labels.
    fn sets(&self, model: &Dance, alpha: f64) -> dance::Result<(Sets, Vec<u32>)> {
        let sets = model.predict(&self.scored, &model.decide(alpha)?).sets.select(&self.fresh);
        let truth = self.truth.as_deref().unwrap_or_default();
        Ok((sets, self.fresh.iter().filter_map(|&place| truth.get(place)).copied().collect()))
    }

    fn judge(&self, model: &Dance, alpha: f64) -> dance::Result<Judged> {
        let (sets, truth) = self.sets(model, alpha)?;
        let metrics = Metrics::new(&sets, &truth, model.classes().len() + 1, alpha, None)?;
        let (low, high) = band(model, truth.len(), alpha);
        let Metrics { coverage, size, empty, singletons, .. } = metrics;
        Ok(Judged { alpha, coverage, low, high, size, empty, singletons })
    }

    /// How every class fares at one level, and how many sets have 0, 1, 2 … labels.
    pub(crate) fn by_class(&self, model: &Dance, alpha: f64) -> dance::Result<(Vec<OfClass>, Vec<usize>)> {
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
        let of = |(class, &[points, covered, labels]): (usize, &[usize; 3])| {
            let (low, high) = band(model, points, alpha);
            let class = model
                .classes()
                .get(class)
                .cloned()
                .unwrap_or_else(|| "(labels the model does not know)".into());
            OfClass { class, points, covered, low, high, size: labels as f64 / points as f64 }
        };
        Ok((classes.iter().enumerate().filter(|(_, counts)| counts[0] > 0).map(of).collect(), sizes))
    }
}

/// Between which coverage of so many points lies by chance, 95 times in 100, if the promise holds. Scores that are not fused promise
/// at least 1 - alpha, and give more.
pub(crate) fn band(model: &Dance, points: usize, alpha: f64) -> (f64, f64) {
    let (low, high) = CoverageBand::new(model.predictor().calibration_points(), points, alpha).interval(0.95);
    (low, if model.predictor().method() == MethodName::Dance { 1.0 } else { high })
}
