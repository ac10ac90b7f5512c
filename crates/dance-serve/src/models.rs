//! `GET /v1/models` and `POST /v1/reload`: the served model, and its replacement by the present file.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use dance::conformal::{ByClass, Calibration, MethodName};
use dance::data::Kind;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::encode::Takes;
use crate::problem::Problem;
use crate::served::ServedModel;
use crate::state::State;
use crate::telemetry;

/// The models of the server.
#[derive(Serialize, ToSchema)]
pub(crate) struct Models {
    /// One model: a server has one.
    models: Vec<Model>,
}

/// A served model.
#[derive(Serialize, ToSchema)]
pub(crate) struct Model {
    /// The name of the model: that of its file, without the extension.
    name: String,
    /// The version of the model: the time at which its file was written.
    version: String,
    /// The first 16 hexadecimal digits of the SHA-256 of the file.
    hash: String,
    /// The time at which the file was read.
    since: String,
    /// The version of the server.
    server_version: &'static str,
    dimensions: usize,
    /// The labels of the model, in their own kind.
    #[schema(value_type = Vec<crate::openapi::Label>)]
    classes: Vec<Value>,
    /// The kind of the labels: `text`, `integer`, `float` or `boolean`.
    #[schema(value_type = String)]
    label_kind: Kind,
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
    /// The error levels of requests that name none.
    alphas: Vec<f64>,
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
    /// The kind of content that `/v1/embed` reads; null without an encoder.
    takes: Option<Takes>,
}

/// The limits of a request: bytes of a body, and points.
#[derive(Serialize, ToSchema)]
struct Limits {
    body: usize,
    points: usize,
}

/// The served model with what only the page needs.
#[derive(Serialize)]
pub(crate) struct PageModel {
    #[serde(flatten)]
    model: Model,
    /// The number of points of the page.
    points: usize,
    /// The server has pictures of points.
    pictures: bool,
}

impl Model {
    fn new(state: &State, served: &ServedModel) -> Self {
        let (model, predictor, name) = (&served.model, served.model.predictor(), served.name.clone());
        let method = predictor.method();
        Self {
            name: name.name,
            version: name.version,
            hash: name.hash,
            since: served.since.clone(),
            server_version: env!("CARGO_PKG_VERSION"),
            dimensions: served.dimensions(),
            classes: model.classes().iter().map(|class| served.label(class)).collect(),
            label_kind: model.label_kind(),
            calibration_points: predictor.calibration_points(),
            reference_points: predictor.reference_labels().len(),
            method: method.name(),
            calibration: method.calibration(),
            by_class: method.by_class(),
            alphas: served.alphas(),
            new_labels: method.new_labels(),
            guarantee: served.guarantee.clone(),
            guaranteed: method.calibration() != Calibration::Reuse && model.overlap().fitted == 0,
            new_label_share: model.new_label_share().map(|unseen| unseen.share()),
            limits: Limits { body: state.settings.limits.body, points: state.settings.limits.points },
            takes: state.takes(),
        }
    }
}

#[utoipa::path(
    get, path = "/v1/models",
    responses((status = 200, description = "The models", body = Models), crate::openapi::Refusals)
)]
/// The served model, its method and its guarantee.
pub(crate) async fn models(Shared(state): Shared<Arc<State>>) -> Json<Models> {
    Json(Models { models: vec![Model::new(&state, &state.slot.get())] })
}

/// Returns the served model for the page.
pub(crate) async fn of_page(Shared(state): Shared<Arc<State>>) -> Json<PageModel> {
    Json(PageModel {
        model: Model::new(&state, &state.slot.get()),
        points: state.points.as_ref().map_or(0, crate::Reviewable::len),
        pictures: state.pictures.is_some(),
    })
}

#[utoipa::path(
    post, path = "/v1/reload",
    responses(
        (status = 200, description = "The new model", body = Model),
        (
            status = 409, description = "The file cannot be used; the model before it stays",
            body = Problem, content_type = "application/problem+json"
        ),
        crate::openapi::Refusals,
    )
)]
/// Reads the model file and the file of keys again. The model before it answers until the new one is read and
/// checked, and stays if that fails. Needs a key that may administer.
pub(crate) async fn reload(Shared(state): Shared<Arc<State>>) -> Result<Json<Model>, Problem> {
    let work = move || {
        state.reload_keys().map_err(|error| {
            telemetry::event("error", &format!("the keys stay as they were: {error}"));
            Problem::conflict(format!("the keys stay as they were: {error}"))
        })?;
        match state.reload() {
            Ok(served) => {
                telemetry::event("info", &format!("model {} is served from here on", served.name.hash));
                Ok(Json(Model::new(&state, &served)))
            }
            Err(error) => {
                telemetry::event("error", &format!("the new model was refused: {error}"));
                Err(Problem::conflict(format!("the model before it goes on: {error}")))
            }
        }
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?
}
