//! `GET /healthz`, `/readyz` and `/metrics`: for whatever watches the server.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::state::State;

/// How the server is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `degraded` while something does not work that answers do not need.
    status: &'static str,
    /// The model that answers.
    model: String,
    /// Why labels cannot be written, where they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<&'static str>,
}

#[utoipa::path(
    get, path = "/healthz", tag = "health",
    responses((status = 200, description = "The server lives", body = Health), crate::openapi::Refusals)
)]
/// Whether the server lives. It says `degraded`, with status 200, while labels cannot be written: answers go on.
pub(crate) async fn healthz(Shared(state): Shared<Arc<State>>) -> Json<Health> {
    // Whoever watches needs no key, so paths and messages of the system stay out.
    let failing = state.journal.failure().is_some();
    Json(Health {
        status: if failing { "degraded" } else { "ok" },
        model: state.slot.get().id.clone(),
        journal: failing.then_some("labels cannot be written; the log and /v1/monitor say why"),
    })
}

#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses(
        (status = 200, description = "Requests may come", body = Health),
        (status = 503, description = "The server is about to end", body = Problem, content_type = "application/problem+json"),
        crate::openapi::Refusals,
    )
)]
/// Whether requests may come: yes, until the server is told to end.
pub(crate) async fn readyz(state: Shared<Arc<State>>) -> Result<Json<Health>, Problem> {
    if state.draining() {
        return Err(Problem::unavailable("the server is about to end"));
    }
    Ok(healthz(state).await)
}

#[utoipa::path(
    get, path = "/metrics", tag = "health",
    responses((status = 200, description = "Counts, as Prometheus reads them", body = String, content_type = "text/plain"), crate::openapi::Refusals)
)]
/// Counts, as Prometheus reads them.
pub(crate) async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    let text = state.metrics.render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
