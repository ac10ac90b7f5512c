//! `POST /v1/labels`: true labels, when they become known.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State as Shared};
use dance::Matrix;
use dance::data::class_ids;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::batching::ScoredPiece;
use crate::body;
use crate::clock;
use crate::journal::{Entry, Provenance, hash_of};
use crate::level::{self, Level};
use crate::members::{Numbers, not_null, place};
use crate::points::{Points, Row, Shape};
use crate::predict::shape;
use crate::problem::{Problem, RowProblem};
use crate::state::State;
use crate::telemetry;

/// The most characters of a label and of an id.
const LONGEST: usize = 1_000;

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
    /// The true label.
    #[schema(min_length = 1, max_length = 1000)]
    label: String,
    /// The embedding of the point.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false, value_type = Option<Vec<f32>>)]
    embedding: Option<Numbers>,
    /// The id of the point.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false, max_length = 1000)]
    id: Option<String>,
    /// In place of both: the place of a point in `/v1/points`, from 0.
    #[serde(default, deserialize_with = "place")]
    #[schema(nullable = false)]
    point: Option<usize>,
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
    post, path = "/v1/labels", tag = "labels",
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
pub(crate) async fn record(
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
    let rows: Vec<Result<LabelRow, String>> =
        rows.into_iter().map(|row| serde_json::from_str(row.get()).map_err(|error| error.to_string())).collect();
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

/// The rows of a request: points, and the label and the id of every valid one.
struct LabelPoints {
    points: Points,
    labels: Vec<String>,
    ids: Vec<Option<String>>,
}

impl LabelPoints {
    /// Checks every row. Without a valid one, the request is refused.
    fn new(
        state: &State,
        provenance: Provenance,
        rows: Vec<Result<LabelRow, String>>,
        shape: Shape,
    ) -> Result<Self, Problem> {
        let mut all = Self { points: Points::default(), labels: Vec::new(), ids: Vec::new() };
        let (mut in_request, mut conflicts) = (HashSet::new(), false);
        for row in rows {
            let LabelRow { label, embedding, id, point } = match row {
                Ok(row) => row,
                Err(problem) => {
                    all.points.push(Row::invalid(problem), shape);
                    continue;
                }
            };
            let mut row = row_of(state, embedding, id.clone(), point);
            let too_long = [&label].into_iter().chain(&id).any(|text| text.chars().count() > LONGEST);
            if label.is_empty() || too_long {
                row.problem = Some("a label has 1 to 1,000 characters, an id at most 1,000".into());
            }
            if row.problem.is_none() {
                let hash = hash_of(&row.values);
                let is_twice = !in_request.insert(hash);
                let conflict = conflict(state, provenance, point, state.journal.provenance(hash), is_twice);
                conflicts |= conflict.is_some();
                row.problem = conflict.map(str::to_owned);
            }
            // `push` counts invalid rows among the problems; labels and ids are those of valid rows.
            let name = row.id.as_ref().and_then(serde_json::Value::as_str).map(str::to_owned);
            let valid = all.points.valid.len();
            all.points.push(row, shape);
            if all.points.valid.len() > valid {
                all.labels.push(label);
                all.ids.push(name);
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
                problems.push(RowProblem { row: self.points.valid[first + place].0, id: None, detail });
            }
            for (&place, level) in places.iter().zip(self.levels(piece, &places)?) {
                entries.push(Entry {
                    time: time.clone().into(),
                    provenance,
                    why: why.map(Into::into),
                    id: self.ids[place].as_deref().map(Into::into),
                    label: (&*self.labels[place]).into(),
                    level,
                    model: (&*piece.served.id).into(),
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
        let classes = class_ids(model.classes());
        let all = level::of_points(model, &piece.scored).map_err(|_| Problem::internal())?;
        let of_label = |(&place, levels): (&usize, &std::collections::BTreeMap<u32, Level>)| {
            let label = classes.get(self.labels[place].as_str()).copied().unwrap_or_else(|| level::new_label(model));
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

/// Returns the point of a label as a row.
fn row_of(state: &State, embedding: Option<Numbers>, id: Option<String>, point: Option<usize>) -> Row {
    match (embedding, point) {
        (Some(Numbers(row)), None) => Row { id: id.map(Into::into), ..row },
        (None, Some(place)) => match &state.points {
            Some(points) if place < points.len() && id.is_none() => {
                let values = points.embeddings.row(place).to_vec();
                Row { length: Some(values.len()), values, id: Some(points.name(place).into()), problem: None }
            }
            Some(points) if place < points.len() => Row::invalid("a point of the page has an id already"),
            Some(points) => Row::invalid(format!("`point` {place}: there are {}, from 0", points.len())),
            None => Row::invalid("`point`: this server has no points of its own; start it with --data"),
        },
        _ => Row::invalid("give either `embedding` or `point`"),
    }
}
