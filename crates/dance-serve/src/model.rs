//! `GET /v1/model` and `POST /v1/reload`: the served model, and its replacement by the present file.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use dance::conformal::{ByClass, Calibration, MethodName};
use serde::Serialize;
use utoipa::ToSchema;

use crate::encode::Takes;
use crate::problem::Problem;
use crate::served::ServedModel;
use crate::state::State;
use crate::telemetry;

/// The served model.
#[derive(Serialize, ToSchema)]
#[schema(as = Model)]
pub(crate) struct ModelDescription {
    /// The first 16 hexadecimal digits of the file's SHA-256, which answers carry.
    id: String,
    /// The version of the server.
    version: &'static str,
    /// The time at which the file was read.
    since: String,
    dimensions: usize,
    classes: Vec<String>,
    calibration_points: usize,
    /// The number of points among which neighbors are found.
    reference_points: usize,
    /// `posterior`, `fuse` or `dance`.
    #[schema(value_type = String)]
    method: MethodName,
    /// The use of calibration points: `full`, `split` or `reuse`.
    #[schema(value_type = String)]
    calibration: Calibration,
    /// The classes for which the guarantee holds: `all`, `balanced`, `clusters` or `each`.
    #[schema(value_type = String)]
    by_class: ByClass,
    /// Sets can hold "a new label", one that no point of the model has.
    new_labels: bool,
    /// The guarantee of the sets, in words.
    guarantee: String,
    /// The sets have a guarantee in finite samples. They have none with the calibration `reuse`, or if calibration
    /// points took part in the fit.
    guaranteed: bool,
    /// The estimated share of new points with a new label; null where calibration points are no random draw.
    new_label_share: Option<f64>,
    limits: Limits,
    /// Pictures of points are served at `/images/{id}`.
    images: bool,
    /// The number of points of the page.
    points: usize,
    /// The kind of content that `/v1/embed` reads; null without an encoder.
    takes: Option<Takes>,
}

/// The limits of a request: bytes of a body, and points.
#[derive(Serialize, ToSchema)]
struct Limits {
    body: usize,
    points: usize,
}

fn describe(state: &State, served: &ServedModel) -> ModelDescription {
    let model = &served.model;
    ModelDescription {
        id: served.id.clone(),
        version: env!("CARGO_PKG_VERSION"),
        since: served.since.clone(),
        dimensions: served.dimensions(),
        classes: model.classes().to_vec(),
        calibration_points: model.calibration_points(),
        reference_points: model.reference_labels().len(),
        method: model.method(),
        calibration: model.calibration(),
        by_class: model.by_class(),
        new_labels: model.allows_new_labels(),
        guarantee: served.guarantee.clone(),
        guaranteed: model.calibration() != Calibration::Reuse && model.calibration_points_in_fit() == 0,
        new_label_share: model.new_label_share().map(|(share, _)| share),
        limits: Limits { body: state.settings.limits.body, points: state.settings.limits.points },
        images: state.images.is_some(),
        points: state.points.as_ref().map_or(0, crate::Reviewable::len),
        takes: state.takes(),
    }
}

#[utoipa::path(
    get, path = "/v1/model", tag = "model",
    responses((status = 200, description = "The model", body = ModelDescription), crate::openapi::Refusals)
)]
/// The served model, its method and its guarantee.
pub(crate) async fn model(Shared(state): Shared<Arc<State>>) -> Json<ModelDescription> {
    Json(describe(&state, &state.slot.get()))
}

#[utoipa::path(
    post, path = "/v1/reload", tag = "model",
    responses(
        (status = 200, description = "The new model", body = ModelDescription),
        (
            status = 409, description = "The file cannot be used; the model before it stays",
            body = Problem, content_type = "application/problem+json"
        ),
        crate::openapi::Refusals,
    )
)]
/// Reads the model file again. The model before it answers until the new one is read and checked, and stays if that
/// fails.
pub(crate) async fn reload(Shared(state): Shared<Arc<State>>) -> Result<Json<ModelDescription>, Problem> {
    let work = move || match state.reload() {
        Ok(served) => {
            telemetry::event("info", &format!("model {} is served from here on", served.id));
            Ok(Json(describe(&state, &served)))
        }
        Err(error) => {
            telemetry::event("error", &format!("the new model was refused: {error}"));
            Err(Problem::conflict(format!("the model before it goes on: {error}")))
        }
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?
}
