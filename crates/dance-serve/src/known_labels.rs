//! `GET /v1/labels`: the labels of the journal, a page at a time.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::journal::{Provenance, Summary};
use crate::problem::Problem;
use crate::reviewable::NO_POINTS;
use crate::state::State;

/// The labels of a page of the list, unless the request says how many.
const LIST: usize = 100;
/// The most labels of a page of the list.
const LONGEST_LIST: usize = 1_000;

/// The largest number of a label, which every client can represent.
const MOST_LABELS: u64 = 9_007_199_254_740_991;

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
