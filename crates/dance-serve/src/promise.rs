//! `GET /v1/points` and `GET /v1/promise`: the points of the page, and how well the promise holds on them.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::monitor::AtLevel;
use crate::problem::Problem;
use crate::reviewable::{Judged, OfClass, Reviewed};
use crate::served::Served;
use crate::state::State;

/// How well the promise holds on the points of the page that the model has not seen.
#[derive(Serialize, ToSchema)]
pub(crate) struct Promise {
    alpha: f64,
    /// Points that judge, and those left out because the model was fitted or calibrated on them.
    points: usize,
    left_out: usize,
    calibration_points: usize,
    guarantee: String,
    /// Every level from 0.01 to 0.50; empty where the points have no labels.
    curve: Vec<Judged>,
    /// Every class, at `alpha`.
    classes: Vec<OfClass>,
    /// How many sets have 0, 1, 2 … labels, at `alpha`.
    sizes: Vec<usize>,
}

#[utoipa::path(
    get, path = "/v1/points", tag = "page",
    responses((status = 200, description = "The points", body = serde_json::Value), crate::openapi::Refusals)
)]
/// The points of the page: names, labels, and for each the labels that are in its set at some level.
pub(crate) async fn points(Shared(state): Shared<Arc<State>>) -> Result<Response, Problem> {
    let served = state.slot.get();
    let json = reviewed(&served)?.json.clone();
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

#[utoipa::path(
    get, path = "/v1/promise", tag = "page", params(AtLevel),
    responses((status = 200, description = "How well it holds", body = Promise), crate::openapi::Refusals)
)]
/// Coverage against what was asked, overall and by class, on the points of the page.
pub(crate) async fn promise(
    Shared(state): Shared<Arc<State>>,
    query: Result<Query<AtLevel>, QueryRejection>,
) -> Result<Json<Promise>, Problem> {
    let alpha = AtLevel::read(query)?;
    let work = move || -> Result<Promise, Problem> {
        let served = state.slot.get();
        let reviewed = reviewed(&served)?;
        let (points, all) = reviewed.counts();
        let (classes, sizes) = reviewed.by_class(&served.model, alpha).map_err(|_| Problem::internal())?;
        Ok(Promise {
            alpha,
            points,
            left_out: all - points,
            calibration_points: served.model.predictor().calibration_points(),
            guarantee: served.model.guarantee(),
            curve: reviewed.curve.clone(),
            classes,
            sizes,
        })
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?.map(Json)
}

fn reviewed(served: &Served) -> Result<&Reviewed, Problem> {
    served
        .reviewed
        .as_ref()
        .ok_or_else(|| Problem::not_found("this server has no points of its own; start it with --data FILE"))
}
