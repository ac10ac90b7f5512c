//! `GET /openapi.json`: the description of the API, derived from the types of requests and responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use dance::data::PointShape;
use serde_json::{Value, json};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Content, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi, ToSchema};

use crate::encode::Takes;
use crate::predict;
use crate::problem::{Id, Problem, RowProblem};
use crate::routes::{Access, ROUTES};
use crate::served::ModelName;
use crate::state::State;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "dance",
        description = "Conformal prediction sets: at error level alpha, a set holds the true label with \
                       probability at least 1 - alpha. A set belongs to an embedding. The model was fitted and \
                       calibrated on embeddings of the same encoder, with labels."
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
    /// The model that answered.
    model: ModelName,
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
            ("400", "Bad request: the body cannot be read"),
            ("401", "Unauthorized: a key is needed"),
            ("403", "Forbidden: by the kind of the key, or since the request names another host or another origin"),
            ("404", "Not found"),
            ("408", "Request timeout: the request arrived too slowly"),
            ("413", "Content too large"),
            ("415", "Unsupported media type"),
            ("422", "Unprocessable content: the request is invalid"),
            ("500", "Internal server error"),
            ("503", "Service unavailable: the server is overloaded, or another reason; try again after Retry-After"),
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
    let has_keys = !state.keys().is_empty();
    let components = api.components.get_or_insert_default();
    if has_keys {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let header = ApiKeyValue::new("X-Api-Key");
        components.add_security_scheme("header", SecurityScheme::ApiKey(ApiKey::Header(header)));
    }
    let mut schemas = Vec::new();
    for route in &ROUTES {
        let Some(group) = route.group else { continue };
        let (method, mut operation) = route.operation(&mut schemas);
        operation.tags = Some(vec![group.to_owned()]);
        if has_keys && route.access != Access::Free {
            let needs = |scheme: &str| SecurityRequirement::new(scheme, Vec::<String>::new());
            operation.security = Some(vec![needs("bearer"), needs("header")]);
        }
        api.paths.add_path_operation(route.path, vec![method], operation);
    }
    components.schemas.extend(schemas);
    let mut api = serde_json::to_value(api).unwrap_or_default();
    describe_requests(&mut api["components"]["schemas"], &state);
    describe_bodies(&mut api["paths"], state.takes());
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
    // A request has one of two forms.
    let one = ("PredictPoint", "embedding", &["points"][..]);
    let many = ("PredictPoints", "points", &["embedding", "id"][..]);
    one_of(schemas, "PredictRequest", [one, many]);
    // Names are short enough for the journal, and numbers are whole.
    schemas["LabelRow"]["properties"]["label"] =
        json!({ "oneOf": [{ "type": "string", "minLength": 1, "maxLength": 1000 }, whole, { "type": "boolean" }] });
    let short = json!({ "type": "string", "maxLength": 1000 });
    schemas["LabelRow"]["properties"]["id"] = json!({ "oneOf": [short, whole] });
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
fn one_of(schemas: &mut Value, name: &str, forms: [(&str, &str, &[&str]); 2]) {
    let whole = schemas[name].take();
    let mut refs = Vec::new();
    for (form, member, without) in forms {
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
