//! `GET /openapi.json`: the interface, described from the types that it is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use serde_json::{Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi, ToSchema};

use crate::problem::{Id, Problem, RowProblem};
use crate::state::State;
use crate::{explain, health, labels, model, monitor, predict, promise};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "dance",
        description = "Prediction sets that hold the true label as often as was asked for. A set is computed for an embedding; the model \
                       was fitted and calibrated on labelled embeddings of the same encoder."
    ),
    paths(
        predict::predict,
        explain::explain,
        labels::record,
        monitor::monitor,
        promise::points,
        promise::promise,
        model::model,
        model::reload,
        health::healthz,
        health::readyz,
        health::metrics
    ),
    components(schemas(Problem, Id))
)]
struct Interface;

/// What comes back: the answers in the order of the points, one after the other for several levels, and the rows that have none.
#[derive(ToSchema)]
#[allow(dead_code)] // describes what is sent
pub(crate) struct PredictResponse {
    /// The model that answered.
    model: String,
    /// What is promised, in words.
    guarantee: String,
    /// What should be known about the sets.
    #[schema(required = false)]
    warnings: Vec<String>,
    answers: Vec<Answer>,
    /// Rows that could not be answered.
    #[schema(required = false)]
    problems: Vec<RowProblem>,
}

/// One point at one level. Lists beside `set` have one entry per label of the set, in its order: most conforming first.
#[derive(ToSchema)]
#[allow(dead_code)]
struct Answer {
    /// Its place among the points of the request, from 0.
    row: usize,
    #[schema(nullable = false)]
    id: Option<Id>,
    /// The most probable label of the set; of all labels where it is empty.
    prediction: Label,
    probability: f32,
    set: Vec<Label>,
    alpha: f64,
    #[schema(required = false)]
    probabilities: Vec<f32>,
    #[schema(required = false)]
    p_values: Vec<f64>,
    #[schema(required = false)]
    rank_p_values: Vec<f64>,
    #[schema(required = false)]
    contrast_p_values: Vec<f64>,
    /// For each label of the set, labelled points that carry it, nearest first.
    #[schema(required = false)]
    neighbors: Vec<Vec<ReferencePoint>>,
}

/// A label as it was written: a number where labels were numbers.
#[derive(serde::Serialize, ToSchema)]
#[allow(dead_code)] // describes what is sent
#[serde(untagged)]
pub(crate) enum Label {
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// A labelled point of the model.
#[derive(ToSchema)]
#[allow(dead_code)]
pub(crate) struct ReferencePoint {
    /// `fit` or `calibration`.
    part: String,
    /// Its row in the file it was read from.
    row: Option<u32>,
    #[schema(required = false)]
    id: Id,
}

/// What any path may answer in place of what it is there for.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let refusals = [
            ("400", "The body cannot be read"),
            ("401", "A key is needed"),
            ("403", "The request is meant for another host"),
            ("404", "There is nothing here"),
            ("408", "The request took too long to arrive"),
            ("413", "The request is too large"),
            ("415", "The body has a type that is not read here"),
            ("422", "The request cannot be answered"),
            ("429", "Too many requests at once; come again after Retry-After"),
            ("500", "The server failed"),
            ("503", "Not at the moment; come again after Retry-After"),
        ];
        let problem = || Content::new(Some(utoipa::openapi::Ref::from_schema_name("Problem")));
        let refusal = |(status, words): (&str, &str)| {
            let response =
                ResponseBuilder::new().description(words).content("application/problem+json", problem());
            (status.to_owned(), RefOr::T(response.build()))
        };
        refusals.into_iter().map(refusal).collect()
    }
}

/// The interface of this server: what its model takes and what its limits are, it says too.
pub(crate) async fn openapi(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    let mut interface = Interface::openapi();
    if !state.settings.keys.is_empty() {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        interface.components.get_or_insert_default().add_security_scheme("key", scheme);
    }
    let mut interface = serde_json::to_value(interface).unwrap_or_default();
    let served = state.slot.get();
    let schemas = &mut interface["components"]["schemas"];
    for schema in ["PredictRequest", "ExplainRequest", "Labelled"] {
        let numbers = &mut schemas[schema]["properties"]["embedding"];
        numbers["minItems"] = served.dimensions().into();
        numbers["maxItems"] = served.dimensions().into();
        if served.directed() {
            // A vector of zeros has no direction.
            numbers["contains"] = json!({ "not": { "const": 0 } });
        }
    }
    let either = |other: Value| json!([{ "required": ["embedding"] }, other]);
    let request = &mut schemas["PredictRequest"];
    request["properties"]["points"]["minItems"] = 1.into();
    request["additionalProperties"] = false.into();
    request["oneOf"] = either(json!({ "required": ["points"], "not": { "required": ["id"] } }));
    schemas["ExplainRequest"]["oneOf"] = either(json!({ "required": ["point"] }));
    schemas["Labelled"]["oneOf"] = either(json!({ "required": ["point"], "not": { "required": ["id"] } }));
    for schema in ["ExplainRequest", "Labelled"] {
        let point = &mut schemas[schema]["properties"]["point"];
        match &state.points {
            Some(points) => point["maximum"] = (points.len() - 1).into(),
            None => *point = false.into(),
        }
    }
    let level = json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 });
    schemas["Levels"]["oneOf"] =
        json!([level, { "type": "array", "items": level, "minItems": 1, "maxItems": predict::MOST_LEVELS }]);
    if !state.settings.keys.is_empty() {
        interface["security"] = json!([{ "key": [] }]);
    }
    Json(interface)
}
