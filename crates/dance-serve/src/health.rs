//! `GET /healthz`, `/readyz` and `/metrics`: the state of the server, for programs that monitor it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::process;
use crate::served::ModelName;
use crate::state::State;

/// The state of the server.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `degraded` while labels cannot be written; predictions go on.
    status: &'static str,
    model: ModelName,
    /// A hint while labels cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<&'static str>,
}

#[utoipa::path(
    get, path = "/healthz",
    responses((status = 200, description = "The server runs", body = Health), crate::openapi::Refusals)
)]
/// The liveness of the server: status 200, also while labels cannot be written.
pub(crate) async fn healthz(Shared(state): Shared<Arc<State>>) -> Json<Health> {
    // This route needs no key, so the response has no paths and no messages of the system.
    let failing = state.journal.failure().is_some();
    Json(Health {
        status: if failing { "degraded" } else { "ok" },
        model: state.slot.get().name.clone(),
        journal: failing.then_some("labels cannot be written; the log and /v1/monitor have the reason"),
    })
}

#[utoipa::path(
    get, path = "/readyz", 
    responses(
        (status = 200, description = "The server takes requests", body = Health),
        (
            status = 503, description = "The server is shutting down",
            body = Problem, content_type = "application/problem+json"
        ),
        crate::openapi::Refusals,
    )
)]
/// The readiness of the server: status 200 until it shuts down.
pub(crate) async fn readyz(state: Shared<Arc<State>>) -> Result<Json<Health>, Problem> {
    if state.draining() {
        return Err(Problem::unavailable("the server is shutting down"));
    }
    Ok(healthz(state).await)
}

#[utoipa::path(
    get, path = "/metrics", 
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "text/plain"),
        crate::openapi::Refusals,
    )
)]
/// Metrics in the text format of Prometheus.
pub(crate) async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    let text = state.metrics.render() + &process::metrics(&state.slot.get().name);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
