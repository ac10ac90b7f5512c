//! `GET /openapi.json`: the description of the API, derived from the types of requests and responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use dance::data::PointShape;
use serde_json::{Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi, ToSchema};

use crate::encode::Takes;
use crate::problem::{Id, Problem, RowProblem};
use crate::state::State;
use crate::{coverage, encode, explain, health, labels, model, monitor, predict};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "dance",
        description = "Conformal prediction sets: at error level alpha, a set holds the true label with \
                       probability at least 1 - alpha. A set belongs to an embedding. The model was fitted and \
                       calibrated on embeddings of the same encoder, with labels."
    ),
    paths(
        predict::predict,
        encode::embed,
        explain::explain,
        labels::record,
        monitor::monitor,
        coverage::points,
        coverage::coverage,
        model::model,
        model::reload,
        health::healthz,
        health::readyz,
        health::metrics
    ),
    components(schemas(Problem, Id))
)]
struct Api;

/// The response: the answers in the order of the points, with all levels of a point one after the other, and the rows
/// without answers.
#[derive(ToSchema)]
#[allow(dead_code)] // a schema of the API description, never constructed
#[schema(as = PredictResponse)]
pub(crate) struct PredictResponseSchema {
    /// The id of the model.
    model: String,
    /// The guarantee of the sets, in words.
    guarantee: String,
    /// Warnings about the error levels.
    #[schema(required = false)]
    warnings: Vec<String>,
    answers: Vec<Answer>,
    /// The rows without answers.
    #[schema(required = false)]
    problems: Vec<RowProblem>,
}

/// One point at one level. The lists beside `set` have one entry per label of the set, in its order: the best
/// conforming first.
#[derive(ToSchema)]
#[allow(dead_code)]
struct Answer {
    /// The place of the point in the request, from 0.
    row: usize,
    #[schema(nullable = false)]
    id: Option<Id>,
    /// The most probable label, in the set or not.
    prediction: Label,
    /// The probability of `prediction`.
    probability: f32,
    set: Vec<Label>,
    /// The set holds "a new label" too, one that no point of the model has. Only models with new labels send it.
    #[schema(required = false)]
    new_label: bool,
    alpha: f64,
    /// The novelty p-value: small where the point is unlike all calibration points, whatever its label.
    novelty: f64,
    #[schema(required = false)]
    probabilities: Vec<f32>,
    /// The p-value that decides: a label is in the set if and only if its p-value exceeds `alpha`, less the part of it
    /// that is spent on new labels.
    #[schema(required = false)]
    p_values: Vec<f64>,
    /// The p-value by the rank score alone, in the method dance.
    #[schema(required = false)]
    rank_p_values: Vec<f64>,
    /// The p-value by the contrastive score alone, in the method dance.
    #[schema(required = false)]
    contrast_p_values: Vec<f64>,
    /// The reference points in support of each label, nearest first.
    #[schema(required = false)]
    neighbors: Vec<Vec<ReferencePoint>>,
}

/// A label with its type in the data: a text, a number or a truth value.
#[derive(serde::Serialize, ToSchema)]
#[allow(dead_code)]
#[serde(untagged)]
pub(crate) enum Label {
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// A reference point of the model.
#[derive(ToSchema)]
#[allow(dead_code)]
pub(crate) struct ReferencePoint {
    /// `fit` or `calibration`.
    part: String,
    /// The row in the file that it was read from.
    row: Option<u32>,
    #[schema(required = false)]
    id: Id,
}

/// The refusals that every path may return.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let refusals = [
            ("400", "The body cannot be read"),
            ("401", "A key is needed"),
            ("403", "The request names another host"),
            ("404", "Not found"),
            ("408", "The request arrived too slowly"),
            ("413", "The request is too large"),
            ("415", "The media type of the body is not supported"),
            ("422", "The request is invalid"),
            ("429", "Too many requests at once; try again after Retry-After"),
            ("500", "The server has a fault"),
            ("503", "The request cannot be answered at the moment; try again after Retry-After"),
        ];
        let problem = || Content::new(Some(utoipa::openapi::Ref::from_schema_name("Problem")));
        let refusal = |(status, words): (&str, &str)| {
            let response = ResponseBuilder::new().description(words).content("application/problem+json", problem());
            (status.to_owned(), RefOr::T(response.build()))
        };
        refusals.into_iter().map(refusal).collect()
    }
}

/// Returns the description of this server's API, with the dimensions of its model and its own limits.
pub(crate) async fn openapi(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    let mut api = Api::openapi();
    let has_keys = !state.settings.keys.is_empty();
    if has_keys {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        api.components.get_or_insert_default().add_security_scheme("key", scheme);
    }
    let mut api = serde_json::to_value(api).unwrap_or_default();
    describe_requests(&mut api["components"]["schemas"], &state);
    describe_bodies(&mut api["paths"], state.takes());
    if has_keys {
        api["security"] = json!([{ "key": [] }]);
    }
    Json(api)
}

/// Adds to the schemas of requests all that the derived ones cannot express: lengths, alternatives and limits.
fn describe_requests(schemas: &mut Value, state: &State) {
    let numbers = numbers(state.slot.get().model.fitted().point_shape());
    for schema in ["PredictRequest", "ExplainRequest", "LabelRow"] {
        let embedding = &mut schemas[schema]["properties"]["embedding"];
        let description = embedding["description"].take();
        *embedding = numbers.clone();
        if !description.is_null() {
            embedding["description"] = description;
        }
    }
    let whole = json!({ "type": "integer", "minimum": i64::MIN, "maximum": u64::MAX });
    schemas["Id"]["oneOf"] = json!([{ "type": "string" }, whole]);
    let id = json!({ "$ref": "#/components/schemas/Id" });
    schemas["Point"] = json!({ "description": "A point: its embedding, perhaps with an id.", "oneOf": [numbers, {
        "type": "object", "required": ["embedding"], "additionalProperties": false,
        "properties": { "embedding": numbers, "id": id },
    }] });
    // One valid row is enough: the others may be anything, and get a problem each.
    for (schema, member, row) in [("PredictRequest", "points", "Point"), ("LabelsRequest", "labels", "LabelRow")] {
        let rows = &mut schemas[schema]["properties"][member];
        let row = json!({ "$ref": format!("#/components/schemas/{row}") });
        rows["items"] = json!({ "anyOf": [row, {}] });
        rows["contains"] = row;
        rows["minItems"] = 1.into();
    }
    schemas["PredictRequest"]["additionalProperties"] = false.into();
    let level = json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 });
    schemas["Levels"]["oneOf"] =
        json!([level, { "type": "array", "items": level, "minItems": 1, "maxItems": predict::MOST_LEVELS }]);
    // Each request has one of two forms. A point of the page can be named only where the server has points.
    let last = state.points.as_ref().map(|points| points.len() - 1);
    for schema in ["ExplainRequest", "LabelRow"] {
        schemas[schema]["properties"]["point"]["maximum"] = last.unwrap_or(0).into();
    }
    let by_place = |name| last.map(|_| (name, "point", &["embedding", "id"][..]));
    let by_embedding = |name| Some((name, "embedding", &["point"][..]));
    let one = ("PredictPoint", "embedding", &["points"][..]);
    let many = ("PredictPoints", "points", &["embedding", "id"][..]);
    one_of(schemas, "PredictRequest", [Some(one), Some(many)]);
    one_of(schemas, "ExplainRequest", [by_embedding("ExplainEmbedding"), by_place("ExplainPoint")]);
    one_of(schemas, "LabelRow", [by_embedding("LabelEmbedding"), by_place("LabelPoint")]);
}

/// Describes binary bodies, and the content that the encoder reads.
fn describe_bodies(paths: &mut Value, takes: Option<Takes>) {
    for place in [
        "/~1v1~1predict/post/requestBody/content/application~1vnd.apache.arrow.stream",
        "/~1v1~1predict/post/responses/200/content/application~1vnd.apache.arrow.stream",
        "/~1v1~1embed/post/requestBody/content/image~1*",
    ] {
        if let Some(content) = paths.pointer_mut(place) {
            content["schema"] = json!({ "type": "string", "format": "binary" });
        }
    }
    if let Some(takes) = takes {
        let other = if takes == Takes::Pictures { "text/plain" } else { "image/*" };
        let content = paths.pointer_mut("/~1v1~1embed/post/requestBody/content");
        if let Some(content) = content.and_then(Value::as_object_mut) {
            content.remove(other);
        }
    } else if let Some(paths) = paths.as_object_mut() {
        paths.remove("/v1/embed");
    }
}

/// Returns the schema of an embedding: as many numbers as the model has dimensions, within the range of f32.
fn numbers(PointShape { dimensions, directed }: PointShape) -> Value {
    let most = f64::from(f32::MAX);
    let number = json!({ "type": "number", "format": "float", "minimum": -most, "maximum": most });
    let mut numbers = json!({ "type": "array", "items": number, "minItems": dimensions, "maxItems": dimensions });
    if directed {
        // A vector of zeros has no direction.
        let least = f64::from(f32::MIN_POSITIVE);
        numbers["contains"] = json!({ "anyOf": [{ "minimum": least }, { "maximum": -least }] });
    }
    numbers
}

/// Replaces the schema of a request with two forms by a named schema for each: with its required member, and without
/// those of the other form. Generators of clients understand that.
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
