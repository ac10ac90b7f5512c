//! The guard of every request: its id, its admission, its time limit, the security headers, a line of the log and the
//! metrics.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::body;
use crate::problem::Problem;
use crate::state::State;
use crate::telemetry;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The policy of the page: scripts and data come from this server alone. Charts set inline styles.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The middleware of the router, around every route.
pub(crate) async fn layer(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    pass(&state, request, route, |request| next.run(request)).await
}

/// Answers a request for `route` by `answer`, if the request is admitted.
pub(crate) async fn pass<A: Future<Output: IntoResponse>>(
    state: &Arc<State>,
    request: Request,
    route: &str,
    answer: impl FnOnce(Request) -> A,
) -> Response {
    let begin = Instant::now();
    telemetry::begin();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let uri = request.uri().clone();
    let mut response = match admit(state, &request, route) {
        Ok(()) => in_time(state, request, answer, route).await,
        Err(problem) => {
            body::drop_body(state, request.into_body()).await;
            problem.into_response()
        }
    };
    // Every response has the security headers and the request id.
    let headers = response.headers_mut();
    headers.reserve(HEADERS.len() + 3);
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    if state.draining() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let (status, took) = (response.status().as_u16(), begin.elapsed());
    // A client can send any method. Those that no route has are counted as one.
    let method = match method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        _ => "other",
    };
    telemetry::end(&telemetry::Request { id: &id, method, route, path: uri.path(), status, took }, state.settings.log);
    response
}

/// Refuses a request without a key, or one that names another host.
fn admit(state: &State, request: &Request, route: &str) -> Result<(), Problem> {
    let headers = request.headers();
    if state.settings.keys.is_empty() {
        return if state.settings.address.ip().is_loopback() { local(state, headers) } else { Ok(()) };
    }
    // The page's files have no data of the model, and programs that check health have no key.
    let free = matches!(route, "/healthz" | "/readyz" | "/" | "/page/{file}" | "/openapi.json");
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let given = bearer.or_else(|| headers.get(API_KEY).map(HeaderValue::as_bytes));
    if free || given.is_some_and(|key| state.settings.keys.admit(key)) { Ok(()) } else { Err(Problem::key()) }
}

/// Refuses a request that names another host than this machine. Otherwise the page of another site could point its
/// own name to this address and send requests from a visitor's browser (DNS rebinding).
fn local(state: &State, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return Ok(()) };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let own = state.settings.address.ip().to_string();
    if ["localhost", "127.0.0.1", "[::1]"].contains(&name) || name == own {
        return Ok(());
    }
    Err(Problem::host("this server is for its own machine; use localhost or 127.0.0.1 as its name"))
}

/// Answers a request within the time limit, if there is a turn for it.
async fn in_time<A: Future<Output: IntoResponse>>(
    state: &Arc<State>,
    request: Request,
    answer: impl FnOnce(Request) -> A,
    route: &str,
) -> Response {
    // Health is answered under any load. Requests with a body take their turn when the body has arrived.
    let _turn = match route {
        "/healthz" | "/readyz" | "/metrics" | "/v1/predict" | "/v1/explain" | "/v1/labels" => None,
        _ => match state.turn() {
            Ok(turn) => Some(turn),
            Err(problem) => {
                body::drop_body(state, request.into_body()).await;
                return problem.into_response();
            }
        },
    };
    // The limit holds once for sending the request and once for answering it.
    let time = state.settings.limits.time * 2;
    match tokio::time::timeout(time, catch_panics(answer(request))).await {
        Ok(response) => response,
        Err(_) => Problem::late(format!("there was no answer within {} seconds", time.as_secs())).into_response(),
    }
}

/// Turns a panic into a response, so that it costs one answer.
async fn catch_panics(answer: impl Future<Output: IntoResponse>) -> Response {
    let mut answer = pin!(answer);
    // The future is not polled again after a panic.
    poll_fn(|task| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(task))) {
        Ok(answer) => answer.map(IntoResponse::into_response),
        Err(panic) => Poll::Ready(failed(&*panic)),
    })
    .await
}

fn failed(panic: &(dyn Any + Send)) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    telemetry::event("error", &format!("a request failed: {text}"));
    Problem::internal().into_response()
}

/// Returns the client's own request id if it is short and plain, or else a new one.
fn request_id(headers: &HeaderMap) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // The process id is read once, since that is a system call.
    static PROCESS: LazyLock<u32> = LazyLock::new(std::process::id);
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(|id| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    });
    given.map_or_else(|| format!("{:x}-{:x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed)), str::to_owned)
}
