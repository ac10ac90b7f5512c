//! Routes: one table of every path, with its handler, the key that it needs, and whether a request has a body. The
//! router, [the guard](crate::guard) and [the description of the API](crate::openapi) read it.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::Method;
use axum::routing::{MethodRouter, get, post};
use utoipa::__dev::SchemaReferences;
use utoipa::openapi::path::{HttpMethod, Operation};
use utoipa::openapi::{RefOr, Schema};

use crate::problem::Problem;
use crate::state::State;
use crate::{coverage, encode, explain, health, images, inference, labels, models, monitor, openapi, page, predict};

pub(crate) const PREDICT: &str = "/v1/predict";

/// The key that a request needs on a server with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No key.
    Free,
    /// Any key.
    Use,
    /// A key that may change the served model.
    Administer,
}

/// The turn of a request among those that are answered at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The request is answered under any load.
    None,
    /// The request takes its turn when it arrives.
    AtOnce,
    /// The request has a body, and takes its turn when the body has arrived.
    WithBody,
}

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
}

/// The schemas that an operation of the description refers to, by their names.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// A path with one of its methods.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) turn: Turn,
    /// The group in the description of the API; `None` for what only the page needs and for another protocol.
    pub(crate) group: Option<&'static str>,
    handler: fn() -> MethodRouter<Arc<State>>,
    describe: fn(&mut Schemas) -> (String, Operation),
}

impl Route {
    const fn get(path: &'static str, access: Access, handler: fn() -> MethodRouter<Arc<State>>) -> Self {
        let describe = |_: &mut Schemas| (String::new(), Operation::new());
        Self { verb: Verb::Get, path, access, turn: Turn::AtOnce, group: None, handler, describe }
    }

    const fn post(path: &'static str, access: Access, handler: fn() -> MethodRouter<Arc<State>>) -> Self {
        Self { verb: Verb::Post, turn: Turn::WithBody, ..Self::get(path, access, handler) }
    }

    /// The route with another turn.
    const fn turn(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }

    /// The route as a part of the public API, described by `P`.
    const fn described<P: utoipa::Path + SchemaReferences>(self, group: &'static str) -> Self {
        Self { group: Some(group), describe: describe::<P>, ..self }
    }

    /// Returns the method and the operation of the description, and adds the schemas that it needs.
    pub(crate) fn operation(&self, schemas: &mut Schemas) -> (HttpMethod, Operation) {
        let method = match self.verb {
            Verb::Get => HttpMethod::Get,
            Verb::Post => HttpMethod::Post,
        };
        (method, (self.describe)(schemas).1)
    }

    fn takes(&self, method: &Method) -> bool {
        match self.verb {
            Verb::Get => method == Method::GET || method == Method::HEAD,
            Verb::Post => method == Method::POST,
        }
    }
}

/// Returns the path and the operation of a handler's description.
fn describe<P: utoipa::Path + SchemaReferences>(schemas: &mut Schemas) -> (String, Operation) {
    P::schemas(schemas);
    (P::path(), P::operation())
}

/// Every route.
pub(crate) static ROUTES: [Route; 31] = {
    use Access::{Administer, Free, Use};
    use Route as R;
    [
        R::post(PREDICT, Use, || post(predict::predict)).described::<predict::__path_predict>("sets"),
        R::post("/v1/explain", Use, || post(explain::explain)).described::<explain::__path_explain>("sets"),
        R::post("/v1/embed", Use, || post(encode::embed)).described::<encode::__path_embed>("sets"),
        R::post("/v1/labels", Use, || post(labels::record)).described::<labels::__path_record>("labels"),
        R::get("/v1/labels", Use, || get(labels::list)).described::<labels::__path_list>("labels"),
        R::get("/v1/monitor", Use, || get(monitor::monitor)).described::<monitor::__path_monitor>("labels"),
        R::get("/v1/models", Use, || get(models::models)).described::<models::__path_models>("model"),
        R::post("/v1/reload", Administer, || post(models::reload))
            .turn(Turn::AtOnce)
            .described::<models::__path_reload>("model"),
        R::get("/healthz", Free, || get(health::healthz))
            .turn(Turn::None)
            .described::<health::__path_healthz>("health"),
        R::get("/readyz", Free, || get(health::readyz)).turn(Turn::None).described::<health::__path_readyz>("health"),
        R::get("/metrics", Use, || get(health::metrics)).turn(Turn::None).described::<health::__path_metrics>("health"),
        R::get("/openapi.json", Free, || get(openapi::openapi)),
        // The page.
        R::get("/", Free, || get(page::index)),
        R::get("/page/{file}", Free, || get(page::file)),
        R::get("/favicon.ico", Free, || get(page::icon)),
        R::get("/page-api/model", Use, || get(models::of_page)),
        R::get("/page-api/points", Use, || get(coverage::points)),
        R::get("/page-api/coverage", Use, || get(coverage::coverage)),
        R::post("/page-api/explain", Use, || post(explain::explain_for_page)),
        R::post("/page-api/labels", Use, || post(labels::record_for_page)),
        R::get("/page-api/labels", Use, || get(labels::of_page)),
        R::get("/page-api/pictures/{*id}", Use, || get(images::image)),
        // The Open Inference Protocol, which has a description of its own.
        R::get("/v2", Free, || get(inference::server)).turn(Turn::None),
        R::get("/v2/health/live", Free, || get(inference::live)).turn(Turn::None),
        R::get("/v2/health/ready", Free, || get(inference::ready)).turn(Turn::None),
        R::get("/v2/models/{name}", Use, || get(inference::model)),
        R::get("/v2/models/{name}/versions/{version}", Use, || get(inference::model)),
        R::get("/v2/models/{name}/ready", Free, || get(inference::model_ready)).turn(Turn::None),
        R::get("/v2/models/{name}/versions/{version}/ready", Free, || get(inference::model_ready)).turn(Turn::None),
        R::post("/v2/models/{name}/infer", Use, || post(inference::infer)),
        R::post("/v2/models/{name}/versions/{version}/infer", Use, || post(inference::infer)),
    ]
};

/// The routes of every path, found like the router finds them.
static BY_PATH: LazyLock<matchit::Router<Vec<&'static Route>>> = LazyLock::new(|| {
    let mut paths: Vec<(&str, Vec<&Route>)> = Vec::new();
    for route in &ROUTES {
        match paths.iter_mut().find(|(path, _)| *path == route.path) {
            Some((_, routes)) => routes.push(route),
            None => paths.push((route.path, vec![route])),
        }
    }
    let mut router = matchit::Router::new();
    for (path, routes) in paths {
        // A conflict is a fault of the table, which a test finds.
        let _ = router.insert(path, routes);
    }
    router
});

/// Returns the route of a request. For a method that the path does not have, it is another route of the path, since
/// the answer needs the same key.
pub(crate) fn find(method: &Method, path: &str) -> Option<&'static Route> {
    let routes = &BY_PATH.at(path).ok()?.value;
    routes.iter().find(|route| route.takes(method)).or(routes.first()).copied()
}

/// Returns the router of all routes.
pub(crate) fn router(state: Arc<State>) -> Router {
    let add = |router: Router<Arc<State>>, route: &Route| router.route(route.path, (route.handler)());
    ROUTES
        .iter()
        .fold(Router::new(), add)
        .fallback(|| async { Problem::not_found("/openapi.json lists the paths of this server") })
        .method_not_allowed_fallback(|| async { Problem::method() })
        .with_state(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_every_route_and_agrees_with_the_descriptions() {
        for route in &ROUTES {
            let path = route.path.replace("{*id}", "a/b").replace(['{', '}'], "");
            let method = if route.verb == Verb::Get { Method::GET } else { Method::POST };
            let found = find(&method, &path).unwrap();
            assert_eq!((found.path, found.verb), (route.path, route.verb));
            if route.group.is_some() {
                assert_eq!((route.describe)(&mut Vec::new()).0, route.path);
            }
        }
        assert_eq!(find(&Method::HEAD, "/v1/labels").unwrap().verb, Verb::Get);
        assert_eq!(find(&Method::PUT, "/v1/reload").unwrap().access, Access::Administer);
        assert!(find(&Method::GET, "/v1/nothing").is_none() && find(&Method::GET, "/page/a/b").is_none());
    }

    #[test]
    fn only_reads_are_free_and_bodies_take_their_turn_late() {
        for route in &ROUTES {
            let is_post = route.verb == Verb::Post;
            assert!(!is_post || route.access != Access::Free, "{}", route.path);
            // A slow sender must not hold a turn.
            assert_eq!(route.turn == Turn::WithBody, is_post && route.path != "/v1/reload", "{}", route.path);
        }
    }
}
