//! `GET /page-api/points` and `GET /page-api/coverage`: the points of the page, and the coverage of their sets.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::monitor::LevelQuery;
use crate::problem::Problem;
use crate::reviewable::{ClassCoverage, LevelCoverage, NO_POINTS, PageScores};
use crate::served::ServedModel;
use crate::state::State;

/// The coverage of sets on the points of the page that took no part in the fit or the calibration.
#[derive(Serialize)]
pub(crate) struct Coverage {
    alpha: f64,
    /// The number of points that coverage is measured on.
    points: usize,
    /// The number of points that are left out because they took part in the fit or the calibration.
    left_out: usize,
    calibration_points: usize,
    /// The guarantee of the sets, in words.
    guarantee: String,
    /// The coverage at every level from 0.01 to 0.50; empty for points without labels.
    curve: Vec<LevelCoverage>,
    /// The coverage of every class, at `alpha`.
    classes: Vec<ClassCoverage>,
    /// The number of sets with 0, 1, 2 … labels, at `alpha`.
    sizes: Vec<usize>,
}

/// The points of the page: names, labels, and the labels that are in the set of each at some level.
pub(crate) async fn points(Shared(state): Shared<Arc<State>>) -> Result<Response, Problem> {
    let served = state.slot.get();
    let json = page_scores(&served)?.json.clone();
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// The coverage on the points of the page, overall and by class.
pub(crate) async fn coverage(
    Shared(state): Shared<Arc<State>>,
    query: Result<Query<LevelQuery>, QueryRejection>,
) -> Result<Json<Coverage>, Problem> {
    let alpha = LevelQuery::alpha(query, &state)?;
    let work = move || -> Result<Coverage, Problem> {
        let served = state.slot.get();
        let scores = page_scores(&served)?;
        let (points, all) = scores.counts();
        let (classes, sizes) = scores.by_class(&served.model, alpha).map_err(|_| Problem::internal())?;
        Ok(Coverage {
            alpha,
            points,
            left_out: all - points,
            calibration_points: served.model.predictor().calibration_points(),
            guarantee: served.guarantee.clone(),
            curve: scores.curve.clone(),
            classes,
            sizes,
        })
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?.map(Json)
}

fn page_scores(served: &ServedModel) -> Result<&PageScores, Problem> {
    served.page.as_ref().ok_or_else(|| Problem::not_found(NO_POINTS))
}
