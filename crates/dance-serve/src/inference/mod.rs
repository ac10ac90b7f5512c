//! The Open Inference Protocol (KServe v2) at `/v2`: health, metadata, and inference on tensors of embeddings.
//!
//! A set is a list of labels, and tensors have one length. So sets are two tensors: `set` has the labels of all sets,
//! one after the other, and `set_offsets` has the place where each set begins, and at last where all end.

mod tensors;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use dance::data::Kind;
use dance::model::{Answer, Include};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::tensors::{Data, Tensor, read_binary, read_json};
use crate::body;
use crate::members::not_null;
use crate::points::{Points, Row};
use crate::predict::{Empty, Options, PredictRequest, score, shape};
use crate::problem::Problem;
use crate::served::ServedModel;
use crate::state::State;

/// The name of the input tensor.
const INPUT: &str = "embedding";
/// The header with the length of the JSON before binary tensors.
const JSON_LENGTH: &str = "inference-header-content-length";

type Parameters = Result<Path<HashMap<String, String>>, PathRejection>;

/// `GET /v2`: the metadata of the server.
pub(crate) async fn server() -> Json<Value> {
    Json(json!({ "name": "dance", "version": env!("CARGO_PKG_VERSION"), "extensions": ["binary_tensor_data"] }))
}

/// `GET /v2/health/live`.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "live": true }))
}

/// `GET /v2/health/ready`.
pub(crate) async fn ready(Shared(state): Shared<Arc<State>>) -> Result<Json<Value>, Problem> {
    check_ready(&state)?;
    Ok(Json(json!({ "ready": true })))
}

/// `GET /v2/models/{name}/ready`.
pub(crate) async fn model_ready(
    Shared(state): Shared<Arc<State>>,
    parameters: Parameters,
) -> Result<Json<Value>, Problem> {
    check_ready(&state)?;
    let served = named(&state, parameters)?;
    Ok(Json(json!({ "name": served.name.name, "ready": true })))
}

fn check_ready(state: &State) -> Result<(), Problem> {
    if state.draining() { Err(Problem::unavailable("the server is shutting down")) } else { Ok(()) }
}

/// `GET /v2/models/{name}`: the metadata of the model.
pub(crate) async fn model(Shared(state): Shared<Arc<State>>, parameters: Parameters) -> Result<Json<Value>, Problem> {
    let served = named(&state, parameters)?;
    let tensor =
        |name: &str, datatype: &str, shape: &[i64]| json!({ "name": name, "datatype": datatype, "shape": shape });
    let inputs = [tensor(INPUT, "FP32", &[-1, served.dimensions() as i64])];
    let outputs = outputs(&served).into_iter().map(|(name, datatype)| tensor(name, datatype, &[-1]));
    Ok(Json(json!({
        "name": served.name.name,
        "versions": [served.name.version],
        "platform": "dance",
        "inputs": inputs,
        "outputs": outputs.collect::<Vec<_>>(),
    })))
}

/// Returns the names and datatypes of all output tensors of a model.
fn outputs(served: &ServedModel) -> Vec<(&'static str, &'static str)> {
    let label = match served.model.label_kind() {
        Kind::Text => "BYTES",
        Kind::Integer => "INT64",
        Kind::Float => "FP64",
        Kind::Boolean => "BOOL",
    };
    let mut all = vec![
        ("prediction", label),
        ("probability", "FP32"),
        ("set_offsets", "INT64"),
        ("set", label),
        ("p_values", "FP64"),
        ("novelty", "FP64"),
    ];
    if served.model.predictor().method().new_labels() {
        all.push(("new_label", "BOOL"));
    }
    all
}

/// Returns the served model, if the request names it and its version.
fn named(state: &State, parameters: Parameters) -> Result<Arc<ServedModel>, Problem> {
    let served = state.slot.get();
    let Ok(Path(parameters)) = parameters else { return Err(Problem::not_found("the path is no text in UTF-8")) };
    let own = &served.name;
    match (parameters.get("name"), parameters.get("version")) {
        (Some(name), _) if **name != *own.name => {
            Err(Problem::not_found(format!("there is no model `{name}`; this server has `{}`", own.name)))
        }
        (_, Some(version)) if **version != *own.version => Err(Problem::not_found(format!(
            "model `{}` has no version `{version}`; this server has `{}`",
            own.name, own.version
        ))),
        _ => Ok(served),
    }
}

/// A request for inference.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InferRequest<'a> {
    #[serde(default, deserialize_with = "not_null")]
    id: Option<String>,
    #[serde(default)]
    parameters: InferParameters,
    #[serde(borrow)]
    inputs: Vec<InputTensor<'a>>,
    #[serde(default)]
    outputs: Vec<OutputTensor>,
}

/// The parameters of a request.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InferParameters {
    /// The error level; without it, the first of the model.
    alpha: Option<f64>,
    /// The treatment of empty sets.
    empty: Option<Empty>,
    /// Output tensors are binary unless the request says otherwise of one.
    #[serde(default)]
    binary_data_output: bool,
}

/// An input tensor. Its numbers are in `data`, or behind the JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputTensor<'a> {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    #[serde(default)]
    parameters: InputParameters,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputParameters {
    binary_data_size: Option<usize>,
}

/// An output tensor that the request wants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputTensor {
    name: String,
    #[serde(default)]
    parameters: OutputParameters,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputParameters {
    binary_data: Option<bool>,
}

/// The JSON of a response.
#[derive(Serialize)]
struct InferResponse<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    parameters: ResponseParameters<'a>,
    outputs: Vec<Tensor>,
}

/// The error level, the hash of the model, and the guarantee of its sets.
#[derive(Serialize)]
struct ResponseParameters<'a> {
    alpha: f64,
    hash: &'a str,
    guarantee: &'a str,
}

/// `POST /v2/models/{name}/infer`: sets for a tensor of embeddings.
pub(crate) async fn infer(
    Shared(state): Shared<Arc<State>>,
    parameters: Parameters,
    request: Request,
) -> Result<Response, Problem> {
    let length = json_length(request.headers())?;
    let body = body::read(&state, request).await?;
    let served = named(&state, parameters)?;
    let bytes = body.bytes.clone();
    let Some((text, binary)) = bytes.split_at_checked(length.unwrap_or(bytes.len())) else {
        return Err(Problem::malformed(format!("`{JSON_LENGTH}` is larger than the body of {} bytes", bytes.len())));
    };
    let request: InferRequest<'_> =
        serde_json::from_slice(text).map_err(|error| Problem::malformed(error.to_string()))?;
    let wanted = wanted(&served, &request)?;
    let points = points(&state, &served, &request.inputs, binary)?;
    let mut options = Options { include: Include { p_values: true, ..Include::default() }, ..Options::default() };
    let alpha = request.parameters.alpha.unwrap_or_else(|| served.alpha());
    options.set_alphas(vec![alpha]).map_err(Problem::invalid)?;
    options.set_empty(request.parameters.empty.unwrap_or_default());
    let id = request.id;
    drop(served);
    // A reload may have changed the model: the answer names the one that gave it.
    let scored = score(&state, PredictRequest { points, options }, body).await?;
    let response = scored.response()?;
    if let Some(problem) = response.problems.first() {
        return Err(Problem::invalid(format!("row {} of `{INPUT}`: {}", problem.row, problem.detail)));
    }
    let served = scored.served()?;
    let tensors = tensors_of(served, &response.answers)?;
    let outputs = wanted.into_iter().filter_map(|(name, binary)| {
        let tensor = tensors.iter().find(|tensor| tensor.name == name)?;
        Some(Tensor { binary, ..tensor.clone() })
    });
    let response = InferResponse {
        model_name: &served.name.name,
        model_version: &served.name.version,
        id,
        parameters: ResponseParameters { alpha, hash: &served.name.hash, guarantee: &served.guarantee },
        outputs: outputs.collect(),
    };
    Ok((Extension(scored.answered()?), respond(&response)?).into_response())
}

/// Returns the length of the JSON of a request with binary tensors; `None` for a request in JSON alone.
fn json_length(headers: &HeaderMap) -> Result<Option<usize>, Problem> {
    let Some(length) = headers.get(JSON_LENGTH) else { return Ok(None) };
    let length = length.to_str().ok().and_then(|length| length.parse().ok());
    length.map(Some).ok_or_else(|| Problem::malformed(format!("`{JSON_LENGTH}` is a number of bytes")))
}

/// Returns the output tensors of a request, and whether each is binary.
fn wanted(served: &ServedModel, request: &InferRequest<'_>) -> Result<Vec<(&'static str, bool)>, Problem> {
    let (all, by_default) = (outputs(served), request.parameters.binary_data_output);
    if request.outputs.is_empty() {
        return Ok(all.into_iter().map(|(name, _)| (name, by_default)).collect());
    }
    let one = |output: &OutputTensor| match all.iter().find(|(name, _)| *name == output.name) {
        Some((name, _)) => Ok((*name, output.parameters.binary_data.unwrap_or(by_default))),
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            Err(Problem::invalid(format!("`{}` is no output; the outputs are {}", output.name, names.join(", "))))
        }
    };
    request.outputs.iter().map(one).collect()
}

/// Returns the points of a request. A row that is no point costs the request, since tensors have no gaps.
fn points(state: &State, served: &ServedModel, inputs: &[InputTensor<'_>], binary: &[u8]) -> Result<Points, Problem> {
    let shape = shape(state, served);
    let dimensions = shape.point.dimensions;
    let expected = format!("the input is `{INPUT}`, FP32, of shape [-1, {dimensions}]");
    // The tensor must be the one that the model reads.
    let [input] = inputs else {
        return Err(Problem::invalid(format!("there are {} inputs; {expected}", inputs.len())));
    };
    if input.name != INPUT {
        return Err(Problem::invalid(format!("`{}` is no input; {expected}", input.name)));
    }
    if input.datatype != "FP32" {
        return Err(Problem::invalid(format!("`{INPUT}` has datatype {}; {expected}", input.datatype)));
    }
    let rows = match input.shape[..] {
        [rows @ (1..), columns] if columns == dimensions as i64 => rows as usize,
        _ => return Err(Problem::invalid(format!("`{INPUT}` has shape {:?}; {expected}", input.shape))),
    };
    if rows > shape.most {
        return Err(Problem::too_large(format!("a request has at most {} points; send them in several", shape.most)));
    }
    // Its numbers are in one place, and as many as the shape needs.
    let values = match (input.parameters.binary_data_size, input.data) {
        (Some(size), None) => read_binary(binary, size),
        (None, Some(data)) if binary.is_empty() => read_json(data),
        _ => Err("has its numbers either in `data` or behind the JSON, with `binary_data_size`".into()),
    };
    let values = values.map_err(|problem| Problem::invalid(format!("`{INPUT}` {problem}")))?;
    if values.len() != rows * dimensions {
        let needed = rows * dimensions;
        let problem = format!("`{INPUT}` has {} numbers; shape {:?} needs {needed}", values.len(), input.shape);
        return Err(Problem::invalid(problem));
    }
    let mut points = Points::default();
    for row in values.chunks_exact(dimensions) {
        points.push(Row { values: row.to_vec(), length: Some(dimensions), ..Row::default() }, shape);
    }
    match points.problems.first() {
        Some(problem) => Err(Problem::invalid(format!("row {} of `{INPUT}`: {}", problem.row, problem.detail))),
        None => Ok(points),
    }
}

/// Returns all output tensors of the answers, in the order of [`outputs`].
fn tensors_of(served: &ServedModel, answers: &[Answer<'_>]) -> Result<Vec<Tensor>, Problem> {
    let kind = served.model.label_kind();
    let mut offsets = vec![0];
    let (mut labels, mut p_values) = (Vec::new(), Vec::new());
    for answer in answers {
        labels.extend_from_slice(&answer.set);
        p_values.extend(answer.p_values.iter().flatten());
        offsets.push(labels.len() as i64);
    }
    let predictions: Vec<_> = answers.iter().map(|answer| answer.prediction).collect();
    let label_data = |labels| Data::labels(kind, labels).ok_or_else(Problem::internal);
    let mut all = vec![
        Tensor::new("prediction", label_data(&predictions)?),
        Tensor::new("probability", Data::Fp32(answers.iter().map(|answer| answer.probability).collect())),
        Tensor::new("set_offsets", Data::Int64(offsets)),
        Tensor::new("set", label_data(&labels)?),
        Tensor::new("p_values", Data::Fp64(p_values)),
        Tensor::new("novelty", Data::Fp64(answers.iter().map(|answer| answer.novelty).collect())),
    ];
    let new: Option<Vec<bool>> = answers.iter().map(|answer| answer.new_label).collect();
    all.extend(new.map(|new| Tensor::new("new_label", Data::Bool(new))));
    Ok(all)
}

/// Returns a response in JSON, or in JSON with binary tensors behind it.
fn respond(response: &InferResponse<'_>) -> Result<Response, Problem> {
    let mut body = serde_json::to_vec(response).map_err(|_| Problem::internal())?;
    if !response.outputs.iter().any(|tensor| tensor.binary) {
        return Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response());
    }
    let length = HeaderValue::from(body.len());
    for tensor in response.outputs.iter().filter(|tensor| tensor.binary) {
        tensor.data.write(&mut body);
    }
    let mut response = ([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response();
    response.headers_mut().insert(JSON_LENGTH, length);
    Ok(response)
}
