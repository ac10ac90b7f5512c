//! Which path is answered by whom.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::problem::Problem;
use crate::state::State;
use crate::{
    encode, explain, guard, health, images, labels, model, monitor, openapi, page, predict, promise,
    telemetry,
};

pub(crate) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/v1/predict", post(predict::predict))
        .route("/v1/embed", post(encode::embed))
        .route("/v1/explain", post(explain::explain))
        .route("/v1/labels", post(labels::record))
        .route("/v1/monitor", get(monitor::monitor))
        .route("/v1/points", get(promise::points))
        .route("/v1/promise", get(promise::promise))
        .route("/v1/model", get(model::model))
        .route("/v1/reload", post(model::reload))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::openapi))
        .route("/images/{*id}", get(images::image))
        .route("/", get(page::index))
        .route("/page/{file}", get(page::file))
        .route(
            "/favicon.ico",
            get(|| async {
                ([(header::CACHE_CONTROL, "max-age=86400")], axum::http::StatusCode::NO_CONTENT)
            }),
        )
        .fallback(|| async { Problem::not_found("/openapi.json lists what there is") })
        .method_not_allowed_fallback(|| async { Problem::method() })
        .layer(CatchPanicLayer::custom(failed))
        .layer(from_fn_with_state(Arc::clone(&state), guard::pass))
        .with_state(state)
}

/// A fault of ours costs one answer.
#[allow(clippy::needless_pass_by_value)] // what the layer calls it with
fn failed(fault: Box<dyn Any + Send + 'static>) -> Response {
    let text = fault
        .downcast_ref::<&str>()
        .map(|&text| text.to_owned())
        .or_else(|| fault.downcast_ref::<String>().cloned());
    telemetry::event("error", &format!("a request failed: {}", text.unwrap_or_default()));
    Problem::internal().into_response()
}
