//! `GET /v1/model` and `POST /v1/reload`: which model answers, and a new one in its place.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use dance::conformal::{Calibration, MethodName};
use serde::Serialize;
use utoipa::ToSchema;

use crate::encode::Takes;
use crate::problem::Problem;
use crate::served::Served;
use crate::state::State;
use crate::telemetry;

/// The model that answers.
#[derive(Serialize, ToSchema)]
#[schema(as = Model)]
pub(crate) struct Described {
    /// The first letters of its file's SHA-256; answers carry it.
    id: String,
    /// The version of the server.
    version: &'static str,
    /// When it was read.
    since: String,
    dimensions: usize,
    classes: Vec<String>,
    calibration_points: usize,
    /// Labelled points among which neighbors are found.
    reference_points: usize,
    #[schema(value_type = String)]
    calibration: Calibration,
    #[schema(value_type = String)]
    combine: MethodName,
    guarantee: String,
    /// Share of new points that are likely to carry a label that no point here has; null where that is not known.
    unseen_share: Option<f64>,
    limits: Limits,
    /// Whether there are pictures of points.
    images: bool,
    /// Points of the page.
    points: usize,
    /// What `/v1/embed` takes; null without an encoder.
    takes: Option<Takes>,
}

/// What a request may have.
#[derive(Serialize, ToSchema)]
struct Limits {
    body: usize,
    points: usize,
}

fn describe(state: &State, served: &Served) -> Described {
    let (model, predictor) = (&served.model, served.model.predictor());
    Described {
        id: served.id.clone(),
        version: env!("CARGO_PKG_VERSION"),
        since: served.since.clone(),
        dimensions: served.dimensions(),
        classes: model.classes().to_vec(),
        calibration_points: predictor.calibration_points(),
        reference_points: predictor.reference_labels().len(),
        calibration: predictor.mode(),
        combine: predictor.method(),
        guarantee: model.guarantee(),
        unseen_share: model.unseen().map(|unseen| unseen.share()),
        limits: Limits { body: state.settings.limits.body, points: state.settings.limits.points },
        images: state.images.is_some(),
        points: state.points.as_ref().map_or(0, crate::Reviewable::len),
        takes: state.takes(),
    }
}

#[utoipa::path(
    get, path = "/v1/model", tag = "model",
    responses((status = 200, description = "The model that answers", body = Described), crate::openapi::Refusals)
)]
/// The model that answers, and what it promises.
pub(crate) async fn model(Shared(state): Shared<Arc<State>>) -> Json<Described> {
    Json(describe(&state, &state.slot.get()))
}

#[utoipa::path(
    post, path = "/v1/reload", tag = "model",
    responses(
        (status = 200, description = "The model that answers now", body = Described),
        (status = 409, description = "The file cannot be used; the model before it goes on", body = Problem, content_type = "application/problem+json"),
        crate::openapi::Refusals,
    )
)]
/// Reads the model file again. The model before it answers until the new one has been read and checked, and goes on if anything is
/// wrong.
pub(crate) async fn reload(Shared(state): Shared<Arc<State>>) -> Result<Json<Described>, Problem> {
    let work = move || match state.reload() {
        Ok(served) => {
            telemetry::event("info", &format!("model {} answers from here on", served.id));
            Ok(Json(describe(&state, &served)))
        }
        Err(error) => {
            telemetry::event("error", &format!("the new model was refused: {error}"));
            Err(Problem::conflict(format!("the model before it goes on: {error}")))
        }
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?
}
