//! `POST /v1/labels` and `GET /v1/labels`: true labels, when they become known.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State as Shared};
use dance::Matrix;
use dance::data::Classes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::batching::ScoredPiece;
use crate::body;
use crate::clock;
use crate::journal::{Entry, Provenance, Summary, hash_of};
use crate::level::{self, Level};
use crate::members::{Numbers, not_null, place};
use crate::names::name_of;
use crate::points::{Points, Row, Shape};
use crate::predict::shape;
use crate::problem::{Problem, RowProblem};
use crate::reviewable::NO_POINTS;
use crate::state::State;
use crate::telemetry;

/// The most characters of a label and of an id.
const LONGEST: usize = 1_000;
/// The labels of a page of the list, unless the request says how many.
const LIST: usize = 100;
/// The most labels of a page of the list.
const LONGEST_LIST: usize = 1_000;

/// The largest number of a label, which every client can represent.
const MOST_LABELS: u64 = 9_007_199_254_740_991;

/// Labels of points with one provenance.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelsRequest<'a> {
    /// The provenance of all points of the request. Only random points may calibrate or evaluate a model, so a picked
    /// point never becomes random.
    provenance: Provenance,
    /// The reason for which the points were picked.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false, max_length = 100)]
    why: Option<String>,
    /// Points with their labels. An invalid row gets a problem; the others are written.
    #[serde(borrow)]
    #[schema(value_type = Vec<LabelRow>, min_items = 1)]
    labels: Vec<&'a RawValue>,
}

/// A point with its label.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelRow {
    /// The true label: a text, a whole number or a truth value.
    #[schema(value_type = crate::openapi::Label)]
    label: Value,
    /// The embedding of the point.
    #[schema(value_type = Vec<f32>)]
    embedding: Numbers,
    /// The id of the point: a text or a whole number.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false, value_type = Option<crate::problem::Id>)]
    id: Option<Value>,
}

/// A point of the page with its label.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageRow {
    label: Value,
    /// The place of the point, from 0.
    #[serde(deserialize_with = "place")]
    point: Option<usize>,
}

/// A row of either form.
trait LabelledRow: DeserializeOwned {
    /// Returns the label, the point as a row, and its place among the points of the page.
    fn take(self, state: &State) -> (Value, Row, Option<usize>);
}

impl LabelledRow for LabelRow {
    fn take(self, _: &State) -> (Value, Row, Option<usize>) {
        let Self { label, embedding: Numbers(row), id } = self;
        (label, Row { id, ..row }, None)
    }
}

impl LabelledRow for PageRow {
    fn take(self, state: &State) -> (Value, Row, Option<usize>) {
        let row = match (&state.points, self.point) {
            (Some(points), Some(place)) if place < points.len() => {
                let values = points.embeddings.row(place).to_vec();
                Row { length: Some(values.len()), values, id: Some(points.name(place)), problem: None }
            }
            (Some(points), _) => Row::invalid(format!("`point`: there are {}, from 0", points.len())),
            (None, _) => Row::invalid(NO_POINTS),
        };
        (self.label, row, self.point)
    }
}

/// The outcome of a request.
#[derive(Serialize, ToSchema)]
pub(crate) struct LabelsResponse {
    /// The number of labels that are on the disk now.
    recorded: usize,
    /// The rows that were not written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<RowProblem>,
}

#[utoipa::path(
    post, path = "/v1/labels",
    request_body = LabelsRequest<'_>,
    responses(
        (status = 200, description = "The labels are on the disk", body = LabelsResponse),
        (
            status = 409, description = "A picked point cannot become random",
            body = Problem, content_type = "application/problem+json"
        ),
        crate::openapi::Refusals,
    )
)]
/// Appends labels to the journal, which the monitor and `dance recalibrate` read. The response comes when they are on
/// the disk.
pub(crate) async fn record(state: Shared<Arc<State>>, request: Request) -> Result<Json<LabelsResponse>, Problem> {
    record_rows::<LabelRow>(state, request).await
}

/// Appends labels of points of the page to the journal.
pub(crate) async fn record_for_page(
    state: Shared<Arc<State>>,
    request: Request,
) -> Result<Json<LabelsResponse>, Problem> {
    record_rows::<PageRow>(state, request).await
}

async fn record_rows<R: LabelledRow>(
    Shared(state): Shared<Arc<State>>,
    request: Request,
) -> Result<Json<LabelsResponse>, Problem> {
    let body = body::read(&state, request).await?;
    let LabelsRequest { provenance, why, labels: rows } = body.json(std::marker::PhantomData)?;
    let most = state.settings.limits.points;
    if rows.len() > most {
        return Err(Problem::too_large(format!("a request has at most {most} labels; send them in several")));
    }
    if rows.is_empty() {
        return Err(Problem::invalid("`labels` is empty"));
    }
    if why.as_ref().is_some_and(|why| why.chars().count() > 100) {
        return Err(Problem::invalid("`why` has at most 100 characters"));
    }
    let read = |row: &RawValue| serde_json::from_str::<R>(row.get()).map_err(|error| error.to_string());
    let rows: Vec<Result<R, String>> = rows.into_iter().map(read).collect();
    let (arrival, _turn) = body.release();
    let shape = shape(&state, &state.slot.get());
    let mut labels = LabelPoints::new(&state, provenance, rows, shape)?;
    let embeddings = labels.points.matrix(shape.point.dimensions)?;
    // The scores give the levels at which the set of the served model holds the label.
    let pieces = state.batcher.score(embeddings.clone(), false, arrival).await?;
    let work = move || -> Result<LabelsResponse, Problem> {
        let mut problems = std::mem::take(&mut labels.points.problems);
        let entries = labels.entries(provenance, why.as_deref(), &embeddings, &pieces, &mut problems)?;
        if entries.is_empty() {
            return Err(Problem::rows(problems));
        }
        let write = || state.journal.append(&entries);
        state.change.record(&entries, &state.context, write).map_err(Problem::unavailable)?;
        telemetry::labels(provenance.name(), entries.len());
        problems.sort_by_key(|problem| problem.row);
        Ok(LabelsResponse { recorded: entries.len(), problems })
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?.map(Json)
}

/// The page of the list of labels that a request wants.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The number of the label before the first one, as `next` of the page before has it.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991u64)]
    after: Option<usize>,
    /// The most labels of the response.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// A page of the list of labels, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct LabelsList {
    labels: Vec<KnownLabel>,
    /// The value of `after` for the next page; null at the end.
    next: Option<usize>,
}

/// The last label of a point.
#[derive(Serialize, ToSchema)]
struct KnownLabel {
    /// The number of the label in the journal, from 1.
    number: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::problem::Id>, nullable = false)]
    id: Option<Value>,
    #[schema(value_type = crate::openapi::Label)]
    label: Value,
    provenance: Provenance,
    /// The largest error level, of the hundredths from 0.01 to 0.50, at which the label was in the set; 0 if none was.
    alpha_max: f64,
    time: String,
}

#[utoipa::path(
    get, path = "/v1/labels", params(ListQuery),
    responses((status = 200, description = "Labels", body = LabelsList), crate::openapi::Refusals)
)]
/// The labels of the journal, a page at a time. A point that has got several labels is listed with its last one.
pub(crate) async fn list(
    Shared(state): Shared<Arc<State>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<LabelsList>, Problem> {
    let Ok(Query(ListQuery { after, limit })) = query else {
        return Err(Problem::invalid("the parameters here are `after` and `limit`, whole numbers"));
    };
    let (after, limit) = (after.unwrap_or(0), limit.unwrap_or(LIST));
    if after as u64 > MOST_LABELS {
        return Err(Problem::invalid(format!("`after` {after}: there are never so many labels")));
    }
    if !(1..=LONGEST_LIST).contains(&limit) {
        return Err(Problem::invalid(format!("`limit` {limit}: it lies between 1 and {LONGEST_LIST}")));
    }
    let (entries, more) = state.journal.last_labels(after, limit);
    let known = |(number, Summary { id, label, provenance, level, time, .. })| KnownLabel {
        number,
        id,
        label,
        provenance,
        alpha_max: level.highest(),
        time,
    };
    let labels: Vec<KnownLabel> = entries.into_iter().map(known).collect();
    let next = labels.last().filter(|_| more).map(|last| last.number);
    Ok(Json(LabelsList { labels, next }))
}

/// The last label of a point of the page.
#[derive(Serialize)]
pub(crate) struct PageLabel {
    /// The place of the point, from 0.
    point: usize,
    label: Value,
    provenance: Provenance,
}

/// Returns the labels of the points of the page that are known.
pub(crate) async fn of_page(Shared(state): Shared<Arc<State>>) -> Result<Json<Vec<PageLabel>>, Problem> {
    let points = state.points.as_ref().ok_or_else(|| Problem::not_found(NO_POINTS))?;
    let known = |(place, &hash): (usize, &u64)| {
        let Summary { label, provenance, .. } = state.journal.last_label(hash)?;
        Some(PageLabel { point: place, label, provenance })
    };
    Ok(Json(points.hashes.iter().enumerate().filter_map(known).collect()))
}

/// The rows of a request: points, and the label of every valid one with its name.
struct LabelPoints {
    points: Points,
    labels: Vec<(String, Value)>,
}

impl LabelPoints {
    /// Checks every row. Without a valid one, the request is refused.
    fn new<R: LabelledRow>(
        state: &State,
        provenance: Provenance,
        rows: Vec<Result<R, String>>,
        shape: Shape,
    ) -> Result<Self, Problem> {
        let mut all = Self { points: Points::default(), labels: Vec::new() };
        let (mut in_request, mut conflicts) = (HashSet::new(), false);
        for row in rows {
            let (label, mut row, point) = match row {
                Ok(row) => row.take(state),
                Err(problem) => {
                    all.points.push(Row::invalid(problem), shape);
                    continue;
                }
            };
            let name = name_of(&label).filter(|name| !name.is_empty());
            let is_short = |text: &str| text.chars().count() <= LONGEST;
            let id = row.id.as_ref().and_then(Value::as_str);
            if !name.as_deref().is_some_and(is_short) || !id.is_none_or(is_short) {
                row.problem = Some(
                    "a label is a text of 1 to 1,000 characters, a whole number or a truth value; an id is a text of \
                     at most 1,000 or a whole number"
                        .into(),
                );
            }
            if row.problem.is_none() {
                let hash = hash_of(&row.values);
                let is_twice = !in_request.insert(hash);
                let before = state.journal.last_label(hash).map(|summary| summary.provenance);
                let conflict = conflict(state, provenance, point, before, is_twice);
                conflicts |= conflict.is_some();
                row.problem = conflict.map(str::to_owned);
            }
            // `push` counts invalid rows among the problems; labels are those of valid rows.
            let valid = all.points.valid.len();
            all.points.push(row, shape);
            if all.points.valid.len() > valid {
                all.labels.push((name.unwrap_or_default(), label));
            }
        }
        if all.points.valid.is_empty() {
            let problem = Problem::rows(all.points.problems);
            return Err(if conflicts { Problem::conflict(problem.detail()) } else { problem });
        }
        Ok(all)
    }

    /// Returns the entries of the journal. Points that the model refuses are added to `problems`.
    fn entries<'a>(
        &'a self,
        provenance: Provenance,
        why: Option<&'a str>,
        embeddings: &'a Matrix,
        pieces: &'a [ScoredPiece],
        problems: &mut Vec<RowProblem>,
    ) -> Result<Vec<Entry<'a>>, Problem> {
        let time = clock::now();
        let (mut entries, mut first) = (Vec::new(), 0);
        for piece in pieces {
            let refused: HashSet<usize> = piece.refused.iter().map(|(place, _)| *place).collect();
            let points = piece.scored.len() + refused.len();
            let places = (first..first + points).filter(|place| !refused.contains(&(place - first)));
            let places: Vec<usize> = places.collect();
            for &(place, _) in &piece.refused {
                let detail = "its numbers are too large for the model".into();
                let (row, id) = self.points.valid[first + place].clone();
                problems.push(RowProblem { row, id, detail });
            }
            // A label that the model knows is written in the model's kind.
            let classes = Classes::new(piece.served.model.classes());
            for (&place, level) in places.iter().zip(self.levels(piece, &places)?) {
                let (name, given) = &self.labels[place];
                let is_known = classes.id(name).is_some();
                entries.push(Entry {
                    time: time.clone().into(),
                    provenance,
                    why: why.map(Into::into),
                    id: self.points.valid[place].1.clone(),
                    label: if is_known { piece.served.label(name) } else { given.clone() },
                    level,
                    model: (&*piece.served.name.hash).into(),
                    embedding: embeddings.row(place).into(),
                });
            }
            first += points;
        }
        Ok(entries)
    }

    /// Returns the levels at which the sets of a piece hold the labels of the points at `places`. A label that the
    /// model does not know is in the sets that hold a new label.
    fn levels(&self, piece: &ScoredPiece, places: &[usize]) -> Result<Vec<Level>, Problem> {
        let model = &piece.served.model;
        let classes = Classes::new(model.classes());
        let all = level::of_points(model, &piece.scored).map_err(|_| Problem::internal())?;
        let of_label = |(&place, levels): (&usize, &std::collections::BTreeMap<u32, Level>)| {
            let label = classes.id(&self.labels[place].0).unwrap_or_else(|| level::new_label(model));
            levels.get(&label).copied().unwrap_or_default()
        };
        Ok(places.iter().zip(&all).map(of_label).collect())
    }
}

/// Returns the reason for which a label is refused: a picked point never becomes random, points of the audit are never
/// picked, and a request has one label of a point.
fn conflict(
    state: &State,
    provenance: Provenance,
    point: Option<usize>,
    before: Option<Provenance>,
    is_twice: bool,
) -> Option<&'static str> {
    let audited = state.points.as_ref().zip(point).map(|(points, place)| points.is_audited(place));
    match (provenance, audited, before) {
        (Provenance::Random, Some(false), _) => Some("is no point of the audit, so it was not drawn at random"),
        (Provenance::Picked, Some(true), _) => {
            Some("is a point of the audit, which was drawn at random and must not be picked")
        }
        (Provenance::Random, _, Some(Provenance::Picked)) => Some("was picked before, so it was not drawn at random"),
        _ if is_twice => Some("is in this request twice; a point has one label"),
        _ => None,
    }
}
