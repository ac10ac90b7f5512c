//! `GET /openapi.json`: the interface, described from the types that it is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use serde_json::{Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi, ToSchema};

use crate::encode::Takes;
use crate::problem::{Id, Problem, RowProblem};
use crate::state::State;
use crate::{encode, explain, health, labels, model, monitor, predict, promise};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "dance",
        description = "Prediction sets that hold the true label as often as was asked for. A set is computed for an embedding; the model \
                       was fitted and calibrated on labelled embeddings of the same encoder."
    ),
    paths(
        predict::predict,
        encode::embed,
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
    /// A p-value for coming from where the calibration points come from, whatever the label: small where the point is unlike anything
    /// seen.
    #[schema(required = false)]
    novelty: f64,
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
    let numbers = numbers(served.dimensions(), served.directed());
    for schema in ["PredictRequest", "ExplainRequest", "Labelled"] {
        let embedding = &mut schemas[schema]["properties"]["embedding"];
        let described = embedding["description"].take();
        *embedding = numbers.clone();
        if !described.is_null() {
            embedding["description"] = described;
        }
    }
    let whole = json!({ "type": "integer", "minimum": i64::MIN, "maximum": u64::MAX });
    schemas["Id"]["oneOf"] = json!([{ "type": "string" }, whole]);
    let id = json!({ "$ref": "#/components/schemas/Id" });
    schemas["Point"] = json!({ "description": "A point: its embedding, perhaps with an id.", "oneOf": [numbers, {
        "type": "object", "required": ["embedding"], "additionalProperties": false,
        "properties": { "embedding": numbers, "id": id },
    }] });
    // A row may be anything as long as one of them is what it should be: the others get a problem each.
    for (schema, member, row) in
        [("PredictRequest", "points", "Point"), ("LabelsRequest", "labels", "Labelled")]
    {
        let rows = &mut schemas[schema]["properties"][member];
        let row = json!({ "$ref": format!("#/components/schemas/{row}") });
        rows["items"] = json!({ "anyOf": [row, {}] });
        rows["contains"] = row;
        rows["minItems"] = 1.into();
    }
    schemas["PredictRequest"]["additionalProperties"] = false.into();
    let page = state.points.as_ref().map(|points| points.len() - 1);
    for schema in ["ExplainRequest", "Labelled"] {
        schemas[schema]["properties"]["point"]["maximum"] = page.unwrap_or(0).into();
    }
    let by_place = |name| page.map(|_| (name, "point", &["embedding", "id"][..]));
    let by_embedding = |name| Some((name, "embedding", &["point"][..]));
    let one = ("PredictPoint", "embedding", &["points"][..]);
    let many = ("PredictPoints", "points", &["embedding", "id"][..]);
    one_of(schemas, "PredictRequest", [Some(one), Some(many)]);
    one_of(schemas, "ExplainRequest", [by_embedding("ExplainEmbedding"), by_place("ExplainPoint")]);
    one_of(schemas, "Labelled", [by_embedding("LabelledEmbedding"), by_place("LabelledPoint")]);
    let level = json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 });
    schemas["Levels"]["oneOf"] =
        json!([level, { "type": "array", "items": level, "minItems": 1, "maxItems": predict::MOST_LEVELS }]);
    let paths = &mut interface["paths"];
    for place in [
        "/~1v1~1predict/post/requestBody/content/application~1vnd.apache.arrow.stream",
        "/~1v1~1predict/post/responses/200/content/application~1vnd.apache.arrow.stream",
        "/~1v1~1embed/post/requestBody/content/image~1*",
    ] {
        if let Some(content) = paths.pointer_mut(place) {
            content["schema"] = json!({ "type": "string", "format": "binary" });
        }
    }
    // Only what there is an encoder for.
    if let Some(takes) = state.takes() {
        let other = if takes == Takes::Pictures { "text/plain" } else { "image/*" };
        let content = paths.pointer_mut("/~1v1~1embed/post/requestBody/content");
        if let Some(content) = content.and_then(Value::as_object_mut) {
            content.remove(other);
        }
    } else if let Some(paths) = paths.as_object_mut() {
        paths.remove("/v1/embed");
    }
    if !state.settings.keys.is_empty() {
        interface["security"] = json!([{ "key": [] }]);
    }
    Json(interface)
}

/// What an embedding is for a model: as many numbers as it has dimensions, within what 32 bits hold.
fn numbers(dimensions: usize, directed: bool) -> Value {
    let most = f64::from(f32::MAX);
    let number = json!({ "type": "number", "format": "float", "minimum": -most, "maximum": most });
    let mut numbers =
        json!({ "type": "array", "items": number, "minItems": dimensions, "maxItems": dimensions });
    if directed {
        // A vector of zeros has no direction.
        let least = f64::from(f32::MIN_POSITIVE);
        numbers["contains"] = json!({ "anyOf": [{ "minimum": least }, { "maximum": -least }] });
    }
    numbers
}

/// Describes a request that has one of two forms as what it is: a type for each form, named, with the member it must have and
/// without those it must not. Programs that make clients understand that.
fn one_of(schemas: &mut Value, name: &str, forms: [Option<(&str, &str, &[&str])>; 2]) {
    let whole = schemas[name].take();
    let mut refs = Vec::new();
    for (form, member, without) in forms.into_iter().flatten() {
        let mut schema = whole.clone();
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.retain(|key, _| !without.contains(&key.as_str()));
        }
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        required.push(member.into());
        schema["required"] = required.into();
        schemas[form] = schema;
        refs.push(json!({ "$ref": format!("#/components/schemas/{form}") }));
    }
    schemas[name] = json!({ "description": whole["description"], "oneOf": refs });
}
