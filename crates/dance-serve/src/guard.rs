//! The guard of every request: its admission, its turn, the security headers, a line of the log and the metrics. The
//! request id, the time limit, the answer to a panic, the refusal of other origins and compression are layers of
//! tower-http around and inside it: [`stack`].

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::body::UnsyncBoxBody;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::compression::{CompressionBody, CompressionLayer};
use tower_http::csrf::{CsrfLayer, ProtectionError};
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::timeout::TimeoutLayer;

use crate::body;
use crate::predict;
use crate::problem::Problem;
use crate::routes::{self, Access, Route, Turn};
use crate::state::State;
use crate::telemetry::{self, Trace};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The fewest bytes of a response that is compressed.
const WORTH_COMPRESSING: u64 = 1024;

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

/// The body of a response behind the layers for panics and time.
type Inner = UnsyncBoxBody<Bytes, BoxError>;
type Answer<B> = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>> + Send>>;

/// The service of a server. Its future is boxed, so that an idle connection does not hold its memory.
pub(crate) type Stack = BoxCloneSyncService<Request<Incoming>, Response<CompressionBody<Body>>, Infallible>;

/// Returns the service of a server: the layers around the guard, the guard, the layers inside it, and the routes.
pub(crate) fn stack(state: &Arc<State>) -> Stack {
    // Arrow and pictures are compressed already, or not worth it.
    let worth = SizeAbove::new(WORTH_COMPRESSING)
        .and(NotForContentType::IMAGES)
        .and(NotForContentType::const_new("application/vnd.apache.arrow"))
        .and(NotForContentType::const_new("application/octet-stream"));
    // The limit holds once for sending the request and once for answering it.
    let time = state.settings.limits.time * 2;
    let routes = Routes { state: Arc::clone(state), router: routes::router(Arc::clone(state)) };
    let inner = ServiceBuilder::new()
        .layer(CsrfLayer::new().with_rejection_response(forbidden as fn(ProtectionError) -> Response<Inner>))
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, time))
        .layer(CatchPanicLayer::custom(failed as fn(Box<dyn Any + Send>) -> Response))
        .service(routes);
    let service = ServiceBuilder::new()
        .map_request(|request: Request<Incoming>| plain_request_id(request.map(Body::new)))
        .layer(SetRequestIdLayer::x_request_id(NextId))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(CompressionLayer::new().compress_when(worth))
        .service(Guard { state: Arc::clone(state), inner });
    BoxCloneSyncService::new(service)
}

/// Drops a request id of the client that is long or not plain, so that a new one is made.
fn plain_request_id(mut request: Request) -> Request {
    let is_plain = |id: &HeaderValue| {
        (1..=64).contains(&id.len())
            && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    };
    if request.headers().get(&REQUEST_ID).is_some_and(|id| !is_plain(id)) {
        request.headers_mut().remove(&REQUEST_ID);
    }
    request
}

/// The ids of requests: the process and a number.
#[derive(Clone, Copy)]
struct NextId;

impl MakeRequestId for NextId {
    fn make_request_id<B>(&mut self, _: &Request<B>) -> Option<RequestId> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The process id is read once, since that is a system call.
        static PROCESS: LazyLock<u32> = LazyLock::new(std::process::id);
        let id = format!("{:x}-{:x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from(id).ok().map(RequestId::new)
    }
}

/// Returns the empty response to a page of another origin, which the guard turns into a problem.
fn forbidden(_: ProtectionError) -> Response<Inner> {
    let mut response = Response::new(Inner::default());
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

/// Returns the response to a request whose handler failed.
#[allow(clippy::needless_pass_by_value)] // the layer's signature
fn failed(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    telemetry::event("error", &format!("a request failed: {text}"));
    Problem::internal().into_response()
}

/// The handlers of all routes. Predictions, the most frequent requests, go past the router, which allocates for
/// every layer.
#[derive(Clone)]
struct Routes {
    state: Arc<State>,
    router: Router,
}

impl Service<Request> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer<Body>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Answer<Body> {
        if request.uri().path() == routes::PREDICT && request.method() == Method::POST {
            let state = Arc::clone(&self.state);
            return Box::pin(async move { Ok(predict::predict(Shared(state), request).await.into_response()) });
        }
        Box::pin(self.router.call(request))
    }
}

/// The guard around the handlers.
#[derive(Clone)]
struct Guard<S> {
    state: Arc<State>,
    inner: S,
}

impl<S> Service<Request> for Guard<S>
where
    S: Service<Request, Response = Response<Inner>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answer<Body>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Answer<Body> {
        let (state, inner) = (Arc::clone(&self.state), self.inner.clone());
        Box::pin(async move { Ok(pass(&state, request, inner).await) })
    }
}

/// Answers a request by `inner`, if it is admitted.
async fn pass<S>(state: &Arc<State>, request: Request, mut inner: S) -> Response
where
    S: Service<Request, Response = Response<Inner>, Error = Infallible>,
{
    let begin = Instant::now();
    telemetry::begin();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let id = request.extensions().get::<RequestId>().cloned();
    let trace = Trace::of(request.headers());
    let route = routes::find(&method, uri.path());
    let mut key = None;
    let admitted = admit(state, request.headers(), route).and_then(|name| {
        key = name;
        // Requests with a body take their turn when the body has arrived.
        let at_once = route.is_none_or(|route| route.turn == Turn::AtOnce);
        at_once.then(|| state.turn()).transpose()
    });
    let response = match admitted {
        Ok(_turn) => {
            let Ok(response) = inner.call(request).await;
            problem_of(state, &response).map_or_else(|| response.map(Body::new), IntoResponse::into_response)
        }
        Err(problem) => {
            body::drop_body(state, request.into_body()).await;
            problem.into_response()
        }
    };
    let mut response = in_form(uri.path(), response);
    // Every response has the security headers.
    let headers = response.headers_mut();
    headers.reserve(HEADERS.len() + 3);
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if state.draining() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    // A client can send any method. Those that no route has are counted as one.
    let method = match method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        _ => "other",
    };
    let request = telemetry::Request {
        id: id.as_ref().and_then(|id| id.header_value().to_str().ok()).unwrap_or_default(),
        method,
        route: route.map_or("none", |route| route.path),
        path: uri.path(),
        status: response.status().as_u16(),
        took: begin.elapsed(),
        key: key.as_deref(),
        trace,
        points: response.extensions().get(),
    };
    telemetry::end(&request, state.settings.log);
    response
}

/// Returns the problem of a response that a layer made, which has a status alone.
fn problem_of(state: &State, response: &Response<Inner>) -> Option<Problem> {
    let is_bare = response.status().is_client_error() || response.status().is_server_error();
    if !is_bare || response.headers().contains_key(header::CONTENT_TYPE) {
        return None;
    }
    match response.status() {
        StatusCode::FORBIDDEN => Some(Problem::origin()),
        StatusCode::SERVICE_UNAVAILABLE => {
            let time = state.settings.limits.time.as_secs() * 2;
            Some(Problem::late(format!("there was no answer within {time} seconds")))
        }
        _ => None,
    }
}

/// Returns the response with its problem in the form of its path: the Open Inference Protocol has its own.
fn in_form(path: &str, mut response: Response) -> Response {
    let is_protocol = path == "/v2" || path.starts_with("/v2/");
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) if is_protocol => problem.into_protocol(),
        _ => response,
    }
}

/// Refuses a request without the key of its route, or one that names another host. Returns the name of the key.
fn admit(state: &State, headers: &HeaderMap, route: Option<&Route>) -> Result<Option<Arc<str>>, Problem> {
    let keys = state.keys();
    if keys.is_empty() {
        return if state.settings.address.ip().is_loopback() { local(state, headers) } else { Ok(None) };
    }
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let given = bearer.or_else(|| headers.get(API_KEY).map(HeaderValue::as_bytes));
    // A path that does not exist needs a key too, so that nobody without one learns which paths there are.
    match (route.map_or(Access::Use, |route| route.access), given.and_then(|given| keys.find(given))) {
        (Access::Administer, Some(key)) if !key.administers => Err(Problem::key()),
        (_, Some(key)) => Ok(Some(Arc::clone(&key.name))),
        (Access::Free, None) => Ok(None),
        (_, None) => Err(Problem::unauthorized()),
    }
}

/// Refuses a request that names another host than this machine. Otherwise the page of another site could point its
/// own name to this address and send requests from a visitor's browser (DNS rebinding).
fn local(state: &State, headers: &HeaderMap) -> Result<Option<Arc<str>>, Problem> {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return Ok(None) };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let own = state.settings.address.ip().to_string();
    if ["localhost", "127.0.0.1", "[::1]"].contains(&name) || name == own {
        return Ok(None);
    }
    Err(Problem::host())
}
