//! `POST /v1/labels`: the truth, when it becomes known.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State as Shared};
use dance::data::Classes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::body;
use crate::clock;
use crate::journal::{Entry, How, fingerprint};
use crate::level;
use crate::members::{Numbers, place, there};
use crate::points::{Points, Row};
use crate::predict::shape;
use crate::problem::{Problem, RowProblem};
use crate::state::State;
use crate::telemetry;

/// Most letters of a label and of an id.
const LONGEST: usize = 1_000;

/// Labels that became known, all found in the same way.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LabelsRequest)]
pub(crate) struct Asked<'a> {
    /// How the points were found: by chance, or picked for what they are. One request has one answer to that: the two are never
    /// mixed, because only points that came by chance may calibrate a model or judge it.
    how: How,
    /// What they were picked for.
    #[serde(default, deserialize_with = "there")]
    #[schema(nullable = false, max_length = 100)]
    why: Option<String>,
    /// A point and its label each. A row that is none of that gets a problem; the others are written.
    #[serde(borrow)]
    #[schema(value_type = Vec<Labelled>, min_items = 1)]
    labels: Vec<&'a RawValue>,
}

/// A point and its label.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Labelled {
    /// What it truly is.
    #[schema(min_length = 1, max_length = 1000)]
    label: String,
    /// The point.
    #[serde(default, deserialize_with = "there")]
    #[schema(nullable = false, value_type = Option<Vec<f32>>)]
    embedding: Option<Numbers>,
    /// What it is called.
    #[serde(default, deserialize_with = "there")]
    #[schema(nullable = false, max_length = 1000)]
    id: Option<String>,
    /// In place of both: the place of a point in `/v1/points`, from 0.
    #[serde(default, deserialize_with = "place")]
    #[schema(nullable = false)]
    point: Option<usize>,
}

/// What was written.
#[derive(Serialize, ToSchema)]
#[schema(as = LabelsResponse)]
pub(crate) struct Written {
    /// Labels that are on the disk now.
    recorded: usize,
    /// Rows that were not written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<RowProblem>,
}

#[utoipa::path(
    post, path = "/v1/labels", tag = "labels",
    request_body = Asked<'_>,
    responses(
        (status = 200, description = "They are on the disk", body = Written),
        (status = 409, description = "A point that was picked cannot count as one that came by chance", body = Problem, content_type = "application/problem+json"),
        crate::openapi::Refusals,
    )
)]
/// Appends labels to the journal, which the monitor and `dance recalibrate` read. Returns when they are on the disk.
pub(crate) async fn record(
    Shared(state): Shared<Arc<State>>,
    request: Request,
) -> Result<Json<Written>, Problem> {
    let read = body::read(&state, request).await?;
    let Asked { how, why, labels: rows } = read.json(std::marker::PhantomData)?;
    let most = state.settings.limits.points;
    if rows.len() > most {
        return Err(Problem::too_large(format!("a request has at most {most} labels; send them in several")));
    }
    if rows.is_empty() {
        return Err(Problem::wrong("`labels` is empty"));
    }
    if why.as_ref().is_some_and(|why| why.chars().count() > 100) {
        return Err(Problem::wrong("`why` has at most 100 letters"));
    }
    let rows: Vec<Result<Labelled, String>> = rows
        .into_iter()
        .map(|row| serde_json::from_str(row.get()).map_err(|error| error.to_string()))
        .collect();
    let (way, _turn) = read.done();
    let shape = shape(&state, &state.slot.get());
    let (mut points, mut mixed) = (Points::default(), false);
    let (mut labels, mut ids) = (Vec::new(), Vec::new());
    let mut in_request = HashSet::new();
    for row in rows {
        let Labelled { label, embedding, id, point } = match row {
            Ok(labelled) => labelled,
            Err(problem) => {
                points.push(Row::wrong(problem), shape);
                continue;
            }
        };
        let row = row_of(&state, embedding, id.clone(), point);
        let too_long = [&label].into_iter().chain(&id).any(|text| text.chars().count() > LONGEST);
        let row = if label.is_empty() || too_long {
            Row { problem: Some("a label has 1 to 1,000 letters, an id at most 1,000".into()), ..row }
        } else {
            row
        };
        let conflict = if row.problem.is_some() {
            None
        } else {
            let print = fingerprint(&row.values);
            let twice = !in_request.insert(print);
            conflict(&state, how, point, state.journal.found(print), twice)
        };
        mixed |= conflict.is_some();
        let row = match conflict {
            Some(problem) => Row { problem: Some(problem.into()), ..row },
            None => row,
        };
        let good = points.good.len();
        let name = row.id.as_ref().and_then(serde_json::Value::as_str).map(str::to_owned);
        points.push(row, shape);
        if points.good.len() > good {
            labels.push(label);
            ids.push(name);
        }
    }
    if points.good.is_empty() {
        let problem = Problem::rows(points.problems);
        return Err(if mixed { Problem::conflict(problem.detail()) } else { problem });
    }
    let embeddings = points.matrix(shape.point.dimensions)?;
    let pieces = state.gather.ask(embeddings.clone(), false, way).await?;
    let work = move || -> Result<Written, Problem> {
        let time = clock::now();
        let (mut entries, mut first) = (Vec::new(), 0);
        let mut problems = points.problems;
        for piece in &pieces {
            let model = &piece.served.model;
            let classes = Classes::new(model.classes());
            let levels = level::of_points(model, &piece.scored).map_err(|_| Problem::internal())?;
            let refused: HashSet<usize> = piece.refused.iter().map(|(place, _)| *place).collect();
            let mut levels = levels.into_iter();
            for place in 0..piece.scored.len() + refused.len() {
                let at = first + place;
                if refused.contains(&place) {
                    let detail = "its numbers are too large for the model".into();
                    problems.push(RowProblem { row: points.good[at].0, id: None, detail });
                    continue;
                }
                let of_labels = levels.next().unwrap_or_default();
                let level = classes.id(&labels[at]).and_then(|label| of_labels.get(&label)).copied();
                entries.push(Entry {
                    time: (&*time).into(),
                    how,
                    why: why.as_deref().map(Into::into),
                    id: ids[at].as_deref().map(Into::into),
                    label: (&*labels[at]).into(),
                    level: level.unwrap_or_default(),
                    model: (&*piece.served.id).into(),
                    embedding: embeddings.row(at).into(),
                });
            }
            first += piece.scored.len() + piece.refused.len();
        }
        if entries.is_empty() {
            return Err(Problem::rows(problems));
        }
        let write = || state.journal.append(&entries);
        state.watch.record(&entries, &state.context, write).map_err(Problem::unavailable)?;
        telemetry::labels(how.name(), entries.len());
        problems.sort_by_key(|problem| problem.row);
        Ok(Written { recorded: entries.len(), problems })
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?.map(Json)
}

/// What stands against a label: points that came by chance and points that were picked are never mixed, and a point has one label.
fn conflict(
    state: &State,
    how: How,
    point: Option<usize>,
    before: Option<How>,
    twice: bool,
) -> Option<&'static str> {
    let audited = state.points.as_ref().zip(point).map(|(points, place)| points.audited(place));
    match (how, audited, before) {
        (How::Chance, Some(false), _) => {
            Some("is none of the points that the audit drew, so it did not come by chance")
        }
        (How::Picked, Some(true), _) => {
            Some("was drawn for the audit, and must not be picked for anything else")
        }
        (How::Chance, _, Some(How::Picked)) => {
            Some("was picked before, and a point that was picked cannot count as one that came by chance")
        }
        _ if twice => Some("is in this request twice; a point has one label"),
        _ => None,
    }
}

/// The point that is meant, as a row.
fn row_of(state: &State, embedding: Option<Numbers>, id: Option<String>, point: Option<usize>) -> Row {
    match (embedding, point) {
        (Some(Numbers(row)), None) => Row { id: id.map(Into::into), ..row },
        (None, Some(place)) => match &state.points {
            Some(points) if place < points.len() && id.is_none() => {
                let values = points.embeddings.row(place).to_vec();
                Row { length: Some(values.len()), values, id: Some(points.name(place).into()), problem: None }
            }
            Some(points) if place < points.len() => Row::wrong("a point of the page has an id already"),
            Some(points) => Row::wrong(format!("`point` {place}: there are {}, from 0", points.len())),
            None => Row::wrong("`point`: this server has no points of its own; start it with --data"),
        },
        _ => Row::wrong("give either `embedding` or `point`"),
    }
}
