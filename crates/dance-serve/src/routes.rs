//! Routes: the handler of every path.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Method, Request, header};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::problem::Problem;
use crate::state::State;
use crate::{coverage, encode, explain, guard, health, images, labels, model, monitor, openapi, page, predict};

const PREDICT: &str = "/v1/predict";

/// The router, and the state that handlers share.
#[derive(Clone)]
pub(crate) struct Routes {
    state: Arc<State>,
    router: TowerToHyperService<Router>,
}

impl Routes {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { router: TowerToHyperService::new(router(Arc::clone(&state))), state }
    }

    /// Answers a request. Predictions, the most frequent requests, go past the router, which allocates for every layer.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let request = request.map(Body::new);
        if request.uri().path() == PREDICT && request.method() == Method::POST {
            let predict = |request| predict::predict(Shared(Arc::clone(&self.state)), request);
            return Ok(guard::pass(&self.state, request, PREDICT, predict).await);
        }
        self.router.call(request).await
    }
}

fn router(state: Arc<State>) -> Router {
    Router::new()
        .route(PREDICT, post(predict::predict))
        .route("/v1/embed", post(encode::embed))
        .route("/v1/explain", post(explain::explain))
        .route("/v1/labels", post(labels::record))
        .route("/v1/monitor", get(monitor::monitor))
        .route("/v1/points", get(coverage::points))
        .route("/v1/coverage", get(coverage::coverage))
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
            get(|| async { ([(header::CACHE_CONTROL, "max-age=86400")], axum::http::StatusCode::NO_CONTENT) }),
        )
        .fallback(|| async { Problem::not_found("/openapi.json lists the paths of this server") })
        .method_not_allowed_fallback(|| async { Problem::method() })
        .layer(from_fn_with_state(Arc::clone(&state), guard::layer))
        .with_state(state)
}
